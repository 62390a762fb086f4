"""Text for people."""

from __future__ import annotations

import os
import re
from decimal import Decimal
from typing import TextIO

from graphrag_eval_async.errors import ConfigError, GraphragEvalError, ReferenceDataError

SHOWN_CHARACTERS = 2000
"""Of one line about the input, which may quote a key of any length."""


def tell(stream: TextIO | None, text: str) -> None:
    """Print lines to a standard stream; one that is closed, or that nobody reads any more, is left alone.

    Raises:
        OSError: it cannot be written for another reason.
    """
    if stream is None:
        return
    try:
        stream.write(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding) + "\n")
        stream.flush()
    except OSError as error:
        # The interpreter would try again at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            error.filename = stream.name
            raise


def one_line(text: str, *, limit: int = SHOWN_CHARACTERS) -> str:
    """For a terminal: what is quoted from the input may hold newlines or escape sequences."""
    text = re.sub(r"\s*\n\s*", " ", text[: limit + 1])
    if len(text) > limit:
        text = text[:limit] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def describe(error: Exception) -> str:
    """An exception in one line; a broken configuration or reference set takes one more for each problem."""
    if isinstance(error, ConfigError | ReferenceDataError):
        return "\n  ".join(map(one_line, [str(error).partition("\n")[0], *error.problems]))
    if isinstance(error, OSError) and error.strerror:
        name = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return one_line(name + error.strerror)
    return one_line(
        str(error) if isinstance(error, GraphragEvalError) else f"{type(error).__name__}: {error}"
    )


def percent(level: float) -> str:
    """A level as it is, to the last digit: 99.9999 % is not 100 %."""
    return f"{Decimal(str(level)) * 100:f}".rstrip("0").rstrip(".") + " %"
