"""RDF terms as tables write them: in Turtle's syntax, or as text without a type.

https://www.w3.org/TR/turtle/#grammar-production-literal
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from graphrag_eval_async.steps.tables.temporal import temporal_type

XSD = "http://www.w3.org/2001/XMLSchema#"

BOOLEAN = f"{XSD}boolean"

DOUBLE = f"{XSD}double"

VIRTUOSO_NODE = "nodeID://"
"""How Virtuoso begins the labels of blank nodes, also where it calls them IRIs or texts."""

BLANK_NODE_STARTS = ("_:", VIRTUOSO_NODE)
"""How labels of blank nodes begin in text."""

INFINITIES = {
    **dict.fromkeys(("INF", "+INF", "inf", "+inf", "Infinity", "+Infinity"), "INF"),
    **dict.fromkeys(("-INF", "-inf", "-Infinity"), "-INF"),
}
"""How XML Schema writes the infinite numbers that tools and languages write in these ways."""

Term: TypeAlias = dict[str, Any]
"""A term of SPARQL results JSON: its `value`, and what else is known of it."""

_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}

# Alternatives begin differently, so the patterns never backtrack for long.
_OUTSIDE = r"""<>"{}|^`\\\x00-\x20"""
_IRI = rf"<([^:{_OUTSIDE}]*+:[^{_OUTSIDE}]*+)>"
_SUFFIX = rf"(?:@([A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^(?:{_IRI}|([\w.-]*:[^{_OUTSIDE}]+)))?"
_literal = re.compile(
    rf"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'){_SUFFIX}""", re.DOTALL
).fullmatch
_suffix = re.compile(_SUFFIX).fullmatch
_escapes = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))", re.DOTALL)

is_iri = re.compile(_IRI).fullmatch
"""Whether text is an absolute IRI in angle brackets."""


def is_rdf_json(value: Any) -> bool:
    """Return whether a value is a graph in RDF/JSON: lists of terms by subject and predicate.

    https://www.w3.org/TR/rdf-json/
    """
    if not isinstance(value, dict) or not value:
        return False
    for subject, predicates in value.items():
        # Subjects are IRIs or blank nodes. The keys of other objects have no colon.
        if ":" not in subject or not isinstance(predicates, dict) or not predicates:
            return False
        if not all(map(_is_list_of_terms, predicates.values())):
            return False
    return True


