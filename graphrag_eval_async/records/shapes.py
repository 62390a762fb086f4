"""Media types of the outputs of steps, and suggestions of names that were probably meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

SPARQL_RESULTS = "application/sparql-results+json"
XML = "application/sparql-results+xml"
CSV = "text/csv"
TSV = "text/tab-separated-values"

TABLES = (SPARQL_RESULTS, XML, CSV, TSV)

GRAPHS = (
    *("text/turtle", "application/n-triples", "application/n-quads", "application/trig"),
    *("application/rdf+xml", "application/ld+json", "text/n3"),
)
"""Media types of RDF graphs and datasets."""

MEDIA_TYPES = (*TABLES, "application/json", *GRAPHS, "text/uri", "text/plain")
"""Known media types of outputs. Outputs of other types are compared as text."""

STRICT = "strict"
"""The `order` of a group of reference steps, kept in its first step, that must come one after
the other.
"""

MAX_LISTED = 15
"""How many known names a message lists if it suggests none."""

OF_EVALUATIONS = ("matches", "diff", "query_similarity", "executed_at")
"""Keys of reference steps that evaluations add; those left over from an earlier one are ignored."""


def plain_type(media_type: Any) -> Any:
    """A media type in lower case and without parameters such as `charset`."""
    return (
        media_type.partition(";")[0].strip().lower() if isinstance(media_type, str) else media_type
    )


def did_you_mean(name: str, known: Collection[str], cutoff: float = 0.6) -> str:
    """End of a message that suggests the known name closest to `name` or, if none is close,
    lists some.
    """
    folded = {each.casefold(): each for each in known}
    if close := get_close_matches(name[:64].casefold(), folded, 1, cutoff):
        return f"did you mean {folded[close[0]]}?"
    more = f" and {len(known) - MAX_LISTED} more" if len(known) > MAX_LISTED else ""
    return f"known: {', '.join([*known][:MAX_LISTED])}{more}"
