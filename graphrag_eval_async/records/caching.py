"""A cache bounded in entries and in bytes, whatever input its keys are made of."""

from __future__ import annotations

from functools import wraps
from sys import getsizeof
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

F = TypeVar("F", bound="Callable[[Any], Any]")

MOST_BYTES = 4096
"""The size of the largest key that is kept. What an agent writes may be as long as its line."""


def remember(entries: int) -> Callable[[F], F]:
    """Make a function of one argument remember its last results, which are not None.

    Forgets them all when there are `entries`. A key is a string, or a tuple that may hold more of them.
    """

    def decorate(function: F) -> F:
        known: dict[Hashable, Any] = {}

        @wraps(function)
        def look_up(key: Hashable) -> Any:
            found = known.get(key)
            if found is None:
                found = function(key)
                if _size(key) <= MOST_BYTES:
                    if len(known) >= entries:
                        known.clear()  # Safe beside other threads, as removing the oldest is not.
                    known[key] = found
            return found

        return cast(F, look_up)

    return decorate


def _size(key: Hashable) -> int:
    """About how many bytes a key takes; beyond `MOST_BYTES` it need not be exact."""
    size, pending = 0, [key]
    while pending and size <= MOST_BYTES:
        part = pending.pop()
        size += getsizeof(part)
        if isinstance(part, tuple):
            pending += part
    return size
