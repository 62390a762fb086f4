"""Numbers of Chinese characters, which Japanese uses, too: 三百二十五, 百分之五, 三分之一."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from graphrag_eval_async.helpers.patterns import lazy_pattern
from graphrag_eval_async.steps.numbers.number import (
    Number,
    PlacedNumber,
    number_of_scaled_value,
    number_of_value,
)
from graphrag_eval_async.steps.numbers.word_tables import CJK_DIGITS, CJK_SCALES
from graphrag_eval_async.steps.scripts import CHINESE_NUMERALS, WITHOUT_SPACES

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

# The lengths are limited, since no real number is longer.
_NUMBER = lazy_pattern(
    rf"(?<![{CHINESE_NUMERALS}\d.点點])(?P<sign>[负負]?)(?P<numerals>[{CHINESE_NUMERALS}]{{1,30}})"
)
_FRACTION = lazy_pattern(
    f"(?P<denominator>[{CHINESE_NUMERALS}]{{1,9}})分之"
    rf"(?:(?P<numerator>[{CHINESE_NUMERALS}]{{1,9}})|(?P<digits>\d{{1,9}}(?:\.\d{{1,9}})?))"
)
_DECIMAL = lazy_pattern(
    rf"(?<![{CHINESE_NUMERALS}])(?P<whole>[{CHINESE_NUMERALS}]{{1,9}})[点點]"
    rf"(?P<decimals>[{''.join(CJK_DIGITS)}]{{1,15}})(?P<power>[{''.join(CJK_SCALES)}]{{0,2}})"
    "(?![分刻半])"  # 三点五分 is a time.
)
_HALF = lazy_pattern(
    rf"(?<![{CHINESE_NUMERALS}])(?:(?P<one>一半)|(?P<whole>[{CHINESE_NUMERALS}]{{1,9}})[个個]半)"
)
_DIGIT_AFTER_POWER = lazy_pattern(rf"[百千万萬億亿][{''.join(CJK_DIGITS)}]\Z")
_COUNTERS = frozenset(
    "个個名位人家座条條只隻张張本件台臺年月日号號次回岁歲歳代時时秒天周週匹頭头羽枚冊册階層层軒社校"
    "种種项項部所处處间間箇段支根棵颗顆辆輛架艘杯瓶场場步篇封句组組對对双雙份批片块塊元円圆圓米分度"
    "票点點门門つヶカか公千毫厘万萬%"
)
"""Characters that make a number of a numeral before them: counters, and the first of units."""

_NOT_COUNTED = lazy_pattern(
    "一[点點](?![钟鐘])|一[时時代]|一部分|一段[时時]|一度|百度|万分|十分(?![钟鐘間之で後前])"
)
"""Words of a numeral and a counter that are no number, such as 十分 (very) and 一点 (a little)."""

_ENDS_WITH_NUMERAL = frozenset("统統唯单單专專同划劃")
"""Characters that make a word with a numeral after them, as in 统一."""

_BEFORE_NUMERAL = frozenset("是為为有共约約了は")
"""Characters after which a numeral may stand at the end of a statement."""

_COPULAS = ("です", "でし", "で、", "だ")
_IN_WORD = lazy_pattern(f"[{WITHOUT_SPACES}]")
_PERCENT = 100


def numbers_in_chinese(text: str) -> Iterator[PlacedNumber]:
    """Yield the Chinese fractions and decimals of a text, and then its whole numbers.

    Whole numbers of a single character are left out; `single_numerals` returns these.
    """
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
    """Return the numbers of one character that a counter follows, or that stand alone.

    The same character is a part of many words: 一 in 统一 and 一般.
    """
    numbers = []
    for match in _NUMBER.finditer(text):
        number = _whole_number(match)
        is_single = len(match["numerals"]) == 1
        if number is not None and is_single and _counts(match):
            numbers.append(number)
    return numbers


def _counts(match: re.Match[str]) -> bool:
    """Return whether a match of `_NUMBER` with one numeral is a number, not a part of a word."""
    text = match.string
    before = text[max(0, match.start() - 1) : match.start()]
    after = text[match.end() : match.end() + 1]
    if before in _ENDS_WITH_NUMERAL or _NOT_COUNTED.match(text, match.start("numerals")):
        return False
    if after in _COUNTERS:
        return True
    begins = before in _BEFORE_NUMERAL or _IN_WORD.match(before) is None
    ends = _IN_WORD.match(after) is None or text.startswith(_COPULAS, match.end())
    return begins and ends


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
        # `value` is the Japanese one, in which the digit counts once.
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
    # 一半 is a half alone.
    whole = 0 if match["one"] else _value(match["whole"])
    if whole is None:
        return None
    return number_of_value(match[0], whole + Fraction(1, 2))


def _fraction(match: re.Match[str]) -> Number | None:
    """Return the number of a match of `_FRACTION`, such as 百分之五; None if it is no number."""
    numerals = match["denominator"]
    # 万分之 means "of 10,000", although 万 without a digit is otherwise no number.
    if numerals in ("万", "萬"):
        denominator: int | None = 10_000
    else:
        denominator = _value(numerals)
    if denominator is None or denominator == 0:
        return None
    if match["digits"]:
        numerator = Fraction(match["digits"])
    else:
        # Characters that are no number count as 0.
        numerator = Fraction(_value(match["numerator"]) or 0)
    if denominator == _PERCENT:
        return number_of_scaled_value(match[0], numerator, exponent=-2)
    return number_of_value(match[0], numerator / denominator)


def _value(numerals: str) -> int | None:
    """Return the value of numerals; None if they are a word, such as 万一, and no number."""
    if numerals == "千万":
        # This word means "by all means".
        return None
    if not CJK_SCALES.keys().isdisjoint(numerals):
        return _value_with_powers(numerals)
    has_zero = "〇" in numerals or "零" in numerals
    if len(numerals) == 2 and not has_zero:
        # 二三 means "two or three".
        return None
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
