"""Converts SPARQL 1.1 Query Results TSV to the object form of SPARQL results JSON.

https://www.w3.org/TR/sparql11-results-csv-tsv/
"""

from __future__ import annotations

import re
from typing import Any

from graphrag_eval_async.errors import MalformedStep

XSD = "http://www.w3.org/2001/XMLSchema#"

ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
# Alternatives begin differently and have no nested repetition, so the pattern never backtracks.
_find_escapes = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))", re.DOTALL).sub
_is_language = re.compile(r"[A-Za-z]+(?:-[A-Za-z0-9]+)*").fullmatch
_NOT_IN_IRIS = frozenset('<>"{}|^`\\').union(map(chr, range(33)))


def read_tsv(text: str) -> dict[str, Any]:
    """An equivalent SPARQL results JSON object, from text whose header is `?name`s separated by tabs.

    Cells are terms in Turtle syntax, or empty if unbound. An empty last line is not a row. If the table has
    several columns, no empty line at its end is a row.
    """
    header, *lines = text.replace("\r\n", "\n").split("\n")
    marked = header.split("\t")
    if lines and not lines[-1]:
        lines.pop()
    while len(marked) > 1 and lines and not lines[-1]:
        lines.pop()
    names = [name[1:] for name in marked]
    if not all(map(is_variable, names)) or any(name[:1] not in ("?", "$") for name in marked):
        raise MalformedStep("not SPARQL TSV: the header must be variables separated by tabs")
    if len(set(names)) < len(names):
        raise MalformedStep("not SPARQL TSV: a variable is repeated")
    rows = [_row(names, line.split("\t"), index) for index, line in enumerate(lines)]
    return {"head": {"vars": names}, "results": {"bindings": rows}}


def is_variable(name: str) -> bool:
    """Whether a name consists of letters, digits and underscores."""
    return name.replace("_", "a").isalnum()


def is_iri(text: str) -> bool:
    """Whether text is an absolute IRI in angle brackets."""
    inner = text[1:-1]
    return text[:1] == "<" and text[-1:] == ">" and ":" in inner and _NOT_IN_IRIS.isdisjoint(inner)


def number_type(text: str) -> str | None:
    """The datatype of a number in Turtle syntax; None if the text cannot be one."""
    if not text.isascii() or text.strip("+-.eE0123456789") or not any(map(str.isdigit, text)):
        return None
    if "e" in text or "E" in text:
        return f"{XSD}double"
    return f"{XSD}decimal" if "." in text else f"{XSD}integer"


def _row(names: list[str], cells: list[str], index: int) -> dict[str, Any]:
    if len(cells) != len(names):
        raise MalformedStep(f"not SPARQL TSV: row {index}: expected {len(names)} cells, got {len(cells)}")
    terms = zip(names, map(str.strip, cells), strict=True)
    return {name: _term(cell, index) for name, cell in terms if cell}


def _term(cell: str, index: int) -> dict[str, Any]:
    if cell[0] == "<" and cell[-1] == ">" and len(cell) > 1:
        return {"type": "uri", "value": _unescaped(cell[1:-1], index)}
    if cell[:2] == "_:" and len(cell) > 2:
        return {"type": "bnode", "value": cell[2:]}
    if cell[0] in "\"'":
        return _literal(cell, index)
    if cell in ("true", "false"):
        return {"type": "literal", "value": cell, "datatype": f"{XSD}boolean"}
    datatype = number_type(cell)
    try:
        float(cell if datatype else "")
    except ValueError:
        raise _bad_term(index) from None
    return {"type": "literal", "value": cell, "datatype": datatype}


def _literal(cell: str, index: int) -> dict[str, Any]:
    end = cell.rfind(cell[0])
    body, suffix = cell[1:end], cell[end + 1 :]
    if end == 0 or cell[0] in body.replace("\\\\", "").replace(f"\\{cell[0]}", ""):
        raise _bad_term(index)
    term = {"type": "literal", "value": _unescaped(body, index)}
    if suffix[:1] == "@" and _is_language(suffix[1:]):
        term["xml:lang"] = suffix[1:]
    elif suffix[:3] == "^^<" and is_iri(suffix[2:]):
        term["datatype"] = suffix[3:-1]
    elif suffix:
        raise _bad_term(index)
    return term


def _unescaped(text: str, index: int) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        try:
            return chr(int(code, 16)) if code else ESCAPES[match[3]]
        except (KeyError, ValueError, OverflowError):
            raise _bad_term(index) from None

    return _find_escapes(character, text) if "\\" in text else text


def _bad_term(index: int) -> MalformedStep:
    return MalformedStep(f"not SPARQL TSV: row {index}: a cell is not a term")
