"""Hides secrets in the texts of servers, however they are escaped, before people see them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TEXT = 300
"""Maximum characters that are quoted of a server's text."""

MAX_SCRUBBED = 1 << 16
"""Maximum characters of a server's text that are searched for secrets before it is quoted."""

MIN_SECRET_CHARACTERS = 4
"""Minimum length of a secret; shorter texts occur in every message."""

LONGEST_ESCAPE = 12
"""Maximum characters that stand for one, as in ``\\\\ud83d\\\\ude00``."""

SPECIAL = re.compile(r"\\+|[^A-Za-z0-9]")
"""Parts of a secret that a server may escape: a run of backslashes, or one other character."""

OTHER_SPELLINGS = {" ": "+", "\n": "n", "\r": "r", "\t": "t"}
"""How forms, and JSON after a backslash, write these characters."""

HIDDEN = "***"


class Secret(NamedTuple):
    """A text to hide."""

    length: int
    longest_part: str
    """The longest part without special characters, which never is escaped: quick to look for."""
    pattern: re.Pattern[str]
    """Matches the secret, however it is escaped."""


class Scrubber:
    """Prepares texts from servers for display: hides secrets, joins lines, truncates."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Prepare to hide `secrets`, except texts shorter than `MIN_SECRET_CHARACTERS`."""
        # Longest first: hiding a secret that begins another would leave the rest visible.
        self._secrets = [
            _compile_secret(text)
            for text in sorted({*secrets}, key=len, reverse=True)
            if len(text) >= MIN_SECRET_CHARACTERS
        ]

    def __call__(self, text: str, limit: int = MAX_TEXT) -> str:
        """Return at most `limit` characters of a text, on one line and without secrets."""
        shown = self.hide(text[:MAX_SCRUBBED])
        if len(text) > MAX_SCRUBBED and self._secrets:
            # The cut may have split a secret, whose beginning is not hidden then. Drop as many
            # characters as the longest secret can take if each of its characters is escaped.
            longest_secret = self._secrets[0]
            max_characters = LONGEST_ESCAPE * longest_secret.length
            shown = shown[:-max_characters]

        shown = " ".join(shown.split())
        if len(shown) > limit:
            shown = f"{shown[: limit - 3]}..."
        return shown

    def hide(self, text: str, min_characters: int = 0) -> str:
        """Return a text in which asterisks replace secrets of at least `min_characters`."""
        for secret in self._secrets:
            # Looking for the longest part is fast, and most texts do not have it.
            if secret.length >= min_characters and secret.longest_part in text:
                text = secret.pattern.sub(HIDDEN, text)
        return text


def _compile_secret(text: str) -> Secret:
    """Return a secret with the pattern that finds it, however it is escaped."""
    longest_part = max(SPECIAL.split(text), key=len)
    pattern = re.compile(SPECIAL.sub(_pattern_of, text))
    return Secret(length=len(text), longest_part=longest_part, pattern=pattern)


def _pattern_of(special: re.Match[str]) -> str:
    """Return a regular expression for a part of a secret that a server may have escaped.

    The expression matches the part as it is, and as URLs, JSON and HTML escape it, once or twice.

    Args:
        special: the part: a run of backslashes, or one character that is no ASCII letter or digit.
    """
    text = special[0]
    number = ord(text[0])
    in_utf8 = text.encode(errors="surrogatepass").hex()
    in_utf16 = text.encode("utf-16-be", "surrogatepass").hex()

    # URLs write a percent sign before the hexadecimal digits of each byte.
    in_url = re.sub("..", r"%(?:25)?\g<0>", in_utf8)
    # JSON writes \u before those of each pair of bytes; each round of escaping doubles backslashes.
    in_json = re.sub("....", r"\\\\{0,3}+u\g<0>", in_utf16)
    # HTML writes a number or a name for each character.
    in_html = rf"(?:&(?:amp;)?(?:#0*{number}|#x0*{number:x}|[a-z]\w*);){{{len(text)}}}"
    if text.startswith("\\"):
        # Escaping doubles the backslashes of a run; the limit bounds the time of a search.
        plain = r"\\{1,64}+"
    else:
        # Escaped once, the character has one backslash before it, and escaped twice, three.
        spellings = re.escape(text + OTHER_SPELLINGS.get(text, ""))
        plain = rf"\\{{0,3}}+[{spellings}]"
    return f"(?i:{in_url}|{in_json}|{in_html}|{plain})"
