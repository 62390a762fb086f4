"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re
from typing import Any, cast


class LazyPattern:
    """A regular expression that is compiled when one of its methods is first used.

    Some patterns take milliseconds to compile, and most programs use few of them. From its second
    use on, a method costs no more than that of a compiled pattern.
    """

    def __init__(self, source: str, flags: int) -> None:
        """Keep the arguments of `re.compile`."""
        self._arguments = (source, flags)

    def __getattr__(self, name: str) -> Any:
        """Compile the pattern, and return its attribute of this name.

        Python calls this only for attributes that the object does not have. So the attribute is
        stored, and found without this call from then on.
        """
        # `re` keeps compiled patterns, so that using several methods compiles the pattern once.
        attribute = getattr(re.compile(*self._arguments), name)
        setattr(self, name, attribute)
        return attribute


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern as `re.compile` does, which is compiled when it is first used."""
    return cast("re.Pattern[str]", LazyPattern(source, flags))
