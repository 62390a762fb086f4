"""Converts SPARQL 1.1 Query Results TSV to the object form of SPARQL results JSON.

https://www.w3.org/TR/sparql11-results-csv-tsv/
"""

from __future__ import annotations

import re
from typing import Any

from graphrag_eval_async.errors import MalformedStep

XSD = "http://www.w3.org/2001/XMLSchema#"

ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_OUTSIDE = r"""<>"{}|^`\\\x00-\x20"""
_IRI = rf"<([^:{_OUTSIDE}]*+:[^{_OUTSIDE}]*+)>"
is_iri = re.compile(_IRI).fullmatch  # Whether text is an absolute IRI in angle brackets.
# Alternatives begin differently, so the patterns never backtrack for long.
_find_escapes = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))", re.DOTALL).sub
_literal = re.compile(
    rf"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')(?:@([A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^{_IRI})?""",
    re.DOTALL,
).fullmatch


def read_tsv(text: str) -> dict[str, Any]:
    """An equivalent SPARQL results JSON object, from text whose header is `?name`s separated by
    tabs.

    Cells are terms in Turtle syntax, or empty if unbound. An empty last line is not a row. If the
    table has several columns, no empty line at its end is a row.
    """
    header, *lines = text.replace("\r\n", "\n").split("\n")
    marked = header.split("\t")
    names = [name[1:] for name in marked]
    while lines and not lines[-1]:
        lines.pop()
        if len(names) == 1:
            break
    if not all(map(is_variable, names)) or any(name[:1] not in ("?", "$") for name in marked):
        raise MalformedStep("not SPARQL TSV: the header must be variables separated by tabs")
    if len(set(names)) < len(names):
        raise MalformedStep("not SPARQL TSV: a variable is repeated")
    rows = []
    for index, line in enumerate(lines):
        cells = line.split("\t")
        if len(cells) != len(names):
            what = f"expected {len(names)} cells, got {len(cells)}"
            raise MalformedStep(f"not SPARQL TSV: row {index}: {what}")
        try:
            rows.append(
                {
                    name: _term(text)
                    for name, cell in zip(names, cells, strict=True)
                    if (text := cell.strip())
                }
            )
        except (KeyError, ValueError, OverflowError):
            raise MalformedStep(f"not SPARQL TSV: row {index}: a cell is not a term") from None
    return {"head": {"vars": names}, "results": {"bindings": rows}}


def is_variable(name: str) -> bool:
    """Whether a name consists of letters, digits and underscores."""
    return name.replace("_", "a").isalnum()


def number_type(text: str) -> str | None:
    """The datatype of a number in Turtle syntax; None if the text cannot be one."""
    if not text.isascii() or text.strip("+-.eE0123456789") or not any(map(str.isdigit, text)):
        return None
    if "e" in text or "E" in text:
        return f"{XSD}double"
    return f"{XSD}decimal" if "." in text else f"{XSD}integer"


def _term(cell: str) -> dict[str, Any]:
    """The term in a cell. Raises KeyError, ValueError or OverflowError if it is none."""
    if cell[0] == "<" and cell[-1] == ">" and len(cell) > 1:
        return {"type": "uri", "value": _unescaped(cell[1:-1])}
    if cell[:2] == "_:" and len(cell) > 2:
        return {"type": "bnode", "value": cell[2:]}
    if cell in ("true", "false"):
        return {"type": "literal", "value": cell, "datatype": f"{XSD}boolean"}
    if match := _literal(cell):
        double, single, language, datatype = match.groups()
        term = {"type": "literal", "value": _unescaped(single if double is None else double)}
        more = {"xml:lang": language, "datatype": datatype}
        return term | {key: value for key, value in more.items() if value}
    kind = number_type(cell)
    float(cell if kind else "")
    return {"type": "literal", "value": cell, "datatype": kind}


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _find_escapes(
        lambda match: chr(int(match[1] or match[2], 16)) if match[3] is None else ESCAPES[match[3]],
        text,
    )
