"""Refuses histories with calls or results that no reader would find, and that would score without.

The keys and kinds of calls and results have "tool" or "function" in their names in all formats. If
no reader knows such a key or kind, the history has another format, or one of a newer version.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.traces.plain import (
    decode_object_or_list,
    describe_keys,
    dict_at,
    first_value,
)

if TYPE_CHECKING:
    from collections.abc import Collection

_MESSAGE_KEYS = frozenset(
    {
        "tool_calls",
        "invalid_tool_calls",
        "tool_call_chunks",  # The same calls, as LangChain streams them.
        "function_call",
        "tool_call_id",
        "tool_name",
        "tool_args",  # Agno repeats the arguments in the result.
        "tool_plan",  # What Cohere's model thinks before its calls.
        # What a request offers to the model.
        "tools",
        "tool_choice",
        "functions",
    }
)
"""Keys of messages that look like calls, and that the readers of messages know."""

_TEXT_ROLES = ("user", "human", "assistant", "ai", "system")
"""Roles of messages of a conversation that are text."""

_NAME_KEYS = {"name", "tool", "tool_name", "toolName", "function", "action"}
_RESULT_KEYS = {"result", "output", "response", "observation"}
"""Keys of an object that is a call with its result: of its name, and of its result."""

_RESULT_ROLES = ("tool", "function")
"""Roles of messages that hold the result of a tool."""

_LISTED_KEYS = 10
"""How many keys of a call without a name an error lists."""

_KEY_CHARACTERS = 50
"""How many characters of a key an error shows."""

_find_call_word = re.compile(r"tool|function", re.IGNORECASE).search

_find_list_of_calls = re.compile(
    # toolCalls, function_responses and the like; also intermediate_steps and actions.
    r"(tool|function)_?(calls|uses|results|responses|invocations)$|steps$|actions$",
    re.IGNORECASE,
).search


_find_capital_in_word = re.compile(r"(?<=[a-z])(?=[A-Z])")

_find_log = re.compile(
    # Also with a word before it, such as agent_trajectory, tool_runs or child_spans.
    r"(^|_)(trajector(y|ies)|spans?|runs?|observations?|events?|history|traces?"
    r"|logs?|transcripts?|messages|turns|invocations|executions|calls|thoughts|scratchpad)$"
).search


@lru_cache(maxsize=1024)  # Most messages have the same few keys.
def _looks_like_call_word(name: str) -> bool:
    """Return whether a key, kind or role has "tool" or "function" in it."""
    return _find_call_word(name) is not None


@lru_cache(maxsize=1024)
def _looks_like_list_of_calls(key: str) -> bool:
    """Return whether a key is like ``tool_results`` or ``steps``, which hold lists of calls."""
    return _find_list_of_calls(key) is not None


@lru_cache(maxsize=1024)
def _looks_like_log(key: str) -> bool:
    """Return whether a key is like ``trajectory`` or ``tool_runs``, which hold logs of a run."""
    # agentHistory is the same as agent_history, but "returns" has no word "turns".
    words = _find_capital_in_word.sub("_", key).lower()
    return _find_log(words) is not None


def check_keys(
    value: dict[str, Any], known: Collection[str], *, place: str, looked_for: str
) -> None:
    """Check that no key or kind of an object looks like a call that cannot be read.

    Args:
        value: a message, or a block of a message.
        known: keys and kinds that look like calls, but can be read or are not needed.
        place: where the object stands, for the error.
        looked_for: formats that were looked for, for the error.

    Raises:
        TraceError: a key with a value, or the kind, looks like a call and is not in `known`.
    """
    for key, field in value.items():
        # A boolean is a mark, such as Agno's ``stop_after_tool_call``, and no call.
        may_be_call = field not in (None, [], {}, "") and not isinstance(field, bool)
        if may_be_call and key not in known and _looks_like_call_word(key):
            raise TraceError(
                f"{place} has the key {key!r}, which is neither a call nor a result in {looked_for}"
            )
    kind = first_value(value, "type", "part_kind")
    if isinstance(kind, str) and kind not in known and _looks_like_call_word(kind):
        raise TraceError(
            f"{place} has the type {kind!r}, which is neither a call nor a result in {looked_for}"
        )


def check_holder(
    holder: dict[str, Any], holder_keys: Collection[str], *, is_question_and_answer: bool
) -> None:
    """Check that an object has no calls beside the history that it holds.

    This is for histories in which no call was found, since their calls may be there.

    Args:
        holder: the object.
        holder_keys: the keys at which the history was read.
        is_question_and_answer: whether the history is only a question and the text of an answer.
            Then the calls may also be in a log of the run, such as ``trajectory`` or ``events``,
            which other objects may have beside their messages.

    Raises:
        TraceError: another key looks like that of calls, or has a list of them.
    """
    for key, value in holder.items():
        if key in holder_keys:
            continue
        is_filled_list = isinstance(value, list) and bool(value)
        has_calls = is_filled_list and _looks_like_list_of_calls(key)
        if is_question_and_answer and _looks_like_log(key):
            has_calls = has_calls or _may_be_log(value)
        if has_calls or _has_item_like_call(key, value):
            raise TraceError(
                f"its history has no calls, but it has the key {key!r}, which no format has beside "
                "a history"
            )


def _may_be_log(value: Any) -> bool:
    """Return whether a value may be the log of a run, with calls in it.

    A conversation of texts is no such log, and neither are the ids of what is stored elsewhere.
    """
    if isinstance(value, dict):
        holds_objects = any(isinstance(child, dict | list) for child in value.values())
        return holds_objects or any(_looks_like_call_word(key) for key in value)
    if not isinstance(value, list):
        return False
    objects = [item for item in value if isinstance(item, dict | list)]
    return not all(_is_text_message(item) for item in objects)


def _is_text_message(value: Any) -> bool:
    """Return whether a value is a message with a text and without calls, in the usual form.

    The role is at ``role``, or at ``type`` as LangChain has it.
    """
    if not isinstance(value, dict) or not isinstance(value.get("content"), str):
        return False
    if first_value(value, "role", "type") not in _TEXT_ROLES:
        return False
    return not any(child for key, child in value.items() if _looks_like_call_word(key))


def _has_item_like_call(key: str, value: Any) -> bool:
    """Return whether a value is a list with an object that looks like a call.

    Args:
        key: the key at which the list is. The tools that a request offers are no calls, although
            they name a tool; they have no result.
        value: the value at that key.
    """
    if not isinstance(value, list):
        return False
    is_like_call = looks_like_call
    if key in _MESSAGE_KEYS:
        is_like_call = _has_name_and_result
    return any(isinstance(item, dict) and is_like_call(item) for item in value)


def looks_like_call(value: dict[str, Any]) -> bool:
    """Return whether an object names a tool in its keys or its type, or has a name and a result."""
    if _has_name_and_result(value) or _looks_like_call_word(str(value.get("type"))):
        return True
    for key, field in value.items():
        # A boolean is a mark, and no call.
        if _looks_like_call_word(key) and key not in _MESSAGE_KEYS and not isinstance(field, bool):
            return True
    return False


def _has_name_and_result(value: dict[str, Any]) -> bool:
    """Return whether an object has the name of something that was called, and what it returned."""
    return not _NAME_KEYS.isdisjoint(value) and not _RESULT_KEYS.isdisjoint(value)


def check_message(message: dict[str, Any], *, place: str, looked_for: str) -> None:
    """Check that all calls and results at the keys of a message can be read and paired.

    The blocks in the message's content are not checked: call `check_keys` for each of them.

    Args:
        message: a message without an envelope.
        place: where the message stands, for the error.
        looked_for: formats that were looked for, for the error.

    Raises:
        TraceError: a key or kind is unknown, a call has no name, or a result has no content.
    """
    # The type of a message is a role, such as LangChain's "tool", and never an unknown call.
    known = _MESSAGE_KEYS
    message_type = message.get("type")
    if isinstance(message_type, str):
        known = _MESSAGE_KEYS | {message_type}
    check_keys(message, known, place=place, looked_for=looked_for)
    _check_role(message, place=place, looked_for=looked_for)

    # Lists of calls may also have keys without "tool" or "function" in them, such as ``actions``.
    for key, value in message.items():
        is_filled_list = isinstance(value, list) and bool(value)
        if is_filled_list and key not in known and _looks_like_list_of_calls(key):
            raise TraceError(
                f"{place} has the key {key!r}, which is neither a call nor a result in {looked_for}"
            )

    # Each call needs a name, and each result a content.
    for key in ("tool_calls", "invalid_tool_calls"):
        _check_listed_calls(message, key, place=place, looked_for=looked_for)

    has_content = "content" in message or "parts" in message
    if message.get("role") == "tool" and not has_content:
        raise TraceError(
            f"{place} is the result of a tool without the key 'content', which results have in "
            f"{looked_for}"
        )


def _check_role(message: dict[str, Any], *, place: str, looked_for: str) -> None:
    """Check that the role of a message is not an unknown word for a call or result.

    Raises:
        TraceError: the role contains "tool" or "function", and is neither of the two itself.
    """
    role = message.get("role")
    if isinstance(role, str) and role not in _RESULT_ROLES and _looks_like_call_word(role):
        raise TraceError(
            f"{place} has the role {role!r}, which is neither a call nor a result in {looked_for}"
        )


def _check_listed_calls(message: dict[str, Any], key: str, *, place: str, looked_for: str) -> None:
    """Check that the value at a key of a message is a list of calls with names.

    A missing or empty value is fine.

    Raises:
        TraceError: the value is no list, or a call has no name.
    """
    calls = decode_object_or_list(message.get(key))
    if not calls:
        return
    if not isinstance(calls, list):
        raise TraceError(
            f"{place} has no list at {key!r}, where calls are in {looked_for}: "
            f"{describe_keys(calls)}"
        )
    for call in calls:
        if isinstance(call, dict):
            _check_name(call, key, place=place, looked_for=looked_for)


def _check_name(value: dict[str, Any], key: str, *, place: str, looked_for: str) -> None:
    """Check that one of the calls in the list at a key of a message has a name.

    Raises:
        TraceError: the call has no name.
    """
    call = dict_at(value, "tool_call") or value  # OpenInference wraps each call.
    holders_of_name = (call, dict_at(call, "function"), dict_at(call, "custom"))
    if any(holder.get("name") is not None for holder in holders_of_name):
        return

    names = [repr(name[:_KEY_CHARACTERS]) for name in list(call)[:_LISTED_KEYS]]
    keys = ", ".join(names) or "no keys"
    raise TraceError(
        f"{place} has a call in {key!r} without a name, which calls have at 'function.name' or "
        f"'name' in {looked_for}; it has {keys}"
    )
