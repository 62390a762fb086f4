"""Occurrence of a name or a number in a text, in scripts with and without spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrag_eval_async.helpers.patterns import lazy_pattern
from graphrag_eval_async.steps.scripts import CHINESE_NUMERALS, HANGUL, WITHOUT_SPACES

if TYPE_CHECKING:
    import re

_LETTER = r"[^\W_]"
"""A letter or a digit. It has no ranges, since each use of those takes milliseconds to compile."""

_SPACED_BUT_KOREAN = rf"[^\W_{WITHOUT_SPACES}{HANGUL}]"
"""A letter or a digit that joins a foreign word beside it: of a script with spaces, not Korean."""

_MARKS = (
    "\u0300-\u036f"  # Accents.
    "\u093a-\u094d\u09be-\u09cd\u0a3e-\u0a4d\u0abe-\u0acd\u0b3e-\u0b4d\u0bbe-\u0bcd"  # Indic.
    "\u0c3e-\u0c4d\u0cbe-\u0ccd\u0d3e-\u0d4d\u0dca-\u0ddf"
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd"  # Thai, Lao.
    "\u102b-\u103e\u17b6-\u17d3"  # Burmese, Khmer.
)
"""Vowel signs and the like, which belong to the character before them."""

_NO_NUMBER_BEFORE = r"(?<!\d)(?<!\d[.,](?=\d))(?<!\W-(?=\d))(?<!^-(?=\d))"
_NO_NUMBER_AFTER = r"(?!\d|(?<=\d)(?:[.,]\d|[百千万萬億亿兆백천만억조]))"

_ARABIC_PREFIXES = ("و", "ف", "ب", "ل", "ک", "ال", "وال", "بال", "فال", "کال", "ول", "وب")
_HEBREW_PREFIXES = ("ו", "ב", "ל", "ה", "מ", "ש", "כ", "וב", "ול", "וה", "שב")
"""Words such as "and", "in" and "the", which are written as a part of the next word."""


def _word_begins(letter: str, prefixes: tuple[str, ...] = ()) -> re.Pattern[str]:
    """Return a pattern for the place where a word begins.

    Neither a number nor a letter stands before that place, or only a prefix does.

    Args:
        letter: a pattern for letters and digits that would be a part of the same word.
        prefixes: words that are written as a part of the next word.
    """
    starts = [f"(?<!{letter})", *(f"(?<=(?<!{letter}){prefix})" for prefix in prefixes)]
    return lazy_pattern(f"{_NO_NUMBER_BEFORE}(?:{'|'.join(starts)})")


_CHINESE_NUMERAL = lazy_pattern(f"[{CHINESE_NUMERALS}]")
_UNSPACED_LETTER = lazy_pattern(rf"(?!\d)[{WITHOUT_SPACES}]")
_KOREAN_LETTER = lazy_pattern(f"[{HANGUL}]")
_ARABIC_LETTER = lazy_pattern("[\u0620-\u064a\u0671-\u06d3]")
_HEBREW_LETTER = lazy_pattern("[\u05d0-\u05ea]")
_INDIC_LETTER = lazy_pattern("[\u0900-\u0dff]")

_CHINESE_NUMBER_BEGINS = lazy_pattern(f"(?<![{CHINESE_NUMERALS}])")  # 五 is not in 十五.
_CHINESE_NUMBER_ENDS = lazy_pattern(f"(?![{CHINESE_NUMERALS}])")
_ANYWHERE = lazy_pattern("")  # Any letter may begin a word.
_SYLLABLE_ENDS = lazy_pattern(f"(?![{_MARKS}])")
_WORD_BEGINS = _word_begins(_SPACED_BUT_KOREAN)
_WORD_ENDS = lazy_pattern(f"{_NO_NUMBER_AFTER}(?!{_SPACED_BUT_KOREAN}|[{_MARKS}])")

_BEGINNINGS = [
    (_CHINESE_NUMERAL, _CHINESE_NUMBER_BEGINS),
    (_UNSPACED_LETTER, _ANYWHERE),
    (_KOREAN_LETTER, _word_begins(_LETTER)),
    (_ARABIC_LETTER, _word_begins(_LETTER, _ARABIC_PREFIXES)),
    (_HEBREW_LETTER, _word_begins(_LETTER, _HEBREW_PREFIXES)),
    (_INDIC_LETTER, _word_begins(f"(?:{_LETTER}|[{_MARKS}])")),
]
"""What must match where a part begins, by its first character."""

_ENDS = [
    (_CHINESE_NUMERAL, _CHINESE_NUMBER_ENDS),
    (_UNSPACED_LETTER, _SYLLABLE_ENDS),
]
"""What must match where a part ends, by its last character."""


def occurs(part: str, text: str) -> bool:
    """Return whether a text has a part as whole words and numbers: 5 is not in 1.5, 5,000 and -5.

    Scripts without spaces between words have no whole words. Korean particles may follow a word,
    and Arabic and Hebrew ones stand before it.

    Args:
        part: a text by `plain`. If it is empty, the result is false.
        text: a text by `plain`.
    """
    if not part or part not in text:
        return False
    word_begins = _boundary(_BEGINNINGS, part[0], default=_WORD_BEGINS)
    word_ends = _boundary(_ENDS, part[-1], default=_WORD_ENDS)

    start = text.find(part)
    while start != -1:
        end = start + len(part)
        if word_begins.match(text, start) and word_ends.match(text, end):
            return True
        start = text.find(part, start + 1)
    return False


def _boundary(
    patterns: list[tuple[re.Pattern[str], re.Pattern[str]]],
    character: str,
    default: re.Pattern[str],
) -> re.Pattern[str]:
    """Return the pattern that must match where a word begins or ends with a character.

    Args:
        patterns: pairs of a pattern for characters, and the pattern for words with these.
        character: the first or last character of the word.
        default: the pattern for words with other characters.
    """
    for character_pattern, boundary_pattern in patterns:
        if character_pattern.match(character):
            return boundary_pattern
    return default
