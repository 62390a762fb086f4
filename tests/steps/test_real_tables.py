"""Tables as stores, tools, protocols and libraries write them: each is the table that it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async import load_reference
from graphrag_eval_async.catalogue.media_types import CSV, TSV
from tests.steps.support import XSD, encode, literal, query, result_of, score_of, texts
from tests.support.data import question, template

FILM = {"type": "uri", "value": "http://example.org/film/1"}
FILMS = encode(
    [
        [FILM, literal("Metropolis"), literal("153", "integer")],
        [{"type": "uri", "value": "http://example.org/film/2"}, literal('M "1931"'), None],
    ],
    ["film", "title", "minutes"],
)
IRI = "http://example.org/film/"
ROWS: list[list[Any]] = [[f"{IRI}1", "Metropolis", 153], [f"{IRI}2", 'M "1931"', None]]
NAMES = ["film", "title", "minutes"]
OBJECTS = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
CSV_TEXT = f'film,title,minutes\r\n{IRI}1,Metropolis,153\r\n{IRI}2,"M ""1931""",\r\n'


VARIABLES = ["?film", "?title", "?minutes"]


def tsv(*rows: list[str]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def piped(rule: str) -> str:
    """The table with pipes in between, and a rule below the header."""
    rows = [[f"{IRI}1", "Metropolis", "153"], [f"{IRI}2", 'M "1931"', ""]]
    header, *lines = [f"| {' | '.join(row)} |\n" for row in [NAMES, *rows]]
    return "".join([header, f"{rule}\n", *lines])


BINDINGS = json.loads(FILMS)["results"]["bindings"]

SAME_TABLE: dict[str, Any] = {
    "tsv-bare-iris": tsv(NAMES, [f"{IRI}1", "Metropolis", "153"], [f"{IRI}2", 'M "1931"', ""]),
    "tsv-quoted-header": tsv(
        ['"film"', '"title"', '"minutes"'],
        [f'"{IRI}1"', '"Metropolis"', "153"],
        [f'"{IRI}2"', '"M ""1931"""', ""],
    ),
    "tsv-wikidata": tsv(
        VARIABLES,
        [f"<{IRI}1>", "Metropolis", f'"153"^^<{XSD}integer>'],
        [f"<{IRI}2>", 'M "1931"', ""],
    ),
    "tsv-prefixed-datatype": tsv(
        VARIABLES,
        [f"<{IRI}1>", '"Metropolis"', '"153"^^xsd:integer'],
        [f"<{IRI}2>", '"M "1931""', ""],
    ),
    "tsv-language": tsv(
        VARIABLES,
        [f"<{IRI}1>", '"Metropolis"@de', "153"],
        [f"<{IRI}2>", '"M \\"1931\\""@de', ""],
    ),
    "csv-quoted": CSV_TEXT,
    "csv-with-terms": "film,title,minutes\n"
    f'<{IRI}1>,"""Metropolis""@de","""153""^^<{XSD}integer>"\n'
    f'<{IRI}2>,"M ""1931""",\n',
    "csv-spoken-names": CSV_TEXT.replace("film,title,minutes", "m.film,film title,count(*)"),
    "csv-semicolons": f'film;title;minutes\n{IRI}1;Metropolis;153\n{IRI}2;"M ""1931""";\n',
    "csv-note-below": f"{CSV_TEXT}\n2 rows in 3 ms\n",
    "csv-caption": f"The query returned:\n\n{CSV_TEXT}",
    "columns-rows": {"columns": NAMES, "rows": ROWS},
    "columns-data": {"columns": NAMES, "data": ROWS},
    "fields-values": {"fields": NAMES, "values": ROWS},
    "names-values": {"names": NAMES, "values": ROWS},
    "headers-rows": {"headers": NAMES, "rows": ROWS, "row_count": 2},
    "named-fields": {"fields": [{"name": name, "type": "x"} for name in NAMES], "values": ROWS},
    "columns-objects": {"columns": NAMES, "rows": OBJECTS},
    "pandas-split": {"columns": NAMES, "index": [0, 1], "data": ROWS},
    "pandas-table": {
        "schema": {"fields": [{"name": name} for name in NAMES], "pandas_version": "1.4.0"},
        "data": OBJECTS,
    },
    "pandas-columns": {n: {"0": a, "1": b} for n, a, b in zip(NAMES, *ROWS, strict=True)},
    "pandas-list": {n: [a, b] for n, a, b in zip(NAMES, *ROWS, strict=True)},
    "pandas-index": {"0": OBJECTS[0], "1": OBJECTS[1]},
    "pandas-nan": json.dumps(OBJECTS).replace("null", "NaN"),
    "qlever": {
        "selected": ["?film", "?title", "?minutes"],
        "res": [
            [f"<{IRI}1>", '"Metropolis"', f'"153"^^<{XSD}integer>'],
            [f"<{IRI}2>", '"M \\"1931\\""', None],
        ],
    },
    "bindings-without-head": {"results": {"bindings": BINDINGS}},
    "bindings-alone": {"bindings": BINDINGS},
    "bindings-list": BINDINGS,
    "head-null": {"head": None, "results": {"bindings": BINDINGS}},
    "rdfjs": [
        {
            "film": {"termType": "NamedNode", "value": row[0]},
            "title": {"termType": "Literal", "value": row[1], "language": "de", "datatype": {}},
        }
        | (
            {
                "minutes": {
                    "termType": "Literal",
                    "value": "153",
                    "language": "",
                    "datatype": {"termType": "NamedNode", "value": f"{XSD}integer"},
                }
            }
            if row[2]
            else {}
        )
        for row in ROWS
    ],
    "json-ld-cells": [
        {"film": {"@id": f"{IRI}1"}, "title": {"@value": "Metropolis"}, "minutes": 153},
        {"film": {"@id": f"{IRI}2"}, "title": {"@value": 'M "1931"', "@language": "de"}},
    ],
    "header-and-rows": [NAMES, *ROWS],
    "json-lines": "\n".join(map(json.dumps, OBJECTS)),
    "python-repr": str(OBJECTS),
    "python-tuples": str([tuple(NAMES), *map(tuple, ROWS)]),
    "mcp-content": {"content": [{"type": "text", "text": json.dumps(OBJECTS)}], "isError": False},
    "mcp-structured": {
        "content": [{"type": "text", "text": "2 rows"}],
        "structuredContent": {"result": OBJECTS},
        "isError": False,
    },
    "mcp-json-rpc": {
        "jsonrpc": "2.0",
        "id": 3,
        "result": {"content": [{"type": "text", "text": CSV_TEXT}]},
    },
    "mcp-resource": {
        "content": [
            {"type": "resource", "resource": {"uri": "x:1", "mimeType": CSV, "text": CSV_TEXT}}
        ]
    },
    "text-blocks": [{"type": "text", "text": FILMS}],
    "text-blocks-in-text": json.dumps([{"type": "text", "text": CSV_TEXT}]),
    "a-block-a-row": [{"type": "text", "text": json.dumps(row)} for row in OBJECTS],
    "a-block-with-a-note": [
        {"type": "text", "text": "Query succeeded."},
        {"type": "text", "text": FILMS},
    ],
    "bedrock-json": [{"json": {"rows": OBJECTS}}],
    "tool-message": {"role": "tool", "tool_call_id": "c1", "content": json.dumps(OBJECTS)},
    "status-and-data": {"status": "success", "data": OBJECTS, "elapsed_ms": 3},
    "output-of-a-tool": {"query": "SELECT ...", "output": CSV_TEXT, "error": None},
    "result-in-result": {"result": {"result": json.dumps({"columns": NAMES, "rows": ROWS})}},
    "fence": f"```json\n{json.dumps(OBJECTS)}\n```",
    "fence-in-prose": f"Here is what I found:\n\n```csv\n{CSV_TEXT}```\nThat is all.",
    "fences-query-first": f"```sparql\nSELECT * {{ ?s ?p ?o }}\n```\n```json\n{FILMS}\n```",
    "json-with-note": f"{json.dumps(OBJECTS)}\n\n(2 rows)",
    "markdown": piped("|---|---|---:|"),
    "markdown-in-prose": "Result:\n\n" + piped("|---|---|---:|") + "\n2 rows.",
    "psql": piped("---+---+---").replace("\n| ", "\n ").replace(" |\n", " \n")[1:] + "(2 rows)\n",
    "mysql": "+---+---+---+\n" + piped("+---+---+---+") + "+---+---+---+\n",
    "jena-text": "-----\n"
    + piped("=====").replace("Metropolis", '"Metropolis"@de')
    .replace(f"{IRI}1", f"<{IRI}1>")
    .replace(f"{IRI}2", f"<{IRI}2>")
    + "-----\n",
    "markdown-below-a-heading": "Films\n-----\n\n---\n" + piped("|---|---|---:|"),
    "python-nan": str(OBJECTS).replace("None", "nan"),
    "python-types": str(OBJECTS).replace("153", "Decimal('153')"),
    "python-tuple-of-rows": str((tuple(NAMES), *map(tuple, ROWS))),
    "a-note-and-json": [
        {"type": "text", "text": "Query succeeded.\nRows: 2"},
        {"type": "text", "text": json.dumps(OBJECTS)},
    ],
    "a-block-a-page": [{"type": "text", "text": json.dumps([row])} for row in OBJECTS],
    "arrays-one-below-the-other": "\n".join(json.dumps([row]) for row in OBJECTS),
    "control-characters": FILMS.replace("Metropolis", "Metropolis").replace("1931", "19\t31"),
    "apostrophe": FILMS.replace("Metropolis", "Metro\\'polis"),
}  # fmt: skip
CHANGED = {
    "control-characters": FILMS.replace("1931", "19\\t31"),
    "apostrophe": FILMS.replace("Metropolis", "Metro'polis"),
}


@pytest.mark.parametrize("name", SAME_TABLE)
def test_a_table_in_this_form_is_the_same_table(name: str) -> None:
    expected = CHANGED.get(name, FILMS)
    output = SAME_TABLE[name]
    assert score_of(query(expected), output) == 1
    if not isinstance(output, str):
        assert score_of(query(expected), json.dumps(output)) == 1


@pytest.mark.parametrize("name", SAME_TABLE)
def test_a_table_in_this_form_with_another_cell_is_another_table(name: str) -> None:
    other = FILMS.replace("film/2", "film/3")
    assert score_of(query(other), SAME_TABLE[name]) == 0


YES: dict[str, Any] = {
    "head": {"head": {}, "boolean": True},
    "no-head": {"boolean": True},
    "head-null": {"head": None, "boolean": True},
    "boolean-as-text": {"head": {}, "boolean": "true"},
    "json-text": '{"boolean": true}',
    "bare": True,
    "bare-text": "true",
    "bare-python": "True",
    "csv-jena": "_askResult\ntrue\n",
    "csv-virtuoso": '"bool"\n1\n',
    "csv-boolean": "boolean\r\ntrue\r\n",
    "tsv-variable": "?boolean\ntrue",
    "tsv-term": f'?_askResult\n"true"^^<{XSD}boolean>\n',
    "rows": [{"_askResult": True}],
    "columns-rows": {"columns": ["bool"], "rows": [[1]]},
    "mcp": {"content": [{"type": "text", "text": "true"}]},
    "xml": '<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/><boolean>true</boolean></sparql>',
    "result": {"result": True},
    "fence": "```\ntrue\n```",
}


@pytest.mark.parametrize("name", YES)
def test_the_answer_to_ask_in_this_form(name: str) -> None:
    yes = {"head": {}, "boolean": True}
    no = {"head": {}, "boolean": False}
    assert score_of(query(yes), YES[name]) == 1
    assert score_of(query(no), YES[name]) == 0
    assert score_of({"name": "q", "output": yes}, YES[name]) == 1


@pytest.mark.parametrize(
    "output", [True, "true", {"boolean": True}, {"head": None, "boolean": True}]
)
@pytest.mark.parametrize("keys", [{}, {"output_media_type": "application/sparql-results+json"}])
def test_an_answer_to_ask_as_reference(output: Any, keys: dict[str, Any]) -> None:
    reference = {"name": "sparql_query", "output": output, **keys}
    for name in YES:
        assert score_of(reference, YES[name]) == 1, name
    assert score_of(reference, "false") == 0


def test_a_boolean_column_is_no_answer_to_ask() -> None:
    table = query(encode([[literal("true", "boolean")]], ["boolean"]))
    assert score_of(table, "boolean\ntrue\n") == 1
    assert score_of(query({"head": {}, "boolean": True}), "flag\ntrue\n") == 0


@pytest.mark.parametrize(
    ("expected", "output", "agrees"),
    [
        pytest.param("film\n", "film\n", True, id="no-rows"),
        pytest.param("film\n", "?film\n", True, id="no-rows-in-tsv"),
        pytest.param("film\n", '"film"', True, id="no-rows-quoted"),
        pytest.param("film\n", "error\n", False, id="another-word"),
        pytest.param("film\n", "film,title\n", True, id="no-rows-of-two-columns"),
        pytest.param("film\n", "Sorry, nothing found\n", False, id="a-sentence"),
        pytest.param("film\n", encode([], ["film"]), True, id="no-rows-in-json"),
        pytest.param("film\n", {"columns": ["film"], "rows": []}, True, id="no-rows-under-columns"),
        pytest.param("v\r\n\r\n", "v\r\n\r\n", True, id="an-unbound-row"),
        pytest.param("v\r\n\r\n", encode([[None]], ["v"]), True, id="an-unbound-row-in-json"),
        pytest.param("v\r\n\r\n", encode([], ["v"]), False, id="an-unbound-row-against-none"),
    ],
)  # fmt: skip
def test_tables_of_one_column_without_values(expected: str, output: Any, agrees: bool) -> None:
    assert score_of(query(expected, output_media_type=CSV), output) == agrees


@pytest.mark.parametrize(
    "output",
    [
        pytest.param({"head": {"vars": []}, "results": {"bindings": [{}]}}, id="json"),
        pytest.param(
            '<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/>'
            "<results><result/></results></sparql>",
            id="xml",
        ),
    ],
)
def test_one_row_of_no_columns(output: Any) -> None:
    row = {"head": {"vars": []}, "results": {"bindings": [{}]}}
    assert score_of(query(row), output) == 1
    assert score_of(query({"head": {"vars": []}, "results": {"bindings": []}}), output) == 0
    for text, media_type in (("\r\n\r\n", CSV), ("\n\n", TSV)):
        assert score_of(query(row), text, output_media_type=media_type) == 1
        assert score_of(query(text, output_media_type=media_type), output) == 1


@pytest.mark.parametrize("name", ["tsv-bare-iris", "tsv-quoted-header", "tsv-prefixed-datatype"])
def test_a_reference_in_such_a_form_loads(name: str) -> None:
    reference = query(SAME_TABLE[name], output_media_type=TSV)
    load_reference(template(question(reference)))
    assert score_of(reference, FILMS) == 1


@pytest.mark.parametrize(
    "cell",
    ["<http://e.org/a>", '"""a""@en"', '"""5""^^<http://www.w3.org/2001/XMLSchema#integer>"'],
)
def test_a_saved_reference_with_terms_in_cells_of_csv_is_warned_of(cell: str) -> None:
    reference = query(f"x,y\n{cell},1\n", output_media_type=CSV)
    with pytest.warns(UserWarning, match="cells look like RDF terms"):
        load_reference(template(question(reference)))


@pytest.mark.parametrize("name", ["fence-in-prose", "markdown-in-prose", "csv-note-below"])
def test_text_that_was_not_read_is_named(name: str) -> None:
    result = result_of(query(texts(("other",))), SAME_TABLE[name])
    assert result["failure"] == "wrong_query_result"
    assert "not read, since it stands outside the table" in result["failure_detail"]


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("Sorry, I cannot run that query.", id="sentence"),
        pytest.param("[1] Smith et al.", id="footnote"),
        pytest.param([{"type": "text", "text": "Error: timeout"}], id="error-block"),
        pytest.param({"error": "timeout", "code": 504}, id="error-object"),
        pytest.param("", id="nothing"),
    ],
)
def test_what_is_no_table_scores_0(output: Any) -> None:
    assert score_of(query(FILMS), output) == 0
    assert score_of(query(encode([], NAMES)), output) == 0
    assert score_of(query({"head": {}, "boolean": True}), output) == 0


