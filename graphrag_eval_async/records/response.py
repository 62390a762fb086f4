"""Reading and checking of responses, one per line of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.catalogue.metrics import COST, RESOURCES, RETRIEVAL_METRICS
from graphrag_eval_async.catalogue.outcomes import ERRORS_OF_STEP
from graphrag_eval_async.errors import describe
from graphrag_eval_async.records.decoding import (
    MAX_DEPTH,
    InvalidRecord,
    load,
    nests_deeper,
    too_deep,
)
from graphrag_eval_async.records.line import Line, Record
from graphrag_eval_async.records.misnamed import (
    check_args,
    check_is_response,
    check_keys,
    check_step,
    missing_question_id,
)
from graphrag_eval_async.records.question import (
    NAMES_OF_QUESTION,
    AnyQuestion,
    Question,
    question_of,
)
from graphrag_eval_async.records.reject import MESSAGE_CHARACTERS, Reject, reject, reject_unread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BEYOND_64_BITS = 2.0**63
"""orjson silently reads an integer of more than 64 bits as a float of at least this size."""

_NUMBERS = frozenset({int, float})
_OF_RETRIEVAL = frozenset({*RETRIEVAL_METRICS, *ERRORS_OF_STEP})
_KNOWN = frozenset(
    {
        "question_id",
        "id",
        "status",
        "error",
        "actual_answer",
        "actual_steps",
        "trace_problems",
        *RESOURCES,
    }
)
_OF_QUESTION = frozenset(key for keys in NAMES_OF_QUESTION.values() for key in keys)
_WITH_ARGS = frozenset({"retrieve_time_series", "retrieve_data_points"})
"""Names of steps that are compared by arguments."""

_SPECIAL = _WITH_ARGS | {"retrieval"}

_SPANS_LINES = "this object spans several lines; write one object per line, as `jq -c .` does"


class Response(msgspec.Struct, frozen=True, gc=False):
    """One checked response."""

    question_id: str
    fields: dict[str, Any]  # Its keys and values, without nulls.
    metadata: dict[str, Any]  # Unknown keys and their values, which the result holds in `metadata`.
    failed: bool  # Whether the agent failed to answer.
    metrics: tuple[str, ...]  # Names of the metrics that it contains.
    numbers: tuple[float, ...]  # Values of these metrics.
    usable: Sequence[
        str | None
    ]  # The name of each step; None if it did not succeed or has no output.
    question: Question | None = None  # If there is no reference set to look it up.


def read_record(record: Record, known: Mapping[str, Any]) -> Response | Reject:
    """The response in a record, or a reject. The keys of `known` are the ids of the questions."""
    if not isinstance(record, Line):
        return reject_unread(record)
    try:
        return read_response(record.data, known)
    except InvalidRecord as error:
        if not record.whole and error.reason in (
            "invalid_utf8",
            "invalid_json",
        ):  # Its rest may mend it.
            return reject(record, "incomplete", f"no newline yet; so far: {error}")
        return reject(
            record, error.reason, _SPANS_LINES if record.data.strip() == b"{" else str(error)
        )


def read_response(data: bytes, known: Mapping[str, Any], decoded: Any = None) -> Response:
    """Decode and check one response; raises `InvalidRecord`.

    Args:
        data: the JSON text.
        known: its keys are the ids of the questions.
        decoded: the response, if it is known, or was read from a part of `data`.
    """
    record = load(data) if decoded is None else decoded
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and nests_deeper(record, MAX_DEPTH):
        raise too_deep()
    if type(record) is not dict:
        hint = '; agent traces need format="auto" or --format auto' if type(record) is list else ""
        raise InvalidRecord(
            "not_an_object", f"expected a JSON object, got {describe(record)}{hint}"
        )
    if "template_id" in record:
        check_is_response(record)
    question = None
    if isinstance(known, AnyQuestion):
        question = question_of(record)
        record = {key: value for key, value in record.items() if key not in _OF_QUESTION}
    question_id = _check_question_id(record, known) if question is None else question.id
    metadata = {}
    if not _KNOWN.issuperset(record):
        metadata = {key: value for key, value in record.items() if key not in _KNOWN}
        check_keys(record, metadata)
    fields = record
    if None in record.values():
        fields = {key: value for key, value in record.items() if value is not None}
    metrics = tuple([key for key in RESOURCES if key in fields])
    numbers = tuple([fields[key] for key in metrics])
    for key, value in zip(metrics, numbers, strict=True):
        if type(value) not in _NUMBERS or not 0 <= value < BEYOND_64_BITS:
            _check_number(key, value)
            if value < 0:
                raise _invalid(key, "0 or more", value)
    _check_texts(fields)
    usable = check_steps(fields["actual_steps"]) if "actual_steps" in fields else ()
    failed = "error" in fields or ("status" in fields and fields["status"] == "error")
    return Response(question_id, fields, metadata, failed, metrics, numbers, usable, question)


def _check_question_id(record: dict[str, Any], known: Mapping[str, Any]) -> str:
    question_id = record.get("question_id")
    if question_id is None or question_id == "":
        raise missing_question_id(record)
    if type(question_id) is not str:
        raise _invalid("question_id", "a string", question_id)
    if question_id not in known:
        quoted = repr(question_id[:MESSAGE_CHARACTERS])
        raise InvalidRecord(
            "unknown_question_id", f"question_id {quoted} is not in the reference set"
        )
    return question_id


def _check_texts(fields: dict[str, Any]) -> None:
    if "status" in fields:
        _check_status("status", fields["status"])
    if "actual_answer" in fields and type(fields["actual_answer"]) is not str:
        raise _invalid("actual_answer", "a string", fields["actual_answer"])
    if "trace_problems" in fields:
        problems = fields["trace_problems"]
        if type(problems) is not list or not all(type(each) is str for each in problems):
            raise _invalid("trace_problems", "an array of strings", problems)
    if "id" in fields and type(fields["id"]) is not str:
        _check_number("id", fields["id"], "a string or a number")


def _invalid(key: str, expected: str, value: Any) -> InvalidRecord:
    return InvalidRecord("invalid_field", f"{key}: expected {expected}, got {describe(value)}")


def _check_number(key: str, value: Any, expected: str = "a number") -> None:
    if type(value) not in _NUMBERS or (type(value) is float and abs(value) >= BEYOND_64_BITS):
        raise _invalid(key, f"{expected} of at most 64 bits", value)


def _check_status(key: str, value: Any) -> None:
    if value not in ("success", "error"):
        raise _invalid(key, '"success" or "error"', value)


def check_steps(steps: Any) -> list[str | None]:
    """The name of each step, or None if the step cannot be compared."""
    if type(steps) is not list:
        raise _invalid("actual_steps", "an array", steps)
    usable: list[str | None] = []
    for index, step in enumerate(steps):
        if (
            type(step) is dict
            and step.get("status") == "success"
            and step.get("output") is not None
        ):
            name = step.get("name")
            if type(name) is str and name not in _SPECIAL:  # As most are.
                usable.append(name)
                continue
        usable.append(_check_step(step, f"actual_steps[{index}]"))
    return usable


def _check_step(step: Any, place: str) -> str | None:
    """Check a step, and set a missing status from its error or output."""
    if type(step) is not dict:
        raise _invalid(place, "an object", step)
    name, status, output = step.get("name"), step.get("status"), step.get("output")
    if type(name) is not str and name is not None:
        raise _invalid(f"{place}.name", "a string", name)
    if status != "error" and (name is None or output is None):
        check_step(step, place)
    if status is None:
        error = step.get("error")
        if error is not None and (error != "" or output is None):
            step["status"] = status = "error"
        elif output is not None:
            step["status"] = status = "success"
    else:
        _check_status(f"{place}.status", status)
    is_usable = status == "success" and output is not None
    if name == "retrieval":
        set_metrics_aside(step)
    elif name in _WITH_ARGS and is_usable:
        check_args(step, place)
    return name if is_usable else None


def set_metrics_aside(step: dict[str, Any]) -> None:
    """Move an agent's own metrics of its retrieval to `metadata`, so that they are not
    aggregated.
    """
    if claimed := [key for key in step if key in _OF_RETRIEVAL or key.endswith(COST)]:
        metadata = {key: step.pop(key) for key in claimed}
        if "metadata" in step:
            metadata["metadata"] = step["metadata"]
        step["metadata"] = metadata
