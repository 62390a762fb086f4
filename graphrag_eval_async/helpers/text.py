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

NAME_CHARACTERS = 160
"""Maximum length of the name of a template in a table, where it is wrapped."""

SHOWN_CHARACTERS = 2000
"""Maximum length of a line about the input, which may quote a key of any length."""

SUGGESTED_CHARACTERS = 64
"""How much of a mistyped name is compared with the known names: comparing long texts takes long."""

MAX_LISTED = 15
"""How many known names a message lists if it suggests none."""

INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
)
"""Invisible characters that `str.isprintable` accepts: fillers and variation selectors."""


def tell(stream: TextIO | None, text: str) -> None:
    """Print lines to a standard stream, escaped for a terminal.

    Args:
        stream: standard output or standard error. If it is None, as in a process without one, or
            nobody reads it any more, nothing is printed.
        text: the lines.

    Raises:
        OSError: the stream cannot be written, for example since a disk is full.
    """
    if stream is None:
        return
    # A `StringIO` has no encoding.
    encoding = stream.encoding or "utf-8"
    encodable = escape(text).encode(encoding, "backslashreplace").decode(encoding)
    try:
        stream.write(encodable + "\n")
        stream.flush()
    except OSError as error:
        # At exit, the interpreter would write what is left in the buffer, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):
            error.filename = stream.name
            raise


def _python_escape(character: str) -> str:
    """Return a character as in a literal of Python, such as ``\\x1b``."""
    return character.encode("unicode_escape").decode()


def _json_escape(character: str) -> str:
    """Return a character as in a string of JSON, such as ``\\u001b``."""
    if character == "\x7f":
        # `json.dumps` leaves DEL as it is.
        return "\\u007f"
    return json.dumps(character)[1:-1]


def escape(text: str, *, how: Callable[[str], str] = _python_escape) -> str:
    """Return text that is safe on a terminal: with each invisible character spelt out.

    Invisible are control characters (C0, DEL and C1), bidirectional and other format characters,
    separators but for the space, unassigned and private characters, lone surrogates, and
    `INVISIBLE`. Newlines are kept.

    Args:
        text: the text.
        how: spells an invisible character.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    escaped = []
    for character in text:
        is_visible = character.isprintable() and character not in INVISIBLE
        escaped.append(character if is_visible or character == "\n" else how(character))
    return "".join(escaped)


def escape_json(lines: str) -> str:
    """Return lines of JSON that are safe on a terminal and have the same values."""
    return escape(lines, how=_json_escape)


def one_line(text: str, *, limit: int = SHOWN_CHARACTERS) -> str:
    """Return the beginning of a text on one line, escaped for a terminal.

    Args:
        text: the text. It may quote input, with newlines.
        limit: maximum number of characters, before they are escaped.
    """
    lines = [line.strip() for line in text[: limit + 1].split("\n")]
    joined = " ".join(line for line in lines if line)
    if len(joined) > limit:
        joined = joined[:limit] + "..."
    return escape(joined)


def name_cell(name: str) -> str:
    """Return the name of a template on one line, short enough to be wrapped in its column."""
    return one_line(name, limit=NAME_CHARACTERS)


def describe(error: Exception) -> str:
    """Return an exception on one line, escaped for a terminal.

    An error of a configuration or of a reference set has another line for each problem.
    """
    if isinstance(error, ConfigError):
        heading = str(error).partition("\n")[0]
        return "\n  ".join(one_line(line) for line in [heading, *error.problems])
    if isinstance(error, ReferenceDataError):
        return "\n  ".join(one_line(line) for line in [error.headline, *error.first_problems])
    if isinstance(error, OSError) and error.strerror:
        message = error.strerror
        if isinstance(error.filename, str | bytes):
            message = f"{os.fsdecode(error.filename)}: {message}"
        return one_line(message)
    if isinstance(error, GraphragEvalError):
        return one_line(str(error))
    return one_line(f"{type(error).__name__}: {error}")


def percent(level: float) -> str:
    """Return a level between 0 and 1 in percent, with all its digits: 99.9999% is not 100%."""
    digits = f"{Decimal(str(level)) * 100:f}"
    return digits.rstrip("0").rstrip(".") + "%"


def number(value: float) -> str:
    """Return a value with four significant digits, or with all whole digits if they are more."""
    if 1000 <= abs(value) < 1e9:
        return f"{value:.0f}"
    return f"{value:.4g}"


def interval_cell(low: float, high: float) -> str:
    """Return an interval such as ``[0.51, 0.58]``, with a third decimal place if it is narrow."""
    decimals = 2 if high - low >= 0.05 else 3
    return f"[{low:.{decimals}f}, {high:.{decimals}f}]"


def dollars(amount: float | None) -> str:
    """Return an amount of US dollars: to the cent, or with four significant digits if it is small.

    None is an amount that is not known.
    """
    if amount is None:
        return "price not known"
    if amount <= 0:
        return f"${amount:.2f}"
    decimals = max(2, 3 - floor(log10(amount)))
    whole, _, fraction = f"{amount:.{decimals}f}".partition(".")
    # The cents stay, even if they are zeros.
    cents = fraction[:2]
    beyond_cents = fraction[2:].rstrip("0")
    return f"${whole}.{cents}{beyond_cents}"


def counted(number: int, noun: str) -> str:
    """Return a number and its noun in the right form, such as "1,000 results" or "1 result"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def counts(count_by_name: Mapping[Any, int]) -> str:
    """Return counts by name on one line, such as "2 budget, 1 timeout", sorted by name."""
    return ", ".join(f"{count} {name}" for name, count in sorted(count_by_name.items()))


def by_frequency(count_by_name: Mapping[str, int]) -> str:
    """Return counts by name on one line, such as "2 timeout, 1 budget", the largest first.

    Names with equal counts are sorted.
    """
    names = sorted(count_by_name, key=lambda name: (-count_by_name[name], name))
    return ", ".join(f"{count_by_name[name]} {name}" for name in names)


def kind_of_problem(problem: str) -> str:
    """Return a problem of a trace without the place before it and the call in parentheses.

    So equal problems of several calls can be counted together.
    """
    before_call = problem.partition(" (")[0]
    return before_call.rpartition(": ")[2]


def did_you_mean(name: str, known: Collection[str], cutoff: float = 0.6) -> str:
    """Return the end of a message about an unknown name: the most similar known name.

    If none is similar, it lists the first known names.

    Args:
        name: the unknown name.
        known: the known names.
        cutoff: how similar a name must be to be suggested, from 0 to 1, as for `difflib`.
    """
    known_by_folded_name = {known_name.casefold(): known_name for known_name in known}
    folded_name = name[:SUGGESTED_CHARACTERS].casefold()
    similar = get_close_matches(folded_name, known_by_folded_name, n=1, cutoff=cutoff)
    if similar:
        return f"did you mean {known_by_folded_name[similar[0]]}?"
    names_in_words = ", ".join([*known][:MAX_LISTED])
    if len(known) > MAX_LISTED:
        names_in_words += f" and {len(known) - MAX_LISTED} more"
    return f"known: {names_in_words}"