@pytest.mark.parametrize("keys", [{}, {"score": "f1"}, {"ordered": True}], ids=str)
def test_strict_types_tell_iris_from_literals(keys: dict[str, Any]) -> None:
    strict = {"steps": {"strict_types": True}}
    iri = encode([[{"type": "uri", "value": "urn:a"}]], "x")
    text = encode([[literal("urn:a")]], "x")
    for expected, actual in ((iri, text), (text, iri)):
        assert score_of(query(expected, **keys), actual) == 1
        assert score_of(query(expected, **keys), actual, config=strict) == 0
        assert score_of(query(expected, **keys), expected, config=strict) == 1


GRAPH = """@prefix ex: <http://e.org/> .
ex:a ex:knows ex:b, _:n ; ex:age 5 .
_:n ex:name "An \\"odd\\" name"@en .
"""
RDF_JSON: dict[str, dict[str, list[dict[str, str]]]] = {
    "http://e.org/a": {
        "http://e.org/knows": [
            {"type": "uri", "value": "http://e.org/b"},
            {"type": "bnode", "value": "_:x"},
        ],
        "http://e.org/age": [{"type": "literal", "value": "5", "datatype": f"{XSD}integer"}],
    },
    "_:x": {
        "http://e.org/name": [{"type": "literal", "value": 'An "odd" name', "lang": "en"}],
    },
}
KNOWS, AGE, NAME = (f"http://e.org/{name}" for name in ("knows", "age", "name"))
TRIPLES: list[dict[str, Any]] = [
    {"s": "http://e.org/a", "p": KNOWS, "o": "http://e.org/b"},
    {"s": "http://e.org/a", "p": KNOWS, "o": "_:x"},
    {"s": "http://e.org/a", "p": AGE, "o": 5},
    {"s": "_:x", "p": NAME, "o": '"An "odd" name"@en'},
]
TERMS_OF_TRIPLES = encode(
    [
        [
            {"type": "bnode", "value": "x"}
            if row["s"] == "_:x"
            else {"type": "uri", "value": row["s"]},
            {"type": "uri", "value": row["p"]},
            RDF_JSON[row["s"]][row["p"]][int(row["o"] == "_:x")]
            if row["p"] != NAME
            else {"type": "literal", "value": 'An "odd" name', "xml:lang": "en"},
        ]
        for row in TRIPLES
    ],
    ["subject", "predicate", "object"],
)
SAME_GRAPH: dict[str, Any] = {
    "turtle": GRAPH,
    "turtle-in-a-fence": f"The graph:\n```turtle\n{GRAPH}```\nDone.",
    "turtle-in-mcp": {"content": [{"type": "text", "text": GRAPH}]},
    "rdf-json": RDF_JSON,
    "rdf-json-text": json.dumps(RDF_JSON),
    "triples": TRIPLES,
    "triples-in-mcp": {"content": [{"type": "text", "text": json.dumps(TRIPLES)}]},
    "triples-as-lists": [["subject", "predicate", "object"], *(list(t.values()) for t in TRIPLES)],
    "bindings": TERMS_OF_TRIPLES,
    "csv": "s,p,o\n"
    f"http://e.org/a,{KNOWS},http://e.org/b\nhttp://e.org/a,{KNOWS},_:q\n"
    f'http://e.org/a,{AGE},5\n_:q,{NAME},"""An ""odd"" name""@en"\n',
    "tsv": "?subject\t?predicate\t?object\n"
    f"<http://e.org/a>\t<{KNOWS}>\t<http://e.org/b>\n<http://e.org/a>\t<{KNOWS}>\t_:q\n"
    f'<http://e.org/a>\t<{AGE}>\t5\n_:q\t<{NAME}>\t"An \\"odd\\" name"@en\n',
}


