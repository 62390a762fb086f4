"""Comparison of texts that a person would call the same."""

from __future__ import annotations

import re
from html import unescape
from unicodedata import normalize

from graphrag_eval_async.steps.scripts import (
    CHINESE_NUMERALS,
    HANGUL,
    WITHOUT_SPACES,
    with_ascii_digits,
)
from graphrag_eval_async.text import INVISIBLE

MAX_LAYERS = 8
"""The most layers of quotes and emphasis that `bare` removes; each costs a copy of the text."""

_CHARACTERS = str.maketrans(
    {
        # Single quotes, primes, and the letters that look like them: Hawai\u02bbi.
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u2035\u02b9\u02bb\u02bc\u02bd\u02c8", "'"),
        **dict.fromkeys("\u2039\u203a\u00b4\u0060\u275b\u275c\ua78c\uff07\u05f3", "'"),
        # Double quotes, also those of Chinese and Japanese.
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\u2036\u275d\u275e", '"'),
        **dict.fromkeys("\u301d\u301e\u301f\uff02\u300c\u300d\u300e\u300f\u02ba\u05f4", '"'),
        **dict.fromkeys("\uff62\uff63\ufe41\ufe42\ufe43\ufe44\u300a\u300b\u3008\u3009", '"'),
        # Hyphens, dashes and minus signs.
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\u207b\u208b", "-"),
        **dict.fromkeys("\u02d7\u058a\u05be\u2796\u2e3a\u2e3b\u30a0\ufe31\ufe32", "-"),
        **dict.fromkeys("\ufe58\ufe63\uff0d\u1806", "-"),
        # Slashes.
        **dict.fromkeys("\u2044\u2215", "/"),
        # Invisible characters: soft hyphens, zero-width and directional ones, and fillers.
        **dict.fromkeys(INVISIBLE),
        **dict.fromkeys("\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\ufff9"),
        **dict.fromkeys("\u2061\u2062\u2063\u2064\u206a\u206b\u206c\u206d\u206e\u206f"),
        **dict.fromkeys("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufffa\ufffb"),
        # The stretching of Arabic letters, and the vowel signs that Arabic and Hebrew may omit.
        **dict.fromkeys(map(chr, [0x0640, *range(0x064B, 0x0653), 0x0670])),
        **dict.fromkeys(map(chr, [*range(0x05B0, 0x05BD), 0x05BF, 0x05C1, 0x05C2, 0x05C7])),
    }
)

_FOLDED = str.maketrans({"\u0131": "i", "\u0307": None})
"""Turkish letters: casefold() leaves the dot of a capital \u0130 as a character of its own."""

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
_SPACED_RANGE = re.compile(r"(?<=\d) - (?=\d)")
_MARKDOWN_ESCAPE = re.compile(r"\\([_*#\[\]().!+`|~>-])")

_EMPHASIS_HINT = frozenset("*_~`<")
_FENCE = re.compile(r"\s*```\w{0,20}\n(?P<inside>.*)\n```\s*", re.DOTALL)
_STRONG_MARK = re.compile(r"\*\*|~~|`|</?(?:b|strong|i|em|u|mark|code|span)>", re.IGNORECASE)
_EMPHASIS = re.compile(
    r"(?<!\w)(?P<mark>[*_])(?=\S)(?P<inside>[^*_\n]{1,300})(?<=\S)(?P=mark)(?!\w)"
)

_STOPS = ".\u3002\u0964\u06d4\u1362\u0589\u17d4\u104b\uff61"
"""Full stops: Latin, Chinese, Indic, Urdu, Ethiopic, Armenian, Khmer, Burmese."""

_LAYERS = [
    ("**", "**"),
    ("__", "__"),
    ("~~", "~~"),
    *((mark, mark) for mark in "*_'\""),
    ("<b>", "</b>"),
    ("<strong>", "</strong>"),
    ("<i>", "</i>"),
    ("<em>", "</em>"),
    ("<code>", "</code>"),
    ("<mark>", "</mark>"),
    ("<u>", "</u>"),
]
"""What may surround a text without changing it; `plain` makes single quotes of backticks."""

_SPACED_LETTER = rf"[^\W_{WITHOUT_SPACES}]"
"""A letter or a digit of a script with spaces between its words."""

_SPACED_BUT_KOREAN = rf"[^\W_{WITHOUT_SPACES}{HANGUL}]"

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

_ARABIC_PREFIXES = ("و", "ف", "ب", "ل", "ك", "ال", "وال", "بال", "فال", "كال", "ول", "وب")
_HEBREW_PREFIXES = ("ו", "ב", "ל", "ה", "מ", "ש", "כ", "וב", "ול", "וה", "שב")
"""Words such as "and", "in" and "the", which are written as a part of the next word."""


def _word_begins(letter: str, prefixes: tuple[str, ...] = ()) -> re.Pattern[str]:
    """Return what matches before a word: no `letter`, or only a prefix, and no part of a number."""
    starts = [f"(?<!{letter})", *(f"(?<=(?<!{letter}){prefix})" for prefix in prefixes)]
    return re.compile(f"{_NO_NUMBER_BEFORE}(?:{'|'.join(starts)})")


