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
    """Return a decorator that caches what a function of one argument returns.

    Calls that return None are repeated. So are calls whose argument is longer than
    `MAX_CHARACTERS`, so that the cache stays small.

    Args:
        entries: the number of calls after which the cache starts anew.
    """

    def decorate(function: F) -> F:
        """Return a function that looks up what `function` returned for an equal argument."""
        results: dict[Hashable, Any] = {}

        @wraps(function)
        def look_up(argument: Hashable) -> Any:
            result = results.get(argument)
            if result is not None:
                return result
            result = function(argument)
            is_short = len(repr(argument)) <= MAX_CHARACTERS
            if is_short:
                if len(results) >= entries:
                    # Unlike removing only the oldest entry, this is thread-safe.
                    results.clear()
                results[argument] = result
            return result

        return cast(F, look_up)

    return decorate
