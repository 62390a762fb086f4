"""Numbers in digits: 1,234.5 and 1.234,5, 12,34,567, 2.5e-3, 1/2, 3万5千."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from math import gcd, isfinite
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.helpers.patterns import lazy_pattern
from graphrag_eval_async.steps.numbers.number import (
    ROUNDING,
    Number,
    PlacedNumber,
    Reading,
    number_of_scaled_value,
)
from graphrag_eval_async.steps.numbers.scales import read_scale
from graphrag_eval_async.steps.scripts import HANGUL, WITHOUT_SPACES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_PARTS = 6
"""The most parts of one number that are added, as the two of 3万5千; no real number has more."""

MAX_IMPROPER_DENOMINATOR = 10
"""The largest denominator of a fraction above 1, chosen so that 3/2 and 7/10 are read."""

# A letter or an underscore before a number makes it a part of a name, as in T1; in scripts without
# spaces and in Korean, it is the end of the word before.
_NO_NAME_BEFORE = rf"(?<![^\W{WITHOUT_SPACES}{HANGUL}])(?<![\d.,/^-])(?<!\d:)"
_SIGN = r"(?P<sign>-|(?:minus|moins|menos|meno|минус|мінус)[ ']|负|負|マイナス|마이너스 ?|)"
_FRACTION = (
    r"(?:(?P<whole>\d{1,6})[ ']{1,2})?(?P<numerator>\d{1,3})/(?P<denominator>[1-9]\d{0,2})"
    r"(?![\d/^:_]|[.,-]\d)"
)
_DIGITS = (
    r"(?P<digits>(?>[1-9]\d{0,2}(?:[ ']\d{3}){1,6}(?![ ']?\d)(?:[.,]\d+)?"  # 1 234 567.8
    r"|(?:\d+|(?=\.\d))(?:[.,]\d+)*)(?![-/:^_]\d))"
)
_POWER = r"(?P<power>e[+-]?\d{1,3}(?!\w)|)"

# 3/5/2021, 5:30, 10-15 and 2^3 are no numbers.
_NUMBER = lazy_pattern(
    rf"{_NO_NAME_BEFORE}(?P<text>{_SIGN}(?:{_FRACTION}|{_DIGITS}{_POWER}))", re.IGNORECASE
)
_NEXT_PART = lazy_pattern(
    r"(?:[ '](?:and[ '])?)?(?P<digits>[1-9]\d{0,3}(?:,\d{3})*(?:\.\d+)?)(?![.,]?\d)"
)
_PART_OF_SUM = lazy_pattern(r"\d{1,30}(?:\.\d{1,30})?")
PAGE_CHARACTERS = 12
"""How many characters before a fraction may hold a word such as "page"."""

_PAGE = lazy_pattern(
    r"(?<!\w)(?:pages?|pp?\.|steps?|parts?|slides?|sheet|chapter|batch|question|attempt"
    r"|seite|blatt|schritt|teil|étape|partie|página|paso|parte|pagina|strona|страница) ?\Z",
    re.IGNORECASE,
)
_GOES_ON_AFTER = frozenset("十百千万萬億亿兆만억조천백십")
"""Characters after which digits belong to the same number: 1万2345."""

_GOES_ON_AFTER_SPACE = frozenset("만억조")
"""Korean ones, after which a space may stand: 1만 2345."""

_WITHOUT_SPACES = lazy_pattern(f"[{WITHOUT_SPACES}{HANGUL}]")


class _Style(NamedTuple):
    """A way to write digits, in which one mark groups them and another is the decimal point."""

    pattern: re.Pattern[str]
    group: str
    point: str


def _style(group: str, point: str) -> _Style:
    """Return the style of digits with these marks, grouped by thousands or as in India."""
    decimals = rf"(?:[{point}]\d+)?"
    by_three = rf"[1-9]\d{{0,2}}(?:[{group}]\d{{3}})+{decimals}"
    in_india = rf"[1-9]\d?(?:[{group}]\d\d)+[{group}]\d{{3}}{decimals}"
    return _Style(lazy_pattern(rf"{by_three}|\d+{decimals}|{in_india}"), group, point)


_ENGLISH = _style(group=",", point=".")
_GERMAN = _style(group=".", point=",")


class _Part(NamedTuple):
    """A part of a number that is a sum, as 5千 of 3万5千."""

    digits: str
    exponent: int
    end: int


def numbers_in_digits(text: str) -> Iterator[PlacedNumber]:
    """Yield the numbers of a text that are written in digits, in order.

    Args:
        text: a text that `readable` has returned.
    """
    match = _NUMBER.search(text)
    while match is not None:
        if match["numerator"] is not None:
            scale = read_scale(text, match.end())
            end = scale.end
            if _is_fraction(match) and not _counts_pages(match):
                number = _fraction(match, scale.exponent)
                yield PlacedNumber(match.start(), end, number)
        else:
            parts = _parts(match)
            end = parts[-1].end
            number = _number_of_parts(match, parts)
            if number.readings:
                yield PlacedNumber(match.start(), end, number)
        match = _NUMBER.search(text, end)


def _is_fraction(match: re.Match[str]) -> bool:
    """Return whether two numbers with a slash in between are a fraction, as 1/2 and 3/2 are.

    60/12 and 1985/8 are no fractions: these are two numbers each.
    """
    numerator = int(match["numerator"])
    denominator = int(match["denominator"])
    is_reduced = gcd(numerator, denominator) == 1
    return numerator < denominator or (is_reduced and denominator <= MAX_IMPROPER_DENOMINATOR)


def _counts_pages(match: re.Match[str]) -> bool:
    """Return whether a word such as "page" or "step" stands before a match, as in "page 1/2"."""
    start = max(0, match.start() - PAGE_CHARACTERS)
    return _PAGE.search(match.string, start, match.start()) is not None


def _fraction(match: re.Match[str], exponent: int) -> Number:
    """Return the number of a fraction such as 1/2 or 1 1/2.

    Args:
        match: a match of `_NUMBER` with a numerator.
        exponent: the exponent of the power of ten after the fraction: 6 in "1/2 million".
    """
    value = Fraction(int(match["numerator"]), int(match["denominator"]))
    if match["whole"]:
        value += int(match["whole"])
    if match["sign"]:
        value = -value
    return number_of_scaled_value(match["text"], value, exponent)


def _parts(match: re.Match[str]) -> list[_Part]:
    """Return the parts whose sum a number is, such as 3万 and 5千 of 3万5千; most have one part."""
    scale = read_scale(match.string, match.end())
    parts = [_Part(match["digits"], scale.exponent, scale.end)]
    while parts[-1].exponent > 0 and len(parts) < MAX_PARTS:
        part = _next_part(match.string, parts[-1])
        if part is None:
            break
        parts.append(part)
    return parts


def _next_part(text: str, previous: _Part) -> _Part | None:
    """Return the part of a sum that follows another part; None if none follows.

    The following part has a smaller power of ten than the part before it. It may lack a power only
    if the part before it ends with a character such as 万.
    """
    match = _NEXT_PART.match(text, previous.end)
    if match is None:
        return None
    scale = read_scale(text, match.end())
    part = _Part(match["digits"], scale.exponent, scale.end)
    if 0 < part.exponent < previous.exponent:
        return part
    if part.exponent != 0:
        return None
    last_character = text[previous.end - 1]
    gap = text[previous.end : match.start("digits")]
    if gap == "" and last_character in _GOES_ON_AFTER:
        return part
    if gap == " " and last_character in _GOES_ON_AFTER_SPACE:
        return part
    return None


def _number_of_parts(match: re.Match[str], parts: Sequence[_Part]) -> Number:
    """Return the number of a match of `_NUMBER` that is no fraction, from its parts."""
    is_negative = bool(match["sign"])
    power = int(match["power"][1:]) if match["power"] else 0
    digits = parts[0].digits
    exponent = parts[0].exponent

    # Read the number without and with the power of ten after it.
    unscaled = _readings(digits, power, is_negative=is_negative)
    readings = unscaled
    if len(parts) > 1:
        readings = _readings_of_sum(parts, is_negative=is_negative)
    elif exponent != 0:
        readings = _readings(digits, power + exponent, is_negative=is_negative)
    is_percentage = exponent < 0
    if is_percentage:
        readings += unscaled

    # Letters directly after it, as in 3D, make it uncertain, except where words have no spaces.
    end = match.end("text")
    following = match.string[end : end + 1]
    is_word_end = not following.isalnum() or _WITHOUT_SPACES.match(following) is not None
    return Number(
        text=match["text"],
        readings=readings,
        unscaled=unscaled,
        is_percentage=is_percentage,
        is_sure=exponent != 0 or is_word_end,
    )


def _readings(digits: str, exponent: int, *, is_negative: bool) -> tuple[Reading, ...]:
    """Return the values that digits may have, one in English and one in German: 1.234 has two.

    Args:
        digits: digits with points, commas, spaces and apostrophes. Digits that are not written like
            a number, such as those of a version, have no value.
        exponent: the exponent of the power of ten after the digits.
        is_negative: whether a minus stands before the digits.
    """
    unsigned = digits.replace(" ", "").replace("'", "")
    if unsigned.startswith("."):
        unsigned = f"0{unsigned}"
    sign = "-" if is_negative else ""

    readings = {}
    for style in (_ENGLISH, _GERMAN):
        if style.pattern.fullmatch(unsigned) is None:
            continue
        if style is _GERMAN and unsigned.endswith(",000"):
            # Nobody writes three decimals that are zero, so these are English thousands.
            continue
        plain = unsigned.replace(style.group, "").replace(style.point, ".")
        decimals = len(plain.partition(".")[2])
        # The text with its exponent is read at once: to multiply the value by a power of ten would
        # round it a second time.
        value = float(f"{sign}{plain}e{exponent}")
        if not isfinite(value):
            continue

        # A number may stand for all that differ from it by less than half a unit of its last digit.
        # Whole numbers of one digit do not: 3 does not stand for 2.51.
        unit = float(f"1e{exponent - decimals}")
        min_rounded = 0.0
        if decimals == 0:
            min_rounded = 10 * unit
        readings[value] = Reading(value, half_unit=unit / 2 * ROUNDING, min_rounded=min_rounded)
    return tuple(readings.values())


def _readings_of_sum(parts: Sequence[_Part], *, is_negative: bool) -> tuple[Reading, ...]:
    """Return the value of a number that is a sum, such as 1億2,580万.

    Its parts are written as in English, with commas between groups of digits. If a part is written
    in another way, the tuple is empty.
    """
    total = Decimal(0)
    for part in parts:
        plain = part.digits.replace(",", "")
        if _PART_OF_SUM.fullmatch(plain) is None:
            return ()
        total += Decimal(f"{plain}e{part.exponent}")
    if is_negative:
        total = -total
    unit = 10.0 ** parts[-1].exponent
    return (Reading(float(total), half_unit=unit / 2 * ROUNDING, min_rounded=0.0),)