@pytest.mark.parametrize("name", SAME_GRAPH)
def test_a_graph_in_this_form_is_the_same_graph(name: str) -> None:
    reference = {"name": "q", "output": GRAPH, "output_media_type": "text/turtle"}
    assert score_of(reference, SAME_GRAPH[name]) == 1
    assert score_of(reference | {"score": "f1"}, SAME_GRAPH[name]) == 1
    other = reference | {"output": GRAPH.replace("5", "6")}
    assert score_of(other, SAME_GRAPH[name]) == 0


A, B = "http://e.org/a", "http://e.org/b"
ONE_TRIPLE = f"<{A}> <{KNOWS}> <{B}> ."


@pytest.mark.parametrize(
    "output",
    [
        pytest.param([{"p": KNOWS, "o": B, "s": A}], id="columns-in-another-order"),
        pytest.param([{"?s": A, "?p": KNOWS, "?o": B}], id="question-marks"),
        pytest.param(f"?s\t?p\t?o\n<{A}>\t<{KNOWS}>\t<{B}>\n", id="question-marks-in-tsv"),
        pytest.param([{"subject": A, "property": KNOWS, "value": B}], id="property-and-value"),
        pytest.param(f"Object,Subject,Predicate\n{B},{A},{KNOWS}\n", id="capital-letters"),
        pytest.param([{"s": A, "p": KNOWS, "o": B, "g": None}], id="default-graph"),
        pytest.param(f"g,s,p,o\n,{A},{KNOWS},{B}\n", id="default-graph-in-csv"),
        pytest.param(
            f"| s | p | o | graph |\n|---|---|---|---|\n| {A} | {KNOWS} | {B} | |\n",
            id="default-graph-in-markdown",
        ),
    ],
)
def test_columns_of_statements_are_read_by_their_names(output: Any) -> None:
    reference = {"name": "q", "output": ONE_TRIPLE, "output_media_type": "text/turtle"}
    assert score_of(reference, output) == 1
    other = f"<{B}> <{KNOWS}> <{A}> ."
    assert score_of(reference | {"output": other}, output) == 0


