"""Four agents that answer questions about graph.ttl by rules, without a model, and know nothing but
the text.

python examples/benchmark/agents.py keywords|templates|paths|grammar > responses.jsonl
"""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from pyoxigraph import QueryResultsFormat, QuerySolutions, RdfFormat, Store

from graphrag_eval_async import load_reference

HERE = Path(__file__).parent
STORE = Store()
STORE.load(path=str(HERE / "graph.ttl"), format=RdfFormat.TURTLE)
PREFIX = "PREFIX grid: <https://example.org/grid#> PREFIX id: <https://example.org/id/>\n"
SCHEMA = """Substation region Region, Substation operator Operator, Line connects Substation,
Line operator Operator, Transformer at Substation, Outage affects Line,
Outage affects Transformer"""
EDGES = [edge.split() for edge in SCHEMA.split(",")]
SILENT: dict[str, Any] = {"actual_steps": [], "actual_answer": "I do not know."}
NOUNS = {kind.lower(): kind for edge in EDGES for kind in edge[::2]}
SYNONYMS = {"who": "Operator", "where": "Region", "circuit": "Line", "fault": "Outage"}
RANKS = {
    ("Line", "longest"): "length",
    ("Outage", "longest"): "hours",
    ("Transformer", "strongest"): "power",
}


def select(query: str) -> dict[str, Any]:
    """What a SELECT query returns, as SPARQL results in JSON."""
    results = cast(QuerySolutions, STORE.query(PREFIX + query))
    return cast(
        "dict[str, Any]", json.loads(results.serialize(format=QueryResultsFormat.JSON) or b"")
    )


@cache
def names() -> dict[str, tuple[str, str]]:
    """The kind and the IRI of everything in the graph that has a name, by name."""
    rows = select("SELECT ?name ?kind ?x { ?x a ?kind ; grid:name ?name }")["results"]["bindings"]
    cells = ([row[key]["value"] for key in ("name", "kind", "x")] for row in rows)
    return {name: (kind.partition("#")[2], f"<{iri}>") for name, kind, iri in cells}


def respond(query: str) -> dict[str, Any]:
    """A response: run the query, and answer with the first column of what it returns."""
    found = select(query)
    column = found["head"]["vars"][0]
    cells = [row[column]["value"] for row in found["results"]["bindings"]]
    step = {"name": "sparql", "status": "success", "args": {"query": PREFIX + query}}
    answer = ", ".join(cells) or "There are none."
    return {"actual_steps": [step | {"output": json.dumps(found)}], "actual_answer": answer}


def listed(where: str, shown: str = "?name", limit: str = "") -> dict[str, Any]:
    """The names of all `?x`, those with the highest `?rank` first, each once."""
    ranked = f"GROUP BY ?name ?rank ORDER BY DESC(?rank) ?name{limit}"
    return respond(f"SELECT {shown} {{ {where} . ?x grid:name ?name }} {ranked}")


def counted(where: str) -> dict[str, Any]:
    return respond(f"SELECT (COUNT(DISTINCT ?x) AS ?number) {{ {where} }}")


class Mention(NamedTuple):
    """A word of a question that means something: a kind of thing, one thing with its IRI, or a
    negation.
    """

    kind: str
    iri: str = ""


def mentions(text: str, words: dict[str, str]) -> list[Mention]:
    """What a question mentions, in its order; of names that begin alike, the longest."""
    known = sorted(names(), key=len, reverse=True)
    pattern = "|".join([*map(re.escape, known), *(rf"\b{word}s?\b" for word in words)])
    found = (match[0] for match in re.finditer(pattern, text, re.IGNORECASE))
    meant = ((each, words.get(each.lower().removesuffix("s"), "")) for each in found)
    return [Mention(*names().get(each, (kind,))) for each, kind in meant]


def way(start: str, end: str) -> str:
    """The shortest path from one kind to another along the schema, as a SPARQL property path."""
    ways = [(start, "")]
    for kind, path in ways:
        if kind == end:
            return path.removeprefix("/") or "grid:name/^grid:name"
        for one, name, other in EDGES:
            ways += [(other, f"{path}/grid:{name}")] * (kind == one)
            ways += [(one, f"{path}/^grid:{name}")] * (kind == other)
    raise LookupError(f"no way from {start} to {end}")


def keywords(text: str) -> dict[str, Any]:
    """For "Which lines does Voltara operate?", returns all lines next to Voltara."""
    found = mentions(text, NOUNS)
    kind = next((f"?x a grid:{each.kind} ." for each in found if not each.iri), "")
    iri = next((each.iri for each in found if each.iri), None)
    if iri is None:
        raise LookupError("the question has no name that the graph knows")
    edges = f"{{ ?x ?edge {iri} }} UNION {{ {iri} ?edge ?x }}"
    return respond(f"SELECT ?name {{ {edges} {kind} ?x grid:name ?name }} ORDER BY ?name")


