"""Keys of responses and steps that are probably misnamed. Without these checks they would score zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records.decoding import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_TRACES = {"messages": "auto", "choices": "auto", "events": "auto", "resourceSpans": "otlp"}
"""Keys that hold traces of agents, and the formats that read them."""

_STEPS = ("actual_steps", "steps", "tool_calls", "trajectory", "intermediate_steps")
_ANSWER = ("actual_answer", "answer", "final_answer", "response", "output")
_NAME = ("name", "tool", "tool_name", "function_name", "step_name")
_ARGS = ("args", "arguments", "input", "parameters", "kwargs", "tool_input")
_OUTPUT = ("output", "result", "results", "content", "response", "observation", "tool_output")


def missing_question_id(record: Mapping[str, Any]) -> InvalidRecord:
    """The error for a response without a question id."""
    message = "no question_id; every response must name its question"
    if key := next((key for key in record if _resembles(key, ("question_id", "qid"))), None):
        message += f" (is {key[:64]!r} meant to be question_id?)"
    elif key := next((key for key in _TRACES if _is_list_of_objects(record.get(key))), None):
        message += f"; {key} {_hint(key)}"
    elif "id" in record:
        message += " (id is the id of the response itself)"
    return InvalidRecord("missing_question_id", message)


def check_is_response(record: Mapping[str, Any]) -> None:
    """Refuse a record with a `template_id` that is a result, or a template of a reference set."""
    if "question_text" in record and ("steps_score" in record or "failure" in record):
        raise InvalidRecord(
            "not_a_response",
            "this is a result, as it has template_id, question_text and its score; evaluate the responses "
            "that it was made from (aggregate, report and compare read results)",
        )
    if "question_id" not in record and _is_list_of_objects(record.get("questions")):
        raise InvalidRecord(
            "not_a_response",
            "this is a template of a reference set; the reference set comes first, then the responses",
        )


def what_else(result: Mapping[str, Any]) -> str:
    """What a result without a template or question is, if it is no result at all; else ""."""
    if _is_list_of_objects(result.get("questions")):
        return "this is a template of a reference set, not a result; `evaluate` makes results of responses"
    if "question_id" in result and not result.keys() & {"template_id", "question_text", "steps_score"}:
        return "this is a response, not a result; `evaluate` makes results of responses"
    return ""


def hint_at_traces(record: Any) -> str:
    """End of an error message that says how to read a list of messages; empty if `record` is not one."""
    if _is_list_of_objects(record) and any("role" in each or "type" in each for each in record):
        return '; to read agent traces, use format="auto" or --format auto'
    return ""


def _hint(key: str) -> str:
    format_ = _TRACES[key]
    return f'looks like an agent trace; to read it, use format="{format_}" or --format {format_}'


def check_keys(record: Mapping[str, Any], unknown: Mapping[str, Any]) -> None:
    """Refuse a response that probably has its steps or answer under one of its `unknown` keys."""
    for key, value in unknown.items():
        is_unread = key in _TRACES and not {"actual_steps", "actual_answer", "error"} & record.keys()
        if is_unread and _is_list_of_objects(value):
            raise InvalidRecord("invalid_field", f"{key}: {_hint(key)}")
        if "actual_steps" not in record and _is_list_of_objects(value) and _resembles(key, _STEPS):
            raise _meant(key, "actual_steps")
        if (
            "actual_answer" not in record
            and isinstance(value, str)
            and "error" not in record
            and _resembles(key, _ANSWER)
        ):
            raise _meant(key, "actual_answer")


def check_step(step: Mapping[str, Any], place: str) -> None:
    """Refuse a step without a name or output that has a key which is probably a misnamed one."""
    if step.get("name") is None:
        if isinstance(step.get("function"), dict):
            raise InvalidRecord(
                "invalid_field",
                f"{place}.function: this is an OpenAI tool call; a step has name, args, status and output. "
                "To convert messages to steps, use response_from_openai or --format openai",
            )
        _check_step_key(step, place, _NAME)
    if step.get("type") in ("tool_use", "tool_call", "function_call"):
        raise InvalidRecord(
            "invalid_field",
            f"{place}: this is a tool call without its result; a step has both. "
            "To convert messages to steps, use response_from_trace or --format auto",
        )
    if step.get("output") is None and step.get("error") is None:
        _check_step_key(step, place, _OUTPUT)


def check_args(step: Mapping[str, Any], place: str) -> None:
    """Refuse a step, of a kind compared by arguments, whose arguments are text or under another key."""
    args = step.get("args")
    if isinstance(args, str):
        raise InvalidRecord("invalid_field", f"{place}.args: expected an object, got a string; parse it")
    if args is None:
        _check_step_key(step, place, _ARGS)


def _check_step_key(step: Mapping[str, Any], place: str, names: Collection[str]) -> None:
    meant, *others = names
    for key in others:
        if step.get(key) is not None:
            raise _meant(f"{place}.{key}", f"{place}.{meant}")


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _resembles(key: str, names: Collection[str]) -> bool:
    from difflib import get_close_matches  # Takes a millisecond to import, and few responses need it.

    return bool(get_close_matches(key[:64].lower(), names, 1, 0.85))


def _meant(key: str, meant: str) -> InvalidRecord:
    return InvalidRecord("invalid_field", f"{key[:200]}: did you mean {meant}?")
