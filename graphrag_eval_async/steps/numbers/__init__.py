"""Reading of numbers in prose: 1,234.5 and 1.234,5, 2.5e-3, 1.5 million, 45 %, 1/2, three, 三百."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from itertools import zip_longest
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize

from graphrag_eval_async.steps.numbers.word_tables import (
    ARTICLES,
    CJK_DIGITS,
    CJK_SCALES,
    DENOMINATORS,
    HALVES,
    JOINERS,
    SPACED_SCALES,
    UNCERTAIN,
    UNSPACED_SCALES,
    by_word,
    certain_words,
)
from graphrag_eval_async.steps.scripts import (
    CHINESE_NUMERALS,
    HANGUL,
    WITHOUT_SPACES,
    with_ascii_digits,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_CERTAIN_WORDS = certain_words()
_UNCERTAIN_WORDS = by_word(UNCERTAIN)
_WORD_VALUES = _UNCERTAIN_WORDS | _CERTAIN_WORDS
_DENOMINATORS = by_word(DENOMINATORS)
_SPACED_SCALES = by_word(SPACED_SCALES)
_UNSPACED_SCALES = by_word(UNSPACED_SCALES)
_SUFFIXES = {"k": 3, "K": 3, "M": 6, "B": 9}  # Directly after the digits: 5 K and 5m are units.

MAX_PARTS = 6
"""The most parts of one number that are added, as the two of 3万5千; no real number has more."""

MAX_SCALES = 3
"""The most powers of ten in a row, as the two of "5 lakh crore"; no real number has more."""

_CHARACTERS = str.maketrans(
    {
        # Dashes and minus signs as hyphens.
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\uff0d\ufe63", "-"),
        # Thousands separators as apostrophes, which keep a line together.
        **dict.fromkeys("\u2019\u00a0\u2009\u202f\u2007\u2008", "'"),
        # Punctuation of other scripts.
        **dict.fromkeys("\u066b\uff0e", "."),
        **dict.fromkeys("\u066c\uff0c\u060c", ","),
        **dict.fromkeys("\u066a\uff05\ufe6a", "%"),
        **dict.fromkeys("\u2044\u2215\uff0f", "/"),
        # Invisible characters inside numbers.
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u2066\u2067\u2069\ufeff"),
        # Fractions of one character; the space makes 1½ a mixed number.
        **{
            character: f" {normalize('NFKC', character).replace(chr(0x2044), '/')}"
            for character in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒↉"
        },
    }
)
_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")

_LATEX_FRACTION = re.compile(r"\\[dtc]?frac *\{? *(\d{1,6}) *\}? *\{? *(\d{1,6}) *\}?")
_LATEX_SHORT_FRACTION = re.compile(r"\\[dtc]?frac *(\d)(\d)(?!\d)")
_LATEX_WRAPPER = re.compile(
    r"\\(?:text|textbf|mathrm|mathbf|mathit|operatorname|num|SI|qty|si|unit|boxed|fbox)(?![a-zA-Z]) *(?=\{)"
)
_LATEX_SPACE = re.compile(r"(?<=\d)\\[,;: !](?=\d)|(?<=\d)\{[\\]?([ ,.])\}(?=\d)|(?<=\d)~(?=\d)")
_LATEX_TIMES = re.compile(r"\\(?:times|cdot)(?![a-zA-Z]) ?")
_POWER = re.compile(
    r"[ ']?[x*\u00d7·][ ']?10"
    r"(?:(?:\^|\*\*)\{?\(?(-?\d{1,3})\)?\}?|<sup>(-?\d{1,3})</sup>|([⁻⁰¹²³⁴-⁹]{1,4}))"
)
_GROUPED_POWER = re.compile(r"(?<![\w.,^])10\^\{(-?\d{1,3})\}")

# A letter or an underscore before a number makes it a part of a name, as in T1; in scripts without
# spaces and in Korean, it is the end of the word before.
_NO_NAME_BEFORE = rf"(?<![^\W{WITHOUT_SPACES}{HANGUL}])(?<![\d.,/^-])(?<!\d:)"
_SIGN = r"(?P<sign>-|(?:minus|moins|menos|meno|минус|мінус)[ ']|负|負|マイナス|마이너스 ?|)"

# 3/5/2021, 5:30, 10-15 and 2^3 are no numbers.
_NUMBER = re.compile(
    rf"{_NO_NAME_BEFORE}(?P<text>{_SIGN}(?:"
    r"(?:(?P<whole>\d{1,6})[ ']{1,2})?(?P<numerator>\d{1,6})/(?P<denominator>[1-9]\d{0,5})"
    r"(?![\d/^:_]|[.,-]\d)"
    r"|(?P<digits>(?>[1-9]\d{0,2}(?:[ ']\d{3}){1,6}(?![ ']?\d)(?:[.,]\d+)?"
    r"|(?:\d+|(?=\.\d))(?:[.,]\d+)*)(?![-/:^_]\d))"
    r"(?P<power>e[+-]?\d{1,3}(?!\w)|)))",
    re.IGNORECASE,
)
_PART = re.compile(r"(?:[ '](?:and[ '])?)?(?P<digits>[1-9]\d{0,3}(?:,\d{3})*(?:\.\d+)?)(?![.,]?\d)")
_UNSPACED = "|".join(sorted(map(re.escape, _UNSPACED_SCALES), key=len, reverse=True))
_SCALE = re.compile(
    r"\*{0,2}[ '-]?\*{0,2}\\?"
    rf"(?:(?P<unspaced>{_UNSPACED})|(?P<percent>(?:per|por|pour)[ ']ci?ento?(?!\w))"
    r"|(?P<word>[^\W\d_]{1,15})(?!\w))",
    re.IGNORECASE,
)

_TOKEN = re.compile(r"[^\W\d_]+(?:'я[^\W\d_]+)?")  # An apostrophe is a letter of Ukrainian п'ять.
_CJK_NUMBER = re.compile(f"(?<![{CHINESE_NUMERALS}\\d.])[{CHINESE_NUMERALS}]{{1,30}}")
_ROMAN = re.compile(r"(?<![\w.-])(?=[IVX]{2})X{0,3}(?:IX|IV|V?I{0,3})(?![\w-])")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10}
_CJK_NONE = re.compile("没有|沒有|なし|ない|ありません|없|ไม่มี")

_STYLES = [  # English, German; both may group like India: 12,34,567.
    (
        re.compile(
            rf"[1-9]\d{{0,2}}(?:[{group}]\d{{3}})+(?:[{point}]\d+)?|\d+(?:[{point}]\d+)?"
            rf"|[1-9]\d?(?:[{group}]\d\d)+[{group}]\d{{3}}(?:[{point}]\d+)?"
        ),
        group,
        point,
    )
    for group, point in (",.", ".,")
]
_ROUNDING = 1 + 1e-9
"""Widens half a unit, so that a rounding error of a float does not count."""


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
        own_readings, other_readings = self.readings, other.readings
        if self.is_percentage and other.is_percentage:
            own_readings, other_readings = self.unscaled, other.unscaled
        for own in own_readings:
            for reading in other_readings:
                yield own.value, reading.value


class _Placed(NamedTuple):
    """A number and where it stands."""

    start: int
    end: int
    number: Number


class _Scale(NamedTuple):
    """The power of ten that words after a number mean, and where these end."""

    exponent: int
    end: int


class _Words(NamedTuple):
    """The value of some words, and the index after the last of them."""

    value: Fraction
    end: int


def numbers_in(text: str) -> list[Number]:
    """Return the numbers of a text in order.

    Numbers of dates such as 2021-05-03, and those of times, versions, ranges and names are left
    out; so are words that often mean something else, such as "one".
    """
    readable = _readable(text)
    placed = [*_written_in_digits(readable), *_written_in_words(readable)]
    placed += _written_in_chinese(readable)
    placed.sort(key=lambda item: item.start)

    numbers = []
    end = 0
    for item in placed:
        if item.start >= end:
            numbers.append(item.number)
            end = item.end
    return numbers


def uncertain_numbers_in(text: str) -> list[Number]:
    """Return what may be a number in a text without another one: "one", "no", 一, Article II."""
    readable = _readable(text)
    numbers = []
    for token in _TOKEN.finditer(readable):
        value = _UNCERTAIN_WORDS.get(token[0].casefold())
        is_compound = "-" in (
            readable[token.start() - 1 : token.start()],
            readable[token.end() :][:1],
        )
        if value is not None and not is_compound:
            numbers.append(_number_of_value(token[0], Fraction(value)))
    for match in _CJK_NUMBER.finditer(readable):
        value = _chinese_value(match[0])
        if value is not None and len(match[0]) == 1:
            numbers.append(_number_of_value(match[0], Fraction(value)))
    for match in _ROMAN.finditer(readable):
        numbers.append(_number_of_value(match[0], Fraction(_roman_value(match[0]))))
    if _CJK_NONE.search(readable):
        numbers.append(_number_of_value("0", Fraction(0)))
    return numbers


def _readable(text: str) -> str:
    """Return a text with the signs of numbers as `_NUMBER` knows them, without LaTeX."""
    if not text.isascii():
        text = normalize("NFC", text).translate(_CHARACTERS)
        text = with_ascii_digits(text)
    if "\\" in text:
        text = _LATEX_SHORT_FRACTION.sub(r" \1/\2", text)
        text = _LATEX_FRACTION.sub(r" \1/\2", text)
        text = _LATEX_WRAPPER.sub("", text)
        text = text.replace("\\left", "").replace("\\right", "")
    if "\\" in text or "{" in text or "~" in text:
        text = _LATEX_SPACE.sub(lambda match: (match[1] or "'").strip() or "'", text)
        text = text.replace("\\$", "$")
        text = _LATEX_TIMES.sub("x ", text)
    text = _POWER.sub(_as_exponent, text)
    return _GROUPED_POWER.sub(r"1e\1", text)


def _as_exponent(power: re.Match[str]) -> str:
    exponent = power[1] or power[2] or power[3].translate(_SUPERSCRIPTS)
    return f"e{exponent}"


def _written_in_digits(text: str) -> Iterator[_Placed]:
    position = 0
    while (match := _NUMBER.search(text, position)) is not None:
        position = match.end()
        if match["numerator"] is not None:
            number = _fraction(match)
            yield _Placed(match.start(), position, number)
            continue

        scale = _read_scale(text, match.end())
        parts = [(match["digits"], scale.exponent)]
        position = scale.end
        while 0 < parts[-1][1] and len(parts) < MAX_PARTS:
            following = _following_part(text, position, parts[-1][1])
            if following is None:
                break
            digits, scale = following
            parts.append((digits, scale.exponent))
            position = scale.end
        number = _number_of_digits(match, parts)
        if number.readings:
            yield _Placed(match.start(), position, number)


def _following_part(text: str, position: int, limit: int) -> tuple[str, _Scale] | None:
    """Return the digits and the power of ten of the next part of a number, as 5千 in 3万5千.

    Its power must be below `limit`. Only after a character such as 万 may it have none.
    """
    match = _PART.match(text, position)
    if match is None:
        return None
    scale = _read_scale(text, match.end())
    is_adjacent = match.start("digits") == position and text[position - 1] in UNSPACED_ENDS
    has_power = 0 < scale.exponent < limit
    if has_power or (is_adjacent and scale.exponent == 0):
        return match["digits"], scale
    return None


UNSPACED_ENDS = frozenset("十百千万萬億亿兆만억조천백십")
"""Characters after which the digits of the same number go on."""


def _read_scale(text: str, position: int) -> _Scale:
    """Return the power of ten that follows a number: 6 for "million", -2 for "%", 0 for none."""
    suffix = text[position : position + 1]
    following = text[position + 1 : position + 2]
    if suffix in _SUFFIXES and not (following.isalnum() or following == "_"):
        return _Scale(_SUFFIXES[suffix], position + 1)

    exponent = 0
    for _ in range(MAX_SCALES):
        match = _SCALE.match(text, position)
        if match is None:
            break
        if match["unspaced"]:
            power = _UNSPACED_SCALES.get(match["unspaced"])
        elif match["percent"]:
            power = -2
        else:
            power = _SPACED_SCALES.get(match["word"].casefold())
        if power is None:
            break
        exponent += power
        position = match.end()
        if power < 0:
            break
    return _Scale(exponent, position)


def _number_of_digits(match: re.Match[str], parts: list[tuple[str, int]]) -> Number:
    text = match["text"]
    is_negative = bool(match["sign"])
    power = int(match["power"][1:]) if match["power"] else 0
    digits, exponent = parts[0]
    unscaled = _readings(digits, power, is_negative=is_negative)
    readings = unscaled
    if len(parts) > 1:
        readings = _sum_of_readings(parts, is_negative=is_negative)
    elif exponent != 0:
        readings = _readings(digits, power + exponent, is_negative=is_negative)
    is_percentage = exponent < 0
    if is_percentage:
        readings += unscaled

    following = match.string[match.end("text") :][:1]
    is_word_end = not following.isalnum() or _IS_WITHOUT_SPACES(following) is not None
    return Number(
        text=text,
        readings=readings,
        unscaled=unscaled,
        is_percentage=is_percentage,
        is_sure=exponent != 0 or is_word_end,
    )


_IS_WITHOUT_SPACES = re.compile(f"[{WITHOUT_SPACES}{HANGUL}]").match


def _readings(digits: str, exponent: int, *, is_negative: bool) -> tuple[Reading, ...]:
    """Read digits as English and as German numbers; versions and the like have no reading."""
    unsigned = re.sub("[ ']", "", digits)
    if unsigned.startswith("."):
        unsigned = f"0{unsigned}"
    sign = "-" if is_negative else ""
    readings = {}
    for style, group, point in _STYLES:
        if style.fullmatch(unsigned) is None:
            continue
        if point == "," and unsigned.endswith(",000"):
            continue  # Nobody writes three decimals that are zero.
        plain = unsigned.replace(group, "").replace(point, ".")
        decimals = len(plain.partition(".")[2])
        value = float(f"{sign}{plain}e{exponent}")  # A product would round twice.
        unit = float(f"1e{exponent - decimals}")
        if isfinite(value):
            least = 0.0 if decimals else 10 * unit
            readings[value] = Reading(value, unit / 2 * _ROUNDING, least)
    return tuple(readings.values())


def _sum_of_readings(parts: list[tuple[str, int]], *, is_negative: bool) -> tuple[Reading, ...]:
    """Add the parts of a number, whose digits are English ones: 1億2,580万."""
    total = Decimal(0)
    for digits, exponent in parts:
        plain = digits.replace(",", "")
        if re.fullmatch(r"\d{1,30}(?:\.\d{1,30})?", plain) is None:
            return ()
        total += Decimal(f"{plain}e{exponent}")
    value = float(-total if is_negative else total)
    return (Reading(value, _ROUNDING * 10.0 ** parts[-1][1] / 2, 0.0),)


def _fraction(match: re.Match[str]) -> Number:
    """Read 1/2 and 1 1/2. Such numbers are not sure, since 1/2 may be a date or a name."""
    value = Fraction(int(match["numerator"]), int(match["denominator"]))
    if match["whole"]:
        value += int(match["whole"])
    if match["sign"]:
        value = -value
    return _number_of_value(match["text"], value)


def _number_of_value(text: str, value: Fraction) -> Number:
    """Return a number that is not written in digits, or is a fraction."""
    half, least = 0.0, 0.0
    if value.denominator == 1:
        half, least = _ROUNDING / 2, 10.0
    readings = (Reading(float(value), half, least),)
    return Number(
        text=text, readings=readings, unscaled=readings, is_percentage=False, is_sure=False
    )


class _Token(NamedTuple):
    """A word of a text."""

    word: str  # In lower case.
    start: int
    end: int
    joins_next: bool  # Whether only a space or a hyphen stands between it and the next word.


def _tokens(text: str) -> list[_Token]:
    matches = [*_TOKEN.finditer(text)]
    tokens = []
    for match, following in zip_longest(matches, matches[1:]):
        joins_next = False
        if following is not None and following.start() == match.end() + 1:
            joins_next = text[match.end()] in " -'"
        tokens.append(_Token(match[0].casefold(), match.start(), match.end(), joins_next))
    return tokens


def _written_in_words(text: str) -> Iterator[_Placed]:
    tokens = _tokens(text)
    index = 0
    while index < len(tokens):
        words = _read_words(tokens, index)
        if words is None:
            index += 1
            continue

        first, last = tokens[index], tokens[words.end - 1]
        is_certain = words.end > index + 1 or first.word not in _UNCERTAIN_WORDS
        sign = _sign_before(text, first.start)
        if is_certain and sign is not None and text[last.end : last.end + 1] not in _NAME_GOES_ON:
            scale = _read_scale(text, last.end)
            start = first.start - len(sign)
            yield _Placed(
                start=start,
                end=scale.end,
                number=_number_of_words(
                    text[start : last.end], -words.value if sign else words.value, scale.exponent
                ),
            )
        index = words.end


_NAME_GOES_ON = frozenset("_-0123456789")
"""Characters that make a word before them a part of a name or of a compound, as in "two-way"."""


def _sign_before(text: str, start: int) -> str | None:
    """Return the minus sign before a word, "" for none, and None if the word is no number here."""
    before = text[max(0, start - 7) : start]
    if before.endswith("-"):
        is_minus = len(before) == 1 or not (before[-2].isalnum() or before[-2] in "_.,/^-")
        return "-" if is_minus else None
    if before[-1:] and (before[-1].isdigit() or before[-1] in "_.,/^"):
        return None
    if before.casefold().endswith(("minus ", "minus'")):
        return before[-6:]
    return ""


def _number_of_words(text: str, value: Fraction, exponent: int) -> Number:
    unscaled = _number_of_value(text, value)
    if exponent == 0:
        return unscaled
    scaled = _number_of_value(text, value * Fraction(10) ** exponent)
    is_percentage = exponent < 0
    readings = scaled.readings
    if is_percentage:
        readings += unscaled.readings
    return Number(
        text=text,
        readings=readings,
        unscaled=unscaled.readings,
        is_percentage=is_percentage,
        is_sure=False,
    )


def _read_words(tokens: list[_Token], first: int) -> _Words | None:
    """Read the longest number whose first word is `tokens[first]`; None if it begins none."""
    word = tokens[first].word
    if word in HALVES:
        return _read_half(tokens, first)
    if word not in _WORD_VALUES and word not in ARTICLES:
        return None

    whole = _read_whole_number(tokens, first)
    if whole is None:
        return None
    return _read_part_after(tokens, whole)


def _read_half(tokens: list[_Token], first: int) -> _Words:
    """Read "half", or "half a million"."""
    following = _next_index(tokens, first)
    if following is not None and tokens[following].word in ARTICLES:
        following = _next_index(tokens, following)
    if following is not None:
        exponent = _SPACED_SCALES.get(tokens[following].word, 0)
        if exponent > 0:
            return _Words(Fraction(10**exponent, 2), following + 1)
    return _Words(Fraction(1, 2), first + 1)


def _read_part_after(tokens: list[_Token], whole: _Words) -> _Words | None:
    """Read what makes a fraction of a whole number: "two thirds", "two and a half million"."""
    last = whole.end - 1
    is_article = tokens[last].word in ARTICLES and tokens[last].word not in _WORD_VALUES
    following = _next_index(tokens, last)
    if following is None:
        return None if is_article else whole

    word = tokens[following].word
    denominator = _DENOMINATORS.get(word)
    if denominator is not None:
        is_singular = word in _SINGULAR_DENOMINATORS
        if whole.value == 1 and is_singular:
            return _Words(Fraction(1, denominator), following + 1)
        if whole.value > 1 and not is_singular:
            return _Words(whole.value / denominator, following + 1)
    if is_article:
        return None

    phrase = [token.word for token in tokens[following : following + 3]]
    if phrase[:1] == ["and"] and phrase[1:] in (["a", "half"], ["one", "half"]):
        value = whole.value + Fraction(1, 2)
        scale = _next_index(tokens, following + 2)
        exponent = 0
        if scale is not None:
            exponent = max(0, _SPACED_SCALES.get(tokens[scale].word, 0))
        if scale is not None and exponent > 0:
            return _Words(value * 10**exponent, scale + 1)
        return _Words(value, following + 3)
    return whole


_SINGULAR_DENOMINATORS = frozenset(
    "half third quarter fourth fifth sixth seventh eighth ninth tenth".split()
)
"""English words that are ordinals after another number than one: twenty-fifth is not 20/5."""

_DOZENS = frozenset(
    "dozen dozens dutzend douzaine docena dozzina dúzia dozijn tuzin дюжина".split()
)


def _next_index(tokens: list[_Token], index: int) -> int | None:
    """Return the index of the next word of the same phrase; None if the phrase ends."""
    if tokens[index].joins_next:
        return index + 1
    return None


def _read_whole_number(tokens: list[_Token], first: int) -> _Words | None:
    """Read words such as "two million three hundred and five".

    Returns:
        None if the first word is an article that no power of ten, dozen or fraction follows.
    """
    sum_of_groups = 0
    group: int | None = None  # The number before the next power of ten from 1,000 on.
    end = first
    index: int | None = first
    while index is not None:
        word = tokens[index].word
        is_first = index == first
        value = _WORD_VALUES.get(word)
        if is_first and value is None:
            value = 1  # An article.

        if value is not None and _continues(group, value, word):
            group = _continued(group, value, word)
        elif group is not None and word in _DOZENS:
            group *= 12
        elif group is not None and _SPACED_SCALES.get(word, 0) == 2 and 0 < group < 100:
            group *= 100
        elif group is not None and _SPACED_SCALES.get(word, 0) > 2:
            power = 10 ** _SPACED_SCALES[word]
            if sum_of_groups < power:
                # "Thousand million" is a product.
                sum_of_groups = (sum_of_groups + group) * power
            else:
                sum_of_groups += group * power
            group = None
        elif group is None and not is_first and _SPACED_SCALES.get(word, 0) > 2:
            sum_of_groups *= 10 ** _SPACED_SCALES[word]
        elif word in JOINERS and not is_first and _continues_after_joiner(tokens, index, group):
            index = _next_index(tokens, index)
            continue
        else:
            break
        end = index + 1
        index = _next_index(tokens, index)

    is_lone_article = end == first + 1 and tokens[first].word not in _WORD_VALUES
    if is_lone_article and not _begins_fraction(tokens, end):
        return None
    return _Words(Fraction(sum_of_groups + (group or 0)), end)


def _begins_fraction(tokens: list[_Token], index: int) -> bool:
    """Whether "third of" or the like stands here; without "of", "a third" is an ordinal."""
    phrase = [token.word for token in tokens[index : index + 2]]
    return len(phrase) == 2 and phrase[0] in _SINGULAR_DENOMINATORS and phrase[1] == "of"


def _continues(group: int | None, value: int, word: str) -> bool:
    """Whether a word for `value` goes on with a number below 1,000: 20 with 1, not 5 with 6."""
    if group is None:
        return True
    if value == 0 or value >= 100:
        return False
    remainder = group % 100
    if remainder == 0:
        return group > 0
    if remainder in (60, 80) and value < 20:
        return True  # soixante-dix-sept, quatre-vingt-dix
    if remainder in (10, 70, 90) and word in ("sept", "huit", "neuf"):
        return True  # dix-sept
    if remainder == 4 and word in ("vingt", "vingts"):
        return True  # quatre-vingts
    return remainder >= 20 and remainder % 10 == 0 and value < 10


def _continued(group: int | None, value: int, word: str) -> int:
    """Return the number below 1,000 that a word goes on with."""
    if group is None:
        return value
    if group % 100 == 4 and word in ("vingt", "vingts"):
        return group - 4 + 80
    return group + value


def _continues_after_joiner(tokens: list[_Token], index: int, group: int | None) -> bool:
    """Whether the number goes on after an "and": two hundred and five, treinta y dos."""
    following = _next_index(tokens, index)
    if following is None or (group is not None and group < 20):
        return False
    word = tokens[following].word
    value = _WORD_VALUES.get(word)
    return value is not None and _continues(group, value, word)


def _written_in_chinese(text: str) -> Iterator[_Placed]:
    """Read numbers of Chinese characters, which Japanese uses, too: 三百二十, 百分之五, 三分之一."""
    if text.isascii():
        return
    for match in _CJK_FRACTION.finditer(text):
        denominator = _chinese_value(match["denominator"])
        if match["digits"]:
            numerator = Fraction(match["digits"])
        else:
            numerator = Fraction(_chinese_value(match["numerator"]) or 0)
        if denominator is None and match["denominator"] == "百":
            denominator = 100
        if not denominator:
            continue
        number = _number_of_value(match[0], numerator / denominator)
        if denominator == 100:
            number = _number_of_words(match[0], numerator, -2)
        yield _Placed(match.start(), match.end(), number)

    for match in _CJK_NUMBER.finditer(text):
        value = _chinese_value(match[0])
        if value is not None and len(match[0]) > 1:
            number = _number_of_value(match[0], Fraction(value))
            yield _Placed(match.start(), match.end(), number)


_CJK_FRACTION = re.compile(
    f"(?P<denominator>[{CHINESE_NUMERALS}]{{1,9}})分之"
    rf"(?:(?P<numerator>[{CHINESE_NUMERALS}]{{1,9}})|(?P<digits>\d{{1,9}}(?:\.\d{{1,9}})?))"
)


def _chinese_value(characters: str) -> int | None:
    """Return the value of numerals; None for words that only look like one, such as 万一."""
    has_scale = any(character in CJK_SCALES for character in characters)
    if not has_scale:
        is_year_or_digit = len(characters) != 2 or not set("〇零").isdisjoint(characters)
        if not is_year_or_digit:
            return None  # 二三 is "two or three".
        return int("".join(str(CJK_DIGITS[character]) for character in characters))
    if characters == "千万":
        return None  # "By all means".

    total = 0
    below_10_000 = 0
    digit: int | None = None
    for character in characters:
        if character in CJK_DIGITS:
            if digit:
                return None
            digit = CJK_DIGITS[character]
            continue
        exponent = CJK_SCALES[character]
        if exponent < 4:
            # 十 alone is ten, and 百 in Japanese a hundred.
            below_10_000 += (digit or 1) * 10**exponent
            digit = None
            continue
        below_10_000 += digit or 0
        digit = None
        if below_10_000:
            total += below_10_000 * 10**exponent
            below_10_000 = 0
        elif 0 < total < 10**exponent:
            total *= 10**exponent  # 一万亿
        else:
            return None
    return total + below_10_000 + (digit or 0)


def _roman_value(numeral: str) -> int:
    value = 0
    for character, following in zip(numeral, numeral[1:] + " ", strict=True):
        step = _ROMAN_VALUES[character]
        if _ROMAN_VALUES.get(following, 0) > step:
            step = -step
        value += step
    return value
