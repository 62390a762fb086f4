"""Finds keys of responses and steps that are probably misnamed.

Without these checks, such responses would be scored as if the agent had said and done nothing.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records.decoding import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TRACES = {"messages": "auto", "choices": "auto", "events": "auto", "resourceSpans": "otlp"}
"""Keys that hold traces of agents, and the formats that read them."""

OTHER_NAMES = {
    "name": ("tool", "tool_name", "function_name", "step_name"),
    "args": ("arguments", "input", "parameters", "kwargs", "tool_input"),
    "output": ("result", "results", "content", "response", "observation", "tool_output"),
}
"""Keys of a step, and the names of the same things in the formats of other programs."""

_NAMES_OF_STEPS = ("actual_steps", "steps", "tool_calls", "trajectory", "intermediate_steps")
_NAMES_OF_ANSWER = ("actual_answer", "answer", "final_answer", "response", "output")

SIMILARITY = 0.85
"""The least similarity, as a ratio of `difflib`, of a misspelt key: one wrong letter of seven."""


def missing_question_id(record: Mapping[str, Any]) -> InvalidRecord:
    """Return the error for a response without a question id, with a hint from its other keys."""
    is_from_trace = "trace_format" in record
    if is_from_trace:
        key = "question_id (--question-id PATH)"
        if record["trace_format"] == "text2sparql":
            key = "qname"
        message = f"its question is not found; add it to the reference set, or give its {key}"
        return InvalidRecord("missing_question_id", message)

    message = "no question_id; every response must name its question"
    for key, value in record.items():
        if _resembles(key, ("question_id", "qid")):
            message += f" (is {key[:64]!r} meant to be question_id?)"
        elif key in TRACES and _is_list_of_objects(value):
            message += f"; {_trace_hint(key)}"
        elif key == "qname":
            message += "; --format text2sparql finds its question by `qname`"
        elif key == "question" and "qname" not in record:
            message += "; --format plain finds its question by `question`"
        elif key == "id":
            message += " (id is the id of the response itself)"
    return InvalidRecord("missing_question_id", message)


def check_is_response(record: Mapping[str, Any]) -> None:
    """Check that a record with a `template_id`, which responses do not have, is a response.

    Raises:
        InvalidRecord: it is a result, or a template of a reference set.
    """
    has_score = "steps_score" in record or "failure" in record
    is_result = "question_text" in record and has_score
    if is_result:
        raise InvalidRecord(
            "not_a_response",
            "this is a result, as it has template_id, question_text and its score; evaluate the "
            "responses that it was made from (aggregate, report and compare read results)",
        )
    is_template = "question_id" not in record and _is_list_of_objects(record.get("questions"))
    if is_template:
        raise InvalidRecord(
            "not_a_response",
            "this is a template of a reference set; the reference set comes first, then the "
            "responses",
        )


def kind_of_no_result(result: Mapping[str, Any]) -> str:
    """Return a message that says what an object is instead of a result, and what to do with it.

    Args:
        result: an object that lacks the id of its template or of its question.

    Returns:
        an empty string if the object is neither a template of a reference set nor a response.
    """
    is_template = _is_list_of_objects(result.get("questions"))
    if is_template:
        return (
            "this is a template of a reference set, not a result; `evaluate` makes results of "
            "responses"
        )
    keys_of_results = {"template_id", "question_text", "steps_score"}
    is_response = "question_id" in result and keys_of_results.isdisjoint(result)
    if is_response:
        return "this is a response, not a result; `evaluate` makes results of responses"
    return ""


def check_keys(record: Mapping[str, Any], unknown: Mapping[str, Any]) -> None:
    """Check that a response does not have its steps or its answer under another key.

    Args:
        record: the response.
        unknown: those of its keys that are not keys of a response, with their values.

    Raises:
        InvalidRecord: an unknown key probably stands for `actual_steps` or `actual_answer`.
    """
    has_steps = "actual_steps" in record
    has_answer_or_error = "actual_answer" in record or "error" in record
    for key, value in unknown.items():
        may_be_steps = not has_steps and _is_list_of_objects(value)
        if may_be_steps:
            if key in TRACES and not has_answer_or_error:
                raise InvalidRecord("invalid_field", _trace_hint(key))
            if _resembles(key, _NAMES_OF_STEPS):
                raise _did_you_mean(key, "actual_steps")
        may_be_answer = isinstance(value, str) and not has_answer_or_error
        if may_be_answer and _resembles(key, _NAMES_OF_ANSWER):
            raise _did_you_mean(key, "actual_answer")


def check_step(step: Mapping[str, Any], place: str) -> None:
    """Check that a step without a name or an output does not have them under another key.

    Args:
        step: the step.
        place: where the step is in its response, for the message of an error.

    Raises:
        InvalidRecord: it has them under another key, or it is a tool call as in messages of
            OpenAI, which has no output yet.
    """
    has_type_of_call = step.get("type") in ("tool_use", "tool_call", "function_call")
    is_call = has_type_of_call or isinstance(step.get("function"), dict)
    if is_call:
        raise InvalidRecord(
            "invalid_field",
            f"{place}: this is a tool call without its result; a step has name, args, status and "
            "output. To convert messages to steps, use response_from_trace or --format auto",
        )
    if step.get("name") is None:
        _check_other_names(step, place, "name")
    if step.get("output") is None and step.get("error") is None:
        _check_other_names(step, place, "output")


def check_args(step: Mapping[str, Any], place: str) -> None:
    """Check the arguments of a step that is compared by its arguments.

    Args:
        step: the step.
        place: where the step is in its response, for the message of an error.

    Raises:
        InvalidRecord: the arguments are text, or under another key.
    """
    args = step.get("args")
    if isinstance(args, str):
        raise InvalidRecord(
            "invalid_field", f"{place}.args: expected an object, got a string; parse it"
        )
    if args is None:
        _check_other_names(step, place, "args")


def _check_other_names(step: Mapping[str, Any], place: str, key: str) -> None:
    """Check that a step does not have the value of a missing key under one of its `OTHER_NAMES`.

    Raises:
        InvalidRecord: it does; the message suggests to rename the key.
    """
    for other_name in OTHER_NAMES[key]:
        if step.get(other_name) is not None:
            raise _did_you_mean(f"{place}.{other_name}", f"{place}.{key}")


def _is_list_of_objects(value: Any) -> bool:
    """Return whether a value is a list that has at least one object, and nothing but objects."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _resembles(key: str, names: Collection[str]) -> bool:
    """Return whether a key equals or nearly equals one of some names."""
    return bool(get_close_matches(key[:64].lower(), names, n=1, cutoff=SIMILARITY))


def _trace_hint(key: str) -> str:
    """Return a hint how to read an agent trace, which is under a key of `TRACES`."""
    name = TRACES[key]
    return f'{key}: looks like an agent trace; to read it, use format="{name}" or --format {name}'


def _did_you_mean(key: str, meant_key: str) -> InvalidRecord:
    return InvalidRecord("invalid_field", f"{key[:200]}: did you mean {meant_key}?")
