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
    """Return a decorator that caches the results of a function of one argument, except None."""

    def decorate(function: F) -> F:
        results: dict[Hashable, Any] = {}

        @wraps(function)
        def look_up(argument: Hashable) -> Any:
            result = results.get(argument)
            if result is not None:
                return result
            result = function(argument)
            if len(repr(argument)) <= MAX_CHARACTERS:
                if len(results) >= entries:
                    results.clear()  # Thread-safe, unlike removing the oldest.
                results[argument] = result
            return result

        return cast(F, look_up)

    return decorate
