"""Media types of the outputs of steps."""

from __future__ import annotations

from typing import Any

SPARQL_RESULTS = "application/sparql-results+json"
XML = "application/sparql-results+xml"
CSV = "text/csv"
TSV = "text/tab-separated-values"

CYPHER_RESULTS = "application/vnd.neo4j.query"
"""Media type of the results of Cypher queries, as Neo4j's Query API returns them."""

TABLES = (SPARQL_RESULTS, XML, CSV, TSV)
"""Media types of the results of queries."""

GRAPHS = (
    "text/turtle",
    "application/n-triples",
    "application/n-quads",
    "application/trig",
    "application/rdf+xml",
    "application/ld+json",
    "text/n3",
)
"""Media types of RDF graphs and datasets."""

MEDIA_TYPES = (*TABLES, CYPHER_RESULTS, "application/json", *GRAPHS, "text/uri", "text/plain")
"""Known media types of outputs. Outputs of other types are compared as text."""


def plain_type(media_type: Any) -> Any:
    """Return a media type in lower case and without parameters such as `charset`.

    A value that is not a string is returned unchanged.
    """
    if not isinstance(media_type, str):
        return media_type
    return media_type.partition(";")[0].strip().lower()
