"""Powers of ten after a number: million, Mrd., lakh crore, 万, %."""

from __future__ import annotations

import re
from typing import NamedTuple

from graphrag_eval_async.helpers.patterns import lazy_pattern
from graphrag_eval_async.steps.numbers.word_tables import SPACED_SCALES, UNSPACED_SCALES, by_word

MAX_SCALES = 3
"""Maximum number of powers of ten in a row. "5 lakh crore" has two; no real number has more."""

EXPONENTS = by_word(SPACED_SCALES)
"""Exponents of ten by words in lower case that end at a space."""

_UNSPACED_EXPONENTS = by_word(UNSPACED_SCALES)
_SUFFIXES = {"k": 3, "K": 3, "M": 6, "B": 9}  # Directly after the digits: 5 K and 5m are units.
_PERCENT = -2

_CHINESE_UNITS = {"千": "瓦米克伏卡赫帕焦安", "兆": "瓦赫帕焦伏欧歐"}
"""Units with which a power of ten is a prefix: 千瓦 is the kilowatt, 兆瓦 the megawatt."""


def _unspaced_pattern(word: str) -> str:
    """Return a pattern for a word after a number, unless it is the prefix of a unit."""
    units = _CHINESE_UNITS.get(word)
    if units is None:
        return re.escape(word)
    return f"{word}(?![{units}])"


_LONGEST_FIRST = sorted(_UNSPACED_EXPONENTS, key=len, reverse=True)
_SCALE = lazy_pattern(
    r"\*{0,2}[ '-]?\*{0,2}\\?"  # The number may be in bold; LaTeX escapes a percent sign.
    rf"(?:(?P<unspaced>{'|'.join(map(_unspaced_pattern, _LONGEST_FIRST))})"
    r"|(?P<percent>(?:per|por|pour)[ ']ci?ento?(?!\w))"
    r"|(?P<money>[kM](?= ?[€$£]))"
    r"|(?P<word>[^\W\d_]{1,15})(?!\w))",
    re.IGNORECASE,
)


class Scale(NamedTuple):
    """The power of ten that words after a number mean, and where these words end."""

    exponent: int  # 0 if no such word follows.
    end: int


def read_scale(text: str, position: int) -> Scale:
    """Return the power of ten after a number, such as that of "million" or "%".

    Args:
        text: the text of the number.
        position: the end of the number.
    """
    # First, look for a letter directly after the digits, as in 5k.
    suffix = text[position : position + 1]
    following = text[position + 1 : position + 2]
    is_last_letter = not (following.isalnum() or following == "_")
    if suffix in _SUFFIXES and is_last_letter:
        return Scale(_SUFFIXES[suffix], position + 1)

    # Then for words and signs. Several powers, as in "5 lakh crore", are multiplied.
    exponent = 0
    for _ in range(MAX_SCALES):
        match = _SCALE.match(text, position)
        if match is None:
            break
        word_exponent = _exponent(match)
        if word_exponent is None:
            break
        exponent += word_exponent
        position = match.end()
        if word_exponent < 0:
            # No power of ten follows "percent".
            break
    return Scale(exponent, position)


def _exponent(scale: re.Match[str]) -> int | None:
    """Return the exponent of ten of a match of `_SCALE`; None if the word is no power of ten."""
    if scale["unspaced"]:
        return _UNSPACED_EXPONENTS.get(scale["unspaced"])
    if scale["percent"]:
        return _PERCENT
    if scale["money"]:
        return _SUFFIXES.get(scale["money"])
    return EXPONENTS.get(scale["word"].casefold())
