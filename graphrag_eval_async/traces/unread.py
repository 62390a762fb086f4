"""Refuses histories with calls or results that no reader would find, so that none scores without.

Formats tell calls and results by keys and kinds with "tool" or "function" in their names. One that
no reader knows means that the history is of another format, or of a newer version.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.traces.plain import dict_at, first, shown, structure

if TYPE_CHECKING:
    from collections.abc import Iterable

_find_call_word = re.compile(r"tool|function", re.IGNORECASE).search

_KNOWN_KEYS = frozenset(
    {
        "tool_calls",
        "invalid_tool_calls",
        "tool_call_chunks",  # The same calls, as LangChain streams them.
        "function_call",
        "tool_call_id",
        "tool_name",
        "tool_plan",  # What Cohere's model thinks before its calls.
        # What a request offers to the model.
        "tools",
        "tool_choice",
        "functions",
    }
)
"""Keys of messages that the readers of messages know, or that have no calls."""


@lru_cache(maxsize=1024)  # Most messages have the same few keys.
def _is_call_like(name: str) -> bool:
    return _find_call_word(name) is not None


@lru_cache(maxsize=1024)
def _is_list_of_calls(key: str) -> bool:
    return _find_list_of_calls(key) is not None


def check_keys(
    value: dict[str, Any], known: frozenset[str], *, place: str, looked_for: str
) -> None:
    """Check that no key or kind of an object looks like a call, apart from known ones.

    Raises:
        TraceError: one does.
    """
    for key, inner in value.items():
        if _is_call_like(key) and key not in known and inner not in (None, [], {}, ""):
            raise TraceError(
                f"{place} has the key {key!r}, which is neither a call nor a result in {looked_for}"
            )
    kind = first(value, "type", "part_kind")
    if isinstance(kind, str) and _is_call_like(kind) and kind not in known:
        raise TraceError(
            f"{place} has the type {kind!r}, which is neither a call nor a result in {looked_for}"
        )


_find_list_of_calls = re.compile(
    r"(tool|function)_?(calls|uses|results|responses|invocations)$|steps$|actions$", re.IGNORECASE
).search


def check_holder(holder: dict[str, Any], read_keys: Iterable[str]) -> None:
    """Check that an object that holds a history without calls has none beside it.

    Raises:
        TraceError: a key that is not among `read_keys` has what looks like a list of calls.
    """
    for key, value in holder.items():
        if key not in read_keys and _is_list_of_calls(key) and isinstance(value, list) and value:
            raise TraceError(
                f"its history has no calls, but it has the key {key!r}, which no format has beside "
                "a history"
            )


def check_message(message: dict[str, Any], *, place: str, looked_for: str) -> None:
    """Check that all calls and results of a message can be read and paired.

    `message` has no envelope. Blocks of its content are checked by `check_keys`.

    Raises:
        TraceError: a key or kind is unknown, a call has no name, or a result has no content.
    """
    kind = message.get("type")
    known = _KNOWN_KEYS
    if isinstance(kind, str):
        known |= {kind}  # Those of messages are roles.
    check_keys(message, known, place=place, looked_for=looked_for)

    role = message.get("role")
    if isinstance(role, str) and _is_call_like(role) and role not in ("tool", "function"):
        raise TraceError(
            f"{place} has the role {role!r}, which is neither a call nor a result in {looked_for}"
        )

    for key, value in message.items():
        if _is_list_of_calls(key) and key not in known and isinstance(value, list) and value:
            raise TraceError(
                f"{place} has the key {key!r}, which is neither a call nor a result in {looked_for}"
            )

    for key in ("tool_calls", "invalid_tool_calls"):
        calls = structure(message.get(key))
        if calls and not isinstance(calls, list):
            raise TraceError(
                f"{place} has no list at {key!r}, where calls are in {looked_for}: {shown(calls)}"
            )
        for call in calls or []:
            if isinstance(call, dict):
                _check_name(call, key, place=place, looked_for=looked_for)

    is_result = message.get("role") == "tool"
    if is_result and message.keys().isdisjoint({"content", "parts"}):
        raise TraceError(
            f"{place} is the result of a tool without the key 'content', which results have in "
            f"{looked_for}"
        )


def _check_name(call: dict[str, Any], key: str, *, place: str, looked_for: str) -> None:
    inner = dict_at(call, "tool_call") or call
    named = (inner, dict_at(inner, "function"), dict_at(inner, "custom"))
    if all(value.get("name") is None for value in named):
        keys = ", ".join(repr(name[:50]) for name in list(inner)[:10]) or "no keys"
        raise TraceError(
            f"{place} has a call in {key!r} without a name, which calls have at 'function.name' or "
            f"'name' in {looked_for}; it has {keys}"
        )