@pytest.mark.parametrize("as_text", [False, True])
def test_rdf_json_of_one_triple_is_no_envelope(as_text: bool) -> None:
    reference = {"name": "q", "output": ONE_TRIPLE, "output_media_type": "text/turtle"}
    output: Any = {A: {KNOWS: [{"type": "uri", "value": B}]}}
    if as_text:
        output = {"content": [{"type": "text", "text": json.dumps(output)}]}
    assert score_of(reference, output) == 1
    assert score_of(reference | {"output": f"<{B}> <{KNOWS}> <{A}> ."}, output) == 0


@pytest.mark.parametrize("name", ["g", "graph", "context"])
def test_a_column_of_a_table_names_the_graphs_of_its_statements(name: str) -> None:
    reference = {
        "name": "q",
        "output": f"<{A}> <{KNOWS}> <{B}> <http://e.org/g> .",
        "output_media_type": "application/n-quads",
    }
    output = [{name: "http://e.org/g", "s": A, "p": KNOWS, "o": B}]
    other = [{name: "http://e.org/h", "s": A, "p": KNOWS, "o": B}]
    assert score_of(reference, output) == 1
    assert score_of(reference, other) == 0
    assert score_of(reference | {"ignore_graph_names": True}, other) == 1


@pytest.mark.parametrize(
    ("output", "detail"),
    [
        pytest.param(
            [{"s": A, "p": KNOWS, "o": B}, {"s": f"{A} b", "p": KNOWS, "o": B}],
            "row 2: the subject 'http://e.org/a b' is no absolute IRI",
            id="blank-in-subject",
        ),
        pytest.param(
            f"s,p,o\n{A},{KNOWS} x,{B}\n",
            "row 1: the predicate 'http://e.org/knows x' is no absolute IRI",
            id="blank-in-predicate",
        ),
        pytest.param(
            [{"o": f"{B} c", "s": A, "p": KNOWS}],
            "row 1: the object 'http://e.org/b c' is no absolute IRI",
            id="blank-in-object",
        ),
        pytest.param(
            [{"s": A, "p": "knows", "o": B}],
            "row 1: the predicate 'knows' is no absolute IRI",
            id="name-without-namespace",
        ),
        pytest.param(
            [{"s": A, "p": KNOWS, "o": B, "g": "default"}],
            "row 1: the graph 'default' is no absolute IRI",
            id="graph",
        ),
        pytest.param(
            [{"s": A, "p": KNOWS, "o": None}], "row 1: the object is missing", id="unbound-object"
        ),
        pytest.param(
            {f"{A} b": {KNOWS: [{"type": "uri", "value": B}]}},
            "the subject 'http://e.org/a b' is no absolute IRI",
            id="rdf-json",
        ),
        pytest.param(
            [{"s": f"{A}%2", "p": KNOWS, "o": B}],
            "not N-Quads: line 1 between columns 1 and 19: Invalid IRI percent encoding '%2'",
            id="wrong-percent-encoding",
        ),
    ],
)
def test_a_wrong_term_of_a_table_of_statements_is_named(output: Any, detail: str) -> None:
    reference = {"name": "q", "output": ONE_TRIPLE, "output_media_type": "text/turtle"}
    result = result_of(reference, output)
    assert (result["steps_score"], result["failure"]) == (0, "wrong_query_result")
    assert result["failure_detail"] == detail


