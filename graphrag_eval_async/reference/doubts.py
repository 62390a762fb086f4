"""Probable mistakes in valid reference steps and texts."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.media_types import (
    CSV,
    GRAPHS,
    MEDIA_TYPES,
    TYPE_BY_NAME,
    plain_type,
)
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.reference.kinds import MAX_NAME_CHARACTERS
from graphrag_eval_async.steps import compares_by_name
from graphrag_eval_async.steps.formats.delimited import has_cells_like_terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_DOUBTS = 1000
"""Maximum number of different probable mistakes that are kept."""

CURLY_QUOTES = "\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb"
"""Quotation marks that word processors write, and that are part of a text in YAML and JSON."""

SIMILARITY_OF_MEDIA_TYPES = 0.8
"""How similar a media type must be to be suggested; many have a long beginning in common."""

_DEFAULTS_OF_TABLE_KEYS: Mapping[str, Any] = {
    "ordered": False,
    "required_columns": [],
    "ignore_duplicates": True,
}
"""Keys of steps that only tables have a use for. Their defaults do no harm elsewhere."""


class Doubt(NamedTuple):
    """A probable mistake in the value of a key."""

    key: str
    message: str


def doubt_about_id(identifier: str) -> str | None:
    """Return why an id is probably mistyped; None if there is no doubt."""
    if identifier != identifier.strip():
        return "begins or ends with a space, which responses would need, too; remove it"
    if identifier[:1] in CURLY_QUOTES and identifier[-1:] in CURLY_QUOTES and identifier:
        return "the curly quotes are part of it; write straight quotes, or none"
    return None


def doubt_about_media_type(media_type: str | None) -> str | None:
    """Return why a media type is probably mistyped; None if it is known, or if there is none."""
    known_type = plain_type(media_type)
    if known_type is None or known_type in MEDIA_TYPES:
        return None
    shown_type = known_type[:MAX_NAME_CHARACTERS]
    suggestion = _suggest_media_type(shown_type)
    return f"unknown media type {shown_type!r}, the output is compared as text; {suggestion}"


@lru_cache(MAX_DOUBTS)  # The same mistake is often made many times.
def _suggest_media_type(unknown_type: str) -> str:
    """Return which media type, or which short name of one, an unknown one may mean."""
    similar = get_close_matches(unknown_type, TYPE_BY_NAME, n=1, cutoff=SIMILARITY_OF_MEDIA_TYPES)
    if similar:
        return f"did you mean {similar[0]}?"
    return did_you_mean(unknown_type, MEDIA_TYPES, SIMILARITY_OF_MEDIA_TYPES)


def doubts_about_step(step: Mapping[str, Any]) -> Iterator[Doubt]:
    """Yield each probable mistake in the values of a valid reference step.

    These are found:

    - an output in CSV that is TSV, or whose cells look like RDF terms;
    - an output that is a number, which the text that a tool returns never equals;
    - keys for tables, although the output is a graph.
    """
    media_type = plain_type(step.get("output_media_type"))
    output = step.get("output")
    if media_type == CSV and isinstance(output, str):
        message = _doubt_about_csv(output)
        if message:
            yield Doubt("output", message)
    is_number = isinstance(output, int | float) and not isinstance(output, bool)
    if media_type is None and is_number and not compares_by_name(step["name"]):
        yield Doubt(
            "output",
            f"the number {output} is not the text '{output}'; put it in quotes if the tool returns "
            "text, or write output_media_type: application/json",
        )

    if media_type in GRAPHS:
        message = "ignored, since the output is a graph, which has no rows and columns; remove it"
        for key, default in _DEFAULTS_OF_TABLE_KEYS.items():
            if step.get(key) not in (None, default):
                yield Doubt(key, message)


def _doubt_about_csv(text: str) -> str:
    """Return why a table in CSV is probably a mistake; "" if there is no doubt."""
    header = text.lstrip().partition("\n")[0]
    if "\t" in header and "," not in header:
        return (
            "its cells are separated by tabs, so it has one column as CSV; "
            "write output_media_type: text/tab-separated-values"
        )
    if has_cells_like_terms(text):
        return (
            "cells look like RDF terms, which CSV writes without brackets, quotes and "
            "languages; they are read as terms; save results as "
            "application/sparql-results+json to keep their types"
        )
    return ""
