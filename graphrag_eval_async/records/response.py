"""From one line of JSON to a response whose fields are what they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.records.decoding import (
    CONTAINERS,
    MAX_DEPTH,
    InvalidRecord,
    load,
    nests_deeper,
    too_deep,
)
from graphrag_eval_async.records.metrics import COST, RETRIEVAL_METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BEYOND_64_BITS = 2.0**63
"""orjson reads an integer of more than 64 bits as a float of at least this size, without a word."""

_OF_RETRIEVAL = frozenset(RETRIEVAL_METRICS)


class Response(NamedTuple):
    """One response, checked.

    Attributes:
        question_id: id of the question that it answers.
        fields: the keys that the result carries over, without nulls.
        metadata: all other keys.
    """

    question_id: str
    fields: dict[str, Any]
    metadata: dict[str, Any]

    @property
    def failed(self) -> bool:
        """Whether the agent failed to answer."""
        return "error" in self.fields or self.fields.get("status") == "error"


def read_response(data: bytes, known: Mapping[str, Any]) -> Response:
    """Decode and check one response to a question that is among the keys of `known`.

    Raises:
        InvalidRecord: it cannot be evaluated; the reason is one of `Reason`.
    """
    record = load(data)
    try:
        return _check(record, known)
    except InvalidRecord:
        if nests_deeper(record, MAX_DEPTH):
            raise too_deep() from None
        raise


def _check(record: Any, known: Mapping[str, Any]) -> Response:
    if type(record) is not dict:
        raise InvalidRecord("not_an_object", f"expected a JSON object, got {_kind(record)}")
    question_id = record.get("question_id")
    if question_id is None or question_id == "":
        raise InvalidRecord("missing_question_id", "no question_id; every response names its question")
    if type(question_id) is not str:
        raise _invalid("question_id", "a string", question_id)
    if question_id not in known:
        raise InvalidRecord("unknown_question_id", f"question_id {question_id!r} is not in the reference set")
    fields: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for key, value in record.items():
        check = _CHECKS.get(key)
        if check is None:
            _anything(key, value)
            metadata[key] = value
        elif value is not None:
            check(key, value)
            fields[key] = value
    del metadata["question_id"]
    return Response(question_id, fields, metadata)


_KINDS = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array"}


def _kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), "an object")


def _invalid(key: str, expected: str, value: Any) -> InvalidRecord:
    return InvalidRecord("invalid_field", f"{key}: expected {expected}, got {_kind(value)}")


def _anything(_key: str, value: Any) -> None:
    if type(value) in CONTAINERS and nests_deeper(value, MAX_DEPTH - 1):
        raise too_deep()


def _text(key: str, value: Any) -> None:
    if type(value) is not str:
        raise _invalid(key, "a string", value)


def _text_or_number(key: str, value: Any) -> None:
    if type(value) is not str:
        _number(key, value, "a string or a number")


def _number(key: str, value: Any, expected: str = "a number") -> None:
    if type(value) is not int and type(value) is not float:
        raise _invalid(key, expected, value)
    if type(value) is float and abs(value) >= BEYOND_64_BITS:
        raise InvalidRecord("invalid_field", f"{key}: expected {expected} of at most 64 bits, got {value}")


def _status(key: str, value: Any) -> None:
    _text(key, value)
    if value not in {"success", "error"}:
        raise InvalidRecord("invalid_field", f'{key}: expected "success" or "error", got {value[:100]!r}')


def _count(key: str, value: Any) -> None:
    if type(value) is int and value >= 0:
        return
    _number(key, value)
    if value < 0:
        raise InvalidRecord("invalid_field", f"{key}: expected 0 or more, got {value}")


def _steps(key: str, value: Any) -> None:
    if type(value) is not list:
        raise _invalid(key, "an array", value)
    for index, step in enumerate(value):
        if type(step) is not dict:
            raise _invalid(f"{key}[{index}]", "an object", step)
        name = step.get("name")
        if type(name) is not str and name is not None:
            raise _invalid(f"{key}[{index}].name", "a string", name)
        for item in step.values():
            if type(item) in CONTAINERS and nests_deeper(item, MAX_DEPTH - 3):
                raise too_deep()
        if name == "retrieval":
            _set_metrics_aside(step)


def _set_metrics_aside(step: dict[str, Any]) -> None:
    """What the agent says of its own retrieval is no evaluation, and must not be aggregated as one."""
    if claimed := [key for key in step if key in _OF_RETRIEVAL or key.endswith(COST)]:
        metadata = {key: step.pop(key) for key in claimed}
        if "metadata" in step:
            metadata["metadata"] = step["metadata"]
        step["metadata"] = metadata


_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "id": _text_or_number,
    "status": _status,
    "error": _anything,
    "actual_answer": _text,
    "actual_steps": _steps,
    "input_tokens": _count,
    "output_tokens": _count,
    "total_tokens": _count,
    "elapsed_sec": _count,
}
