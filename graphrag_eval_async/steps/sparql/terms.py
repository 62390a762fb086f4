"""Normalises the terms of SPARQL queries."""

from __future__ import annotations

import re
from math import isfinite
from urllib.parse import urljoin

from graphrag_eval_async.steps.formats.tsv import ESCAPES, XSD
from graphrag_eval_async.steps.sparql.tokens import unescape

_NUMERIC = frozenset(f"{XSD}{name}" for name in ("integer", "decimal", "double", "float", "int", "long"))
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*+:").match
_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)


def stripped(parts: list[str]) -> list[str]:
    """An expression without the brackets around all of it."""
    size = len(parts)
    opened = next((i for i, part in enumerate(parts) if part != "("), size)
    closed = next((i for i, part in enumerate(reversed(parts)) if part != ")"), size)
    depth = around = opened
    for part in parts[opened : size - closed]:
        depth += {"(": 1, ")": -1}.get(part, 0)
        around = min(around, depth)
    layers = max(0, min(around, closed))
    return parts[layers : size - layers]


def is_operand(part: str) -> bool:
    return part in {"?", ")"} or part[-1:].isalnum() or part[-1:] == '"'


def is_iri(text: str | None) -> bool:
    """Whether the text of a term is an IRI: strings begin with a quote, numbers with a digit or a sign."""
    return text is not None and text[:1] != '"' and text[:1] not in set("+-0123456789")


def number(text: str) -> str:
    """A number as Python shows it: 1, 1.0 and 1e0 are the same; what is no finite number is quoted."""
    try:
        value = float(text)
    except ValueError:
        return f'"{text}"'
    if not isfinite(value):
        return f'"{text}"'
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return text.lstrip("+") if text.lstrip("+-").isdecimal() else repr(value)  # Floats lack its digits.


def typed(text: str, datatype: str) -> str:
    """A literal of a datatype; of a numeric one, the number."""
    if datatype in _NUMERIC:
        return number(text)
    return f'"{text}"' if datatype == f"{XSD}string" else f'"{text}"^^{datatype}'


def resolved(iri: str, base: str) -> str:
    """An IRI, made absolute by a base, if there is one."""
    if not base or _ABSOLUTE(iri):
        return iri
    try:
        return urljoin(base, iri)
    except ValueError:  # The base is no address.
        return base + iri


def unquoted(text: str) -> str:
    """The text of a string, with its escapes replaced."""
    quotes = 3 if text[:3] in {'"""', "'''"} and len(text) >= 6 else 1
    return _ESCAPED.sub(_character, text[quotes:-quotes])


def _character(match: re.Match[str]) -> str:
    text = match[1]
    return unescape(match[0]) if len(text) > 1 else ESCAPES.get(text, text)
