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

LETTERS = {" ": "+", "\n": "n", "\r": "r", "\t": "t"}
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
        """Prepare to hide `secrets`, but for those that are too short to be any."""
        # Longest first: hiding a secret that begins another would leave the rest visible.
        self._secrets = [
            _read_secret(text)
            for text in sorted({*secrets}, key=len, reverse=True)
            if len(text) >= MIN_SECRET_CHARACTERS
        ]

    def __call__(self, text: str, limit: int = MAX_TEXT) -> str:
        """Return at most `limit` characters of a text, on one line and without secrets."""
        shown = self.hide(text[:MAX_SCRUBBED])
        if len(text) > MAX_SCRUBBED and self._secrets:
            # The cut may have split a secret, and left the beginning of it.
            shown = shown[: -LONGEST_ESCAPE * self._secrets[0].length]
        shown = " ".join(shown.split())
        if len(shown) > limit:
            shown = f"{shown[: limit - 3]}..."
        return shown

    def hide(self, text: str, min_characters: int = 0) -> str:
        """Return a text with secrets of at least `min_characters` hidden."""
        for secret in self._secrets:
            if secret.length >= min_characters and secret.longest_part in text:
                text = secret.pattern.sub(HIDDEN, text)
        return text


def _read_secret(text: str) -> Secret:
    """Return how to look for a secret."""
    longest_part = max(SPECIAL.split(text), key=len)
    return Secret(len(text), longest_part, re.compile(SPECIAL.sub(_pattern_of, text)))


def _pattern_of(special: re.Match[str]) -> str:
    """Return a pattern of a special part of a secret: as it is, or escaped once or twice."""
    text = special[0]
    number = ord(text[0])
    in_utf8 = text.encode(errors="surrogatepass").hex()
    in_utf16 = text.encode("utf-16-be", "surrogatepass").hex()

    # URLs write a percent sign before the hexadecimal digits of each byte.
    in_url = re.sub("..", r"%(?:25)?\g<0>", in_utf8)
    # JSON writes \u before those of each pair of bytes; each round of escaping doubles backslashes.
    in_json = re.sub("....", r"\\\\{0,3}+u\g<0>", in_utf16)
    in_html = rf"(?:&(?:amp;)?(?:#0*{number}|#x0*{number:x}|[a-z]\w*);){{{len(text)}}}"
    if text.startswith("\\"):
        # Escaping doubles the backslashes of a run; the limit bounds the time of a search.
        plain = r"\\{1,64}+"
    else:
        plain = rf"\\{{0,3}}+[{re.escape(text + LETTERS.get(text, ''))}]"
    return f"(?i:{in_url}|{in_json}|{in_html}|{plain})"