def test_a_table_of_statements_is_also_a_table() -> None:
    result = result_of(
        query(encode([[literal(A), literal(KNOWS), literal(B)]], "spo")),
        [{"s": A, "p": KNOWS, "o": A}],
    )
    assert (result["steps_score"], result["failure"]) == (0, "wrong_query_result")
    assert "steps_score_error" not in result


NO_RESULTS: dict[str, Any] = {
    "failed-flag": {"success": False},
    "not-found": {"found": False, "error": "no such graph"},
    "false-with-error": {"result": False, "error": "timeout"},
    "is-error": {"isError": True},
    "error-flag": {"error": True},
    "ok-flag": {"ok": True},
    "no-results-with-error": {"results": [], "error": "Query timed out"},
    "no-content-with-error": {"content": [], "isError": True},
    "no-data-with-status": {"status": "error", "message": "x", "data": []},
    "no-rows-with-error": {"columns": ["film"], "rows": [], "error": "timeout"},
    "two-fences": "```\nfilm\n1\n```\n```\nfilm\n2\n```",
}


@pytest.mark.parametrize("name", NO_RESULTS)
def test_what_says_that_a_tool_failed_is_no_result(name: str) -> None:
    for reference in (
        query({"head": {}, "boolean": True}),
        query({"head": {}, "boolean": False}),
        query(encode([], ["film"])),
        query(encode([[literal("2")]], ["film"])),
    ):
        assert score_of(reference, NO_RESULTS[name]) == 0


