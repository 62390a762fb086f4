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
_METRICS_OF_RETRIEVAL = frozenset({*RETRIEVAL_METRICS, *ERRORS_OF_STEP})
_KEYS_OF_QUESTIONS = frozenset(key for keys in NAMES_OF_QUESTION.values() for key in keys)
_KNOWN_KEYS = frozenset(
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

_COMPARED_BY_ARGS = frozenset({"retrieve_time_series", "retrieve_data_points"})
"""Names of steps that are compared by arguments."""

_CHECKED_BY_NAME = _COMPARED_BY_ARGS | {"retrieval"}
"""Names of steps that are checked even if they have a status and an output."""

_SPANS_LINES = "this object spans several lines; write one object per line, as `jq -c .` does"


class Response(msgspec.Struct, frozen=True, gc=False):
    """One checked response.

    Attributes:
        question_id: id of its question.
        fields: its keys and values, without nulls.
        metadata: unknown keys and their values, which the result holds in `metadata`.
        failed: whether it is an error.
        metrics: names of the metrics that it contains.
        numbers: values of these metrics.
        usable: the name of each step; None if the step did not succeed or has no output.
        question: its question, if there is no reference set to look it up.
    """

    question_id: str
    fields: dict[str, Any]
    metadata: dict[str, Any]
    failed: bool
    metrics: tuple[str, ...]
    numbers: tuple[float, ...]
    usable: Sequence[str | None]
    question: Question | None = None


def read_record(record: Record, questions: Mapping[str, Any]) -> Response | Reject:
    """Return the response in a record, or a reject; see `read_response`."""
    if not isinstance(record, Line):
        return reject_unread(record)
    try:
        return read_response(record.data, questions, offset=record.offset)
    except InvalidRecord as error:
        is_cut_off = error.reason in ("invalid_utf8", "invalid_json") and not record.whole
        if is_cut_off:  # The rest of the line may mend it.
            return reject(record, "incomplete", f"no newline yet; so far: {error}")
        message = _SPANS_LINES if record.data.strip() == b"{" else str(error)
        return reject(record, error.reason, message)


def read_response(
    data: bytes, questions: Mapping[str, Any], decoded: Any = None, *, offset: int = 0
) -> Response:
    """Decode and check one response.

    Args:
        data: its JSON text.
        questions: a mapping whose keys are the ids of the questions; or an `AnyQuestion`, if
            responses bring their own questions.
        decoded: its JSON value, if that is known.
        offset: bytes of its file before it.

    Raises:
        InvalidRecord: it cannot be evaluated.
    """
    record = load(data, offset=offset) if decoded is None else decoded
    _check_depth(record, data)
    if type(record) is not dict:
        raise _not_an_object(record)
    if "template_id" in record:
        check_is_response(record)

    # Its question.
    question = None
    if isinstance(questions, AnyQuestion):
        question = question_of(record)
        question_id = question.id
        record = {key: value for key, value in record.items() if key not in _KEYS_OF_QUESTIONS}
    else:
        question_id = _check_question_id(record, questions)

    # Its keys.
    metadata = {}
    if not _KNOWN_KEYS.issuperset(record):
        metadata = {key: value for key, value in record.items() if key not in _KNOWN_KEYS}
        check_keys(record, metadata)

    # A null means that there is no value. Most responses have none, and are not copied.
    fields = record
    if None in record.values():
        fields = {key: value for key, value in record.items() if value is not None}

    # Its values.
    metrics = tuple([key for key in RESOURCES if key in fields])
    numbers = tuple([fields[key] for key in metrics])
    for key, value in zip(metrics, numbers, strict=True):
        if type(value) not in _NUMBERS or not 0 <= value < BEYOND_64_BITS:
            _check_resource(key, value)
    _check_texts(fields)
    usable = check_steps(fields["actual_steps"]) if "actual_steps" in fields else ()
    return Response(
        question_id=question_id,
        fields=fields,
        metadata=metadata,
        failed="error" in fields or fields.get("status") == "error",
        metrics=metrics,
        numbers=numbers,
        usable=usable,
        question=question,
    )


def _check_depth(record: Any, data: bytes) -> None:
    """Raise `InvalidRecord` if a record nests too deep."""
    # Text with few brackets cannot nest deep. Counting them is faster than walking the values.
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and nests_deeper(record, MAX_DEPTH):
        raise too_deep()


def _not_an_object(record: Any) -> InvalidRecord:
    """Return the error for a record that is not an object."""
    message = f"expected a JSON object, got {describe(record)}"
    if type(record) is list:
        message += '; agent traces need format="auto" or --format auto'
    return InvalidRecord("not_an_object", message)


def _check_question_id(record: dict[str, Any], questions: Mapping[str, Any]) -> str:
    """Return the id of the question of a response.

    Raises:
        InvalidRecord: it has none, or that of no question.
    """
    question_id = record.get("question_id")
    if question_id is None or question_id == "":
        raise missing_question_id(record)
    if type(question_id) is not str:
        raise _invalid("question_id", "a string", question_id)
    if question_id not in questions:
        quoted = repr(question_id[:MESSAGE_CHARACTERS])
        message = f"question_id {quoted} is not in the reference set"
        raise InvalidRecord("unknown_question_id", message)
    return question_id


def _check_texts(fields: dict[str, Any]) -> None:
    """Check all fields but the steps and the metrics."""
    if "status" in fields:
        _check_status("status", fields["status"])
    if "actual_answer" in fields and type(fields["actual_answer"]) is not str:
        raise _invalid("actual_answer", "a string", fields["actual_answer"])
    if "trace_problems" in fields:
        problems = fields["trace_problems"]
        if type(problems) is not list or not all(type(problem) is str for problem in problems):
            raise _invalid("trace_problems", "an array of strings", problems)
    if "id" in fields and type(fields["id"]) is not str:
        _check_number("id", fields["id"], "a string or a number")


def _check_resource(key: str, value: Any) -> None:
    """Check the value of a metric: a number from 0."""
    _check_number(key, value, "a number")
    if value < 0:
        raise _invalid(key, "0 or more", value)


def _check_number(key: str, value: Any, expected: str) -> None:
    """Check that a value is a number of at most 64 bits; `expected` says so in words."""
    is_number = type(value) in _NUMBERS
    if not is_number or (type(value) is float and abs(value) >= BEYOND_64_BITS):
        raise _invalid(key, f"{expected} of at most 64 bits", value)


def _check_status(key: str, value: Any) -> None:
    if value not in ("success", "error"):
        raise _invalid(key, '"success" or "error"', value)


def _invalid(key: str, expected: str, value: Any) -> InvalidRecord:
    return InvalidRecord("invalid_field", f"{key}: expected {expected}, got {describe(value)}")


def check_steps(steps: Any) -> list[str | None]:
    """Check the steps of a response, and set a missing status from the error or the output.

    Returns:
        the name of each step, or None if the step cannot be compared.

    Raises:
        InvalidRecord: they are no steps.
    """
    if type(steps) is not list:
        raise _invalid("actual_steps", "an array", steps)
    usable: list[str | None] = []
    for index, step in enumerate(steps):
        # Most steps succeeded, and need no other check.
        if (
            type(step) is dict
            and step.get("status") == "success"
            and step.get("output") is not None
        ):
            name = step.get("name")
            if type(name) is str and name not in _CHECKED_BY_NAME:
                usable.append(name)
                continue
        usable.append(_check_step(step, f"actual_steps[{index}]"))
    return usable


def _check_step(step: Any, place: str) -> str | None:
    """Check a step of any kind; see `check_steps`."""
    if type(step) is not dict:
        raise _invalid(place, "an object", step)
    name = step.get("name")
    status = step.get("status")
    output = step.get("output")
    if type(name) is not str and name is not None:
        raise _invalid(f"{place}.name", "a string", name)
    if status != "error" and (name is None or output is None):
        check_step(step, place)

    if status is None:
        status = _status_of(step)
        if status is not None:
            step["status"] = status
    else:
        _check_status(f"{place}.status", status)

    is_usable = status == "success" and output is not None
    if name == "retrieval":
        set_metrics_aside(step)
    elif name in _COMPARED_BY_ARGS and is_usable:
        check_args(step, place)
    return name if is_usable else None


def _status_of(step: Mapping[str, Any]) -> str | None:
    """Return the status of a step that does not say it; None without an error and an output."""
    error = step.get("error")
    output = step.get("output")
    # Some agents write an empty error beside each output.
    if error is not None and (error != "" or output is None):
        return "error"
    return None if output is None else "success"


def set_metrics_aside(step: dict[str, Any]) -> None:
    """Move an agent's own metrics of its retrieval to `metadata`, so that they are not
    aggregated.
    """
    claimed = [key for key in step if key in _METRICS_OF_RETRIEVAL or key.endswith(COST)]
    if not claimed:
        return
    metadata = {key: step.pop(key) for key in claimed}
    if "metadata" in step:
        metadata["metadata"] = step["metadata"]
    step["metadata"] = metadata
