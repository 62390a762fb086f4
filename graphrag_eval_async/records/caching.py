"""A cache bounded in entries and in bytes, whatever the input."""

from __future__ import annotations

from functools import wraps
from sys import getsizeof
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

F = TypeVar("F", bound="Callable[[Any], Any]")

MOST_BYTES = 4096
"""Maximum size of a cached key. Text that an agent writes may be as long as its line."""


def remember(entries: int) -> Callable[[F], F]:
    """Cache the results of a function of one argument, except None.

    A full cache of `entries` results is cleared. A key is a string, or a tuple that may contain tuples.
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
                        known.clear()  # Thread-safe, unlike removing the oldest.
                    known[key] = found
            return found

        return cast(F, look_up)

    return decorate


def _size(key: Hashable) -> int:
    """Approximate size of a key in bytes. Counting stops beyond `MOST_BYTES`."""
    size, pending = 0, [key]
    while pending and size <= MOST_BYTES:
        part = pending.pop()
        size += getsizeof(part)
        if isinstance(part, tuple):
            pending += part
    return size