_CHINESE_NUMBER_BEGINS = re.compile(f"(?<![{CHINESE_NUMERALS}])")  # 五 is not in 十五.
_CHINESE_NUMBER_ENDS = re.compile(f"(?![{CHINESE_NUMERALS}])")
_ANYWHERE = re.compile("")
_SYLLABLE_ENDS = re.compile(f"(?![{_MARKS}])")
_WORD_BEGINS = _word_begins(_SPACED_BUT_KOREAN)
_WORD_ENDS = re.compile(f"{_NO_NUMBER_AFTER}(?!{_SPACED_BUT_KOREAN}|[{_MARKS}])")

_BEGINNINGS = [
    (re.compile(f"[{CHINESE_NUMERALS}]"), _CHINESE_NUMBER_BEGINS),
    (re.compile(rf"(?!\d)[{WITHOUT_SPACES}]"), _ANYWHERE),
    (re.compile(f"[{HANGUL}]"), _word_begins(_SPACED_LETTER)),
    (re.compile("[\u0620-\u064a\u0671-\u06d3]"), _word_begins(_SPACED_LETTER, _ARABIC_PREFIXES)),
    (re.compile("[\u05d0-\u05ea]"), _word_begins(_SPACED_LETTER, _HEBREW_PREFIXES)),
    (re.compile("[\u0900-\u0dff]"), _word_begins(f"(?:{_SPACED_LETTER}|[{_MARKS}])")),
]
"""How a part begins, by its first character: Chinese, Korean, Arabic, Hebrew, Indic."""

_ENDS = [
    (re.compile(f"[{CHINESE_NUMERALS}]"), _CHINESE_NUMBER_ENDS),
    (re.compile(rf"(?!\d)[{WITHOUT_SPACES}]"), _SYLLABLE_ENDS),
]
"""How a part ends, by its last character."""


def plain(text: str) -> str:
    """Return a text in one Unicode form, case and white space.

    Quotes, hyphens and dashes become ASCII, invisible characters and HTML's entities disappear.
    """
    text = without_entities(text)
    if "\\" in text:
        text = _MARKDOWN_ESCAPE.sub(r"\1", text)
    if not text.isascii():
        text = _plain_characters(text)
    text = " ".join(text.replace("`", "'").lower().split())
    if " - " in text:
        text = _SPACED_RANGE.sub("-", text)
    return text


def _plain_characters(text: str) -> str:
    """Return a text in lower case, in one Unicode form and with plain punctuation."""
    # First, since NFKC makes a space and an accent of some quotes.
    text = text.translate(_CHARACTERS)
    # Twice, since the lower case of some characters has another form.
    text = normalize("NFKC", normalize("NFKC", text).casefold())
    text = text.translate(_CHARACTERS).translate(_FOLDED)
    return with_ascii_digits(text)


def without_entities(text: str) -> str:
    """Return a text with characters for HTML's entities, such as & for `&amp;`."""
    if "&" not in text:
        return text
    return _ENTITY.sub(lambda entity: unescape(entity[0]), text)


def without_emphasis(text: str) -> str:
    """Return a text without the marks of Markdown and HTML for bold, italics and code."""
    if _EMPHASIS_HINT.isdisjoint(text):
        return text
    return _EMPHASIS.sub(r"\g<inside>", _STRONG_MARK.sub("", text))


def bare(text: str) -> str:
    """Return a text by `plain` without surrounding quotes, emphasis and a final stop."""
    fence = _FENCE.fullmatch(text)
    text = plain(fence["inside"] if fence else text)
    for _ in range(MAX_LAYERS):
        inner = _without_layer(text)
        if inner == text:
            break
        text = inner
    return text


def _without_layer(text: str) -> str:
    """Remove a final stop and the outermost pair of quotes or marks of emphasis."""
    text = text.strip()
    if len(text) > 1 and text[-1] in _STOPS:
        text = text[:-1].rstrip()
    for opening, closing in _LAYERS:
        has_inside = len(text) > len(opening) + len(closing)
        if has_inside and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)].strip()
    return text


def occurs(part: str, text: str) -> bool:
    """Whether a part stands in a text as whole words and numbers: 5 is not in 1.5, 5,000 and -5.

    Scripts without spaces between words have no whole words. Korean particles may follow a word,
    and Arabic and Hebrew ones stand before it.
    """
    if part not in text:
        return False
    begins = _boundary(_BEGINNINGS, part[0], _WORD_BEGINS)
    ends = _boundary(_ENDS, part[-1], _WORD_ENDS)

    start = text.find(part)
    while start != -1:
        if begins.match(text, start) and ends.match(text, start + len(part)):
            return True
        start = text.find(part, start + 1)
    return False


def _boundary(
    patterns: list[tuple[re.Pattern[str], re.Pattern[str]]],
    character: str,
    default: re.Pattern[str],
) -> re.Pattern[str]:
    """Return the pattern for the end of a part that has this character."""
    for characters, pattern in patterns:
        if characters.match(character):
            return pattern
    return default
