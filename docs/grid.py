"""A run for the pictures: 320 questions about a power grid like that of `examples/`, and an
agent's responses.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

STARTS: tuple[str, ...] = ("Berg", "Lind", "Tann", "Eich", "Buch", "Stein", "Wald", "See")
STARTS += ("Neu", "Alt", "Ober", "Hoch", "Erl", "Rot", "Grün", "Mühl")
SUBSTATIONS = [start + end for end in ("heim", "au", "dorf", "bach") for start in STARTS]
OPERATORS = ("Nordnett", "Nordgrid", "Vestnett")
CHANCES = {
    "transformers": 0.78,
    "lines": 0.76,
    "measurements": 0.94,
    "settings": 0.8,
    "outages": 0.66,
}
"""How often the agent is right, by template."""
CHEAPER = {**CHANCES, "settings": 0.45, "outages": 0.55}
"""The same for an agent with a cheaper model."""
TOKENS = {
    "transformers": 14_400,
    "lines": 12_200,
    "measurements": 16_700,
    "settings": 10_800,
    "outages": 11_900,
}
SLOW_AFTER, SO_FAR = 150, 306
"""After how many responses the graph's server becomes slow, and how many there are so far."""

Step = dict[str, Any]


def _iri(name: str) -> str:
    return f"urn:uuid:6f0a3c52-0001-4a7e-9d4e-{SUBSTATIONS.index(name) + 1:012}"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of texts and numbers as SPARQL results in JSON."""
    names = [*dict.fromkeys(name for row in rows for name in row)]
    number = {"type": "literal", "datatype": "http://www.w3.org/2001/XMLSchema#decimal"}
    text = {"type": "literal"}
    cells = [
        {
            name: (text if isinstance(value, str) else number) | {"value": f"{value}"}
            for name, value in row.items()
        }
        for row in rows
    ]
    return json.dumps({"head": {"vars": names}, "results": {"bindings": cells}}, ensure_ascii=False)


def _query(text: str, rows: Sequence[Mapping[str, Any]], **more: Any) -> Step:
    query = f"PREFIX cim: <https://cim.ucaiug.io/ns#>\n{text}"
    step = {"name": "sparql_query", "args": {"query": query}, "output": _table(rows)}
    return step | {"output_media_type": "application/sparql-results+json"} | more


def _documents(names: Iterable[str], places: Iterable[int], name: str) -> Step:
    found = [
        {
            "id": f"http://example.org/doc/{place}",
            "text": f"Transformer {each} stands in substation {name}.",
        }
        for each, place in zip(names, places, strict=False)
    ]
    args = {"query": f"transformers of substation {name}", "k": len(found)}
    return {"name": "retrieval", "args": args, "output": json.dumps(found, ensure_ascii=False)}


class Asked:
    """A question, the right answer, and wrong ones; each has its steps, which begin with those
    `found` first.
    """

    def __init__(self, template: str, name: str, text: str, match: str) -> None:
        self.template, self.text, self.match = template, text, match
        self.id = (
            f"load-{name}-t1".lower()
            if template == "measurements"
            else f"{template}-{name}".lower()
        )
        self.found: list[Step] = []
        self.right: tuple[str, list[Step]] = ("", [])
        self.wrong: list[tuple[str, list[Step]]] = []

    @property
    def question(self) -> dict[str, Any]:
        answer, steps = self.right
        return {
            "id": self.id,
            "question_text": self.text,
            "reference_answer": answer,
            "match": self.match,
            "reference_steps": [*([self.found] if self.found else []), steps],
        }


def _transformers(name: str, chance: Random) -> Asked:
    asked = Asked("transformers", name, f"Which transformers are in substation {name}?", "contains")
    names = [f"{name} T{i + 1}" for i in range(chance.randint(2, 5))]
    places = [10 * SUBSTATIONS.index(name) + i for i in range(1, 6)]
    iri = _iri(name)
    asked.found = [{"name": "iri_discovery", "args": {"query": name}, "output": f"<{iri}>"}]
    text = f"SELECT ?name WHERE {{\n  ?t a cim:PowerTransformer ;\n    cim:Equipment.EquipmentContainer <{iri}> ;\n    cim:IdentifiedObject.name ?name .\n}}"
    every = [{"name": each} for each in names]

    def steps(count: int, text: str, rows: Sequence[Mapping[str, Any]]) -> list[Step]:
        other = [f"{name} C1"] if count < len(names) else []  # Another document takes the place.
        found = _documents([*names[:count], *other], [*places[:count], places[0] - 1], name)
        return [found, _query(text, rows, score="f1")]

    asked.right = "\n".join(names), steps(len(names), text, every)
    few = len(names) - 1
    asked.wrong = [
        ("\n".join(names[:few]), steps(few, f"{text} LIMIT {few}", every[:few])),
        (f"I found no transformers in {name}.", steps(len(names), text, [])),
    ]
    return asked


def _lines(name: str, chance: Random) -> Asked:
    text = f"List the lines from substation {name}, longest first, with their length in kilometres."
    asked = Asked("lines", name, text, "contains")
    ends = chance.sample([each for each in SUBSTATIONS if each != name], chance.randint(2, 5))
    lengths = sorted((round(chance.uniform(8, 120), 1) for _ in ends), reverse=True)
    rows = [{"line": f"{name}-{end}", "km": km} for end, km in zip(ends, lengths, strict=True)]
    query = f'SELECT ?line ?km WHERE {{\n  ?s cim:IdentifiedObject.name ?line ;\n    cim:Conductor.length ?km .\n  FILTER(STRSTARTS(?line, "{name}-"))\n}}'
    order = " ORDER BY DESC(?km)"

    def told(text: str, rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[Step]]:
        answer = "\n".join(f"{row['line']} ({row['km']} km)" for row in rows)
        return answer, [_query(text, rows, ordered=True, score="f1")]

    asked.right = told(query + order, rows)
    asked.wrong = [
        told(query, rows[::-1]),
        told(f"{query}{order} LIMIT {len(rows) - 1}", rows[:-1]),
    ]
    return asked


def _measurements(name: str, chance: Random) -> Asked:
    text = f"What was the mean load of {name} T1 in the last day?"
    asked = Asked("measurements", name, text, "number")
    series, load = f"{name.lower()}-t1-mw", round(chance.uniform(18, 60), 1)
    asked.found = [
        {
            "name": "retrieve_time_series",
            "args": {"mrid": _iri(name), "limit": 10},
            "output": json.dumps([{"external_id": series}]),
        }
    ]

    def told(load: float, granularity: str) -> tuple[str, list[Step]]:
        args = {
            "external_id": series,
            "aggregates": "average",
            "granularity": granularity,
            "start": "1d-ago",
        }
        step = {"name": "retrieve_data_points", "args": args | {"end": "now"}}
        return f"{load} MW", [step | {"output": json.dumps([{"average": load}])}]

    asked.right = told(load, "1d")
    asked.wrong = [told(round(load * 1.08, 1), "1h")]
    return asked


def _settings(name: str, chance: Random) -> Asked:
    text = f"Which voltage levels does substation {name} have, and who operates it?"
    asked = Asked("settings", name, text, "contains")
    levels = sorted(chance.sample([66, 132, 300, 420], 2), reverse=True)
    operator, other = chance.sample(OPERATORS, 2)
    settings = {
        "name": "substation_settings",
        "args": {"substation": name},
        "output": json.dumps({"voltage_levels_kv": levels, "busbars": 2}),
        "output_media_type": "application/json",
    }
    lookup = {"name": "operator_lookup", "args": {"substation": name}}
    volts = "\n".join(f"{level} kV" for level in levels)
    asked.right = f"{volts}\n{operator}", [settings, lookup | {"output": operator}]
    asked.wrong = [
        (f"{volts}\n{other}", [settings, lookup | {"output": other}]),
        (volts, [settings]),
    ]
    return asked


def _outages(name: str, chance: Random) -> Asked:
    asked = Asked(
        "outages", name, f"How many outages did substation {name} have in 2025?", "number"
    )
    count = chance.randint(2, 9)
    text = f"SELECT (COUNT(?o) AS ?outages) WHERE {{\n  ?o a cim:Outage ;\n    cim:Outage.Equipment/cim:Equipment.EquipmentContainer <{_iri(name)}> ;\n    cim:Outage.actualPeriod ?when ."
    year = f"{text}\n  FILTER(YEAR(?when) = 2025)\n}}"
    told = f"{name} had {{}} outages in 2025.".format
    asked.right = str(count), [_query(year, [{"outages": count}])]
    every = count + chance.randint(1, 30)
    asked.wrong = [(told(every), [_query(f"{text}\n}}", [{"outages": every}])])]
    return asked


ASKED = [
    make(name, Random(f"{make.__name__} {name}"))
    for make in (_transformers, _lines, _measurements, _settings, _outages)
    for name in SUBSTATIONS
]


def reference() -> list[dict[str, Any]]:
    """The reference set."""
    return [
        {
            "template_id": template,
            "questions": [each.question for each in ASKED if each.template == template],
        }
        for template in CHANCES
    ]


def responses(
    chances: Mapping[str, float] = CHANCES,
    *,
    slow_after: int = len(ASKED),
    tokens: float = 1,
    seed: int = 7,
) -> list[dict[str, Any]]:
    """Responses in random order; the server of the graph is slow `slow_after` so many of them."""
    order = [*ASKED]
    Random(7).shuffle(order)
    return [
        _response(each, chances, Random(f"{seed} {each.id}"), tokens, is_slow=place >= slow_after)
        for place, each in enumerate(order)
    ]


def _response(
    asked: Asked, chances: Mapping[str, float], chance: Random, tokens: float, *, is_slow: bool
) -> dict[str, Any]:
    # What is hard for one agent is mostly hard for the other.
    hard = (Random(asked.id) if chance.random() < 0.8 else chance).random()
    answer: str | None
    answer, steps = asked.right if hard < chances[asked.template] else chance.choice(asked.wrong)
    steps = [dict(step) for step in (*asked.found, *steps)]
    response = {
        "question_id": asked.id,
        "total_tokens": round(TOKENS[asked.template] * chance.uniform(0.9, 1.2) * tokens),
        "elapsed_sec": round(chance.uniform(3, 8) * (1.7 if is_slow else 1), 2),
    }
    late = chance.random()
    if is_slow and late < 0.25:
        error = "TimeoutError: the agent gave no answer within 60 s"
        response |= {"elapsed_sec": 60.0, "status": "error", "error": error}
        answer = None
    if late < (0.6 if is_slow else 0.02) and (
        answer is None or steps[-1]["name"] == "sparql_query"
    ):
        del steps[-1]["output"]
        steps[-1] |= {"status": "error", "error": "HTTP 504: the query took more than 30 s"}
        answer = answer and "The graph did not answer in time."
    for place, step in enumerate(steps, 1):
        step |= {"id": f"call_{place}", "status": step.get("status", "success")}
        for key in ("output_media_type", "ordered", "score"):
            step.pop(key, None)
    if answer is not None:
        response["actual_answer"] = answer.replace("\n", ", ")
    return response | {"actual_steps": steps}
