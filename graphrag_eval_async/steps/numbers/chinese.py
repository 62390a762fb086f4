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
_NUMBER = re.compile(rf"(?<![{CHINESE_NUMERALS}\d.])[{CHINESE_NUMERALS}]{{1,30}}")
_FRACTION = re.compile(
    f"(?P<denominator>[{CHINESE_NUMERALS}]{{1,9}})分之"
    rf"(?:(?P<numerator>[{CHINESE_NUMERALS}]{{1,9}})|(?P<digits>\d{{1,9}}(?:\.\d{{1,9}})?))"
)
_PERCENT = 100


def numbers_in_chinese(text: str) -> Iterator[PlacedNumber]:
    """Yield the fractions of a text, and then its numbers of several characters."""
    if text.isascii():
        return
    for match in _FRACTION.finditer(text):
        number = _fraction(match)
        if number is not None:
            yield PlacedNumber(match.start(), match.end(), number)
    for match in _NUMBER.finditer(text):
        value = _value(match[0])
        if value is not None and len(match[0]) > 1:
            number = number_of_value(match[0], Fraction(value))
            yield PlacedNumber(match.start(), match.end(), number)


def single_numerals(text: str) -> list[Number]:
    """Return the numbers of one character, which is a part of many words, too: 一 in 统一."""
    numbers = []
    for match in _NUMBER.finditer(text):
        value = _value(match[0])
        if value is not None and len(match[0]) == 1:
            numbers.append(number_of_value(match[0], Fraction(value)))
    return numbers


def _fraction(match: re.Match[str]) -> Number | None:
    denominator = _value(match["denominator"])
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
    """Return the value of numerals; None for words that only look like one, such as 万一."""
    if numerals == "千万":
        return None  # "By all means".
    if not CJK_SCALES.keys().isdisjoint(numerals):
        return _value_with_powers(numerals)
    if len(numerals) == 2 and CJK_DIGITS.keys().isdisjoint(set("〇零") & set(numerals)):
        return None  # 二三 is "two or three".
    return int("".join(str(CJK_DIGITS[numeral]) for numeral in numerals))


def _value_with_powers(numerals: str) -> int | None:
    """Return the value of numerals of which some are powers of ten, such as 三百二十五."""
    total = 0
    below_10_000 = 0
    digit: int | None = None  # The digit before the next power.
    for numeral in numerals:
        if numeral in CJK_DIGITS:
            if digit:
                return None  # Two digits in a row are two numbers.
            digit = CJK_DIGITS[numeral]
            continue

        exponent = CJK_SCALES[numeral]
        if exponent < 4:
            # 十 alone is ten, and 百 in Japanese a hundred.
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
