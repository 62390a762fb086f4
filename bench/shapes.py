"""Reference sets and responses in the shapes that users have, made from real ones where those are at hand."""

from __future__ import annotations

import json
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from bench.golden import FOLDER, REFERENCE, responses

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTIONS_PER_TEMPLATE = 100
DICT_STEPS = 10
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


def few_questions(folder: Path, number: int) -> Shape:
    """So many responses to the 40 questions of the golden set, outputs all distinct."""
    reference, path = folder / "reference-few.json", folder / f"few-{number}.jsonl"
    reference.write_text(json.dumps(_templates()))
    path.write_bytes(b"".join(responses(number)))
    return Shape(reference, path, number)


def many_questions(folder: Path, number: int) -> Shape:
    """So many questions with one response each; the texts of no two questions are equal."""
    questions = [question for template in _templates() for question in template["questions"]]
    lines = (FOLDER / "responses.jsonl").read_text().splitlines()
    answers = {json.loads(line)["question_id"]: line for line in lines}
    texts = [
        (json.dumps(each), answers[each["id"]], each["id"]) for each in questions if each["id"] in answers
    ]
    made: list[dict[str, Any]] = []
    answered = []
    for index, (question, answer, identifier) in enumerate(islice(cycle(texts), number)):
        if index % QUESTIONS_PER_TEMPLATE == 0:
            made.append({"template_id": f"template {len(made)}", "questions": []})
        made[-1]["questions"].append(json.loads(_renamed(question, identifier, index)))
        response = json.loads(_renamed(answer, identifier, index))
        response["actual_steps"] = _distinct(response.get("actual_steps") or [], index)
        answered.append(json.dumps(response))
    reference, path = folder / f"reference-{number}.json", folder / f"many-{number}.jsonl"
    reference.write_text(json.dumps(made))
    path.write_text("\n".join(answered) + "\n")
    return Shape(reference, path, number)


def _templates() -> list[dict[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(REFERENCE.read_bytes(), loader)  # type: ignore[no-any-return]  # noqa: S506


def _renamed(text: str, identifier: str, index: int) -> str:
    return text.replace(identifier, f"{identifier}-{index}").replace("urn:uuid:", f"urn:uuid:{index}-")


def _distinct(steps: list[dict[str, Any]], index: int) -> list[dict[str, Any]]:
    """Copies of steps whose JSON outputs have a key with a number that no others have."""
    copies = [dict(step) for step in steps]
    for place, step in enumerate(copies):
        output = step.get("output")
        if isinstance(output, str) and output.startswith("{"):
            step["output"] = f'{{"number": {index}.{place}, {output[1:].lstrip()}'
    return copies


def with_trouble(folder: Path, number: int) -> Shape:
    """As `few_questions`, but every tenth line is hostile, and every tenth response an agent's error."""
    lines = []
    hostile = cycle(HOSTILE)
    for index, line in enumerate(responses(number)):
        if index % 10 == 3:
            lines.append(next(hostile) + b"\n")
        elif index % 10 == 7:
            response = json.loads(line)
            lines.append(json.dumps({**response, "status": "error", "error": "timed out"}).encode() + b"\n")
        else:
            lines.append(line)
    path = folder / f"trouble-{number}.jsonl"
    path.write_bytes(b"".join(lines))
    return Shape(REFERENCE, path, number)


def dicts(number: int) -> Iterator[dict[str, Any]]:
    """Responses of ten steps each, as a harness in the same process has them."""
    originals = [json.loads(line) for line in responses(2 * number)]
    originals = [each for each in originals if each.get("actual_steps")]
    for index, original in enumerate(islice(cycle(originals), number)):
        steps = original["actual_steps"]
        padded = [*islice(cycle(steps[:1]), DICT_STEPS - len(steps)), *steps]
        yield {**original, "id": index, "actual_steps": _distinct(padded, index)}