@pytest.mark.parametrize(
    ("output", "first_row_counts"),
    [
        pytest.param("[('x', 'y'), ('z', 'w')]", True, id="tuples-of-a-cursor"),
        pytest.param([["x", "y"], ["z", "w"]], False, id="lists-with-a-header"),
        pytest.param('[{"a": "x", "b": "y"}]\n[{"a": "z", "b": "w"}]', True, id="two-arrays"),
        pytest.param([{"text": "x", "b": "y"}, {"text": "z", "b": "w"}], True, id="column-text"),
    ],
)
def test_all_rows_count(output: Any, first_row_counts: bool) -> None:
    assert score_of(query(texts(("z", "w"))), output) == (not first_row_counts)
    assert score_of(query(texts(("x", "y"), ("z", "w"))), output) == first_row_counts


@pytest.mark.parametrize("text", ["True", "TRUE", "true"])
def test_booleans_as_python_and_spreadsheets_write_them(text: str) -> None:
    reference = query(encode([[literal("true", "boolean"), literal("a")]], "xy"))
    assert score_of(reference, f"x,y\n{text},a\n") == 1
    assert score_of(query(texts((text, "a"))), f"x,y\n{text},a\n") == 1
    assert score_of(reference, "x,y\nFalse,a\n") == 0


