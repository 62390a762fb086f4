"""Reading of numbers in prose: 1,234.5 and 1.234,5, 2.5e-3, 1.5 million, 45 %, three."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS = (
    "zero",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_VALUES = dict(zip(_WORDS, ("0", *map(str, range(2, 13))), strict=True))
_SCALES = {
    **dict.fromkeys(("thousand", "tausend", "tsd"), 3),
    **dict.fromkeys(("million", "millions", "millionen", "mio", "mln"), 6),
    **dict.fromkeys(("billion", "billions", "bn", "milliarde", "milliarden", "mrd"), 9),
    **dict.fromkeys(("trillion", "trillions", "billionen"), 12),
    **dict.fromkeys(("%", "percent", "prozent"), -2),
}
"""Powers of ten by the word after a number. Billions are those of English."""
_SUFFIXES = {"k": 3, "K": 3, "M": 6, "B": 9}  # Directly after the digits: 5 K and 5m are units.

# Dashes and minus signs as hyphens; thousands separators as apostrophes, if they keep a line
# together.
_SIGNS = str.maketrans("\u2010\u2011\u2013\u2212\u2019\u00a0\u2009\u202f", "----''''")
_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_POWER = re.compile(r"[ ']?[x*\u00d7·][ ']?10(?:\^(-?\d{1,3})|([⁻⁰¹²³⁴-⁹]{1,4}))")
_NUMBER = re.compile(  # 5/6, 3/5/2021, 5:30, 10-15 and 2^3 are no numbers.
    r"(?<![\w.,/^-])(?<!\d:)(?P<text>(?P<sign>-|minus[ ']|)(?:(?P<digits>(?>"
    r"[1-9]\d{0,2}(?:[ ']\d{3}){1,6}(?![ "
    r"']?\d)(?:[.,]\d+)?|(?:\d+|(?=\.\d))(?:[.,]\d+)*)(?![-/:^_]\d))"
    rf"(?P<power>e[+-]?\d{{1,3}}(?!\w)|)|(?P<word>{'|'.join(_WORDS)})(?![\w-])))(?![ -]hundred)"
    r"(?P<unit>(?>\*{0,2}[ '-]?\*{0,2}(?:%|[^\W\d_]{1,12}(?!\w))|))",
    re.IGNORECASE,
)
_STYLES = [  # English, German.
    (
        re.compile(rf"[1-9]\d{{0,2}}(?:[{group}]\d{{3}})+(?:[{point}]\d+)?|\d+(?:[{point}]\d+)?"),
        group,
        point,
    )
    for group, point in (",.", ".,")
]


class Reading(NamedTuple):
    """A value that a number may have, and what rounds to it."""

    value: float  # Finite.
    half: float  # Half a unit of its last digit.
    least: float  # The minimum of what rounds to it: a whole number has two digits for that.


class Number(NamedTuple):
    """A number in a text."""

    text: str  # As it is written, without what follows it.
    readings: tuple[Reading, ...]  # 12.345 and 12,345 may be German; 45 % is both 45 and 0.45.
    unscaled: tuple[Reading, ...]  # Without the word after it: 1.5 of 1.5 million.
    is_percentage: bool
    is_sure: bool  # Whether it is not written as a word, and no letters follow at once, as in 3D.

    def pairs(self, other: Number) -> Iterator[tuple[float, float]]:
        """Yield the values of both to compare: 45 % may be 45 or 0.45, but 1 % is not 100 %."""
        alike = self.is_percentage and other.is_percentage
        mine, others = ((each.unscaled if alike else each.readings) for each in (self, other))
        return ((a.value, b.value) for a in mine for b in others)


def numbers_in(text: str) -> list[Number]:
    """Numbers of a text in order, without those of dates, times, versions, fractions, ranges,
    names.
    """
    text = _POWER.sub(
        lambda found: "e" + (found[1] or found[2].translate(_SUPERSCRIPTS)), text.translate(_SIGNS)
    )
    return [number for match in _NUMBER.finditer(text) if (number := _number(match)).readings]


def _number(match: re.Match[str]) -> Number:
    text, sign, digits, power, word, unit = match.group(
        "text", "sign", "digits", "power", "word", "unit"
    )
    scale = _SUFFIXES.get(unit) or _SCALES.get(unit.strip(" '*-").lower(), 0)
    exponent, is_negative = (int(power[1:]) if power else 0), bool(sign)
    digits = digits if word is None else _VALUES[word.lower()]
    unscaled = _readings(digits, exponent, is_negative)
    scaled = _readings(digits, exponent + scale, is_negative) if scale else unscaled
    is_sure = word is None and (scale != 0 or not match.string[match.end("text") :][:1].isalnum())
    return Number(text, scaled + unscaled if scale < 0 else scaled, unscaled, scale < 0, is_sure)


def _readings(digits: str, exponent: int, is_negative: bool) -> tuple[Reading, ...]:
    """Read digits as English and as German numbers; versions and the like have no reading."""
    unsigned, readings = re.sub("[ ']", "", digits), {}
    unsigned = f"0{unsigned}" if unsigned.startswith(".") else unsigned
    for style, group, point in _STYLES:
        if style.fullmatch(unsigned) and not (point == "," and unsigned.endswith(",000")):
            plain = unsigned.replace(group, "").replace(point, ".")
            decimals = len(plain.partition(".")[2])
            value = float(f"{'-' * is_negative}{plain}e{exponent}")  # A product would round twice.
            unit = float(f"1e{exponent - decimals}")
            if isfinite(value):
                readings[value] = Reading(
                    value, unit / 2 * (1 + 1e-9), 0.0 if decimals else 10 * unit
                )
    return tuple(readings.values())
