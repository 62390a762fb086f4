"""Reading of numbers in prose: 1,234.5 and 1.234,5, 2.5e-3, 1.5 million, 45 %, 1/2, three, 三百."""

from __future__ import annotations

import re
from fractions import Fraction

from graphrag_eval_async.helpers.patterns import lazy_pattern
from graphrag_eval_async.steps.numbers.chinese import numbers_in_chinese, single_numerals
from graphrag_eval_async.steps.numbers.digits import numbers_in_digits
from graphrag_eval_async.steps.numbers.notation import readable
from graphrag_eval_async.steps.numbers.number import Number as Number
from graphrag_eval_async.steps.numbers.number import PlacedNumber, number_of_value
from graphrag_eval_async.steps.numbers.refusals import without_refusals
from graphrag_eval_async.steps.numbers.words import numbers_in_words, uncertain_words

_ROMAN_NUMERAL = lazy_pattern(r"(?<![\w.-])(?=[IVX]{2})X{0,3}(?:IX|IV|V?I{0,3})(?![\w-])")
"""A Roman number up to 39 of at least two letters, since I is a word."""

_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10}
_NONE_WITHOUT_SPACES = lazy_pattern("没有|沒有|なし|ない|ありません|없|ไม่มี")
"""Chinese, Japanese, Korean and Thai for "there is no"."""

_NONE = lazy_pattern(
    r"(?<!\w)(?:(?:\w{2,8}n't|not) (?:\w{1,15} )?any|not a single|no one|nobody"
    r"|no hay|no existen?|não há|non ci sono|il n'y a pas|pas de|pas d'\w+"
    r"|tidak ada|không có|yok|ei ole"
    r"|nincs|nincsenek)(?!\w)",
    re.IGNORECASE,
)
"""Other words for "there is no" and "not any"."""

_IRI = lazy_pattern(
    r"(?<!\w)(?:[a-z][a-z0-9+.-]{0,20}://|(?:urn|tag|doi|did|mailto|info):)[!#-;=?-~]+",
    re.IGNORECASE,
)
"""An IRI, up to a space, a bracket, a quote or a character beyond ASCII."""


def numbers_in(text: str) -> list[Number]:
    """Return the numbers in a text, in order.

    Three kinds are left out: numbers in dates such as 2021-05-03, in times, versions, ranges and
    names; words that often mean something else, such as "one"; and the digits of IRIs.
    """
    plain = _without_iris(readable(text))
    placed_numbers = [
        *numbers_in_digits(plain),
        *_numbers_in_words(plain),
        *numbers_in_chinese(plain),
    ]
    placed_numbers.sort(key=lambda placed: placed.start)

    numbers = []
    end = 0
    for placed in placed_numbers:
        # A number within another one does not count, such as the million of "5 million".
        if placed.start >= end:
            numbers.append(placed.number)
            end = placed.end
    return numbers


def uncertain_numbers_in(text: str) -> list[Number]:
    """Return words and signs that may be numbers: "one", "no", 一, and II of "Article II".

    They often mean something else, so they are for texts that have no other number.
    """
    plain = without_refusals(_without_iris(readable(text)))
    numbers = [*uncertain_words(plain), *single_numerals(plain)]
    for match in _ROMAN_NUMERAL.finditer(plain):
        numeral = match[0]
        numbers.append(number_of_value(numeral, Fraction(_roman_value(numeral))))
    # "There is no" may stand for 0.
    if _NONE_WITHOUT_SPACES.search(plain) or _NONE.search(plain):
        numbers.append(number_of_value("0", Fraction(0)))
    return numbers


def _without_iris(text: str) -> str:
    """Return a text in which spaces stand for IRIs, whose digits are parts of names."""
    if ":" not in text:
        return text
    return _IRI.sub(lambda iri: " " * len(iri[0]), text)


def _numbers_in_words(text: str) -> list[PlacedNumber]:
    """Return the numbers of a text in words, except for the "no" of a refusal."""
    placed_numbers = [*numbers_in_words(text)]
    has_zero = any(placed.number.readings[0].value == 0 for placed in placed_numbers)
    if has_zero:
        # The search for refusals is slow, and only words for "none" stand in them.
        return [*numbers_in_words(without_refusals(text))]
    return placed_numbers


def _roman_value(numeral: str) -> int:
    """Return the value of a Roman number; a letter before a larger one is subtracted."""
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    total = 0
    for value, next_value in zip(values, [*values[1:], 0], strict=True):
        if value < next_value:
            total -= value
        else:
            total += value
    return total
