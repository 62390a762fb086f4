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
    """Return whether a value holds lists of terms by subject and predicate.

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
    """Return the statements in RDF/JSON as N-Triples."""
    return "".join(
        _line(_resource({"value": subject}), _resource({"value": predicate}), _object(term))
        for subject, predicates in value.items()
        for predicate, terms in predicates.items()
        for term in terms
    )


def statements_of_table(value: Any) -> str | None:
    """Return the statements in a table of subject, predicate and object as N-Triples.

    None if the value is no such table.
    """
    try:
        document = read_table(value).document
        results = results_of(document)
    except (MalformedStep, ComparisonBudgetExceeded):
        return None
    if results.boolean is not None or tuple(map(str.lower, results.variables)) not in NAMES:
        return None
    names = list(results.variables)
    lines = []
    for row in document["results"]["bindings"]:
        if len(row) != len(names):
            return None
        subject, predicate, target = (row[name] for name in names)
        lines.append(_line(_resource(subject), _resource(predicate), _object(target)))
    return "".join(lines)


def _is_term(value: Any) -> bool:
    return isinstance(value, dict) and {"type", "value"} <= value.keys()


def _line(subject: str, predicate: str, target: str) -> str:
    return f"{subject} {predicate} {target} .\n"


def _resource(term: dict[str, Any]) -> str:
    """Return an IRI or a blank node in N-Triples."""
    value = str(term["value"])
    if term.get("type") == "bnode" or value.startswith("_:"):
        return f"_:{value.removeprefix('_:')}"
    return f"<{value.strip('<>')}>"


def _object(term: dict[str, Any]) -> str:
    """Return a term in N-Triples. Text without a type is an IRI if it looks like one."""
    value = str(term["value"])
    kind = term.get("type")
    is_untyped = kind is None and "datatype" not in term and "xml:lang" not in term
    if kind in ("uri", "bnode") or (is_untyped and value.startswith(("http:", "https:", "urn:"))):
        return _resource(term)
    literal = f'"{value.translate(_ESCAPES)}"'
    language = term.get("xml:lang") or term.get("lang")
    if language:
        return f"{literal}@{language}"
    if term.get("datatype"):
        return f"{literal}^^<{term['datatype']}>"
    return literal
