"""Finds results in the file that a run writes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import AggregationError
from graphrag_eval_async.monitor.kept import in_short

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LINE_BYTES = 1 << 25
MAX_FOUND = 200
"""Maximum number of results of a question that are listed."""


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


def results_of_question(path: str, question_id: str) -> list[Mapping[str, Any]]:
    """The short forms of the results of a question, the latest first, with the `number` of their page."""
    found: list[Mapping[str, Any]] = []
    wanted = orjson.dumps(question_id)
    offset = 0
    try:
        with open(path, "rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                result = _read(line) if wanted in line else None
                if result is not None and result.get("question_id") == question_id:
                    with suppress(AggregationError, KeyError):
                        found.append(in_short(result) | {"number": f"at/{offset}"})
                offset += len(line)
    except OSError:
        pass
    return found[: -MAX_FOUND - 1 : -1]


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        result = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return result if isinstance(result, dict) else None
