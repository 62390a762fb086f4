"""Numbers in words: twenty-one, two hundred and five, vingt et un, two thirds, half a million."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.helpers.patterns import lazy_pattern
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
"""Minimum length of a compound such as centodue, so that shorter words are not searched."""

MAX_CACHED_COMPOUNDS = 1000

LARGEST = 10**30
"""No number in words is larger; without a limit, "million million ..." would cost much time."""

_UNCERTAIN_VALUES = by_word(UNCERTAIN)
_VALUES = _UNCERTAIN_VALUES | certain_words()
_DENOMINATORS = by_word(DENOMINATORS)
_HALVES = by_word(HALVES)

_TOKEN = lazy_pattern(r"[^\W\d_]+(?:'я[^\W\d_]+)?")  # An apostrophe is a letter of Ukrainian п'ять.
_COUNTED = lazy_pattern(r" [^\W\d_]")  # What stands after "no", as in "no lines".
_NAME_CHARACTERS = frozenset("_-0123456789")
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
    """A whole number that grows word by word, such as "two million" and then "three hundred".

    The words up to a power of ten from 1,000 on are a group.
    """

    def __init__(self) -> None:
        """Begin without words."""
        # The value of the groups that have ended, such as 2,000,000.
        self._sum_of_groups = 0
        # The value of the words after these groups, such as 300; None if there are no such words.
        self._group: int | None = None
        self._last_word = ""

    @property
    def value(self) -> int:
        """The value of all words so far."""
        return self._sum_of_groups + (self._group or 0)

    @property
    def is_empty(self) -> bool:
        """Whether no word was added yet."""
        return self._group is None and self._sum_of_groups == 0

    def add(self, word: str) -> bool:
        """Add a word if the number can go on with it, and return whether it was added."""
        is_added = self._add_first(word) if self.is_empty else self._add_next(word)
        if is_added:
            self._last_word = word
        return is_added

    def _add_first(self, word: str) -> bool:
        """Begin the number with a word if any number can, and return whether it was added."""
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
        """Add a word after others if the number can go on with it; return whether it was added."""
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
            return self._end_group(10**exponent)
        return False

    def can_add_after_and(self, word: str) -> bool:
        """Return whether "and" and a word can follow in the number, as in two hundred and five."""
        value = _value_of_word(word)
        if value is None or self.is_empty:
            return False
        if self._group is None:
            return True
        # After a group below 20, "and" stands between two numbers: five and six.
        return self._group >= 20 and _can_follow(self._group, value, word)

    def _add_value(self, value: int, word: str) -> bool:
        """Add a word for a number below 1,000 to the group, and return whether it was added.

        Args:
            value: the value of the word.
            word: the word. It is not added if it cannot follow the words of the group.
        """
        if self._group is None:
            self._group = value
            return True
        if not _can_follow(self._group, value, word):
            return False
        if self._group % 100 == 4 and word in {"vingt", "vingts"}:
            self._group += 80 - 4  # quatre-vingts
        else:
            self._group += value
        return True

    def _multiply_group(self, factor: int) -> bool:
        """Multiply the group if it is from 1 to 99, and return whether it was multiplied."""
        if self._group is None or not 0 < self._group < 100:
            return False
        self._group *= factor
        return True

    def _end_group(self, power: int) -> bool:
        """End the group with a power of ten from 1,000 on, which multiplies it.

        A larger power than those before multiplies the whole number: "thousand million".

        Returns:
            whether the power was added. It is not if the number is empty or would be too large.
        """
        if self.is_empty or self.value * power > LARGEST:
            return False
        if self._sum_of_groups < power:
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
    """Yield the numbers of a text that are written in words, in order.

    Words such as "one" are numbers only together with others: "thirty-one".
    """
    tokens = _tokens(text)
    index = 0
    while index < len(tokens):
        phrase = _read_phrase(tokens, index)
        if phrase is None:
            index += 1
            continue

        first = tokens[index]
        last = tokens[phrase.end - 1]
        index = phrase.end
        is_uncertain = first is last and first.word in _UNCERTAIN_VALUES
        following = text[last.end : last.end + 1]
        is_part_of_name = following in _NAME_CHARACTERS or _continues_name(text, first.start)
        if is_uncertain or is_part_of_name:
            continue

        minus = _minus_before(text, first.start)
        start = first.start - len(minus)
        value = -phrase.value if minus else phrase.value
        scale = read_scale(text, last.end)
        number = number_of_scaled_value(text[start : last.end], value, scale.exponent)
        yield PlacedNumber(start, scale.end, number)


def uncertain_words(text: str) -> list[Number]:
    """Return the numbers of words that often mean something else, such as "one".

    Words in compounds with a hyphen, such as "one-way", are left out, and so is "no" without a
    noun after it.
    """
    numbers = []
    for match in _TOKEN.finditer(text):
        word = match[0]
        value = _UNCERTAIN_VALUES.get(word.casefold())
        if value is None:
            continue
        before = text[max(0, match.start() - 1) : match.start()]
        after = text[match.end() : match.end() + 1]
        is_in_compound = before == "-" or after == "-"
        counts_something = word.casefold() != "no" or _COUNTED.match(text, match.end()) is not None
        if counts_something and not is_in_compound:
            numbers.append(number_of_value(word, Fraction(value)))
    return numbers


def _tokens(text: str) -> list[_Token]:
    """Return the words of a text, in lower case and in order."""
    matches = [*_TOKEN.finditer(text)]
    tokens = []
    for match, next_match in zip_longest(matches, matches[1:]):
        joins_next = False
        if next_match is not None:
            between = text[match.end() : next_match.start()]
            joins_next = between in {" ", "-", "'"}
        token = _Token(
            word=match[0].casefold(),
            start=match.start(),
            end=match.end(),
            joins_next=joins_next,
        )
        tokens.append(token)
    return tokens


def _continues_name(text: str, start: int) -> bool:
    """Return whether a name or number before the word at `start` goes on with it: "non-zero"."""
    before = text[max(0, start - 2) : start]
    if not before:
        return False
    if before.endswith("-"):
        # Without such a character before it, the hyphen is a minus sign.
        return len(before) > 1 and (before[0].isalnum() or before[0] in "_.,/^-")
    return before[-1].isdigit() or before[-1] in "_.,/^"


def _minus_before(text: str, start: int) -> str:
    """Return the minus before the word at `start`, as it is written; "" if there is none."""
    before = text[max(0, start - len("minus ")) : start]
    if before.endswith("-"):
        return "-"
    if before.casefold().endswith(("minus ", "minus'")):
        return before
    return ""


def _next_index(tokens: Sequence[_Token], index: int) -> int | None:
    """Return the index of the next word of the same phrase; None if the phrase ends here."""
    if tokens[index].joins_next:
        return index + 1
    return None


def _power_at(tokens: Sequence[_Token], index: int | None) -> int:
    """Return the power of ten that the word at an index means: 1,000,000 for "million".

    Returns:
        1 if the word means no power of ten, or if there is no word, so that `index` is None.
    """
    if index is None:
        return 1
    exponent = EXPONENTS.get(tokens[index].word, 0)
    if exponent < 0:
        # "Percent" is no part of a phrase. It is read after the whole number.
        return 1
    return int(10**exponent)


def _read_phrase(tokens: Sequence[_Token], first: int) -> _Phrase | None:
    """Return the longest number that begins at `tokens[first]`; None if none begins there."""
    word = tokens[first].word
    if word in _HALVES:
        return _read_half(tokens, first)
    whole = _read_whole_number(tokens, first)
    if whole is None:
        return None

    is_article_alone = word in ARTICLES and whole.end == first + 1
    if is_article_alone:
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
    """Return the number of "half", "half a million", "half a dozen" or "anderthalb".

    Args:
        tokens: the words of the text.
        first: the index of the word for a half.
    """
    # The values of these words are counted in halves: "anderthalb" is 3.
    value = Fraction(_HALVES[tokens[first].word], 2)
    following = _next_index(tokens, first)
    if following is not None and tokens[following].word in ARTICLES:
        following = _next_index(tokens, following)
    if following is not None and tokens[following].word in DOZENS:
        return _Phrase(value * 12, following + 1)

    power = _power_at(tokens, following)
    if following is None or power == 1:
        return _Phrase(value, first + 1)
    return _Phrase(value * power, following + 1)


def _times_power_after(tokens: Sequence[_Token], fraction: _Phrase) -> _Phrase:
    """Return a fraction times the power of ten after it, as in "a quarter of a million".

    If no power follows, return the fraction itself.
    """
    # Three words must follow: "of", an article, and the power.
    power_index = fraction.end + 2
    if power_index >= len(tokens):
        return fraction
    is_of_article = tokens[fraction.end].word == "of" and tokens[fraction.end + 1].word in ARTICLES
    power = _power_at(tokens, power_index)
    if not is_of_article or power == 1:
        return fraction
    return _Phrase(fraction.value * power, power_index + 1)


def _read_whole_number(tokens: Sequence[_Token], first: int) -> _Phrase | None:
    """Return the number of words such as "two million three hundred and five".

    Returns:
        None if the first word is no number.
    """
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
    """Return the index of the word after "and"; None if the number does not go on with it.

    Args:
        tokens: the words of the text.
        joiner: the index of "and".
        number: the number of the words before it.
    """
    following = _next_index(tokens, joiner)
    if following is not None and number.can_add_after_and(tokens[following].word):
        return following
    return None


def _can_follow(group: int, value: int, word: str) -> bool:
    """Return whether a word may follow others in a number below 1,000: twenty-one, not five six.

    Args:
        group: the value of the words before it.
        value: the value of the word.
        word: the word, since some French words add to more than others.
    """
    if value == 0 or value >= 100:
        return False
    remainder = group % 100
    if remainder == 0:
        return group > 0
    if remainder in {60, 80}:
        return value < 20  # soixante-dix-sept, quatre-vingt-dix
    if remainder in {10, 70, 90} and word in {"sept", "huit", "neuf"}:
        return True  # dix-sept
    if remainder == 4 and word in {"vingt", "vingts"}:
        return True  # quatre-vingts
    is_ten = remainder >= 20 and remainder % 10 == 0
    return is_ten and value < 10


def _read_article_and_fraction(tokens: Sequence[_Token], first: int) -> _Phrase | None:
    """Return the number of an article and a fraction before "of", such as "a third of".

    None for other words. Without "of", "a third" may be an ordinal, as in "a third line".

    Args:
        tokens: the words of the text.
        first: the index of the article.
    """
    words = [token.word for token in tokens[first + 1 : first + 3]]
    if len(words) == 2 and words[0] in SINGULAR_DENOMINATORS and words[1] == "of":
        # The phrase ends before "of".
        return _Phrase(Fraction(1, _DENOMINATORS[words[0]]), end=first + 2)
    return None


def _read_fraction(tokens: Sequence[_Token], whole: _Phrase) -> _Phrase | None:
    """Return the number of "one third" or "two thirds".

    Returns:
        None if no fraction follows the whole number; "twenty-fifth" is an ordinal.
    """
    following = _next_index(tokens, whole.end - 1)
    if following is None or whole.value == 0:
        return None
    word = tokens[following].word
    denominator = _DENOMINATORS.get(word)
    if denominator is None:
        return None
    # "One thirds" and "twenty fifth" are no fractions. Words of some languages, such as "Drittel",
    # have one form for both.
    is_one = whole.value == 1
    is_singular = word in SINGULAR_DENOMINATORS
    if word not in COMMON_DENOMINATORS and is_singular != is_one:
        return None
    return _Phrase(whole.value / denominator, following + 1)


def _read_and_a_half(tokens: Sequence[_Token], whole: _Phrase) -> _Phrase | None:
    """Return the number of "two and a half", "two and a half million" or "a million and a half".

    Returns:
        None if "and a half" does not follow the whole number.
    """
    words = [token.word for token in tokens[whole.end : whole.end + 3]]
    if words not in (["and", "a", "half"], ["and", "one", "half"]):
        return None
    end = whole.end + 3
    power_before = _power_at(tokens, whole.end - 1)
    if power_before > 1:
        return _Phrase(whole.value + Fraction(power_before, 2), end)

    value = whole.value + Fraction(1, 2)
    following = _next_index(tokens, end - 1)
    power_after = _power_at(tokens, following)
    if following is None or power_after == 1:
        return _Phrase(value, end)
    return _Phrase(value * power_after, following + 1)


def _read_decimals(tokens: Sequence[_Token], whole: _Phrase) -> _Phrase | None:
    """Return the number of "two point five", whose decimals are words for digits.

    Returns:
        None if no decimals follow the whole number.
    """
    point = _next_index(tokens, whole.end - 1)
    if point is None or tokens[point].word not in DECIMAL_POINTS:
        return None
    digits = []
    index = _next_index(tokens, point)
    while index is not None:
        digit = _VALUES.get(tokens[index].word)
        if digit is None or digit > 9:
            break
        digits.append(digit)
        index = _next_index(tokens, index)
    if not digits:
        return None

    value = whole.value
    for position, digit in enumerate(digits, start=1):
        value += Fraction(digit, 10**position)
    return _Phrase(value, point + 1 + len(digits))
