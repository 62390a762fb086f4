"""Keys of responses and steps that are probably misnamed. Without these checks they would score
zero.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records.decoding import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TRACES = {"messages": "auto", "choices": "auto", "events": "auto", "resourceSpans": "otlp"}
"""Keys that hold traces of agents, and the formats that read them."""

_STEPS = ("actual_steps", "steps", "tool_calls", "trajectory", "intermediate_steps")
_ANSWER = ("actual_answer", "answer", "final_answer", "response", "output")
OTHER_NAMES = {
    "name": ("tool", "tool_name", "function_name", "step_name"),
    "args": ("arguments", "input", "parameters", "kwargs", "tool_input"),
    "output": ("result", "results", "content", "response", "observation", "tool_output"),
}
"""Keys of a step, and the names that others give them."""


def missing_question_id(record: Mapping[str, Any]) -> InvalidRecord:
    """The error for a response without a question id."""
    if "trace_format" in record:  # Its keys are of this package.
        key = (
            "qname"
            if record["trace_format"] == "text2sparql"
            else "question_id (--question-id PATH)"
        )
        message = f"its question is not found; add it to the reference set, or give its {key}"
        return InvalidRecord("missing_question_id", message)
    message = "no question_id; every response must name its question"
    for key, value in record.items():
        if _resembles(key, ("question_id", "qid")):
            message += f" (is {key[:64]!r} meant to be question_id?)"
        elif key in TRACES and _is_list_of_objects(value):
            message += f"; {_hint(key)}"
        elif key == "qname" or (key == "question" and "qname" not in record):
            name = "text2sparql" if key == "qname" else "plain"
            message += f"; --format {name} finds its question by `{key}`"
        elif key == "id":
            message += " (id is the id of the response itself)"
    return InvalidRecord("missing_question_id", message)


def check_is_response(record: Mapping[str, Any]) -> None:
    """Refuse a record with a `template_id` that is a result, or a template of a reference set."""
    if "question_text" in record and ("steps_score" in record or "failure" in record):
        raise InvalidRecord(
            "not_a_response",
            "this is a result, as it has template_id, question_text and its score; evaluate the "
            "responses that it was made from (aggregate, report and compare read results)",
        )
    if "question_id" not in record and _is_list_of_objects(record.get("questions")):
        raise InvalidRecord(
            "not_a_response",
            "this is a template of a reference set; the reference set comes first, then the "
            "responses",
        )


def what_else(result: Mapping[str, Any]) -> str:
    """What a result without a template or question is, if it is no result at all; else ""."""
    if _is_list_of_objects(result.get("questions")):
        return (
            "this is a template of a reference set, not a result; `evaluate` makes results of "
            "responses"
        )
    if "question_id" in result and not result.keys() & {
        "template_id",
        "question_text",
        "steps_score",
    }:
        return "this is a response, not a result; `evaluate` makes results of responses"
    return ""


def check_keys(record: Mapping[str, Any], unknown: Mapping[str, Any]) -> None:
    """Refuse a response that probably has its steps or answer under one of its `unknown` keys."""
    has_steps, is_over = "actual_steps" in record, "actual_answer" in record or "error" in record
    for key, value in unknown.items():
        is_list = _is_list_of_objects(value)
        if is_list and key in TRACES and not has_steps and not is_over:
            raise InvalidRecord("invalid_field", _hint(key))
        if is_list and not has_steps and _resembles(key, _STEPS):
            raise _meant(key, "actual_steps")
        if isinstance(value, str) and not is_over and _resembles(key, _ANSWER):
            raise _meant(key, "actual_answer")


def check_step(step: Mapping[str, Any], place: str) -> None:
    """Refuse a step without a name or output that has it under another key, or is a call without
    a result.
    """
    is_call = step.get("type") in ("tool_use", "tool_call", "function_call")
    if is_call or isinstance(step.get("function"), dict):
        raise InvalidRecord(
            "invalid_field",
            f"{place}: this is a tool call without its result; a step has name, args, status and "
            "output. To convert messages to steps, use response_from_trace or --format auto",
        )
    if step.get("name") is None:
        _check_key(step, place, "name")
    if step.get("output") is None and step.get("error") is None:
        _check_key(step, place, "output")


def check_args(step: Mapping[str, Any], place: str) -> None:
    """Refuse a step, of a kind compared by arguments, whose arguments are text or under another
    key.
    """
    if isinstance(args := step.get("args"), str):
        raise InvalidRecord(
            "invalid_field", f"{place}.args: expected an object, got a string; parse it"
        )
    if args is None:
        _check_key(step, place, "args")


def _check_key(step: Mapping[str, Any], place: str, meant: str) -> None:
    for key in OTHER_NAMES[meant]:
        if step.get(key) is not None:
            raise _meant(f"{place}.{key}", f"{place}.{meant}")


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _hint(key: str) -> str:
    name = TRACES[key]
    return f'{key}: looks like an agent trace; to read it, use format="{name}" or --format {name}'


def _resembles(key: str, names: Collection[str]) -> bool:
    return bool(get_close_matches(key[:64].lower(), names, 1, 0.85))


def _meant(key: str, meant: str) -> InvalidRecord:
    return InvalidRecord("invalid_field", f"{key[:200]}: did you mean {meant}?")
