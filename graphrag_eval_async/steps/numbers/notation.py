"""One notation for the signs of numbers, whatever the script, the keyboard or the typesetter."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unicodedata import normalize

from graphrag_eval_async.helpers.patterns import lazy_pattern
from graphrag_eval_async.steps.scripts import with_ascii_digits

if TYPE_CHECKING:
    import re

_FRACTIONS = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"
_FRACTION_SLASH = "\u2044"


def _spelled_fraction(character: str) -> str:
    """Return a fraction in one character as text: ½ becomes " 1/2".

    The space before it makes 1½ a mixed number.
    """
    return " " + normalize("NFKC", character).replace(_FRACTION_SLASH, "/")


_CHARACTERS = str.maketrans(
    {
        # Dashes and minus signs as hyphens.
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\uff0d\ufe63", "-"),
        # Thousands separators as apostrophes, which keep a line together.
        **dict.fromkeys("\u2019\u00a0\u2007\u2008\u2009\u202f", "'"),
        # Other spaces as plain ones.
        **dict.fromkeys("\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u200a\u205f\u3000", " "),
        # Punctuation of other scripts.
        **dict.fromkeys("\u066b\uff0e", "."),
        **dict.fromkeys("\u066c\uff0c\u060c", ","),
        **dict.fromkeys("\u066a\uff05\ufe6a", "%"),
        **dict.fromkeys("\u2215\uff0f" + _FRACTION_SLASH, "/"),
        # Invisible characters inside numbers.
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u2066\u2067\u2069\ufeff"),
        **{character: _spelled_fraction(character) for character in _FRACTIONS},
    }
)
_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")

_LATEX_FRACTION = lazy_pattern(r"\\[dtc]?frac *\{? *(\d{1,6}) *\}? *\{? *(\d{1,6}) *\}?")
_LATEX_SHORT_FRACTION = lazy_pattern(r"\\[dtc]?frac *(\d)(\d)(?!\d)")  # \frac12
_LATEX_WRAPPER = lazy_pattern(
    r"\\(?:text|textbf|mathrm|mathbf|mathit|operatorname|num|SI|qty|si|unit|boxed|fbox)"
    r"(?![a-zA-Z])(?= *\{)"
)
_LATEX_SEPARATOR = lazy_pattern(
    r"(?<=\d)(?:\\[,;: !]|\{\\?(?P<mark>[ ,.])\}|~)(?=\d)"  # 1\,234 and 1{,}234
)
_LATEX_RAISED = lazy_pattern(r"([\^_])\{([^{}]{0,20})\}")  # km^{2} and x_{1}
_LATEX_TIMES = lazy_pattern(r"\\(?:times|cdot)(?![a-zA-Z]) ?")
_UNDERLINED = lazy_pattern(r"(?<!\w)(?P<marks>__?)(?P<inside>[^_\n]{1,100})(?P=marks)(?!\w)")
"""Markdown for italics and bold. Other underscores are parts of names."""

_POWER = lazy_pattern(
    r"[ ']?[x*\u00d7·][ ']?10"
    r"(?:(?:\^|\*\*)\{?\(?(?P<plain>-?\d{1,3})\)?\}?"
    r"|<sup>(?P<html>-?\d{1,3})</sup>"
    r"|(?P<superscript>[⁻⁰¹²³⁴-⁹]{1,4}))"
)
_POWER_ALONE = lazy_pattern(
    r"(?<![\w.,^-])10(?:\^(?P<plain>-?\d{1,3})(?!\d)|<sup>(?P<html>-?\d{1,3})</sup>"
    r"|(?P<superscript>[⁻⁰¹²³⁴-⁹]{1,4}))"
)


def readable(text: str) -> str:
    """Return a copy of a text in which numbers have signs of ASCII, and no LaTeX.

    Powers of ten become exponents: 3 x 10^8 is 3e8.
    """
    if not text.isascii():
        text = normalize("NFC", text).translate(_CHARACTERS)
        text = with_ascii_digits(text)
    if "\\" in text or "{" in text or "~" in text:
        text = _without_latex(text)
    if "_" in text:
        text = _UNDERLINED.sub(r"\g<inside>", text)
    text = _POWER.sub(_as_exponent, text)
    return _POWER_ALONE.sub(lambda power: f"1{_as_exponent(power)}", text)


def _without_latex(text: str) -> str:
    """Return a text in which numbers in LaTeX are written as in plain text."""
    text = text.replace(r"\!", "")  # A negative space, as in 1,\!234.
    text = _LATEX_SHORT_FRACTION.sub(_as_fraction, text)
    text = _LATEX_FRACTION.sub(_as_fraction, text)
    text = _LATEX_WRAPPER.sub("", text)
    text = _LATEX_SEPARATOR.sub(_as_separator, text)
    text = _LATEX_TIMES.sub("x ", text)
    text = _LATEX_RAISED.sub(r"\1\2", text)
    return text.replace("\\left", "").replace("\\right", "").replace("\\$", "$")


def _as_fraction(fraction: re.Match[str]) -> str:
    """Return a fraction in LaTeX as plain text, such as 1/2.

    A space before it makes 1\\frac{1}{2} a mixed number. After a minus sign, there is no space.
    """
    plain = f"{fraction[1]}/{fraction[2]}"
    is_after_sign = fraction.string[: fraction.start()].endswith("-")
    if is_after_sign:
        return plain
    return f" {plain}"


def _as_separator(separator: re.Match[str]) -> str:
    r"""Return the separator of a number in LaTeX as one of plain text.

    A comma or a point in braces loses the braces. A space such as "\," becomes an apostrophe.
    """
    mark = separator["mark"]
    if mark in {",", "."}:
        return str(mark)
    return "'"


def _as_exponent(power: re.Match[str]) -> str:
    """Return the exponent of a power of ten as a programming language writes it: e8 for 10^8."""
    exponent = power["plain"] or power["html"]
    if exponent is None:
        exponent = power["superscript"].translate(_SUPERSCRIPTS)
    return f"e{exponent}"
