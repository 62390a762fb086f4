"""Numbers of Chinese characters, which Japanese uses, too: 三百二十五, 百分之五, 三分之一."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from graphrag_eval_async.steps.numbers.number import (
    Number,
    PlacedNumber,
    number_of_scaled_value,
    number_of_value,
)
from graphrag_eval_async.steps.numbers.word_tables import CJK_DIGITS, CJK_SCALES
from graphrag_eval_async.steps.scripts import CHINESE_NUMERALS

if TYPE_CHECKING:
    from collections.abc import Iterator

# The lengths are limited, since no real number is longer.
_NUMBER = re.compile(
    rf"(?<![{CHINESE_NUMERALS}\d.点點])(?P<sign>[负負]?)(?P<numerals>[{CHINESE_NUMERALS}]{{1,30}})"
)
_FRACTION = re.compile(
    f"(?P<denominator>[{CHINESE_NUMERALS}]{{1,9}})分之"
    rf"(?:(?P<numerator>[{CHINESE_NUMERALS}]{{1,9}})|(?P<digits>\d{{1,9}}(?:\.\d{{1,9}})?))"
)
_DECIMAL = re.compile(
    rf"(?<![{CHINESE_NUMERALS}])(?P<whole>[{CHINESE_NUMERALS}]{{1,9}})[点點]"
    rf"(?P<decimals>[{''.join(CJK_DIGITS)}]{{1,15}})(?P<power>[{''.join(CJK_SCALES)}]{{0,2}})"
    "(?![分刻半])"  # 三点五分 is a time.
)
_HALF = re.compile(
    rf"(?<![{CHINESE_NUMERALS}])(?:(?P<one>一半)|(?P<whole>[{CHINESE_NUMERALS}]{{1,9}})[个個]半)"
)
_DIGIT_AFTER_POWER = re.compile(rf"[百千万萬億亿][{''.join(CJK_DIGITS)}]\Z")
_PERCENT = 100


def numbers_in_chinese(text: str) -> Iterator[PlacedNumber]:
    """Yield the fractions and decimals of a text, and then its numbers of several characters."""
    if text.isascii():
        return
    for pattern, read in ((_FRACTION, _fraction), (_DECIMAL, _decimal), (_HALF, _half)):
        for match in pattern.finditer(text):
            number = read(match)
            if number is not None:
                yield PlacedNumber(match.start(), match.end(), number)
    for match in _NUMBER.finditer(text):
        number = _whole_number(match)
        if number is not None and len(match["numerals"]) > 1:
            yield PlacedNumber(match.start(), match.end(), number)


def single_numerals(text: str) -> list[Number]:
    """Return the numbers that are a single character.

    Such a character is also a part of many words, as 一 is of 统一.
    """
    numbers = []
    for match in _NUMBER.finditer(text):
        number = _whole_number(match)
        if number is not None and len(match["numerals"]) == 1:
            numbers.append(number)
    return numbers


def _whole_number(match: re.Match[str]) -> Number | None:
    """Return the number of a match of `_NUMBER`; None if its characters are no number.

    A digit after a power of ten counts in two ways: 二百五 is 250 in Chinese, and 205 in Japanese.
    """
    numerals = match["numerals"]
    value = _value(numerals)
    if value is None:
        return None
    sign = -1 if match["sign"] else 1
    number = number_of_value(match[0], Fraction(sign * value))
    if _DIGIT_AFTER_POWER.search(numerals):
        digit = CJK_DIGITS[numerals[-1]]
        power = 10 ** CJK_SCALES[numerals[-2]]
        chinese_value = Fraction(sign * (value - digit + digit * power // 10))
        other = number_of_value(match[0], chinese_value)
        readings = number.readings + other.readings
        number = number._replace(readings=readings, unscaled=readings)
    return number


def _decimal(match: re.Match[str]) -> Number | None:
    """Return the number of a match of `_DECIMAL`, such as 一点五万; None if it is no number."""
    whole = _value(match["whole"])
    if whole is None:
        return None
    decimals = match["decimals"]
    numerator = int("".join(str(CJK_DIGITS[numeral]) for numeral in decimals))
    exponent = sum(CJK_SCALES[numeral] for numeral in match["power"])
    value = whole + Fraction(numerator, 10 ** len(decimals))
    return number_of_scaled_value(match[0], value, exponent)


def _half(match: re.Match[str]) -> Number | None:
    """Return the number of a match of `_HALF`: 0.5 for 一半, and 2.5 for 两个半."""
    whole = 0 if match["one"] else _value(match["whole"])
    if whole is None:
        return None
    return number_of_value(match[0], whole + Fraction(1, 2))


def _fraction(match: re.Match[str]) -> Number | None:
    """Return the number of a match of `_FRACTION`, such as 百分之五; None if it is no number."""
    numerals = match["denominator"]
    # Elsewhere, 万 alone is no number.
    denominator = 10_000 if numerals in ("万", "萬") else _value(numerals)
    if not denominator:
        return None
    if match["digits"]:
        numerator = Fraction(match["digits"])
    else:
        numerator = Fraction(_value(match["numerator"]) or 0)
    if denominator == _PERCENT:
        return number_of_scaled_value(match[0], numerator, exponent=-2)
    return number_of_value(match[0], numerator / denominator)


def _value(numerals: str) -> int | None:
    """Return the value of numerals; None for words that only look like a number: 万一."""
    if numerals == "千万":
        return None  # "By all means".
    if not CJK_SCALES.keys().isdisjoint(numerals):
        return _value_with_powers(numerals)
    has_zero = "〇" in numerals or "零" in numerals
    if len(numerals) == 2 and not has_zero:
        return None  # 二三 is "two or three".
    return int("".join(str(CJK_DIGITS[numeral]) for numeral in numerals))


def _value_with_powers(numerals: str) -> int | None:
    """Return the value of numerals of which some are powers of ten, such as 三百二十五.

    Returns:
        None if they are no number.
    """
    total = 0  # The sum of the parts that 万 or a larger power has multiplied.
    below_10_000 = 0  # The sum of the numerals since then, which the next such power multiplies.
    digit: int | None = None  # The digit before the next power.
    for numeral in numerals:
        if numeral in CJK_DIGITS:
            if digit:
                return None  # Two digits in a row are two numbers.
            digit = CJK_DIGITS[numeral]
            continue

        exponent = CJK_SCALES[numeral]
        if exponent < 4:
            # A power below 万. 十 alone is ten, and 百 in Japanese a hundred.
            below_10_000 += (digit or 1) * 10**exponent
            digit = None
            continue

        below_10_000 += digit or 0
        digit = None
        if below_10_000 > 0:
            total += below_10_000 * 10**exponent
            below_10_000 = 0
        elif 0 < total < 10**exponent:
            total *= 10**exponent  # 一万亿
        else:
            return None
    return total + below_10_000 + (digit or 0)
