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


SHORT_NAMES = {
    SPARQL_RESULTS: (
        "sparql-json sparql/json sparql-results+json sparql-results-json sparql-results sparql srj "
        "application/sparql-json application/sparql-results application/sparql+json"
    ),
    XML: (
        "xml sparql-xml sparql/xml sparql-results+xml sparql-results-xml srx application/sparql-xml"
    ),
    CSV: "csv application/csv application/x-csv text/x-csv text/comma-separated-values",
    TSV: "tsv text/tsv application/tsv tab-separated-values",
    CYPHER_RESULTS: "cypher neo4j cypher-json",
    "application/json": "json text/json application/x-json text/x-json",
    "text/turtle": "turtle ttl application/turtle application/x-turtle text/ttl",
    "application/n-triples": "n-triples ntriples nt text/n-triples application/ntriples",
    "application/n-quads": "n-quads nquads nq text/n-quads application/nquads",
    "application/trig": "trig text/trig application/x-trig",
    "application/rdf+xml": "rdf+xml rdf/xml rdf-xml rdfxml",
    "application/ld+json": "ld+json json-ld jsonld application/json-ld application/jsonld",
    "text/n3": "n3 notation3 text/rdf+n3",
    "text/uri": "uri iri url",
    "text/plain": "text txt plain string str",
}
"""What people and tools write in place of a media type, separated by spaces."""

TYPE_BY_NAME = {
    **{media_type: media_type for media_type in MEDIA_TYPES},
    **{
        short_name: media_type
        for media_type, short_names in SHORT_NAMES.items()
        for short_name in short_names.split()
    },
}
"""The media type for each of its names, the full one and the short ones."""


def plain_type(media_type: Any) -> Any:
    """Return a media type in lower case and without parameters such as `charset`.

    A short name such as `csv` stands for its media type. A value that is not a string is returned
    unchanged.
    """
    if not isinstance(media_type, str):
        return media_type
    name = media_type.partition(";")[0].strip().lower()
    known_type = TYPE_BY_NAME.get(name)
    if known_type is not None:
        return known_type
    # A short name may have underscores or spaces, or the dot of a suffix.
    short_name = name.removeprefix(".").replace("_", "-").replace(" ", "-")
    return TYPE_BY_NAME.get(short_name, name)
