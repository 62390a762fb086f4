"""Reads graphs that are not written as RDF: RDF/JSON, and tables of subject, predicate, object."""

from __future__ import annotations

from typing import Any

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.formats.reading import read_table
from graphrag_eval_async.steps.formats.results import results_of

NAMES = (
    ("subject", "predicate", "object"),
    ("s", "p", "o"),
    ("subj", "pred", "obj"),
    ("source", "relation", "target"),
    ("head", "relation", "tail"),
)
"""Names of the columns of a table of statements, as stores and tools write them."""

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def is_rdf_json(value: Any) -> bool:
    """Return whether a decoded value is a graph in RDF/JSON.

    RDF/JSON is an object of subjects, each with an object of predicates, each with a list of terms:
    https://www.w3.org/TR/rdf-json/
    """
    if not isinstance(value, dict) or not value:
        return False
    for predicates in value.values():
        if not isinstance(predicates, dict):
            return False
        for terms in predicates.values():
            if not isinstance(terms, list) or not all(map(_is_term, terms)):
                return False
    return True


def statements_of_rdf_json(value: dict[str, Any]) -> str:
    """Return the statements of a graph in RDF/JSON as N-Triples."""
    lines = []
    for subject, predicates in value.items():
        subject_term = _write_resource({"value": subject})
        for predicate, terms in predicates.items():
            predicate_term = _write_resource({"value": predicate})
            start = f"{subject_term} {predicate_term}"
            lines += [f"{start} {_write_object(term)} .\n" for term in terms]
    return "".join(lines)


def statements_of_table(value: Any) -> str | None:
    """Return the statements in a table of subjects, predicates and objects as N-Triples.

    None if the value is no table, its columns have other names, or a cell is unbound.
    """
    try:
        document = read_table(value).document
        results = results_of(document)
    except (MalformedStep, ComparisonBudgetExceeded):
        return None
    names = list(results.variables)
    has_names_of_statements = tuple(map(str.lower, names)) in NAMES
    if results.boolean is not None or not has_names_of_statements:
        return None

    lines = []
    for row in document["results"]["bindings"]:
        if len(row) != len(names):
            # A cell is unbound, and a statement needs all three terms.
            return None
        subject, predicate, target = (row[name] for name in names)
        subject_term = _write_resource(subject)
        predicate_term = _write_resource(predicate)
        lines.append(f"{subject_term} {predicate_term} {_write_object(target)} .\n")
    return "".join(lines)


def _is_term(value: Any) -> bool:
    """Return whether a value is an RDF term as RDF/JSON and SPARQL results write it."""
    return isinstance(value, dict) and {"type", "value"} <= value.keys()


def _write_resource(term: dict[str, Any]) -> str:
    """Return an IRI or a blank node in N-Triples. An IRI may have angle brackets already."""
    value = str(term["value"])
    if term.get("type") == "bnode" or value.startswith("_:"):
        label = value.removeprefix("_:")
        return f"_:{label}"
    iri = value.strip("<>")
    return f"<{iri}>"


def _write_object(term: dict[str, Any]) -> str:
    """Return the object of a statement in N-Triples: an IRI, a blank node or a literal.

    Text without a type is an IRI if it begins like one.
    """
    value = str(term["value"])
    kind = term.get("type")
    if kind in ("uri", "bnode"):
        return _write_resource(term)
    is_untyped = kind is None and "datatype" not in term and "xml:lang" not in term
    if is_untyped and value.startswith(("http:", "https:", "urn:")):
        return _write_resource(term)

    literal = f'"{value.translate(_ESCAPES)}"'
    language = term.get("xml:lang") or term.get("lang")
    datatype = term.get("datatype")
    if language:
        return f"{literal}@{language}"
    if datatype:
        return f"{literal}^^<{datatype}>"
    return literal
