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
        metadata: its unknown keys and their values, which the result has under `metadata`.
        failed: whether the response is an error.
        metrics: names of the metrics that the response itself has, such as its duration.
        numbers: the values of `metrics`, in the same order.
        usable: for each step, its name if it can be compared with a reference step; None if the
            step did not succeed or has no output.
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
    """Read the response in a record; return a reject if it cannot be evaluated.

    Args:
        record: a line, or what stands for a line that could not be read.
        questions: a mapping whose keys are the ids of the questions; or an `AnyQuestion`, if
            responses bring their own questions.
    """
    if not isinstance(record, Line):
        return reject_unread(record)
    try:
        return read_response(record.data, questions, offset=record.offset)
    except InvalidRecord as error:
        is_undecodable = error.reason in ("invalid_utf8", "invalid_json")
        if is_undecodable and not record.whole:
            # The rest of the line may not be written yet, and may make it valid.
            return reject(record, "incomplete", f"no newline yet; so far: {error}")
        is_first_line_of_object = record.data.strip() == b"{"
        if is_first_line_of_object:
            return reject(record, error.reason, _SPANS_LINES)
        return reject(record, error.reason, str(error))


def read_response(
    data: bytes, questions: Mapping[str, Any], decoded: Any = None, *, offset: int = 0
) -> Response:
    """Decode and check one response.

    Args:
        data: the response as JSON text.
        questions: a mapping whose keys are the ids of the questions; or an `AnyQuestion`, if
            responses bring their own questions.
        decoded: the JSON value of `data`, if the caller has decoded it already.
        offset: bytes of the file before the response.

    Raises:
        InvalidRecord: the response cannot be evaluated.
    """
    # Decode it.
    record = load(data, offset=offset) if decoded is None else decoded
    _check_depth(record, data)
    if type(record) is not dict:
        raise _not_an_object(record)
    if "template_id" in record:
        check_is_response(record)

    # Find its question.
    question = None
    if isinstance(questions, AnyQuestion):
        question = question_of(record)
        question_id = question.id
        record = {key: value for key, value in record.items() if key not in _KEYS_OF_QUESTIONS}
    else:
        question_id = _check_question_id(record, questions)

    # Set unknown keys aside.
    metadata = {}
    if not _KNOWN_KEYS.issuperset(record):
        metadata = {key: value for key, value in record.items() if key not in _KNOWN_KEYS}
        check_keys(record, metadata)

    # Remove keys with null, which are the same as missing keys. Most responses have none, and are
    # not copied.
    fields = record
    if None in record.values():
        fields = {key: value for key, value in record.items() if value is not None}

    # Check the values.
    metrics = tuple([key for key in RESOURCES if key in fields])
    numbers = tuple([fields[key] for key in metrics])
    for key, value in zip(metrics, numbers, strict=True):
        # Nearly all values pass this fast check; `_check_resource` says what is wrong with others.
        if type(value) not in _NUMBERS or not 0 <= value < BEYOND_64_BITS:
            _check_resource(key, value)
    _check_texts(fields)
    usable: Sequence[str | None] = ()
    if "actual_steps" in fields:
        usable = check_steps(fields["actual_steps"])
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
    """Check how deep arrays and objects in a record nest.

    Args:
        record: the JSON value of the record.
        data: its JSON text.

    Raises:
        InvalidRecord: they nest more than `MAX_DEPTH` deep.
    """
    # Text with few brackets cannot nest deep. Counting them is faster than walking the values.
    brackets = data.count(b"[") + data.count(b"{")
    if brackets > MAX_DEPTH and nests_deeper(record, MAX_DEPTH):
        raise too_deep()


def _not_an_object(record: Any) -> InvalidRecord:
    """Return the error for a record that is not a JSON object."""
    message = f"expected a JSON object, got {describe(record)}"
    if type(record) is list:
        message += '; agent traces need format="auto" or --format auto'
    return InvalidRecord("not_an_object", message)


def _check_question_id(record: dict[str, Any], questions: Mapping[str, Any]) -> str:
    """Return the id of a response's question.

    Raises:
        InvalidRecord: the response has no such id, or no question has this id.
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
    """Check the types of all fields of a response except its steps and its metrics.

    Raises:
        InvalidRecord: a field has another type.
    """
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
    """Check that the value of a metric of a response, such as its duration, is a number from 0."""
    _check_number(key, value, "a number")
    if value < 0:
        raise _invalid(key, "0 or more", value)


def _check_number(key: str, value: Any, expected: str) -> None:
    """Check that the value under a key is a number of at most 64 bits.

    Args:
        key: the key.
        value: the value.
        expected: what the value should be, for the message of an error, such as "a number".

    Raises:
        InvalidRecord: it is something else.
    """
    is_number = type(value) in _NUMBERS
    is_too_large = type(value) is float and abs(value) >= BEYOND_64_BITS
    if not is_number or is_too_large:
        raise _invalid(key, f"{expected} of at most 64 bits", value)


def _check_status(key: str, value: Any) -> None:
    """Check that the status of a response or of a step is one of the two that there are.

    Raises:
        InvalidRecord: it is something else.
    """
    if value not in ("success", "error"):
        raise _invalid(key, '"success" or "error"', value)


def _invalid(key: str, expected: str, value: Any) -> InvalidRecord:
    """Return the error for a field with another value than what is `expected`, in words."""
    return InvalidRecord("invalid_field", f"{key}: expected {expected}, got {describe(value)}")


def check_steps(steps: Any) -> list[str | None]:
    """Check the steps of a response, and set the status of those that lack it, in place.

    Returns:
        for each step, its name if it can be compared with a reference step, otherwise None.

    Raises:
        InvalidRecord: they are not a list of steps.
    """
    if type(steps) is not list:
        raise _invalid("actual_steps", "an array", steps)
    usable: list[str | None] = []
    for index, step in enumerate(steps):
        # A step that succeeded needs no other check, unless its name says so. Most steps do.
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
    """Check a step of a response, and set its status in place if it lacks one.

    Args:
        step: the step.
        place: where the step is in its response, for the message of an error.

    Returns:
        the name of the step if it can be compared with a reference step, otherwise None.

    Raises:
        InvalidRecord: it is not a step.
    """
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
    if not is_usable:
        return None
    return name


def _status_of(step: Mapping[str, Any]) -> str | None:
    """Return the status of a step without one: it follows from its error or its output.

    Returns:
        None if the step has neither.
    """
    error = step.get("error")
    has_output = step.get("output") is not None
    if has_output and error == "":
        # Some agents write an empty error beside each output, which means that there is none.
        return "success"
    if error is not None:
        return "error"
    if has_output:
        return "success"
    return None


def set_metrics_aside(step: dict[str, Any]) -> None:
    """Move scores that the agent itself gave a retrieval step to the `metadata` of the step.

    There, they are not aggregated as if they were scores of this package.
    """
    scores = [key for key in step if key in _METRICS_OF_RETRIEVAL or key.endswith(COST)]
    if not scores:
        return
    metadata = {key: step.pop(key) for key in scores}
    if "metadata" in step:
        metadata["metadata"] = step["metadata"]
    step["metadata"] = metadata
