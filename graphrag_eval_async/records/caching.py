"""A cache bounded in entries and in bytes, whatever the input."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

F = TypeVar("F", bound="Callable[[Any], Any]")

MAX_CHARACTERS = 4096
"""Maximum length of a cached key, as `repr`. Text that an agent writes may be as long as its
line.
"""


def remember(entries: int) -> Callable[[F], F]:
    """Cache the results of a function of one argument, except None. A full cache is cleared."""

    def decorate(function: F) -> F:
        known: dict[Hashable, Any] = {}

        @wraps(function)
        def look_up(key: Hashable) -> Any:
            found = known.get(key)
            if found is None:
                found = function(key)
                if len(repr(key)) <= MAX_CHARACTERS:
                    if len(known) >= entries:
                        known.clear()  # Thread-safe, unlike removing the oldest.
                    known[key] = found
            return found

        return cast(F, look_up)

    return decorate
