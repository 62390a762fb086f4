"""Text for people."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from difflib import get_close_matches
from math import floor, log10
from typing import TYPE_CHECKING, Any, TextIO

from graphrag_eval_async.errors import ConfigError, GraphragEvalError, ReferenceDataError
from graphrag_eval_async.errors import plural as plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

NAME_CHARACTERS = 160  # of a template's name, which is wrapped
SHOWN_CHARACTERS = 2000  # of one line about the input, which may quote a key of any length

MAX_LISTED = 15
"""How many known names a message lists if it suggests none."""

INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
)
"""Invisible characters that `str.isprintable` accepts: fillers and variation selectors."""


def tell(stream: TextIO | None, text: str) -> None:
    """Print lines to a standard stream; if it is closed or its reader is gone, do nothing."""
    if stream is None:
        return
    try:
        encoding = stream.encoding or "utf-8"  # A `StringIO` has none.
        stream.write(escape(text).encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except OSError as error:
        # The interpreter would try again at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            error.filename = stream.name
            raise


def escape(
    text: str, *, how: Callable[[str], str] = lambda c: c.encode("unicode_escape").decode()
) -> str:
    """Return text that is safe on a terminal: keeps newlines; `how` spells other invisible
    characters.

    These are control characters (C0, DEL and C1), bidirectional and other format characters,
    separators but for the space, unassigned and private characters, lone surrogates, and
    `INVISIBLE`.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(
        c if c == "\n" or (c.isprintable() and c not in INVISIBLE) else how(c) for c in text
    )


def escape_json(lines: str) -> str:
    """Lines of JSON that are safe on a terminal, and still the same JSON."""
    return escape(lines, how=lambda c: json.dumps(c)[1:-1] if c != "\x7f" else "\\u007f")


def one_line(text: str, *, limit: int = SHOWN_CHARACTERS) -> str:
    """The beginning of a text in one line, by `escape`: what it quotes may hold newlines."""
    text = " ".join(filter(None, map(str.strip, text[: limit + 1].split("\n"))))
    if len(text) > limit:
        text = text[:limit] + "..."
    return escape(text)


def name_cell(name: str) -> str:
    """A name on one line, short enough to be folded in its column."""
    return one_line(name, limit=NAME_CHARACTERS)


def describe(error: Exception) -> str:
    """An exception in one line; a broken configuration or reference set adds a line for each
    problem.
    """
    if isinstance(error, ConfigError | ReferenceDataError):
        return "\n  ".join(map(one_line, [str(error).partition("\n")[0], *error.problems]))
    if isinstance(error, OSError) and error.strerror:
        name = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return one_line(name + error.strerror)
    return one_line(
        str(error) if isinstance(error, GraphragEvalError) else f"{type(error).__name__}: {error}"
    )


def percent(level: float) -> str:
    """A level with all its digits: 99.9999% is not 100%."""
    return f"{Decimal(str(level)) * 100:f}".rstrip("0").rstrip(".") + "%"


def number(value: float) -> str:
    """A value in four digits, or the whole ones of a larger one."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def interval_cell(low: float, high: float) -> str:
    """The ends of an interval, with a third digit if it is narrow."""
    digits = 2 if high - low >= 0.05 else 3
    return f"[{low:.{digits}f}, {high:.{digits}f}]"


def dollars(amount: float | None) -> str:
    """An amount in US dollars: to the cent, or to four digits where that is more."""
    if amount is None:
        return "price not known"
    digits = 2 if amount <= 0 else max(2, 3 - floor(log10(amount)))
    whole, _, rest = f"{amount:.{digits}f}".partition(".")
    return f"${whole}.{rest[:2]}{rest[2:].rstrip('0')}"


def counted(number: int, noun: str) -> str:
    """Return a number and its noun in the right form, such as "1,000 results" or "1 result"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def counts(of: Mapping[Any, int]) -> str:
    """Such as "2 budget, 1 timeout", sorted by name."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(of.items()))


def by_frequency(of: Mapping[str, int]) -> str:
    """Do the same, the most frequent first."""
    return ", ".join(
        f"{-rank} {kind}" for rank, kind in sorted((-count, kind) for kind, count in of.items())
    )


def kind_of_problem(problem: str) -> str:
    """A problem of a trace without the name and the id of its call."""
    return problem.partition(" (")[0].rpartition(": ")[2]


def did_you_mean(name: str, known: Collection[str], cutoff: float = 0.6) -> str:
    """End of a message that suggests the known name closest to `name` or, if none is close,
    lists some.
    """
    folded = {each.casefold(): each for each in known}
    if close := get_close_matches(name[:64].casefold(), folded, 1, cutoff):
        return f"did you mean {folded[close[0]]}?"
    more = f" and {len(known) - MAX_LISTED} more" if len(known) > MAX_LISTED else ""
    return f"known: {', '.join([*known][:MAX_LISTED])}{more}"
