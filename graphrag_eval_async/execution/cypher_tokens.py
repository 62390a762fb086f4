"""Tokens of Cypher queries, in linear time; any text has tokens, whether or not it is a query."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Quantifiers with a + after them and groups with ?> never backtrack. What begins a text that does
# not end takes all that follows. A number takes no letters: of `10CREATE`, some databases read two
# tokens. The dot of `1.` belongs to the number for the same reason.
_TOKEN = re.compile(
    r"""
    \s++ | /\*(?>(?:[^*]|\*(?!/))*)\*/
    | (?P<line_comment> //[^\r\n]*+ )
    | (?P<string> "(?>(?:[^"\\]|\\.)*)" | '(?>(?:[^'\\]|\\.)*)' )
    | (?P<quoted> `(?>(?:[^`]|``)*)` )
    | (?P<parameter> \$\w++ | \$`(?>(?:[^`]|``)*)` )
    | (?P<unfinished> (?:/\*|["'`]).*+ )
    | (?P<number> 0[xX][0-9a-fA-F]++ | 0[oO][0-7]++
      | (?>(?:\d++(?>(?:\.(?!\.)\d*+)?)|\.\d++))(?>(?:[eE][+\-]?\d++)?) )
    | (?P<word> [^\W\d]\w*+ )
    | (?P<symbol> \.\. | :: | <> | != | <= | >= | =~ | \|\| | . )
    """,
    re.VERBOSE | re.DOTALL,
)

_OTHER_LINE_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Characters that end a line for some programs, and so may end a comment for some database."""

_ESCAPE = re.compile(r"\\u+([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")
"""Escaped characters. Neo4j replaces them before it reads tokens, wherever they are."""


class TokenKind(Enum):
    """The kind of a token."""

    WORD = auto()
    """A keyword or a name."""
    QUOTED_NAME = auto()
    """A name in backquotes."""
    PARAMETER = auto()
    NUMBER = auto()
    STRING = auto()
    SYMBOL = auto()
    UNCLEAR = auto()
    """Text that databases may read in different ways, such as a string without its end."""


_KINDS = {
    "string": TokenKind.STRING,
    "quoted": TokenKind.QUOTED_NAME,
    "parameter": TokenKind.PARAMETER,
    "number": TokenKind.NUMBER,
    "word": TokenKind.WORD,
    "symbol": TokenKind.SYMBOL,
}
"""The kind of a token by the group of `_TOKEN` that it matches."""


@dataclass(frozen=True, slots=True)
class CypherToken:
    """A token of a query, without white space and comments around it.

    Attributes:
        kind: its kind.
        text: its text: of a name, without backquotes; of a parameter, without its `$`; of an
            unclear token, the reason why databases may read it in different ways.
    """

    kind: TokenKind
    text: str

    @property
    def is_name(self) -> bool:
        """Whether it can be a name: a word, or text in backquotes."""
        return self.kind in {TokenKind.WORD, TokenKind.QUOTED_NAME}

    @property
    def keyword(self) -> str:
        """The word in upper case, to compare it with keywords; "" if the token is no word."""
        if self.kind != TokenKind.WORD:
            return ""
        return self.text.upper()

    def is_symbol(self, *symbols: str) -> bool:
        """Return whether the token is one of some symbols."""
        return self.kind == TokenKind.SYMBOL and self.text in symbols


def cypher_tokens(query: str) -> Iterator[CypherToken]:
    """Yield the tokens of a Cypher query, without white space and comments.

    What databases may read in different ways, such as a string without its end, is a token of the
    kind UNCLEAR.
    """
    for match in _TOKEN.finditer(query):
        group = match.lastgroup
        text = match[0]
        if group is None:
            # This is white space, or a comment between /* and */.
            continue
        if group == "unfinished":
            yield CypherToken(TokenKind.UNCLEAR, "a string, name or comment has no end")
        elif group == "line_comment":
            if _OTHER_LINE_ENDS.search(text) is not None:
                reason = "a comment holds a character that may end its line"
                yield CypherToken(TokenKind.UNCLEAR, reason)
        elif group == "quoted":
            yield CypherToken(TokenKind.QUOTED_NAME, _without_backquotes(text))
        elif group == "parameter":
            yield CypherToken(TokenKind.PARAMETER, _without_backquotes(text.removeprefix("$")))
        else:
            yield CypherToken(_KINDS[group], text)


def escaped_punctuation(query: str) -> str | None:
    r"""Return the first escape, such as ``\u0027``, that stands for punctuation or white space.

    Neo4j replaces such an escape before it reads tokens, so it may end a string or a comment.
    Escapes of letters and digits change no token, so they are passed over.

    Returns:
        the escape as it is written; None if the query has no such escape.
    """
    for match in _ESCAPE.finditer(query):
        code_point = int(match[1] or match[2], 16)
        is_no_character = code_point > 0x10FFFF
        if is_no_character or not chr(code_point).isalnum():
            return match[0]
    return None


def _without_backquotes(name: str) -> str:
    """Return a name without the backquotes around it; two backquotes inside it become one."""
    if not name.startswith("`"):
        return name
    return name[1:-1].replace("``", "`")
