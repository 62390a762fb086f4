"""Tokens and terms of SPARQL queries, in linear time; any text has tokens, whether or not it is a
query.

The grammar of tokens is that of SPARQL 1.1, section 19.8, but more lenient: what is no token is
read as single characters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_QUERY_CHARACTERS = 100_000
"""Maximum length, in characters, of a query whose tokens are read: a fraction of a second."""

# Quantifiers with a + after them and groups with ?> never backtrack. A broken string takes all that
# follows, so that its end is looked for only once. A prefix is limited, since it is read again if
# no colon follows.
_TOKEN = re.compile(
    r"""
    \s++ | \#[^\r\n]*+
    | (?P<iri> <(?>(?:[^<>"{}|^`\\\x00-\x20]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*)> )
    | (?P<string> \"{3}(?>(?:[^"\\]|\\.|"(?!""))*)\"{3} | '{3}(?>(?:[^'\\]|\\.|'(?!''))*)'{3}
      | (?!\"{3})"(?>(?:[^"\\\r\n]|\\.)*)" | (?!'{3})'(?>(?:[^'\\\r\n]|\\.)*)' )
    | (?P<broken> \"{3}.*+ | '{3}.*+ | ["'][^\r\n]*+ )
    | (?P<variable> [?$]\w++ )
    | (?P<blank> _:\w(?>(?:[\w\-\u00b7]|\.++(?=[\w\-\u00b7]))*) )
    | (?P<name> (?>(?:[^\W\d_][\w.\-\u00b7]{0,63}+)?) :
      (?>(?:(?:[\w:]|%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*,+;=/?\#@%])
      (?:[\w:\-\u00b7]|\.++(?=[\w:\-\u00b7%\\])|%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*,+;=/?\#@%])*)?) )
    | (?P<number> [+\-]?(?:\d++(?>(?:\.\d*+(?=[eE][+\-]?\d)|\.\d++)?)|\.\d++)
      (?>(?:[eE][+\-]?\d++)?) )
    | (?P<language> @[a-zA-Z]++(?>(?:-+[a-zA-Z0-9]++)*) )
    | (?P<word> [^\W\d]\w*+ )
    | (?P<symbol> \^\^ | \|\| | && | != | <= | >= | << | >> | \{\| | \|\} | . )
    """,
    re.VERBOSE | re.DOTALL,
)

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*+:").match
_CODE_POINT = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")

# The forms of queries that only read.
FORMS = frozenset({"SELECT", "ASK", "CONSTRUCT", "DESCRIBE"})
GRAPH_FORMS = frozenset({"CONSTRUCT", "DESCRIBE"})  # The forms of queries that return graphs.

UPDATES = frozenset(
    {"INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD", "WITH", "USING"}
)


class Token(NamedTuple):
    """A token as it was written, and its kind, the name of a group of `_TOKEN`."""

    kind: str
    text: str


def tokens(text: str, *, lenient_iris: bool = True) -> Iterator[Token]:
    """Yield the tokens of a text, without white space and comments.

    By the grammar, ``<?a)>`` is an IRI; some parsers read a comparison there, as without
    `lenient_iris`.
    """
    position = 0
    while position < len(text):
        # Any character is a symbol, so that none is left out.
        for match in _TOKEN.finditer(text, position):
            kind = match.lastgroup
            if kind == "iri" and not lenient_iris and ")" in match[0]:
                position = match.start() + 1
                yield Token("symbol", "<")
                break
            if kind is not None:
                yield Token(kind, match[0])
        else:
            return


def form_of(text: str) -> str | None:
    """Return the form of a query: one of `FORMS`, or UPDATE for an update; None for other text."""
    for token in tokens(text):
        word = token.text.upper()
        if token.kind == "word" and word not in {"PREFIX", "BASE", "VERSION"}:
            return word if word in FORMS else "UPDATE" if word in UPDATES else None
        if token.kind not in {"word", "name", "iri", "string"}:
            return None
    return None


def mentions(text: str, keyword: str) -> bool:
    """Return whether some parser may read a keyword, given in capitals, in a query.

    Parsers differ in where they replace code points such as ``\\u0041``, so in a query with some,
    the keyword counts anywhere, also in texts and comments. They also differ in whether ``<?b)x>``
    is an IRI, and in whether ``SERVICEex:a`` is one name or two tokens. All readings count, so this
    may be true of a name that contains the keyword, but it is never false of the keyword.
    """
    if (unescaped := unescape(text)) != text:
        return keyword in text.upper() or keyword in unescaped.upper()
    return any(
        keyword in token.text.partition(":")[0].upper()
        for lenient in (True, False)
        for token in tokens(text, lenient_iris=lenient)
        if token.kind in {"word", "name"}
    )


def unescape(text: str) -> str:
    """Return a text with its code points, such as ``\\u0041``, replaced; surrogates stay as they
    are.
    """
    return _CODE_POINT.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    number = int(match[1] or match[2], 16)
    return match[0] if number > 0x10FFFF or 0xD800 <= number < 0xE000 else chr(number)


def absolute(iri: str, base: str) -> str:
    """Return an IRI, made absolute by a base, if there is one."""
    if not base or _ABSOLUTE(iri):
        return iri
    try:
        return urljoin(base, iri)
    except ValueError:  # The base is no address.
        return base + iri
