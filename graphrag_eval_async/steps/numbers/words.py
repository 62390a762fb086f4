"""Numbers in words: twenty-one, two hundred and five, vingt et un, two thirds, half a million."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.steps.numbers.number import (
    Number,
    PlacedNumber,
    number_of_scaled_value,
    number_of_value,
)
from graphrag_eval_async.steps.numbers.scales import EXPONENTS, read_scale
from graphrag_eval_async.steps.numbers.word_tables import (
    ARTICLES,
    BARE_HUNDREDS,
    BARE_THOUSANDS,
    COMMON_DENOMINATORS,
    COMPOUND_POWERS,
    DECIMAL_POINTS,
    DENOMINATORS,
    DOZENS,
    FRENCH_DIGITS,
    FRENCH_HUNDREDS,
    HALVES,
    JOINERS,
    SINGULAR_DENOMINATORS,
    UNCERTAIN,
    by_word,
    certain_words,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MIN_COMPOUND_CHARACTERS = 6
"""The least length of a compound such as cento + due, to be quick with other words."""

MAX_CACHED_COMPOUNDS = 1000

LARGEST = 10**30
"""No number in words is larger; without a limit, "million million ..." would cost much time."""

_UNCERTAIN_VALUES = by_word(UNCERTAIN)
_VALUES = _UNCERTAIN_VALUES | certain_words()
_DENOMINATORS = by_word(DENOMINATORS)
_HALVES = by_word(HALVES)

_TOKEN = re.compile(r"[^\W\d_]+(?:'я[^\W\d_]+)?")  # An apostrophe is a letter of Ukrainian п'ять.
_GOES_ON = frozenset("_-0123456789")
"""Characters that make a word before them a part of a name or a compound, as in "two-way"."""


class _Token(NamedTuple):
    """A word of a text."""

    word: str  # In lower case.
    start: int
    end: int
    joins_next: bool  # Whether only a space or a hyphen stands between it and the next word.


class _Phrase(NamedTuple):
    """The value of some words in a row, and the index after the last of them."""

    value: Fraction
    end: int


class _WholeNumber:
    """A whole number that grows word by word."""

    def __init__(self) -> None:
        self._sum_of_groups = 0
        self._group: int | None = None  # What the next power of ten from 1,000 on multiplies.
        self._last_word = ""

    @property
    def value(self) -> int:
        return self._sum_of_groups + (self._group or 0)

    @property
    def is_empty(self) -> bool:
        return self._group is None and self._sum_of_groups == 0

    def add(self, word: str) -> bool:
        """Add a word; return False, without a change, if the number does not go on with it."""
        is_added = self._add_first(word) if self.is_empty else self._add_next(word)
        if is_added:
            self._last_word = word
        return is_added

    def _add_first(self, word: str) -> bool:
        """Begin the number with a word; return False if no number begins with it."""
        value = _value_of_word(word)
        if value is not None:
            self._group = value
        elif word in BARE_HUNDREDS:
            self._group = 100
        elif word in BARE_THOUSANDS:
            self._sum_of_groups = 1000
        elif word in ARTICLES:
            self._group = 1
        else:
            return False
        return True

    def _add_next(self, word: str) -> bool:
        """Add a word after others; return False if the number does not go on with it."""
        value = _value_of_word(word)
        if value is not None:
            return self._add_value(value, word)
        if word in DOZENS:
            return self._multiply_group(12)
        if word in FRENCH_HUNDREDS and self._last_word in FRENCH_DIGITS:
            return self._multiply_group(100)
        exponent = EXPONENTS.get(word, 0)
        if exponent == 2:
            return self._multiply_group(100)
        if exponent > 2:
            return self._multiply(10**exponent)
        return False

    def goes_on_after_and(self, word: str) -> bool:
        """Whether a word may follow "and": two hundred and five, treinta y dos."""
        value = _value_of_word(word)
        if value is None or self.is_empty:
            return False
        if self._group is None:
            return True
        return self._group >= 20 and _goes_on(self._group, value, word)

    def _add_value(self, value: int, word: str) -> bool:
        """Add the value of a word; return False if the number does not go on with it."""
        if self._group is None:
            self._group = value
            return True
        if not _goes_on(self._group, value, word):
            return False
        if self._group % 100 == 4 and word in {"vingt", "vingts"}:
            self._group += 80 - 4  # quatre-vingts
        else:
            self._group += value
        return True

    def _multiply_group(self, factor: int) -> bool:
        """Multiply the last words by 100 or 12; return False if they are not from 1 to 99."""
        if self._group is None or not 0 < self._group < 100:
            return False
        self._group *= factor
        return True

    def _multiply(self, power: int) -> bool:
        """Add a power of ten from 1,000 on; return False if the number would be too large."""
        if self.is_empty or self.value * power > LARGEST:
            return False
        if self._sum_of_groups < power:
            # "Thousand million" is a product.
            self._sum_of_groups = self.value * power
        else:
            self._sum_of_groups += (self._group or 1) * power
        self._group = None
        return True


def _value_of_word(word: str) -> int | None:
    """Return the value of one word, such as "five" or "zweihundertfünf"; None for other words."""
    value = _VALUES.get(word)
    if value is None and len(word) >= MIN_COMPOUND_CHARACTERS:
        return _value_of_compound(word)
    return value


@lru_cache(MAX_CACHED_COMPOUNDS)
def _value_of_compound(word: str) -> int | None:
    """Return the value of a compound with a power of ten: duecentocinque is 205.

    Returns:
        None if a part of the word is no number, or if the word is a power alone.
    """
    for power_word, power in COMPOUND_POWERS.items():
        if power_word not in word or word == power_word:
            continue
        before, _, after = word.partition(power_word)
        multiplier = 1 if before == "" else _value_of_part(before)
        remainder = 0 if after == "" else _value_of_part(after.removeprefix("und"))
        if multiplier is None or remainder is None or remainder >= power:
            return None
        return multiplier * power + remainder
    return None


def _value_of_part(part: str) -> int | None:
    """Return the value of a part of a compound, which may be a power of ten alone."""
    if part in COMPOUND_POWERS:
        return COMPOUND_POWERS[part]
    return _value_of_word(part)


def numbers_in_words(text: str) -> Iterator[PlacedNumber]:
    """Yield the numbers of a text that are written in words, in order."""
    tokens = _tokens(text)
    index = 0
    while index < len(tokens):
        phrase = _read_phrase(tokens, index)
        if phrase is None:
            index += 1
            continue

        first = tokens[index]
        last = tokens[phrase.end - 1]
        is_certain = first is not last or first.word not in _UNCERTAIN_VALUES
        sign = _sign_before(text, first.start)
        following = text[last.end : last.end + 1]
        if is_certain and sign is not None and following not in _GOES_ON:
            start = first.start - len(sign)
            scale = read_scale(text, last.end)
            value = -phrase.value if sign else phrase.value
            number = number_of_scaled_value(text[start : last.end], value, scale.exponent)
            yield PlacedNumber(start, scale.end, number)
        index = phrase.end


def uncertain_words(text: str) -> list[Number]:
    """Return the words that may be numbers, such as "one", which are not parts of a compound."""
    numbers = []
    for token in _TOKEN.finditer(text):
        value = _UNCERTAIN_VALUES.get(token[0].casefold())
        if value is None:
            continue
        before = text[max(0, token.start() - 1) : token.start()]
        after = text[token.end() : token.end() + 1]
        if before != "-" and after != "-":
            numbers.append(number_of_value(token[0], Fraction(value)))
    return numbers


def _tokens(text: str) -> list[_Token]:
    matches = [*_TOKEN.finditer(text)]
    tokens = []
    for match, following in zip_longest(matches, matches[1:]):
        joins_next = False
        if following is not None and following.start() == match.end() + 1:
            joins_next = text[match.end()] in " -'"
        tokens.append(
            _Token(
                word=match[0].casefold(),
                start=match.start(),
                end=match.end(),
                joins_next=joins_next,
            )
        )
    return tokens


def _sign_before(text: str, start: int) -> str | None:
    """Return the minus sign before a word, "" for none, and None if the word is no number here."""
    before = text[max(0, start - len("x minus ")) : start]
    if before.endswith("-"):
        is_compound = len(before) > 1 and (before[-2].isalnum() or before[-2] in "_.,/^-")
        return None if is_compound else "-"
    if before and (before[-1].isdigit() or before[-1] in "_.,/^"):
        return None
    if before.casefold().endswith(("minus ", "minus'")):
        return before[-len("minus ") :]
    return ""


def _next_index(tokens: Sequence[_Token], index: int) -> int | None:
    """Return the index of the next word of the same phrase; None if the phrase ends."""
    if tokens[index].joins_next:
        return index + 1
    return None


def _read_phrase(tokens: Sequence[_Token], first: int) -> _Phrase | None:
    """Read the longest number whose first word is `tokens[first]`; None if it begins none."""
    word = tokens[first].word
    if word in _HALVES:
        return _read_half(tokens, first)
    whole = _read_whole_number(tokens, first)
    if whole is None:
        return None

    if whole.end == first + 1 and word in ARTICLES:
        # "A third of" is a number, "a third line" and "a line" are none.
        fraction = _read_article_and_fraction(tokens, first)
        if fraction is not None:
            return _times_power_after(tokens, fraction)
        if word not in _VALUES:
            return None
    fraction = _read_fraction(tokens, whole)
    if fraction is not None:
        return _times_power_after(tokens, fraction)
    return _read_and_a_half(tokens, whole) or _read_decimals(tokens, whole) or whole


def _read_half(tokens: Sequence[_Token], first: int) -> _Phrase:
    """Read "half", "half a million", "half a dozen" or "anderthalb"."""
    value = Fraction(_HALVES[tokens[first].word], 2)
    following = _next_index(tokens, first)
    if following is not None and tokens[following].word in ARTICLES:
        following = _next_index(tokens, following)
    if following is not None:
        word = tokens[following].word
        if word in DOZENS:
            return _Phrase(value * 12, following + 1)
        exponent = EXPONENTS.get(word, 0)
        if exponent > 0:
            return _Phrase(value * 10**exponent, following + 1)
    return _Phrase(value, first + 1)


def _times_power_after(tokens: Sequence[_Token], fraction: _Phrase) -> _Phrase:
    """Return a fraction multiplied by the power after it, as in "a quarter of a million"."""
    following = tokens[fraction.end : fraction.end + 3]
    if len(following) < 3 or following[0].word != "of" or following[1].word not in ARTICLES:
        return fraction
    exponent = EXPONENTS.get(following[2].word, 0)
    if exponent <= 0:
        return fraction
    return _Phrase(fraction.value * 10**exponent, fraction.end + 3)


def _read_whole_number(tokens: Sequence[_Token], first: int) -> _Phrase | None:
    """Read words such as "two million three hundred and five"; None if the first is no number."""
    number = _WholeNumber()
    end = first
    index: int | None = first
    while index is not None and number.add(tokens[index].word):
        end = index + 1
        index = _next_index(tokens, index)
        if index is not None and tokens[index].word in JOINERS:
            index = _index_after_joiner(tokens, index, number)
    if end == first:
        return None
    return _Phrase(Fraction(number.value), end)


def _index_after_joiner(tokens: Sequence[_Token], joiner: int, number: _WholeNumber) -> int | None:
    """Return the index of the word after "and"; None if the number does not go on with it."""
    following = _next_index(tokens, joiner)
    if following is not None and number.goes_on_after_and(tokens[following].word):
        return following
    return None


def _goes_on(group: int, value: int, word: str) -> bool:
    """Whether a word for `value` goes on with a number below 1,000: 20 with 1, but not 5 with 6."""
    if value == 0 or value >= 100:
        return False
    remainder = group % 100
    if remainder == 0:
        return group > 0
    if remainder in {60, 80}:
        return value < 20  # soixante-dix-sept, quatre-vingt-dix
    is_seventeen = remainder in {10, 70, 90} and word in {"sept", "huit", "neuf"}
    is_eighty = remainder == 4 and word in {"vingt", "vingts"}
    if is_seventeen or is_eighty:
        return True  # dix-sept, quatre-vingts
    return remainder >= 20 and remainder % 10 == 0 and value < 10


def _read_article_and_fraction(tokens: Sequence[_Token], first: int) -> _Phrase | None:
    """Read "a third of"; without "of", it is an ordinal."""
    words = [token.word for token in tokens[first + 1 : first + 3]]
    if len(words) == 2 and words[0] in SINGULAR_DENOMINATORS and words[1] == "of":
        return _Phrase(Fraction(1, _DENOMINATORS[words[0]]), first + 2)
    return None


def _read_fraction(tokens: Sequence[_Token], whole: _Phrase) -> _Phrase | None:
    """Read "one third" and "two thirds"; "twenty-fifth" is an ordinal."""
    following = _next_index(tokens, whole.end - 1)
    if following is None:
        return None
    word = tokens[following].word
    denominator = _DENOMINATORS.get(word)
    if denominator is None or whole.value == 0:
        return None
    is_singular = word in SINGULAR_DENOMINATORS
    if word not in COMMON_DENOMINATORS and is_singular != (whole.value == 1):
        return None
    return _Phrase(whole.value / denominator, following + 1)


def _read_and_a_half(tokens: Sequence[_Token], whole: _Phrase) -> _Phrase | None:
    """Read "two and a half", "two and a half million" or "a million and a half"."""
    words = [token.word for token in tokens[whole.end : whole.end + 3]]
    if words not in (["and", "a", "half"], ["and", "one", "half"]):
        return None
    end = whole.end + 3
    last_exponent = EXPONENTS.get(tokens[whole.end - 1].word, 0)
    if last_exponent > 0:
        return _Phrase(whole.value + Fraction(10**last_exponent, 2), end)

    value = whole.value + Fraction(1, 2)
    following = _next_index(tokens, end - 1)
    if following is not None:
        exponent = EXPONENTS.get(tokens[following].word, 0)
        if exponent > 0:
            return _Phrase(value * 10**exponent, following + 1)
    return _Phrase(value, end)


def _read_decimals(tokens: Sequence[_Token], whole: _Phrase) -> _Phrase | None:
    """Read "two point five", whose decimals are words for digits; None if there are none."""
    point = _next_index(tokens, whole.end - 1)
    if point is None or tokens[point].word not in DECIMAL_POINTS:
        return None
    value = whole.value
    unit = Fraction(1)
    end = point + 1
    index = _next_index(tokens, point)
    while index is not None:
        digit = _VALUES.get(tokens[index].word)
        if digit is None or digit > 9:
            break
        unit /= 10
        value += digit * unit
        end = index + 1
        index = _next_index(tokens, index)
    if unit == 1:
        return None
    return _Phrase(value, end)
