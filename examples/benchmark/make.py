"""Write the graph of a power grid and the questions about it: graph.ttl and questions.yaml.

python examples/benchmark/make.py [FOLDER]
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

from pyoxigraph import RdfFormat, Store

from graphrag_eval_async import save_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyoxigraph import QuerySolutions

HERE = Path(__file__).parent
REGIONS = ["Highfell", "Lowmarsh", "Westmere", "Sandreach", "Pinewold"]
OPERATORS = ["Norrgrid", "Voltara", "Fellside Power", "Kestrel Energy"]
PLACES = """Aldermoor Brackenfell Corvale Dunmere Elmsgarth Fernhollow Greyfield Hollowmere Ivyholt
Juniper Kestrelby Larkstead Millhaven Northwater Oxcombe Pinewick Quarrydene Ravensmoor Silverbeck
Thornwick"""
SUBSTATIONS = PLACES.split()
CAUSES = ["storm", "ice", "lightning", "maintenance", "ageing"]


def graph(random: Random) -> Iterator[str]:
    """The graph in Turtle, line by line: every substation is on a ring, and 16 more lines cross
    it.
    """
    yield "@prefix grid: <https://example.org/grid#> .\n@prefix id: <https://example.org/id/> .\n"
    for kind, names in {"Region": REGIONS, "Operator": OPERATORS}.items():
        yield from (thing(name, kind, name) for name in names)
    regions = random.sample(REGIONS * 4, 20)
    owners = dict(zip(SUBSTATIONS, random.sample(OPERATORS, 20, counts=[7, 6, 4, 3]), strict=True))
    for name, region in zip(SUBSTATIONS, regions, strict=True):
        yield thing(
            name, "Substation", name, f"region {iri(region)}", f"operator {iri(owners[name])}"
        )
    ring = list(zip(SUBSTATIONS, SUBSTATIONS[1:] + SUBSTATIONS[:1], strict=True))
    others = [
        (one, other)
        for place, one in enumerate(SUBSTATIONS)
        for other in SUBSTATIONS[place + 2 : 19]
    ]
    for number, ends in enumerate(ring + random.sample(others, 16), 1):
        facts = [
            f"connects {', '.join(map(iri, ends))}",
            f"operator {iri(owners[random.choice(ends)])}",
        ]
        facts += [
            f"voltage {random.choice([110, 220, 380])}",
            f"length {random.randrange(120, 1600) / 10}",
        ]
        yield thing(f"line {number}", "Line", "-".join(ends), *facts)
    seen: Counter[str] = Counter()
    for number, name in enumerate(random.choices(SUBSTATIONS[2:], k=26), 1):
        seen[name] += 1
        facts = [
            f"at {iri(name)}",
            f"power {random.randrange(40, 600)}",
            f"built {random.randint(1965, 2020)}",
        ]
        yield thing(f"transformer {number}", "Transformer", f"{name} T{seen[name]}", *facts)
    for number in range(1, 31):
        hit = random.choice(
            [f"line {random.randint(1, 36)}", f"transformer {random.randint(1, 26)}"]
        )
        facts = [f"hours {random.randrange(2, 90) / 2}", f'cause "{random.choice(CAUSES)}"']
        yield thing(f"outage {number}", "Outage", f"Outage {number}", f"affects {iri(hit)}", *facts)


def iri(name: str) -> str:
    return f"id:{name.lower().replace(' ', '-')}"


def thing(key: str, kind: str, name: str, *facts: str) -> str:
    parts = [f'{iri(key)} a grid:{kind} ; grid:name "{name}"', *map("grid:{}".format, facts)]
    return " ; ".join(parts) + " ."


PREFIX = "PREFIX grid: <https://example.org/grid#>\n"


def questions(patterns: str, turtle: str, random: Random) -> list[dict[str, Any]]:
    """The reference set: each sentence of the patterns, about things for which there is an
    answer.
    """
    store, known, templates = Store(), set[str](), dict[str, list[dict[str, Any]]]()
    store.load(turtle, format=RdfFormat.TURTLE)
    names = [*product(SUBSTATIONS, OPERATORS, REGIONS)]
    for pattern in patterns.strip().split("\n\n"):
        head, query, *sentences = pattern.splitlines()
        template, *tags = head.split()
        for sentence in sentences:
            found: dict[str, tuple[str, list[str]]] = {}
            for chosen in random.sample(names, len(names)):
                asked, filled = (
                    fill(text, chosen) for text in (sentence.removeprefix("- "), query)
                )
                if asked not in known | {*found}:
                    rows = cast("QuerySolutions", store.query(PREFIX + filled))
                    found[asked] = filled, [str(row[0].value) for row in rows]
            # A list of one is right in any order, and 0 is no number of anything.
            asked = max(
                found, key=lambda each: min(2, len(found[each][1])) - (found[each][1] == ["0"])
            )
            known.add(asked)
            own = templates.setdefault(template, [])
            own.append({"id": f"{template}-{len(own) + 1}"} | question(asked, *found[asked], tags))
    asked_with = {"dataset": "https://example.org/grid/"}  # As TEXT2SPARQL endpoints are.
    return [
        {"template_id": name, "tags": asked_with, "questions": own}
        for name, own in templates.items()
    ]


def fill(text: str, names: Iterable[str]) -> str:
    """A pattern with names in the places of a substation, an operator and a region."""
    for place, name in zip(("{S}", "{O}", "{R}"), names, strict=True):
        text = text.replace(place, name)
    return text


def question(text: str, query: str, answer: list[str], tags: list[str]) -> dict[str, Any]:
    ordered = "order" in tags
    step = {
        "name": "sparql",
        "reference_query": PREFIX + query,
        "score": "f1",
        "ignore_duplicates": False,
    }
    return {
        "question_text": text,
        "reference_answer": ", ".join(answer if ordered else sorted(answer)),
        "match": "exact" if ordered else "number" if query.startswith("SELECT (") else "list",
        "tags": {name: value or True for name, _, value in (tag.partition("=") for tag in tags)},
        "reference_steps": [[step | ({"ordered": True} if ordered else {})]],
    }


def main(folder: Path) -> None:
    turtle = "\n".join(graph(Random(7))) + "\n"
    (folder / "graph.ttl").write_text(turtle)
    patterns = (HERE / "patterns.txt").read_text()
    save_reference(questions(patterns, turtle, Random(1)), folder / "questions.yaml")


if __name__ == "__main__":
    main(Path(*sys.argv[1:]) if sys.argv[1:] else HERE)
