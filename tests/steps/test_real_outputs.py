"""Outputs of stores, command lines and tools: what is a table or a graph is read, the rest not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async.catalogue.media_types import CSV, TSV
from tests.steps.support import encode, literal, query, result_of, score_of, texts

NAMES = ["film", "year"]
ROWS: list[list[Any]] = [["Up", 2009], ["Jaws", 1975]]
OBJECTS = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
TEXT_ROWS = [[str(cell) for cell in row] for row in ROWS]
CSV_TEXT = "film,year\nUp,2009\nJaws,1975\n"
FILMS = query(CSV_TEXT, output_media_type=CSV)

ATHENA_ROWS = [{"Data": [{"VarCharValue": cell} for cell in row]} for row in (NAMES, *TEXT_ROWS)]

STORES: dict[str, Any] = {
    "neo4j-http": {
        "results": [
            {"columns": NAMES, "data": [{"row": row, "meta": [None, None]} for row in ROWS]}
        ],
        "errors": [],
    },
    "neo4j-driver": {"keys": NAMES, "records": [{"_fields": row} for row in ROWS]},
    "neo4j-driver-javascript": {
        "records": [{"keys": NAMES, "length": 2, "_fields": row} for row in ROWS],
        "summary": {"counters": {}},
    },
    "bigquery": {
        "kind": "bigquery#queryResponse",
        "schema": {"fields": [{"name": name, "type": "STRING"} for name in NAMES]},
        "rows": [{"f": [{"v": cell} for cell in row]} for row in TEXT_ROWS],
        "totalRows": "2",
    },
    "athena": {
        "ResultSet": {
            "Rows": ATHENA_ROWS,
            "ResultSetMetadata": {"ColumnInfo": [{"Name": name} for name in NAMES]},
        }
    },
    "athena-next-page": {
        "ResultSet": {
            "Rows": ATHENA_ROWS[1:],
            "ResultSetMetadata": {"ColumnInfo": [{"Name": name} for name in NAMES]},
        }
    },
    "athena-without-metadata": {
        "ResultSet": {
            "Rows": ATHENA_ROWS
        }
    },
    "snowflake": {
        "resultSetMetaData": {"numRows": 2, "rowType": [{"name": name} for name in NAMES]},
        "data": TEXT_ROWS,
        "code": "090001",
    },
    "snowflake-row-type": {"rowType": [{"name": name} for name in NAMES], "data": TEXT_ROWS},
    "influxdb": {
        "results": [
            {"statement_id": 0, "series": [{"name": "films", "columns": NAMES, "values": ROWS}]}
        ]
    },
    "influxdb-series": {"series": [{"name": "films", "columns": NAMES, "values": ROWS}]},
    "falkordb": [NAMES, ROWS, ["Cached execution: 0", "Query internal execution time: 0.4 ms"]],
}  # fmt: skip

ENVELOPES: dict[str, Any] = {
    "standard-output": {"stdout": CSV_TEXT, "stderr": "", "exit_code": 0},
    "standard-output-with-warning": {"stdout": CSV_TEXT, "stderr": "a warning", "returncode": 0},
    "artifact": {"content": "2 rows", "artifact": {"columns": NAMES, "rows": ROWS}},
    "blocks-in-a-list": [[{"type": "text", "text": CSV_TEXT}]],
    "element-result": f"<result>{CSV_TEXT}</result>",
    "element-tool-result": f"<tool_result>\n{json.dumps(OBJECTS)}\n</tool_result>\n",
}


@pytest.mark.parametrize("name", [*STORES, *ENVELOPES])
def test_a_table_as_this_store_or_tool_writes_it(name: str) -> None:
    output = {**STORES, **ENVELOPES}[name]
    other = query(CSV_TEXT.replace("1975", "1976"), output_media_type=CSV)
    assert score_of(FILMS, output) == 1
    assert score_of(other, output) == 0
    if not isinstance(output, str):
        assert score_of(FILMS, json.dumps(output)) == 1
        assert score_of(FILMS, {"content": [{"type": "text", "text": json.dumps(output)}]}) == 1


TRIPLE = "<http://e.org/a> <http://e.org/p> <http://e.org/b> ."
PREFIXED = "@prefix ex: <http://e.org/> . ex:a ex:p ex:b ."


@pytest.mark.parametrize("text", [TRIPLE, PREFIXED, f"{TRIPLE}\n"], ids=["one", "prefix", "line"])
@pytest.mark.parametrize(
    "key", ["result", "data", "output", "content", "response", "rdf", "turtle", "stdout"]
)
def test_a_graph_under_the_key_of_an_envelope(key: str, text: str) -> None:
    reference = {"name": "q", "output": TRIPLE, "output_media_type": "text/turtle"}
    for output in ({key: text}, {"success": True, key: text}):
        assert score_of(reference, output) == 1
        assert score_of(reference, json.dumps(output)) == 1
        other = reference | {"output": TRIPLE.replace("/b>", "/c>")}
        assert score_of(other, output) == 0


def test_an_iri_in_a_cell_is_no_graph() -> None:
    reference = query(encode([[{"type": "uri", "value": "http://e.org/a"}]], ["result"]))
    assert score_of(reference, {"result": "<http://e.org/a>"}) == 1


@pytest.mark.parametrize(
    "output",
    [
        pytest.param({"columns": NAMES, "rows": ROWS, "truncated": True}, id="truncated"),
        pytest.param({"rows": OBJECTS, "truncated": True}, id="truncated-objects"),
        pytest.param({"data": {"rows": OBJECTS}, "has_more": True}, id="more-outside"),
        pytest.param({"result": CSV_TEXT, "isTruncated": True}, id="truncated-text"),
        pytest.param({"rows": OBJECTS, "row_count": 100}, id="row-count"),
        pytest.param({"rows": OBJECTS, "total": 100}, id="total"),
        pytest.param({"columns": NAMES, "data": ROWS, "totalRows": 100}, id="total-rows"),
        pytest.param({"rows": OBJECTS, "note": "x", "count": 3}, id="count"),
        pytest.param(f"Showing the first 2 of 100 rows:\n{CSV_TEXT}", id="note-above"),
        pytest.param(f"{json.dumps(OBJECTS)}\n(showing 2 of 1,000 rows)", id="note-below"),
    ],
)
def test_a_table_that_says_that_rows_are_missing_scores_0(output: Any) -> None:
    result = result_of(FILMS, output)
    assert (result["steps_score"], result["failure"]) == (0, "wrong_query_result")
    assert result["failure_detail"].startswith("the table is shortened: ")


@pytest.mark.parametrize(
    "output",
    [
        pytest.param({"columns": ["film"], "rows": [], "row_count": 17}, id="row-count"),
        pytest.param({"rows": [], "count": 17}, id="count"),
    ],
)
def test_an_empty_table_that_says_that_it_has_rows_scores_0(output: Any) -> None:
    assert score_of(query(encode([], ["film"])), output) == 0


@pytest.mark.parametrize(
    "output",
    [
        pytest.param({"rows": OBJECTS, "row_count": 2, "truncated": False}, id="all-rows"),
        pytest.param({"rows": [*OBJECTS, *OBJECTS], "count": 2}, id="fewer-counted"),
        pytest.param({"rows": OBJECTS, "total": "100"}, id="text"),
        pytest.param(f"{json.dumps(OBJECTS)}\n(showing 2 of 2 rows)", id="note"),
    ],
)
def test_a_table_that_has_all_rows_is_read(output: Any) -> None:
    assert score_of(FILMS, output) == 1


def test_a_column_may_be_called_total_or_truncated() -> None:
    rows = query(encode([[literal("100", "integer"), literal("true", "boolean")]], "xy"))
    assert score_of(rows, [{"total": 100, "truncated": True}]) == 1
    assert score_of(rows, {"total": 100, "truncated": True}) == 1


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        pytest.param({"type": "resource_link", "uri": "file:///x.csv", "name": "x"},
                     "resource_link", id="link"),
        pytest.param({"type": "image", "data": "AA", "mimeType": "image/png"}, "image", id="image"),
        pytest.param({"type": "image_url", "image_url": {"url": "x"}}, "image_url", id="image-url"),
        pytest.param({"type": "audio", "data": "A"}, "audio", id="audio"),
        pytest.param({"type": "search_result", "source": "x", "title": "t"},
                     "search_result", id="search-result"),
        pytest.param({"type": "tool_reference", "tool_name": "x"}, "tool_reference", id="tool"),
    ],
)  # fmt: skip
def test_content_blocks_without_text_are_no_table(block: dict[str, Any], kind: str) -> None:
    values = [str(value) for value in block.values()]
    for output in ({"content": [block]}, [block], [block, block]):
        for value in values:
            result = result_of(query(texts((value,))), output)
            assert result["steps_score"] == 0
            detail = f"content blocks of type {kind}, in which no table is read"
            assert result["failure_detail"] == detail
    assert score_of(FILMS, [block, {"type": "text", "text": CSV_TEXT}]) == 1


def test_rows_with_a_column_type_are_no_content_blocks() -> None:
    rows = [{"type": "image", "title": "a"}, {"type": "audio", "title": "b"}]
    assert score_of(query(texts(("image", "a"), ("audio", "b"))), rows) == 1


@pytest.mark.parametrize("output", [{"content": []}, {"content": [], "isError": False}], ids=str)
def test_a_result_of_mcp_without_content_returned_nothing(output: Any) -> None:
    result = result_of(FILMS, output)
    assert (result["steps_score"], result["failure"]) == (0, "empty_result")
    assert score_of(query(encode([], ["film"])), output) == 0
    assert score_of(query({"head": {}, "boolean": False}), output) == 0


def test_text_beside_structured_content_is_named_if_it_holds_something_else() -> None:
    other = query(texts(("x", "y")))
    structured = {"structuredContent": {"result": OBJECTS}}
    another = {"content": [{"type": "text", "text": "film\nSolaris\n"}], **structured}
    same = {"content": [{"type": "text", "text": json.dumps(OBJECTS)}], **structured}
    assert score_of(FILMS, another) == 1
    detail = result_of(other, another)["failure_detail"]
    assert detail == "not read, since it stands outside the table: film Solaris"
    assert "failure_detail" not in result_of(other, same)


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(f"```turtle\n{TRIPLE}\n```\n```turtle\n{PREFIXED}\n```", id="turtle"),
        pytest.param(f"First:\n```\n{TRIPLE}\n```\nThen:\n```\n{TRIPLE}\n```", id="in-prose"),
    ],
)
def test_several_code_fences_are_refused_and_named(output: str) -> None:
    graph = {"name": "q", "output": TRIPLE, "output_media_type": "text/turtle"}
    for reference in (graph, FILMS):
        result = result_of(reference, output)
        assert result["steps_score"] == 0
        assert result["failure_detail"] == "2 code fences, of which any may be the result"


def test_code_fences_in_a_literal_of_a_graph_are_no_envelopes() -> None:
    text = f'{TRIPLE}\n<urn:a> <urn:b> """x\n```\ny\n```\n```\nz\n```\n""" .\n'
    graph = {"name": "q", "output": text, "output_media_type": "text/turtle"}
    assert score_of(graph, text) == 1
    assert "code fences" not in str(result_of(graph | {"output": TRIPLE}, text))


@pytest.mark.parametrize(
    "output",
    [
        pytest.param([["urn:a", "urn:p", "x"], ["urn:a", "urn:q", "urn:c"]], id="lists"),
        pytest.param([("urn:a", "urn:p", "x"), ("urn:a", "urn:q", "urn:c")], id="tuples"),
        pytest.param({"result": [["urn:a", "urn:p", "x"], ["urn:a", "urn:q", "urn:c"]]}, id="key"),
        pytest.param(['<urn:a> <urn:p> "x" .', "<urn:a> <urn:q> <urn:c> ."], id="n-triples"),
        pytest.param(
            {"triples": ['<urn:a> <urn:p> "x" .', "<urn:a> <urn:q> <urn:c> ."]}, id="n-triples-key"
        ),
    ],
)
def test_a_list_of_statements_is_a_graph(output: Any) -> None:
    text = '<urn:a> <urn:p> "x" . <urn:a> <urn:q> <urn:c> .'
    reference = {"name": "q", "output": text, "output_media_type": "text/turtle"}
    as_text = str(output) if isinstance(output, list) else json.dumps(output)
    for written in (output, as_text):
        assert score_of(reference, written) == 1
        assert score_of(reference | {"output": text.replace('"x"', '"y"')}, written) == 0


ASK_IN_CSV = ['"bool"\n1', "boolean\ntrue", "result\ntrue\n", "_askResult\ntrue", "true", "true\n"]
ASK_IN_TSV = [
    "?boolean\ntrue",
    "_askResult\ntrue",
    '?_askResult\n"true"^^<http://www.w3.org/2001/XMLSchema#boolean>\n',
    "true",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "media_type"),
    [*((text, CSV) for text in ASK_IN_CSV), *((text, TSV) for text in ASK_IN_TSV)],
)
@pytest.mark.parametrize("keys", [{}, {"score": "f1"}, {"score": "values_f1"}], ids=str)
def test_a_reference_in_csv_or_tsv_may_be_the_answer_to_ask(
    text: str, media_type: str, keys: dict[str, Any]
) -> None:
    reference = query(text, output_media_type=media_type) | keys
    assert score_of(reference, {"head": {}, "boolean": True}) == 1
    assert score_of(reference, {"head": {}, "boolean": False}) == 0
    assert score_of(reference, text) == 1


ANSWER_IN_CELL = encode([[literal("false", "boolean")]], ["result"])
PREFIXES_OF_QUERIES = ["", "PREFIX ex: <urn:x#> ", "# ASK\nBASE <urn:a> PREFIX ex: <urn:x#>\n"]


@pytest.mark.parametrize("keys", [{}, {"score": "f1"}, {"score": "values_f1"}], ids=str)
@pytest.mark.parametrize("prologue", PREFIXES_OF_QUERIES, ids=["undeclared", "declared", "comment"])
@pytest.mark.parametrize("output", [ANSWER_IN_CELL, "result\nfalse\n"], ids=["json", "csv"])
@pytest.mark.parametrize(
    ("form", "score"),
    [
        pytest.param("ASK { ?x ex:p ?y }", 1, id="ask"),
        pytest.param("ask where { ?x ex:p ?y }", 1, id="lower_case"),
        pytest.param("SELECT (EXISTS { ?x ex:p ?y } AS ?result) {}", 0, id="select"),
        pytest.param("select ?ask { ?ask ex:p ?y }", 0, id="ask_as_a_name"),
        pytest.param("CONSTRUCT { ?x ex:p ?y } { ?x ex:p ?y }", 0, id="construct"),
        pytest.param("Select those that { are right", 0, id="broken"),
        pytest.param("Select the films, and say whether there are any", 1, id="question"),
    ],
)
def test_a_table_of_one_cell_is_the_answer_only_to_ask(
    form: str, score: int, output: str, prologue: str, keys: dict[str, Any]
) -> None:
    reference = query({"head": {}, "boolean": False}) | keys
    assert score_of(reference, output, args={"query": prologue + form}) == score
    # No rows are no answer, whatever the query.
    assert score_of(reference, texts(names="x"), args={"query": prologue + form}) == 0


BOOLEAN_OUTPUTS = {
    "document": {"head": {}, "boolean": False},
    "document_as_text": '{"head": {}, "boolean": false}',
    "object": '{"boolean": false}',
    "word": "false",
    "csv": "ask\nfalse\n",
    "jena": "_askResult\nfalse",
    "prose": "ASK: false",
}


@pytest.mark.parametrize("keys", [{}, {"score": "f1"}, {"score": "values_f1"}], ids=str)
@pytest.mark.parametrize("prologue", PREFIXES_OF_QUERIES, ids=["undeclared", "declared", "comment"])
@pytest.mark.parametrize("output", BOOLEAN_OUTPUTS.values(), ids=BOOLEAN_OUTPUTS)
@pytest.mark.parametrize(
    ("form", "score"),
    [
        pytest.param("ASK { ?x ex:p ?y }", 1, id="ask"),
        pytest.param("SELECT ?ask { ?x ex:p ?ask }", 0, id="select"),
        pytest.param("select ?ask where { foo bar", 0, id="broken"),
        pytest.param("DESCRIBE ?x { ?x ex:p ?y }", 0, id="describe"),
        pytest.param("Is there a film without a title?", 1, id="question"),
    ],
)
def test_an_output_is_a_boolean_only_of_ask(
    form: str, score: int, output: Any, prologue: str, keys: dict[str, Any]
) -> None:
    reference = query({"head": {}, "boolean": False}) | keys
    assert score_of(reference, output, args={"query": prologue + form}) == score


@pytest.mark.parametrize("keys", [{}, {"score": "f1"}, {"score": "values_f1"}], ids=str)
@pytest.mark.parametrize("output", BOOLEAN_OUTPUTS.values(), ids=BOOLEAN_OUTPUTS)
def test_the_boolean_of_a_select_is_a_cell(output: Any, keys: dict[str, Any]) -> None:
    select = "SELECT (EXISTS { ?x ?p ?y } AS ?result) {}"
    reference = query(ANSWER_IN_CELL, reference_query=select) | keys
    assert score_of(reference, output, args={"query": select}) == 1


@pytest.mark.parametrize(
    ("reference_query", "score"), [("ASK { ?s ?p ?o }", 1), ("SELECT ?result { ?s ?p ?result }", 0)]
)
def test_the_answer_to_ask_is_expected_only_of_ask(reference_query: str, score: int) -> None:
    reference = query("result\nfalse\n", output_media_type=CSV, reference_query=reference_query)
    assert score_of(reference, {"head": {}, "boolean": False}) == score


@pytest.mark.parametrize(
    "output",
    ["Ask => Yes", "The ASK query returned: true", "ASK: true", "Result of the ASK query: true"],
)
def test_prose_that_names_ask_is_its_answer(output: str) -> None:
    assert score_of(query({"head": {}, "boolean": True}), output) == 1
    assert score_of(query({"head": {}, "boolean": False}), output) == 0
    no = output.replace("true", "false").replace("Yes", "No")
    assert score_of(query({"head": {}, "boolean": False}), no) == 1
    assert score_of(query({"head": {}, "boolean": True}), f"{output} I think, maybe") == 0


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(" film \n------\n(0 rows)\n", id="psql"),
        pytest.param("Empty DataFrame\nColumns: [film]\nIndex: []", id="pandas"),
        pytest.param("Empty DataFrame\nColumns: []\nIndex: []", id="pandas-without-columns"),
        pytest.param("Empty set (0.00 sec)", id="mysql"),
        pytest.param("Empty set", id="mariadb"),
        pytest.param(
            "┌─────────┐\n│  film   │\n│ varchar │\n├─────────┤\n│ 0 rows  │\n└─────────┘\n",
            id="duckdb",
        ),
        pytest.param("movie\n", id="another-name"),
        pytest.param("movie\r\n", id="another-name-in-standard-csv"),
    ],
)
def test_a_table_of_one_column_without_rows(output: str) -> None:
    assert score_of(query("film\n", output_media_type=CSV), output) == 1
    required = query("film,year\n", output_media_type=CSV, required_columns=["film"])
    assert score_of(required, output) == 1
    assert score_of(query("film\nUp\n", output_media_type=CSV), output) == 0


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(" film | year \n------+------\n(0 rows)\n", id="psql"),
        pytest.param("Empty DataFrame\nColumns: [film, year]\nIndex: []", id="pandas"),
        pytest.param(
            "┌─────────┬───────┐\n│  film   │ year  │\n│ varchar │ int32 │\n"
            "├─────────┴───────┤\n│     0 rows      │\n└─────────────────┘\n",
            id="duckdb",
        ),
    ],
)
def test_a_table_of_two_columns_without_rows(output: str) -> None:
    assert score_of(query("a,b\n", output_media_type=CSV), output) == 1
    assert score_of(query("a,b,c\n", output_media_type=CSV), output) == 0


@pytest.mark.parametrize(
    "output", ["error\n", "Timeout\r\n", "none\n", "0\n", "movie", "No rows\n", "Result\n------\n"]
)
def test_a_word_that_is_no_header_is_no_empty_table(output: str) -> None:
    assert score_of(query("film\n", output_media_type=CSV), output) == 0


def test_another_name_is_not_enough_if_columns_are_paired_by_name() -> None:
    reference = query("film\n", output_media_type=CSV, match_columns="name")
    assert score_of(reference, "movie\n") == 0
    assert score_of(reference, "film\n") == 1


def test_a_row_that_is_unbound_is_a_row() -> None:
    empty = query("v\r\n", output_media_type=CSV)
    unbound = query("v\r\n\r\n", output_media_type=CSV)
    assert score_of(empty, "v\r\n\r\n") == 0
    assert score_of(unbound, "v\r\n") == 0
    assert score_of(empty, "v\r\n") == 1
    assert score_of(unbound, "v\r\n\r\n") == 1


@pytest.mark.parametrize("keys", [{"score": "values_f1"}, {"score": "f1"}, {}], ids=str)
def test_strict_types_tell_iris_from_literals_in_all_scores(keys: dict[str, Any]) -> None:
    strict = {"steps": {"strict_types": True}}
    iri = encode([[{"type": "uri", "value": "urn:a"}]], "x")
    text = encode([[literal("urn:a")]], "x")
    rdfjs = [{"x": {"termType": "NamedNode", "value": "urn:a"}}]
    assert score_of(query(iri, **keys), text, config=strict) == 0
    assert score_of(query(text, **keys), iri, config=strict) == 0
    assert score_of(query(iri, **keys), iri, config=strict) == 1
    assert score_of(query(iri, **keys), rdfjs, config=strict) == 1
    assert score_of(query(text, **keys), rdfjs, config=strict) == 0
    assert score_of(query(iri, **keys), text) == 1


@pytest.mark.parametrize("suffix", ["@en", "^^<http://www.w3.org/2001/XMLSchema#string>"])
def test_a_long_literal_in_a_cell_of_tsv(suffix: str) -> None:
    output = f'?who\t?n\n"""Douglas "the" Adams"""{suffix}\t1\n'
    reference = query(encode([[literal('Douglas "the" Adams'), literal("1", "integer")]], "ab"))
    assert score_of(reference, output) == 1
    plain = query(encode([[literal("Douglas Adams"), literal("1", "integer")]], "ab"))
    assert score_of(plain, output.replace('"the" ', "")) == 1


@pytest.mark.parametrize(
    ("output", "columns"),
    [
        pytest.param("Dear user,\nno result,\n", "'Dear user', ''", id="letter"),
        pytest.param("INFO: start\nINFO: end", "'INFO: start'", id="log"),
    ],
)
def test_prose_that_is_read_as_a_table_is_named(output: str, columns: str) -> None:
    result = result_of(query("film\nUp\n", output_media_type=CSV), output)
    assert result["steps_score"] == 0
    assert result["failure_detail"] == f"read as CSV with the columns {columns}"
    plain = result_of(query("film\nUp\n", output_media_type=CSV), "film\nJaws\n")
    assert "failure_detail" not in plain
