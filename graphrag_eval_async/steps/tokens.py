"""Tokens and terms of SPARQL queries, in linear time; any text has tokens, whether or not it is a
query.

The grammar of tokens is that of SPARQL 1.1, section 19.8, but more lenient: what is no token is
read as single characters.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from graphrag_eval_async.helpers.patterns import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_QUERY_CHARACTERS = 100_000
"""Maximum length, in characters, of a query whose tokens are read: a fraction of a second."""

# Quantifiers with a + after them and groups with ?> never backtrack. A broken string takes all that
# follows, so that its end is looked for only once. A prefix is limited, since it is read again if
# no colon follows.
_TOKEN = lazy_pattern(
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

_is_absolute = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*+:").match
_CODE_POINT = lazy_pattern(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")

FORMS = frozenset({"SELECT", "ASK", "CONSTRUCT", "DESCRIBE"})
"""The forms of queries that only read."""

GRAPH_FORMS = frozenset({"CONSTRUCT", "DESCRIBE"})
"""The forms of queries that return graphs."""

UPDATES = frozenset(
    {"INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD", "WITH", "USING"}
)
"""The first words of updates."""

UPDATES_WITHOUT_WITH = UPDATES - {"WITH", "USING"}
"""The first words of updates that no query has outside of braces: some stores have WITH there."""


class Token(NamedTuple):
    """A token as it was written, and its kind, the name of a group of `_TOKEN`."""

    kind: str
    text: str


def tokens(text: str, *, lenient_iris: bool = True) -> Iterator[Token]:
    """Yield the tokens of a text, without white space and comments.

    Args:
        text: the text.
        lenient_iris: whether ``<?a)>`` is an IRI, as the grammar says. Some parsers read it as a
            comparison.
    """
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            # This never happens, since any character is a symbol.
            return
        kind = match.lastgroup
        if kind == "iri" and not lenient_iris and ")" in match[0]:
            yield Token("symbol", "<")
            position += len("<")
            continue
        if kind is not None:
            yield Token(kind, match[0])
        position = match.end()


def form_of(text: str) -> str | None:
    """Return the form of a query, such as SELECT, or UPDATE for an update; None for other text."""
    for token in tokens(text):
        keyword = token.text.upper()
        if token.kind == "word" and keyword not in {"PREFIX", "BASE", "VERSION"}:
            # The first word after the declarations decides.
            if keyword in FORMS:
                return keyword
            return "UPDATE" if keyword in UPDATES else None
        if token.kind not in {"word", "name", "iri", "string"}:
            return None
    return None


def prefixes_of(text: str) -> dict[str, str]:
    """Return the IRI of each prefix that a query declares, by name, without colon and brackets."""
    prefixes = {}
    prologue = tokens(text)
    for token in prologue:
        keyword = token.text.upper() if token.kind == "word" else None
        if keyword == "PREFIX":
            prefix = next(prologue, None)
            iri = next(prologue, None)
            if prefix is not None and iri is not None and iri.kind == "iri":
                prefixes[prefix.text.removesuffix(":")] = iri.text[1:-1]
        elif keyword not in (None, "BASE", "VERSION"):
            # The query itself begins.
            break
    return prefixes


def mentions(text: str, keyword: str) -> bool:
    """Return whether some parser may read a keyword in a query.

    Parsers read a query differently, and all readings count:

    - They replace code points such as ``\\u0041`` in different places. So in a query with code
      points, the keyword counts anywhere, also in texts and comments.
    - They take ``<?b)x>`` for an IRI or for a comparison.
    - They take ``SERVICEex:a`` for one name or for two tokens.

    So the result may be true if a name contains the keyword, but is never false if the query has
    the keyword.

    Args:
        text: the query.
        keyword: the keyword in capitals.
    """
    unescaped = unescape(text)
    if unescaped != text:
        return keyword in text.upper() or keyword in unescaped.upper()

    for lenient_iris in (True, False):
        for token in tokens(text, lenient_iris=lenient_iris):
            if token.kind not in {"word", "name"}:
                continue
            prefix = token.text.partition(":")[0]
            if keyword in prefix.upper():
                return True
    return False


def has_second_statement(query: str) -> bool:
    """Return whether some parser may read more than one statement in a query.

    Some servers run all statements of a request, such as ``SELECT ... ; LOAD <...>``. A statement
    follows a semicolon outside of all braces, or begins with the first word of an update there. As
    in `mentions`, all readings of code points and of ``<`` count.
    """
    return any(
        _has_second_statement(text, lenient_iris=lenient_iris)
        for text in {query, unescape(query)}
        for lenient_iris in (True, False)
    )


def _has_second_statement(query: str, *, lenient_iris: bool) -> bool:
    """Return whether a query has a second statement, in one reading of IRIs; see `tokens`."""
    depth = 0
    is_after_semicolon = False
    for token in tokens(query, lenient_iris=lenient_iris):
        if is_after_semicolon:
            return True
        if token.text == "{":
            depth += 1
        elif token.text == "}":
            # A closing brace too many must not hide what follows.
            depth = max(0, depth - 1)
        elif depth == 0:
            is_after_semicolon = token.text == ";"
            is_update = token.kind == "word" and token.text.upper() in UPDATES_WITHOUT_WITH
            if is_update:
                return True
    return False


def unescape(text: str) -> str:
    """Return a text with a character for each code point, such as A for ``\\u0041``.

    Code points that are no characters, such as surrogates, stay as they are.
    """
    return _CODE_POINT.sub(_character, text)


def _character(code_point: re.Match[str]) -> str:
    """Return the character of an escaped code point, or the escape itself if there is none."""
    number = int(code_point[1] or code_point[2], 16)
    is_surrogate = 0xD800 <= number <= 0xDFFF
    if is_surrogate or number > sys.maxunicode:
        return code_point[0]
    return chr(number)


def absolute(iri: str, base: str) -> str:
    """Return an IRI made absolute by a base.

    Args:
        iri: an absolute or relative IRI.
        base: the IRI that relative ones are resolved against; "" if there is none.
    """
    if not base or _is_absolute(iri):
        return iri
    try:
        return urljoin(base, iri)
    except ValueError:
        # The base is not a valid address.
        return base + iri