def _is_list_of_terms(value: Any) -> bool:
    """Return whether a value is a list of one or more RDF terms, as RDF/JSON writes them."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(term, dict) and {"type", "value"} <= term.keys() for term in value)


def read_term(text: str) -> Term | None:
    """Return the term that a text writes in Turtle's syntax; None if the text is no term.

    A datatype may have a prefix, of which `xsd:` is known, or be an IRI without brackets, as
    Comunica writes it. Text in quotes may hold quotes without escapes.
    """
    if text.startswith("<") and text.endswith(">"):
        iri = _unescape(text[1:-1])
        return None if iri is None else resource_term(iri)
    if text.startswith(BLANK_NODE_STARTS) and text != "_:":
        return {"type": "bnode", "value": text.removeprefix("_:")}
    if text in ("true", "false"):
        return {"type": "literal", "value": text, "datatype": BOOLEAN}
    if text[:1] in ('"', "'"):
        return _read_literal(text)
    datatype = number_type(text)
    if datatype is None or not _is_number(text):
        return None
    return {"type": "literal", "value": text, "datatype": datatype}


def _read_literal(text: str) -> Term | None:
    """Return the literal that a text in quotes writes, maybe with a language or a datatype.

    Quotes within the text may be escaped, doubled, or neither. None if other text follows.
    """
    match = _literal(text)
    if match is not None:
        in_double_quotes, in_single_quotes, language, datatype, prefixed_type = match.groups()
        quoted = in_single_quotes if in_double_quotes is None else in_double_quotes
        value = _unescape(quoted)
        if value is None:
            value = quoted
        return _literal_term(value, language, datatype, prefixed_type)

    # The quotes inside have no escapes, or are doubled as in CSV.
    quote = text[0]
    end = text.rfind(quote)
    suffix = _suffix(text, end + 1)
    if end == 0 or suffix is None:
        return None
    if end < len(text) - 1 and text.startswith(quote * 3) and text.endswith(quote * 3, 4, end + 1):
        # A long literal of Turtle. Without language or datatype, it may be a doubled quote of CSV.
        return _literal_term(text[3 : end - 2], *suffix.groups())
    return _literal_term(text[1:end].replace(quote * 2, quote), *suffix.groups())


def resource_term(iri: str) -> Term:
    """Return the term of an IRI, or of a blank node if the IRI is a label of Virtuoso."""
    kind = "bnode" if iri.startswith(VIRTUOSO_NODE) else "uri"
    return {"type": kind, "value": iri}


def _literal_term(
    value: str, language: str | None, datatype: str | None, prefixed_type: str | None
) -> Term:
    """Return the term of a literal, or of a blank node if the text is a label of Virtuoso.

    Args:
        value: the text of the literal.
        language: the language tag; None if the literal has none.
        datatype: the IRI of the datatype; None if there is none, or if it has a prefix.
        prefixed_type: the datatype with a prefix; None if there is none, or if it is an IRI.
    """
    if value.startswith(VIRTUOSO_NODE):
        return resource_term(value)
    term = {"type": "literal", "value": value}
    if language:
        term["xml:lang"] = language
    if prefixed_type:
        datatype = prefixed_type
        if prefixed_type.startswith("xsd:"):
            datatype = XSD + prefixed_type.removeprefix("xsd:")
    if datatype:
        term["datatype"] = datatype
    return term


def untyped_term(text: str) -> Term:
    """Return the term that a text without a type stands for.

    IRIs in brackets, labels of blank nodes, and literals with a language or datatype are what they
    seem. Other texts keep their spelling, since they may be meant as texts. Numbers, booleans,
    dates, times and durations among them also get a datatype, by which they compare as values.
    """
    if is_iri(text):
        iri = text[1:-1]
        if iri.startswith(VIRTUOSO_NODE):
            return resource_term(iri)
        # Without a type, the term equals the IRI and also a literal of the same text.
        return {"value": iri}
    if text.startswith(BLANK_NODE_STARTS):
        return {"type": "bnode", "value": text.removeprefix("_:")}
    if text.startswith('"') and not text.endswith('"'):
        # A literal with a language or a datatype; one without may be text with quotes.
        literal = _read_literal(text)
        if literal is not None:
            return literal
    if text.lower() in ("true", "false"):
        return {"value": text, "datatype": BOOLEAN}
    if text in ("INF", "-INF"):
        return {"value": text, "datatype": DOUBLE}
    trimmed = text.strip(" \t\r\n")
    # First, since dates without a zone have the characters of numbers.
    temporal = temporal_type(trimmed)
    if temporal is not None:
        return {"value": text, "datatype": XSD + temporal}
    datatype = number_type(trimmed)
    if datatype is not None:
        return {"value": text, "datatype": datatype}
    return {"value": text}


def infinity_term(*, is_negative: bool) -> Term:
    """Return the literal of an infinite double."""
    return {"value": "-INF" if is_negative else "INF", "datatype": DOUBLE}


def boolean_term(value: bool) -> Term:
    """Return the literal of a boolean."""
    return {"value": "true" if value else "false", "datatype": BOOLEAN}


def number_type(text: str) -> str | None:
    """Return the datatype of a number in Turtle's syntax; None if the text cannot be one."""
    if not text.isascii() or text.strip("+-.eE0123456789") or not any(map(str.isdigit, text)):
        return None
    if "e" in text or "E" in text:
        return f"{XSD}double"
    return f"{XSD}decimal" if "." in text else f"{XSD}integer"


def _is_number(text: str) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unescape(text: str) -> str | None:
    """Return a text without escapes; None if one of them is unknown."""
    if "\\" not in text:
        return text
    try:
        return _escapes.sub(_unescaped, text)
    except (KeyError, ValueError, OverflowError):
        return None


def _unescaped(escape: re.Match[str]) -> str:
    """Return the character that an escape of Turtle stands for.

    Raises:
        KeyError, ValueError, OverflowError: there is no such character.
    """
    code_point = escape[1] or escape[2]
    if code_point:
        return chr(int(code_point, 16))
    return _ESCAPED[escape[3]]
