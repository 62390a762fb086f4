"""Reads graphs that are not written as RDF: RDF/JSON, and tables of subject, predicate, object."""

from __future__ import annotations

from typing import Any

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.formats.reading import read_table
from graphrag_eval_async.steps.formats.results import results_of
from graphrag_eval_async.steps.formats.terms import is_iri

SUBJECT, PREDICATE, OBJECT, GRAPH_NAME = "subject", "predicate", "object", "graph"

ROLES = {
    SUBJECT: ("subject", "s", "subj", "source", "head"),
    PREDICATE: ("predicate", "p", "pred", "property", "relation"),
    OBJECT: ("object", "o", "obj", "value", "target", "tail"),
    GRAPH_NAME: ("graph", "g", "context"),
}
"""The parts of a statement, each with the names of its column in tables of stores and tools."""

_ROLE_BY_NAME = {name: role for role, names in ROLES.items() for name in names}

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def statements_of_rdf_json(value: dict[str, Any]) -> str:
    """Return the statements in RDF/JSON as N-Quads.

    Raises:
        MalformedStep: a term is no absolute IRI where one must stand.
    """
    lines = []
    for subject, predicates in value.items():
        for predicate, terms in predicates.items():
            subject_text = _write_resource({"value": subject}, SUBJECT)
            predicate_text = _write_resource({"value": predicate}, PREDICATE)
            objects = map(_write_object, terms)
            lines += [f"{subject_text} {predicate_text} {target} .\n" for target in objects]
    return "".join(lines)


def statements_of_table(value: Any) -> str | None:
    """Return the statements in a table of subject, predicate and object as N-Quads.

    The names of the columns say which column has the subject, the predicate, the object and, if
    there is a fourth column, the name of the graph.

    Returns:
        None if the value is no such table.

    Raises:
        MalformedStep: a row has no subject, predicate or object, or a term is no absolute IRI where
            one must stand.
    """
    if _is_list_without_names(value):
        value = [[SUBJECT, PREDICATE, OBJECT], *value]
    try:
        document = read_table(value).document
        results = results_of(document)
    except (MalformedStep, ComparisonBudgetExceeded):
        return None
    if results.boolean is not None:
        return None
    name_by_role = _column_names_by_role(list(results.variables))
    if name_by_role is None:
        return None

    lines = []
    for number, row in enumerate(document["results"]["bindings"], 1):
        term_by_role = {role: row[name] for role, name in name_by_role.items() if name in row}
        try:
            lines.append(_write_statement(term_by_role))
        except MalformedStep as error:
            raise MalformedStep(f"row {number}: {error}") from None
    return "".join(lines)


def lines_of_statements(value: Any) -> list[str] | None:
    """Return a list of texts that all end with a stop, as lines of N-Triples do.

    None if the value is no such list, and no object with nothing but such a list.
    """
    if isinstance(value, dict) and len(value) == 1:
        [value] = value.values()
    if not isinstance(value, list) or not value:
        return None
    if not all(isinstance(line, str) and line.rstrip().endswith(".") for line in value):
        return None
    return value


def _is_list_without_names(value: Any) -> bool:
    """Return whether a value is a list of subjects, predicates and objects, without their names.

    The first predicate is an IRI then, and no name of a column is one.
    """
    if not isinstance(value, list) or not value:
        return False
    if not all(isinstance(row, list | tuple) and len(row) == 3 for row in value):
        return False
    _, predicate, _ = value[0]
    return isinstance(predicate, str) and ":" in predicate


def _column_names_by_role(names: list[str]) -> dict[str, str] | None:
    """Return the name of the column for each part of a statement in `ROLES`.

    Args:
        names: the names of all columns of a table, in any order.

    Returns:
        None if the columns are not a subject, a predicate, an object and at most a graph.
    """
    name_by_role: dict[str, str] = {}
    for name in names:
        role = _ROLE_BY_NAME.get(name.removeprefix("?").lower())
        if role is None or role in name_by_role:
            return None
        name_by_role[role] = name
    if not {SUBJECT, PREDICATE, OBJECT} <= name_by_role.keys():
        return None
    return name_by_role


def _write_statement(term_by_role: dict[str, dict[str, Any]]) -> str:
    """Return the line of N-Quads for a statement.

    Args:
        term_by_role: the terms of the statement, by their part in it as named in `ROLES`.

    Raises:
        MalformedStep: the subject, predicate or object is missing, or a term is no absolute IRI
            where one must stand.
    """
    for role in (SUBJECT, PREDICATE, OBJECT):
        if role not in term_by_role:
            raise MalformedStep(f"the {role} is missing")
    parts = [
        _write_resource(term_by_role[SUBJECT], SUBJECT),
        _write_resource(term_by_role[PREDICATE], PREDICATE),
        _write_object(term_by_role[OBJECT]),
    ]
    graph_name = term_by_role.get(GRAPH_NAME)
    # In the default graph, the name is missing, or empty where a table is CSV.
    if graph_name is not None and graph_name["value"] != "":
        parts.append(_write_resource(graph_name, GRAPH_NAME))
    return f"{' '.join(parts)} .\n"


def _write_resource(term: dict[str, Any], role: str) -> str:
    """Return an IRI or a blank node in N-Quads.

    Args:
        term: the term, as RDF/JSON and SPARQL results write it.
        role: the part of a statement that the term is, as errors name it.

    Raises:
        MalformedStep: the term is no blank node, and no absolute IRI.
    """
    value = str(term["value"])
    if term.get("type") == "bnode" or value.startswith("_:"):
        label = value.removeprefix("_:")
        return f"_:{label}"
    iri = value.strip("<>")
    in_brackets = f"<{iri}>"
    if is_iri(in_brackets) is None:
        raise MalformedStep(f"the {role} {iri!r} is no absolute IRI")
    return in_brackets


def _write_object(term: dict[str, Any]) -> str:
    """Return the object of a statement in N-Quads.

    Text without a type is an IRI if it looks like one.

    Raises:
        MalformedStep: the text looks like an IRI, and is no absolute IRI.
    """
    value = str(term["value"])
    kind = term.get("type")
    if kind in ("uri", "bnode"):
        return _write_resource(term, OBJECT)
    is_untyped = kind is None and "datatype" not in term and "xml:lang" not in term
    if is_untyped and value.startswith(("http:", "https:", "urn:")):
        return _write_resource(term, OBJECT)

    literal = f'"{value.translate(_ESCAPES)}"'
    language = term.get("xml:lang") or term.get("lang")
    datatype = term.get("datatype")
    if language:
        return f"{literal}@{language}"
    if datatype:
        return f"{literal}^^<{datatype}>"
    return literal
