"""Whole results for pages of their own: the latest and the worst ones, and those in the file of a run."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import AggregationError
from graphrag_eval_async.monitor.counting import Latest, Worst, shorten
from graphrag_eval_async.monitor.worst import Reasons
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEPT = 200
"""How many of the latest results are kept, and how many of the worst."""

QUESTION_CHARACTERS = 300

MAX_CHARACTERS = 256 * 1024
"""Results whose steps have more text are listed, but not kept whole."""

MAX_LINE_BYTES = 1 << 25
MAX_FOUND = 200
"""Maximum number of results of a question that are listed."""

KNOWN_QUESTIONS = 20
"""Maximum number of questions whose results are remembered: those asked for last."""


class KeptResults:
    """The latest and the worst results of a run, by their number in it, from 1."""

    def __init__(self) -> None:
        self.latest = Latest(KEPT)
        self.worst = Worst(KEPT)
        self.reasons = Reasons()
        self.count = 0

    def add(self, result: Mapping[str, Any], short: Mapping[str, Any]) -> None:
        """Keep a result, and the part of it that is shown, while it is among them."""
        self.count += 1
        entry = _with_question(short, result)
        entry["number"] = self.count
        entry["result"] = result if _is_small(result) else None
        self.reasons.add(entry)
        self.latest.add(entry)
        self.worst.add(entry)

    def find(self, number: int) -> Mapping[str, Any] | None:
        """The entry of the result with this number, if it is kept."""
        entries = (*self.latest.facts(), *self.worst.facts())
        return next((each for each in entries if each["number"] == number), None)

    def of_question(self, question_id: str) -> Sequence[Mapping[str, Any]]:
        """The entries of the results of a question that are kept, the latest first."""
        entries = {each["number"]: each for each in (*self.worst.facts(), *self.latest.facts())}
        return [
            each for _, each in sorted(entries.items(), reverse=True) if each["question_id"] == question_id
        ]


def in_short(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result in short, with the text of its question."""
    return _with_question(shorten(result, observe(result, include_errors=True).values), result)


def _with_question(short: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    text = result.get("question_text")
    return {**short, "question": text[:QUESTION_CHARACTERS] if isinstance(text, str) else None}


def _is_small(result: Mapping[str, Any]) -> bool:
    size = 0
    for step in result.get("actual_steps") or ():
        output = step.get("output") if isinstance(step, dict) else None
        size += len(output) if isinstance(output, str) else 1000 if output is not None else 0
    return size <= MAX_CHARACTERS


def result_at(path: str, offset: int) -> dict[str, Any] | None:
    """The result in the line that begins at `offset` bytes; None if none does."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, offset - 1))
            if offset and file.read(1) != b"\n":
                return None
            return _read(file.readline(MAX_LINE_BYTES))
    except (OSError, OverflowError, ValueError):
        return None


class ResultsOfQuestions:
    """The results of questions in the file of a run, in short; a second look reads only what came since."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, list[Mapping[str, Any]]]] = {}

    def of_question(self, path: str, question_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the results of a question, the latest first, with the `number` of their page."""
        offset, found = self._known.pop(question_id, (0, []))
        wanted = orjson.dumps(question_id)
        with suppress(OSError), open(path, "rb") as file:
            if file.seek(0, os.SEEK_END) < offset:  # Another file has its name.
                offset, found = 0, []
            file.seek(offset)
            while (line := file.readline(MAX_LINE_BYTES)).endswith(b"\n") or len(line) == MAX_LINE_BYTES:
                result = _read(line) if wanted in line else None
                if result is not None and result.get("question_id") == question_id:
                    with suppress(AggregationError, KeyError):
                        found.append(in_short(result) | {"number": f"at/{offset}"})
                offset += len(line)
        self._known[question_id] = offset, found[-MAX_FOUND:]
        if len(self._known) > KNOWN_QUESTIONS:
            del self._known[next(iter(self._known))]
        return found[: -MAX_FOUND - 1 : -1]


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        result = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return result if isinstance(result, dict) else None