ODD: dict[str, Any] = {
    "head-is-a-number": {"head": 1},
    "head-is-null": {"head": None, "x": 1},
    "head-without-results": {"head": {"vars": ["s", "p", "o"]}},
    "results-are-a-list": {"head": {"vars": ["s", "p", "o"]}, "results": []},
    "bindings-are-numbers": {"head": {"vars": ["s", "p", "o"]}, "results": {"bindings": [1]}},
    "empty-terms": {
        "head": {"vars": ["s", "p", "o"]},
        "results": {"bindings": [{"s": {}, "p": {}, "o": {}}]},
    },
    "numbers-for-keys": "{1: 'a', 'b': 2}",
    "none-for-a-key": "{None: 1, 'a': 2}",
    "bytes": "{'b': 'x', b'x': ''}",
    "a-list-for-a-key": "{'a': 1, [1]: 2}",
    "a-set": "[{'a': {1, 2}}]",
    "an-ellipsis": "[{'a': ...}]",
    "half-a-pair": "[{'a': '\\ud800', 'b': '2'}]",
    "half-a-pair-in-json": '[{"a": "\\ud800", "b": "2"}]',
    "a-huge-number": "[{'a': 0x" + "f" * 6000 + "}]",
    "huge-blocks": "[{'type': 'text', 'json': 0x" + "f" * 6000 + "}, {'type': 'text', 'json': 1}]",
    "no-names": [{"": 1}],
    "mixed-rows": [{"a": 1}, [2], 3],
    "a-call": "[{'a': __import__('os')}]",
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("keys", [{}, {"score": "f1"}, {"score": "values_f1"}], ids=str)
def test_odd_outputs_end_no_run(name: str, keys: dict[str, Any]) -> None:
    for expected in (FILMS, encode([[{"type": "bnode", "value": "b"}]], "x")):
        result = result_of(query(expected, **keys), ODD[name])
        json.dumps(result, ensure_ascii=False).encode()
        assert result["steps_score"] < 1
    assert (
        score_of({"name": "q", "output": GRAPH, "output_media_type": "text/turtle"}, ODD[name]) == 0
    )