LINES = "?x a grid:Line ; grid:operator NAME"
TRANSFORMERS = "?x grid:at/grid:operator NAME"
OPERATORS_TO = "?line grid:connects/grid:region NAME ; grid:operator ?x"
WITHOUT = "FILTER NOT EXISTS {{ ?other grid:{} ?x }}"
TEMPLATES = {
    "Which operator runs NAME?": "NAME grid:operator ?x",
    "In which region is NAME?": "NAME grid:region ?x",
    "Which lines lead to NAME?": "?x grid:connects NAME",
    "Which transformers stand in NAME?": "?x grid:at NAME",
    "Which lines does NAME operate?": LINES,
    "Which transformers stand in substations of NAME?": TRANSFORMERS,
    "Which lines lead to substations in NAME?": "?x grid:connects/grid:region NAME",
    "Which operators run lines to substations in NAME?": OPERATORS_TO,
    "Which outages hit lines of NAME?": "?x grid:affects ?l . ?l a grid:Line ; grid:operator NAME",
    (
        "Which outages hit lines to substations in NAME?"
    ): "?x grid:affects/grid:connects/grid:region NAME",
    "Which substations in NAME have no transformer?": f"?x grid:region NAME {WITHOUT.format('at')}",
    (
        "Which transformers in NAME had no outage?"
    ): f"?x grid:at/grid:region NAME {WITHOUT.format('affects')}",
    "How many transformers does NAME have?": "?x grid:at NAME",
    "How many lines does NAME operate?": LINES,
    "How many lines lead to substations in NAME?": "?x grid:connects/grid:region NAME",
    "List the lines of NAME, longest first.": f"{LINES} ; grid:length ?rank",
    (
        "List the transformers in substations of NAME, strongest first."
    ): f"{TRANSFORMERS} ; grid:power ?rank",
    "Which lines of NAME had no outage?": f"{LINES} {WITHOUT.format('affects')}",
}


def templates(text: str) -> dict[str, Any]:
    """Knows the exact wording of some questions, and the right query for each."""
    for sentence, where in TEMPLATES.items():
        match = re.fullmatch(re.escape(sentence).replace("NAME", "(.+)"), text)
        if match and match[1] in names():
            answer = counted if text.startswith("How many") else listed
            return answer(where.replace("NAME", names()[match[1]][1]))
    return SILENT


def paths(text: str) -> dict[str, Any]:
    """For "Which outages hit lines of Voltara?", takes the shortest path from outages to
    Voltara. Counts.
    """
    found = mentions(text, NOUNS)
    kind = next((each.kind for each in found if not each.iri), None)
    if kind is None:
        return SILENT
    walks = [f"?x {way(kind, each.kind)} {each.iri} ." for each in found if each.iri]
    where = f"{{ ?x a grid:{kind} ; grid:name ?name . {' '.join(walks)} }}"
    if text.startswith("How many"):
        return respond(f"SELECT (COUNT(?x) AS ?number) {where}")
    return respond(f"SELECT ?name {where} ORDER BY ?name")


def grammar(text: str) -> dict[str, Any]:
    """Takes the path that the question names: outages, lines, Voltara. Counts, ranks, negates
    and groups.
    """
    found = mentions(text, NOUNS | SYNONYMS | {"no": "", "not": ""})
    if not found or found[0].iri or not found[0].kind:
        return SILENT
    here, kind, where = "?x", found[0].kind, [f"?x a grid:{found[0].kind}"]
    for place, each in enumerate(found[1:]):
        if not each.kind:
            where.append("FILTER NOT EXISTS {")
        elif each.iri:
            where.append(f". {here} {way(kind, each.kind)} {each.iri}")
        else:
            where.append(
                f". {here} {way(kind, each.kind)} ?x{place} . ?x{place} a grid:{each.kind}"
            )
            here, kind = f"?x{place}", each.kind
    body = " ".join(where).replace("{ .", "{")
    body += " }" * body.count("{")
    if text.startswith("How many"):
        return counted(body)
    if "by number of" in text:
        groups = f"SELECT ?x (COUNT(DISTINCT {here}) AS ?rank) {{ {body} }} GROUP BY ?x"
        return listed(f"{{ {groups} }}", shown="?name ?rank")
    for (ranked, word), attribute in RANKS.items():
        if ranked == found[0].kind and word in text:
            shown = "?name ?rank" if "with their" in text else "?name"
            return listed(
                f"{body} . ?x grid:{attribute} ?rank", shown, "" if "first" in text else " LIMIT 1"
            )
    return listed(body)


AGENTS = {agent.__name__: agent for agent in (keywords, templates, paths, grammar)}


def responses(agent: Callable[[str], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The agent's response to each question of the reference set."""
    for question in load_reference(HERE / "questions.yaml"):
        try:
            yield {"question_id": question.id, **agent(question.text)}
        except LookupError as error:
            yield {"question_id": question.id, "error": str(error)}


if __name__ == "__main__":
    parser = ArgumentParser(description="Write the responses of an agent to all questions.")
    parser.add_argument("agent", choices=AGENTS)
    for response in responses(AGENTS[parser.parse_args().agent]):
        print(json.dumps(response))
