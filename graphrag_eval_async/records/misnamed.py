"""Keys of responses and steps that were probably meant otherwise: as they are, they would score zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records.decoding import InvalidRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_TRACES = {"messages": "auto", "choices": "auto", "events": "auto", "resourceSpans": "otlp"}
"""Keys that hold histories of agents, and the formats that read them."""

_STEPS = ("actual_steps", "steps", "tool_calls", "trajectory", "intermediate_steps")
_ANSWER = ("actual_answer", "answer", "final_answer", "response", "output")
_NAME = ("name", "tool", "tool_name", "function_name", "step_name")
_ARGS = ("args", "arguments", "input", "parameters", "kwargs", "tool_input")
_OUTPUT = ("output", "result", "results", "content", "response", "observation", "tool_output")


def missing_question_id(record: Mapping[str, Any]) -> InvalidRecord:
    """The error of a response without a question id."""
    message = "no question_id; every response names its question"
    if key := next((key for key in record if _resembles(key, ("question_id", "qid"))), None):
        message += f" (did you mean question_id by {key[:64]!r}?)"
    elif key := next((key for key in _TRACES if _is_list_of_objects(record.get(key))), None):
        message += f"; {key} {_hint(key)}"
    elif "id" in record:
        message += " (id is the response's own)"
    return InvalidRecord("missing_question_id", message)


def hint_at_traces(record: Any) -> str:
    """What to do with a record that is a list of messages, as the end of a message; empty if it is none."""
    if _is_list_of_objects(record) and any("role" in each or "type" in each for each in record):
        return '; format="auto", or --format auto, reads histories of agents'
    return ""


def _hint(key: str) -> str:
    format_ = _TRACES[key]
    return f'looks like a trace of an agent: format="{format_}", or --format {format_}, reads it'


def check_keys(record: Mapping[str, Any], unknown: Mapping[str, Any]) -> None:
    """Refuse a response that has its steps or its answer under some other key.

    Raises:
        InvalidRecord: one of its `unknown` keys seems to be meant for another.
    """
    for key, value in unknown.items():
        if key in _TRACES and not {"actual_steps", "actual_answer", "error"} & record.keys():
            _check_no_trace(key, value)
        if "actual_steps" not in record and _is_list_of_objects(value) and _resembles(key, _STEPS):
            raise _meant(key, "actual_steps")
        if (
            "actual_answer" not in record
            and isinstance(value, str)
            and "error" not in record
            and _resembles(key, _ANSWER)
        ):
            raise _meant(key, "actual_answer")


def _check_no_trace(key: str, value: Any) -> None:
    if _is_list_of_objects(value):
        raise InvalidRecord("invalid_field", f"{key}: {_hint(key)}")


def check_step(step: Mapping[str, Any], place: str) -> None:
    """Refuse a step without a name, or without an output, that has it under some other key.

    Raises:
        InvalidRecord: so it is.
    """
    if step.get("name") is None:
        if isinstance(step.get("function"), dict):
            raise InvalidRecord(
                "invalid_field",
                f"{place}.function: this is an OpenAI tool call; a step has name, args, status and output. "
                "response_from_openai, or --format openai, makes steps of messages",
            )
        _check_step_key(step, place, _NAME)
    if step.get("type") in ("tool_use", "tool_call", "function_call"):
        raise InvalidRecord(
            "invalid_field",
            f"{place}: this is the call of a tool, without its result; a step has both. "
            "response_from_trace, or --format auto, makes steps of messages",
        )
    if step.get("output") is None and step.get("error") is None:
        _check_step_key(step, place, _OUTPUT)


def check_args(step: Mapping[str, Any], place: str) -> None:
    """Refuse a step whose arguments count, and are text or under some other key.

    Raises:
        InvalidRecord: so it is.
    """
    args = step.get("args")
    if isinstance(args, str):
        raise InvalidRecord("invalid_field", f"{place}.args: expected an object, got text; decode its JSON")
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
