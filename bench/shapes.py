"""Reference sets and responses in the shapes that users have.

An agent that answers questions about a power grid: searches, most of them without a hit, and
queries whose results it saw indented, some with the columns in another order than the reference.
"""

from __future__ import annotations

import json
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPARQL_JSON = "application/sparql-results+json"
QUESTIONS = 40
HOSTILE = (
    b'{"question_id": "nobody asked this", "actual_steps": []}',
    b'{"question_id": "',
    b'["no", "object"]',
    b'{"question_id": 5, "actual_steps": {}}',
    b'{"actual_answer": "' + b"x" * 2_000 + b'"}',
    b'{"question_id": "\xff", "actual_steps": []}',
    b"[" * 1_000,
    b'{"question_id": "q", "input_tokens": -1e400}',
)


class Shape(NamedTuple):
    """Files to evaluate: a reference set, and responses to it as JSON lines."""

    reference: Path
    responses: Path
    number: int


def table(names: tuple[str, ...], rows: list[dict[str, str]]) -> dict[str, Any]:
    """SPARQL results of IRIs and, in columns that end in "Name", of literals."""
    bindings = [
        {
            name: {"type": "literal" if name.endswith("Name") else "uri", "value": row[name]}
            for name in names
        }
        for row in rows
    ]
    return {"head": {"vars": list(names)}, "results": {"bindings": bindings}}


def _hit(kind: str, number: int) -> dict[str, str]:
    return {
        kind: f"urn:uuid:{number:08x}-9aeb-11e5-91da-b8763fd99c5f",
        f"{kind}Name": f"STATION  T{number}",
    }


def _expected(index: int) -> tuple[tuple[str, ...], list[dict[str, str]]]:
    """The columns and rows that answer a question."""
    if index % 4 == 0:
        return ("transformer", "transformerName"), [_hit("transformer", 1000 * index)]
    names = ("line", "lineName", "substation", "substationName")
    number = 6 + index % 10
    return names, [_hit("line", 1000 * index + i) | _hit("substation", i) for i in range(number)]


def _query(index: int) -> str:
    pattern = (
        "?line a cim:ACLineSegment ; cim:IdentifiedObject.name ?lineName ; cim:Terminal "
        "?terminal . "
    )
    return f"PREFIX cim: <https://cim.ucaiug.io/ns#>\nSELECT * WHERE {{ {pattern * 4} }} # {index}"


def question(index: int) -> dict[str, Any]:
    """A question whose answer is the results of one query."""
    names, rows = _expected(index)
    step = {
        "name": "sparql_query",
        "args": {"query": _query(index)},
        "output": json.dumps(table(names, rows)),
        "output_media_type": SPARQL_JSON,
        "required_columns": list(names),
        "ordered": False,
    }
    text = f"Which lines of 110 kV end in substation {index}?"
    return {"id": f"{index:032x}", "question_text": text, "reference_steps": [[step]]}


def _searched(index: int, rows: list[dict[str, str]]) -> dict[str, Any]:
    output = table(("iri", "iriName"), rows)
    return {
        "name": "autocomplete_search",
        "args": {"query": f"SUBSTATION {index}"},
        "output": output,
    }


def _failed() -> dict[str, Any]:
    return {
        "name": "sparql_query",
        "args": {"query": _query(0)},
        "status": "error",
        "error": "timed out",
    }


def _steps(index: int) -> list[dict[str, Any]] | None:
    """What the agent did: of forty, a failure, 22 without a result, and 17 right ones."""
    names, rows = _expected(index)
    if index % QUESTIONS == 39:
        return None
    if index % 4 == 0 or index % 10 in (7, 9) or index % QUESTIONS in (3, 13):
        shuffled = names if index % 4 == 0 else (*names[2:], *names[:2])
        right = {
            "name": "sparql_query",
            "args": {"query": _query(index)[:300]},
            "output": table(shuffled, rows),
        }
        return [
            _searched(index, [_hit("iri", index)]),
            *([_failed()] if index % 10 == 9 else []),
            right,
        ]
    return [_searched(index, []) for _ in range(1 + index % 2)]


def _response(index: int, number: int) -> dict[str, Any]:
    """A response with the ids and outputs of its own `number`, which scores as all do to its
    question.
    """
    made: dict[str, Any] = {"question_id": f"{index:032x}"}
    if (steps := _steps(index)) is None:
        return made | {"status": "error", "error": "the model did not answer"}
    made |= {
        "input_tokens": 221_339,
        "output_tokens": 212,
        "total_tokens": 221_551,
        "elapsed_sec": 6.601,
    }
    for place, step in enumerate(steps):
        step |= {"id": f"call_{number}_{place}"}
        if "output" in step:
            output = {"number": number, **step["output"]}
            step |= {"status": "success", "output": json.dumps(output, indent=2)}
    return made | {"actual_steps": steps}


def templates(number: int = QUESTIONS) -> list[dict[str, Any]]:
    """A reference set of so many questions in four templates."""
    return [
        {
            "template_id": f"template {first}",
            "questions": [question(index) for index in range(first, number, 4)],
        }
        for first in range(4)
    ]


def responses(number: int, questions: int = QUESTIONS) -> Iterator[bytes]:
    """So many JSON lines; each with ids and outputs of its own."""
    for index in range(number):
        yield json.dumps(_response(index % questions, index)).encode() + b"\n"


def few_questions(folder: Path, number: int) -> Shape:
    """So many responses to 40 questions, outputs all distinct."""
    return _written(folder, f"few-{number}", templates(), responses(number), number)


def many_questions(folder: Path, number: int) -> Shape:
    """So many questions with one response each; the texts of no two questions are equal."""
    return _written(folder, f"many-{number}", templates(number), responses(number, number), number)


def with_trouble(folder: Path, number: int) -> Shape:
    """As `few_questions`, but every tenth line is hostile, and every tenth response an agent's
    error.
    """
    return _written(folder, f"trouble-{number}", templates(), _troubled(number), number)


def _troubled(number: int) -> Iterator[bytes]:
    hostile = cycle(HOSTILE)
    for index, line in enumerate(responses(number)):
        if index % 10 == 3:
            yield next(hostile) + b"\n"
        elif index % 10 == 7:
            yield (
                json.dumps({**json.loads(line), "status": "error", "error": "timed out"}).encode()
                + b"\n"
            )
        else:
            yield line


def _written(folder: Path, name: str, made: Any, lines: Iterator[bytes], number: int) -> Shape:
    reference, path = folder / f"reference-{name}.json", folder / f"{name}.jsonl"
    reference.write_text(json.dumps(made))
    path.write_bytes(b"".join(lines))
    return Shape(reference, path, number)
