"""One form of texts that a person would call the same."""

from __future__ import annotations

import re
from html import unescape
from unicodedata import normalize

from graphrag_eval_async.helpers.patterns import lazy_pattern
from graphrag_eval_async.helpers.text import INVISIBLE
from graphrag_eval_async.steps.scripts import with_ascii_digits

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
        # Slashes, stars and tildes.
        **dict.fromkeys("\u2044\u2215", "/"),
        "\u2217": "*",
        **dict.fromkeys("\u223c\u301c", "~"),
        # Arabic punctuation, and letters that Arabic and Persian write with other characters.
        "\u060c": ",",
        "\u061b": ";",
        "\u061f": "?",
        **dict.fromkeys("\u064a\u0649", "\u06cc"),
        "\u0643": "\u06a9",
        **dict.fromkeys("\u0622\u0623\u0625", "\u0627"),
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

_ENTITY = lazy_pattern(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
_RANGE = lazy_pattern(r"(?<=\d)(?: - | ?~ ?)(?=\d)")
"""Between two numbers; Chinese and Japanese write a wave dash there."""

_MARKDOWN_ESCAPE = lazy_pattern(r"\\([_*#\[\]().!+`|~>-])")

_CITATION = lazy_pattern(
    # After a word, at the end of a sentence, an item or a line.
    r"(?<=[\w.,;:!?)\]])[ ]?\[\^?\d{1,3}(?:[,\u2013-]\s?\d{1,3}){0,9}\]"
    r"(?=\s*(?:[.,;:!?|\[\n]|\Z|[A-Z]))"
    r"|【\d[^【】]{0,60}】"
)
_EMPHASIS_HINT = frozenset("*_~`<")
_FENCE = lazy_pattern(r"\s*```\w{0,20}\n(?P<inside>.*)\n```\s*", re.DOTALL)
_STRONG_MARK = lazy_pattern(r"\*\*|~~|`|</?(?:b|strong|i|em|u|mark|code|span)>", re.IGNORECASE)
_EMPHASIS = lazy_pattern(
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
    ("<answer>", "</answer>"),
    ("<final_answer>", "</final_answer>"),
    ("<response>", "</response>"),
    ("<result>", "</result>"),
    ("<output>", "</output>"),
    ("<solution>", "</solution>"),
    ("$", "$"),
    ("\\boxed{", "}"),
    ("\\fbox{", "}"),
    ("\\text{", "}"),
]
"""What may surround a text without changing it; `plain` makes single quotes of backticks."""

_HEADING_MARK = lazy_pattern(r"#{1,6} ")


def plain(text: str) -> str:
    """Return a text in lower case, with ASCII punctuation and single spaces, for comparisons.

    All kinds of quotes, hyphens and dashes become the ASCII ones. Invisible characters, escapes of
    Markdown and entities of HTML disappear.
    """
    text = without_entities(text)
    if "\\" in text:
        text = _MARKDOWN_ESCAPE.sub(r"\1", text)
    if not text.isascii():
        text = _plain_characters(text)
    text = " ".join(text.replace("`", "'").lower().split())
    if " - " in text or "~" in text:
        text = _RANGE.sub("-", text)
    return text


def _plain_characters(text: str) -> str:
    """Return a text in lower case, with the same character for all that look or mean the same."""
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


def without_citations(text: str) -> str:
    """Return a text without marks of sources and footnotes, such as [1], [^2] or 【4†source】."""
    if "[" not in text and "【" not in text:
        return text
    return _CITATION.sub("", text)


def without_emphasis(text: str) -> str:
    """Return a text without the marks of Markdown and HTML for bold, italics and code."""
    if _EMPHASIS_HINT.isdisjoint(text):
        return text
    return _EMPHASIS.sub(r"\g<inside>", _STRONG_MARK.sub("", text))


def bare(text: str) -> str:
    """Return a text by `plain` without what may stand around an answer.

    This is a fence, quotes, emphasis, tags such as `<answer>`, the mark of a heading, a final stop,
    and LaTeX's box.
    """
    fence = _FENCE.fullmatch(text)
    if fence:
        text = fence["inside"]
    bare_text = plain(text)
    for _ in range(MAX_LAYERS):
        inner_text = _without_layer(bare_text)
        if inner_text == bare_text:
            break
        bare_text = inner_text
    return bare_text


def _without_layer(text: str) -> str:
    """Return a text without a final stop and the mark of a heading, and without one layer.

    A layer is a pair of quotes, of emphasis or of tags.
    """
    text = text.strip()
    heading_mark = _HEADING_MARK.match(text)
    if heading_mark:
        text = text[heading_mark.end() :]
    if len(text) > 1 and text[-1] in _STOPS:
        text = text[:-1].rstrip()
    for opening, closing in _LAYERS:
        has_inside = len(text) > len(opening) + len(closing)
        if has_inside and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)].strip()
    return text
