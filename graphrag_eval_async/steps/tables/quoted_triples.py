"""Quoted triples in cells: the labels of the blank nodes inside are local to a document, too."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson


class QuotedTriple(NamedTuple):
    """A quoted triple without the labels of its blank nodes, and these labels in order."""

    template: str
    labels: list[str]


def is_quoted_triple(label: str) -> bool:
    """Return whether the label of a cell is the JSON of a quoted triple, not of a blank node."""
    return label.startswith("{")


def read_quoted_triple(text: str) -> QuotedTriple:
    """Return a quoted triple, whose parts may be triples, from its SPARQL results JSON."""
    labels: list[str] = []
    document = _without_labels(orjson.loads(text), labels)
    return QuotedTriple(orjson.dumps(document).decode(), labels)


def _without_labels(value: Any, labels: list[str]) -> Any:
    """Return a part of JSON without the labels of blank nodes, and add these to `labels`."""
    if not isinstance(value, dict):
        return value
    if value.get("type") == "bnode":
        labels.append(str(value.get("value")).removeprefix("_:"))
        return {"type": "bnode"}
    return {key: _without_labels(part, labels) for key, part in value.items()}
