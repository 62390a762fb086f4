"""Tables in all formats, graphs, and the result of a response, for tests of steps."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, TypeAlias
from xml.sax.saxutils import escape, quoteattr

from graphrag_eval_async import run_evaluation_sync
from graphrag_eval_async.catalogue.media_types import SPARQL_RESULTS
from graphrag_eval_async.steps import Budget
from graphrag_eval_async.steps.formats.reading import read_document
from graphrag_eval_async.steps.formats.results import SparqlResults, results_of
from graphrag_eval_async.steps.graphs.comparison import isomorphic
from graphrag_eval_async.steps.graphs.reading import read_graph
from tests.support.data import question, taken, template

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphrag_eval_async.steps.graphs.reading import Graph

XSD = "http://www.w3.org/2001/XMLSchema#"
PREFIXES = f"@prefix : <http://example.org/> .\n@prefix xsd: <{XSD}> .\n"

Term: TypeAlias = dict[str, Any] | None
Table: TypeAlias = list[list[Term]]


def query(output: Any, **more: Any) -> dict[str, Any]:
    """A reference step with SPARQL results."""
    return {"name": "sparql_query", "output": output, "output_media_type": SPARQL_RESULTS, **more}


def groups(*steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A reference set with one question of several groups of reference steps."""
    return template(question(reference_steps=[*steps], reference_answer="T1, T2 and T3."))


def result_of(
    reference: dict[str, Any], output: Any, *, config: Any = None, **more: Any
) -> dict[str, Any]:
    """The result of a response with one step, which has the name of the reference step."""
    response = {"question_id": "q", "actual_steps": [taken(reference, output=output, **more)]}
    [result] = run_evaluation_sync(template(question(reference)), [response], config=config)
    return result


def score_of(reference: dict[str, Any], output: Any, **more: Any) -> float:
    return float(result_of(reference, output, **more)["steps_score"])


def literal(text: str, datatype: str | None = None) -> Term:
    return {"type": "literal", "value": text} | ({"datatype": XSD + datatype} if datatype else {})


def encode(table: Table, names: Sequence[str]) -> str:
    bindings = [
        {n: term for n, term in zip(names, row, strict=True) if term is not None} for row in table
    ]
    return json.dumps({"head": {"vars": list(names)}, "results": {"bindings": bindings}})


def texts(*rows: Sequence[str], names: str = "") -> str:
    """SPARQL results of plain literals; without rows, of as many variables as there are names."""
    width = len(rows[0]) if rows else len(names)
    return encode(
        [[literal(text) for text in row] for row in rows], (names or "abcdefghijklmn")[:width]
    )


def read_results(output: Any) -> SparqlResults:
    return results_of(read_document(output))


def to_xml(table: Table, names: Sequence[str]) -> str:
    def written(term: dict[str, Any]) -> str:
        marks = "".join(
            f" {key}={quoteattr(term[key])}" for key in ("datatype", "xml:lang") if key in term
        )
        return (
            f"<{term['type']}{marks}>{escape(term['value'], {chr(13): '&#13;'})}</{term['type']}>"
        )

    lines = [
        '<?xml version="1.0"?>',
        '<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head>',
    ]
    lines += [f"<variable name='{name}'/>" for name in names]
    lines.append("</head><results>")
    for row in table:
        bound = [(name, term) for name, term in zip(names, row, strict=True) if term is not None]
        bindings = [f"<binding name='{name}'>{written(term)}</binding>" for name, term in bound]
        lines += ["<result>", *bindings, "</result>"]
    return "\n".join([*lines, "</results></sparql>\n"])


def to_tsv(table: Table, names: Sequence[str]) -> str:
    def written(term: Term) -> str:
        if term is None:
            return ""
        if term["type"] != "literal":
            return f"<{term['value']}>" if term["type"] == "uri" else f"_:{term['value']}"
        text = json.dumps(term["value"], ensure_ascii=False)
        if "xml:lang" in term:
            return f"{text}@{term['xml:lang']}"
        return text + (f"^^<{term['datatype']}>" if "datatype" in term else "")

    lines = [[f"?{name}" for name in names], *([*map(written, row)] for row in table)]
    return "".join("\t".join(line) + "\n" for line in lines)


def values(table: Table) -> list[list[str]]:
    return [[value(term) for term in row] for row in table]


def value(term: Term) -> str:
    """The text of a cell without types."""
    if term is None:
        return ""
    return f"_:{term['value']}" if term.get("type") == "bnode" else str(term["value"])


def to_csv(table: Table, names: Sequence[str]) -> str:
    written = io.StringIO()
    csv.writer(written).writerows([names, *values(table)])
    return written.getvalue()


def to_objects(table: Table, names: Sequence[str]) -> str:
    rows = [[term and value(term) for term in row] for row in table]
    return json.dumps([dict(zip(names, row, strict=True)) for row in rows])


def to_markdown(table: Table, names: Sequence[str]) -> str:
    rows = [[text.replace("|", "\\|") for text in row] for row in values(table)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [[*names], ["---"] * len(names), *rows])


def turtle(*statements: str) -> str:
    return PREFIXES + "\n".join(f"{statement} ." for statement in statements)


def read(output: Any, media_type: str | None = None, *, union: bool = False) -> Graph:
    return read_graph(output, media_type, Budget(), union=union)


def same(expected: Iterable[str], actual: Iterable[str]) -> bool:
    """Whether graphs of Turtle statements are isomorphic."""
    return isomorphic(read(turtle(*expected)), read(turtle(*actual)), Budget())
