"""Which steps are compared as results of Cypher, and how their tables are compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import ReferenceDataError, load_reference, run_evaluation_sync
from tests.steps.cypher.forms import FORMS, MON_ONCLE, PLAYTIME, Point, compare, score, table
from tests.steps.support import encode, literal, query, result_of, score_of
from tests.support.data import question, template

if TYPE_CHECKING:
    from pathlib import Path

FILMS = [{"title": "Playtime", "year": 1967}, {"title": "Mon Oncle", "year": 1958}]


def problems_of(**step: Any) -> str:
    """The message of the error at loading a reference step."""
    with pytest.raises(ReferenceDataError) as error:
        load_reference(template(question({"name": "cypher_query", **step})))
    return str(error.value)


# Which steps.


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"name": "cypher_query"}, id="cypher_query"),
        pytest.param({"name": "Cypher-Query"}, id="other_spelling"),
        pytest.param({"name": "read_neo4j_cypher"}, id="read_neo4j_cypher"),
        pytest.param({"name": "query_graph"}, id="query_graph"),
        pytest.param({"name": "cypher_query", "output_media_type": "application/json"}, id="json"),
        pytest.param(
            {"name": "run", "output_media_type": "application/vnd.neo4j.query"}, id="media_type"
        ),
        pytest.param(
            {"name": "run", "output_media_type": "Application/vnd.neo4j.query;version=v1.1"},
            id="parameters",
        ),
        pytest.param(
            {"name": "run", "output_media_type": "application/json", "compare": "table"},
            id="compare_table",
        ),
    ],
)
def test_steps_of_cypher_are_compared_as_tables(keys: dict[str, Any]) -> None:
    step = {"output": json.dumps(FILMS), **keys}
    assert score_of(step, [{"b": film["year"], "a": film["title"]} for film in FILMS[::-1]]) == 1
    assert score_of(step, [{"b": film["year"], "a": "Traffic"} for film in FILMS]) == 0


def test_other_steps_in_json_are_compared_as_one_value() -> None:
    step = {"name": "run", "output": FILMS, "output_media_type": "application/json"}
    assert score_of(step, FILMS) == 1
    assert score_of(step, FILMS[::-1]) == 0


@pytest.mark.parametrize("reference", ["cypher_query", "read_neo4j_cypher", "query_graph"])
@pytest.mark.parametrize("agent", ["cypher_query", "Read_Neo4j-Cypher", "query_graph"])
def test_names_of_steps_that_run_cypher_mean_the_same(reference: str, agent: str) -> None:
    response = {"question_id": "q", "actual_steps": [{"name": agent, "output": FILMS}]}
    reference_set = template(question({"name": reference, "output": FILMS}))
    [result] = run_evaluation_sync(reference_set, [response])
    assert result["steps_score"] == 1


def test_results_of_sparql_stay_results_of_sparql() -> None:
    step = {"name": "query_graph", "output": encode([[literal("1")], [literal("1")]], "a")}
    assert score_of(step, encode([[literal("1")]], "b")) == 1  # Duplicates do not count.
    turtle = {
        "name": "query_graph",
        "output": "<a:a> <a:b> 1 .",
        "output_media_type": "text/turtle",
    }
    assert score_of(turtle, "<a:a> <a:b> 1 .") == 1
    text = {"name": "cypher_query", "output": "Playtime", "output_media_type": "text/plain"}
    assert score_of(text, "Playtime") == 1


# Rows and columns.


@pytest.mark.parametrize(
    ("actual", "keys", "expected"),
    [
        pytest.param([[2, 1], [4, 3]], {}, 1, id="columns_are_paired_by_contents"),
        pytest.param([[3, 4], [1, 2]], {}, 1, id="rows_have_no_order"),
        pytest.param([[3, 4], [1, 2]], {"ordered": True}, 0, id="ordered"),
        pytest.param([[1, 2], [3, 4]], {"ordered": True}, 1, id="in_order"),
        pytest.param([[1, 2, 9], [3, 4, 9]], {}, 1, id="extra_columns_are_ignored"),
        pytest.param([[1, 2], [3, 4], [3, 4]], {}, 0, id="duplicates_count"),
        pytest.param([[1, 2], [3, 4], [3, 4]], {"ignore_duplicates": True}, 1, id="or_not"),
        pytest.param([[1], [3]], {}, 0, id="a_column_is_missing"),
        pytest.param([[1], [3]], {"required_columns": ["a"]}, 1, id="required_columns"),
        pytest.param([[1, 2], [3, 5]], {"score": "f1"}, 0.75, id="partial_credit"),
        pytest.param([[1, 2], [3, 5]], {"score": "values_f1"}, 0.75, id="values"),
        pytest.param([], {}, 0, id="no_rows"),
    ],
)
def test_rows_and_columns(actual: list[Any], keys: dict[str, Any], expected: float) -> None:
    reference = FORMS["typed"](table([1, 2], [3, 4]))
    assert score(reference, actual, **keys) == expected


@pytest.mark.parametrize(
    ("rule", "actual", "expected"),
    [
        pytest.param("contents", [{"x": 2, "y": 1}], 1, id="contents"),
        pytest.param("name", [{"b": 2, "a": 1}], 1, id="name"),
        pytest.param("name", [{"b": 2.0, "a": 1, "c": 3}], 1, id="name_and_extra_column"),
        pytest.param("name", [{"b": 1, "a": 2}], 0, id="name_wrong_way_round"),
        pytest.param("name", [{"x": 2, "y": 1}], 0, id="other_names"),
        pytest.param("count", [{"x": 2, "y": 1}], 1, id="count"),
        pytest.param("count", [{"x": 2, "y": 1, "z": 1}], 0, id="count_and_extra_column"),
        pytest.param("count", [{"x": 2}], 0, id="count_and_missing_column"),
    ],
)
@pytest.mark.parametrize("is_cypher", [True, False], ids=["cypher", "sparql"])
@pytest.mark.parametrize("scoring", ["exact", "f1"])
def test_which_columns_match(
    rule: str, actual: Any, expected: float, is_cypher: bool, scoring: str
) -> None:
    keys = {"match_columns": rule, "score": scoring}
    if is_cypher:
        step = {"name": "cypher_query", "output": [{"a": 1, "b": 2}], **keys}
    else:
        cells = [[literal("1", "integer"), literal("2", "integer")]]
        step = query(encode(cells, "ab"), **keys)
    result = score_of(step, json.dumps(actual))
    if scoring == "f1" and rule != "count":
        assert (result == 1) == (expected == 1)
    else:
        assert result == expected


@pytest.mark.parametrize("rule", ["contents", "name", "count"])
def test_an_empty_list_is_an_empty_table_with_any_columns(rule: str) -> None:
    no_rows = '{"data": {"fields": ["a", "b"], "values": []}}'
    assert score(no_rows, [], match_columns=rule) == 1
    assert score([], no_rows) == 1
    assert score([], []) == 1
    sparql = query(encode([], "ab"), match_columns=rule)
    assert score_of(sparql, "[]") == 1


def test_blank_nodes_in_columns_of_the_same_name() -> None:
    def pair(left: str, right: str) -> str:
        nodes: list[Any] = [{"type": "bnode", "value": left}, {"type": "bnode", "value": right}]
        return encode([nodes, [nodes[0], literal("x")]], "ab")

    step = query(pair("n", "n"), match_columns="name")
    assert score_of(step, pair("m", "m")) == 1
    assert score_of(step, pair("m", "k")) == 0


def test_why_columns_are_wrong() -> None:
    result = compare([{"a": 1}], [{"x": 1, "y": 2}], match_columns="count")
    assert result["failure"] == "wrong_query_result"
    assert result["failure_detail"] == "columns: expected 1, got 2"
    assert compare([{"a": 1}], [{"x": 1}], match_columns="name")["failure"] == "missing_columns"
    assert compare([{"a": 1, "b": 2}], [{"x": 1}])["failure"] == "missing_columns"
    rows = [{"a": 1}, {"a": 2}]
    assert compare(rows, rows[::-1], ordered=True)["failure"] == "wrong_order"
    assert compare(rows, '{"data": {"fields": ["a"], "values": []}}')["failure"] == "empty_result"


def test_differences_show_nested_cells() -> None:
    expected = FORMS["typed"](table(["a", PLAYTIME], ["b", MON_ONCLE]))
    actual = FORMS["plain"](table(["a", PLAYTIME], ["b", PLAYTIME]))
    result = compare(expected, actual, score="f1")
    assert result["steps_score"] == 0.75
    [difference] = result["reference_steps"][0][0]["diff"]
    assert difference == {
        "kind": "wrong_value",
        "row": 1,
        "column": "b",
        "expected": '{"labels":["Film"],"properties":{"title":"Mon Oncle","year":1958}}',
        "actual": '{"labels":["Film"],"properties":{"title":"Playtime","year":1967}}',
    }


# Cells.


@pytest.mark.parametrize(
    ("expected", "actual", "keys", "is_equal"),
    [
        pytest.param(1, 1.0, {}, True, id="integer_and_float"),
        pytest.param([1], [1.0], {}, True, id="in_a_list"),
        pytest.param([0.3], [0.1 + 0.2], {}, True, id="rounding_in_a_list"),
        pytest.param([0.3], [0.3001], {}, False, id="other_number_in_a_list"),
        pytest.param([True], [1], {}, False, id="a_boolean_is_no_number_in_a_list"),
        pytest.param(["1"], [1], {}, False, id="text_is_no_number_in_a_list"),
        pytest.param(["a", "b"], ["b", "a"], {}, True, id="lists_have_no_order"),
        pytest.param(["a", "b"], ["b", "a"], {"ordered": True}, False, id="unless_ordered"),
        pytest.param(["a", "a"], ["a"], {}, False, id="duplicates_in_lists_count"),
        pytest.param([["b", "a"], ["c"]], [["c"], ["a", "b"]], {}, True, id="nested_lists"),
        pytest.param([None], [], {}, False, id="null_in_a_list_counts"),
        pytest.param([], None, {}, False, id="an_empty_list_is_not_null"),
        pytest.param({"a": 1, "b": None}, {"a": 1}, {}, True, id="null_in_a_map_is_absent"),
        pytest.param({"a": 1}, {"b": 1}, {}, False, id="keys_of_maps_count"),
        pytest.param({"labels": "x"}, {"labels": "y"}, {}, False, id="a_map_with_labels"),
        pytest.param("2020-01-01T10:00Z", "2020-01-01T11:00:00.000+01:00", {}, True, id="zones"),
        pytest.param(
            ["2020-01-01T10:00Z"], ["2020-01-01T11:00+01:00[Europe/Oslo]"], {}, True, id="in_list"
        ),
        pytest.param(["2020-01-01T10:00Z"], ["2020-01-01T11:00Z"], {}, False, id="other_time"),
        pytest.param(["2020-01-01T10:00Z"], ["2020-01-01 10:00:00"], {}, True, id="no_zone"),
        pytest.param("P1Y", "P12M", {}, True, id="durations"),
        pytest.param(["PT1.50S"], ["PT1.5S"], {}, True, id="durations_in_lists"),
        pytest.param("P1DT-1H", "PT23H", {}, True, id="signs_in_durations"),
        pytest.param("3 days, 2:00:00", "P3DT2H", {}, True, id="a_duration_of_python"),
        pytest.param("2020-01-02", "2020-01-02T00:00:00.000", {}, True, id="a_date_of_pandas"),
        pytest.param(["2020-01-02"], ["2020-01-02 00:00:00"], {}, True, id="in_a_list_of_dates"),
        pytest.param("2020-01-02", "2020-01-02T00:00:01", {}, False, id="no_date"),
        pytest.param("Playtime", "playtime", {}, False, id="text"),
        pytest.param(10**400, 10**400 + 1, {}, False, id="long_integers"),
        pytest.param(9007199254740993, 9007199254740992, {}, False, id="exact_integers"),
    ],
)
def test_cells(expected: Any, actual: Any, keys: dict[str, Any], is_equal: bool) -> None:
    # A second column makes sure that a list is no row.
    rows = [json.dumps([{"a": value, "b": "b"}]) for value in (expected, actual)]
    assert score(*rows, **keys) == is_equal


def typed_cell(kind: str, value: Any) -> dict[str, Any]:
    """One cell in the typed JSON of the Query API."""
    return {"data": {"fields": ["a"], "values": [[{"$type": kind, "_value": value}]]}}


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        pytest.param(typed_cell("String", "1"), typed_cell("Integer", "1"), id="typed"),
        pytest.param(typed_cell("String", "1"), "<Record a=1>", id="typed_and_text_of_records"),
        pytest.param("<Record a='1'>", "<Record a=1>", id="text_of_records"),
        pytest.param("<Record a='1.5'>", "<Record a=1.5>", id="float"),
        pytest.param([{"a": "1"}], [{"a": 1}], id="records"),
        pytest.param(typed_cell("Integer", "1"), [{"a": "1"}], id="typed_and_records"),
        pytest.param(typed_cell("String", "true"), typed_cell("Boolean", True), id="true"),
        pytest.param([{"a": "false"}], [{"a": False}], id="false"),
        pytest.param([{"a": 1}], [{"a": True}], id="one_and_true"),
        pytest.param("<Record a=0>", "<Record a=False>", id="zero_and_false"),
        pytest.param([{"a": "[1,2]"}], "<Record a=[1, 2]>", id="list"),
        pytest.param([{"a": '{"b":1}'}], "<Record a={'b': 1}>", id="map"),
        pytest.param([{"a": '"1"'}], [{"a": "1"}], id="quotes"),
    ],
)
def test_types_count_if_both_outputs_tell_them(expected: Any, actual: Any) -> None:
    assert score(expected, actual) == 0
    assert score(actual, expected) == 0
    assert score(expected, expected) == 1
    assert score(actual, actual) == 1


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        pytest.param([{"a": "1"}], "a\n1\n", id="text"),
        pytest.param([{"a": 1}], "a\n1\n", id="number"),
        pytest.param([{"a": True}], "a\ntrue\n", id="boolean"),
        pytest.param([{"a": "true"}], "a\ntrue\n", id="word"),
        pytest.param(typed_cell("String", "1"), "| a |\n|---|\n| 1 |\n", id="typed"),
        pytest.param([{"a": 1}], [{"a": 1.0}], id="numbers"),
        pytest.param([{"a": "2020-01-01"}], typed_cell("Date", "2020-01-01"), id="date"),
    ],
)
def test_types_do_not_count_if_one_output_lacks_them(expected: Any, actual: Any) -> None:
    assert score(expected, actual) == 1
    assert score(actual, expected) == 1


def test_values_as_a_set_are_texts() -> None:
    step = {"name": "cypher_query", "output": [{"a": "1"}], "score": "values_f1"}
    actual_step = {"name": "cypher_query", "output": [{"a": 1}]}
    response = {"question_id": "q", "actual_steps": [actual_step]}
    [result] = run_evaluation_sync(template(question(step)), [response])
    assert result["values_f1"] == 1


def typed_list(*numbers: int) -> dict[str, Any]:
    """One row with a list in the typed JSON of the Query API."""
    items = [{"$type": "Integer", "_value": str(number)} for number in numbers]
    cell = {"$type": "List", "_value": items}
    return {"data": {"fields": ["a", "b"], "values": [[cell, {"$type": "Integer", "_value": "9"}]]}}


TITLES = [{"title": title} for title in ("Playtime", "Mon Oncle", "Traffic")]


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        pytest.param([{"a": [1, 2], "b": 9}], [{"a": [2, 1], "b": 9}], id="two_numbers"),
        pytest.param([{"a": [1, 2, 3], "b": 9}], [{"a": [2, 1, 3], "b": 9}], id="three_numbers"),
        pytest.param([{"a": [True, False]}], [{"a": [False, True]}], id="booleans"),
        pytest.param([{"a": TITLES}], [{"a": TITLES[1:] + TITLES[:1]}], id="maps"),
        pytest.param(typed_list(1, 2), [{"a": [2, 1], "b": 9}], id="typed_and_records"),
        pytest.param(typed_list(1, 2), typed_list(2, 1), id="typed"),
        pytest.param(typed_list(1, 2), "<Record a=[2, 1] b=9>", id="typed_and_text_of_records"),
        pytest.param(
            [{"a": [1, 2], "b": 9}],
            {
                "results": [
                    {"columns": ["a", "b"], "data": [{"row": [[2, 1], 9], "meta": [None] * 3}]}
                ],
                "errors": [],
            },
            id="transactional",
        ),
        pytest.param(
            "<Record a=[1, 2] b=CartesianPoint(3.0, 4.0)>",
            [{"a": [2, 1], "b": [3.0, 4.0]}],
            id="beside_a_point",
        ),
    ],
)
def test_lists_of_numbers_or_maps_have_no_order(expected: Any, actual: Any) -> None:
    assert score(expected, actual) == 1
    assert score(actual, expected) == 1
    assert score(expected, actual, ordered=True) == 0


def test_lists_that_stand_for_points_or_paths_have_an_order() -> None:
    point = table([Point((10.75, 59.9))])
    assert score(FORMS["typed"](point), [{"a": [10.75, 59.9]}]) == 1
    assert score(FORMS["typed"](point), [{"a": [59.9, 10.75]}]) == 0


def test_internal_ids_do_not_count() -> None:
    moved = [
        type(film)(film.labels, film.properties, id=film.id + 70) for film in (PLAYTIME, MON_ONCLE)
    ]
    for form in ("typed", "plain", "transactional_graph", "record_lines", "get_all_repr"):
        assert score(FORMS[form](table([PLAYTIME, MON_ONCLE])), FORMS[form](table(moved))) == 1


def test_strict_types_refuse_cells_without_types() -> None:
    step = {"name": "cypher_query", "output": [{"a": 1}]}
    strict = {"steps": {"strict_types": True}}
    assert score_of(step, [{"b": 1}], config=strict) == 1
    assert score_of(step, "b\n1\n", config=strict) == 0
    assert score_of(step, "b\n1\n") == 1


@pytest.mark.parametrize("form", ["typed", "record_lines", "records_text"])
def test_large_results_are_compared_in_a_thread(form: str) -> None:
    rows = [[type(PLAYTIME)(("Film",), {"number": n}, id=n), n] for n in range(2_000)]
    expected = FORMS["typed"](table(*rows))
    assert score(expected, FORMS[form](table(*rows[::-1]))) == 1
    assert score(expected, FORMS[form](table(*rows[:-1], rows[0]))) == 0


# What cannot be read, and references.


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("I could not find any film.", id="prose"),
        pytest.param({"isError": True, "content": [{"type": "text", "text": "[]"}]}, id="error"),
        pytest.param({"errors": [{"code": "Neo.ClientError", "message": "no"}]}, id="errors"),
        pytest.param('[{"a": 1}, ', id="broken_json"),
        pytest.param("<Record a=<Film>>", id="broken_record"),
        pytest.param("[[1, 2], [3]]", id="ragged_rows"),
        pytest.param([1, [2]], id="mixed_rows"),
    ],
)
def test_output_that_cannot_be_read_is_quoted(output: Any) -> None:
    result = compare(FILMS, output)
    beginning = " ".join(str(output)[:80].split())
    assert result["steps_score"] == 0
    assert result["failure_detail"].startswith("output: no table: ")
    assert result["failure_detail"].endswith(f"it begins with {beginning!r}")
    assert result["failure_detail"] in result["steps_score_error"]


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("a\n" + "(:A {x: " * 1000, id="nodes_in_a_cell"),
        pytest.param("a\n" + "()-[:A {x: " * 1000, id="relationships_in_a_cell"),
        pytest.param("<Record a=" + "<Node x=" * 1000, id="objects"),
        pytest.param("<Record a=" + "<Node x=" * 190 + "1" + ">" * 191, id="closed_objects"),
        pytest.param('[{"a": ' + "f(x=" * 1000 + ")" * 1000 + "}]", id="calls"),
        pytest.param("items=" + "[a=" * 1000, id="attributes"),
        pytest.param("<Record a=" + "{'x': " * 1000 + "1" + "}" * 1000 + ">", id="maps"),
    ],
)
def test_text_that_nests_too_deep_is_wrong(output: str) -> None:
    assert score_of({"name": "cypher_query", "output": [{"a": 1}]}, output) == 0


def test_unread_text_is_quoted() -> None:
    output = f"{json.dumps(FILMS[:1])}\n\nThere are more films."
    assert "There are more films." in compare(FILMS, output)["failure_detail"]


def test_reference_outputs_that_cannot_be_read() -> None:
    assert "output: no table: " in problems_of(output="Playtime and Mon Oncle")
    assert "it begins with 'Playtime and" in problems_of(output="Playtime and Mon Oncle")
    assert "required_columns" in problems_of(output=FILMS, required_columns=["name"])


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (
            {"match_columns": "names"},
            "match_columns: expected contents, count or name, got 'names'",
        ),
        ({"compare": "rows"}, "compare: expected table, got 'rows'"),
        ({"match_columns": "name", "score": "values_f1"}, "match_columns: not with score"),
        ({"compare": "table", "output_media_type": "text/csv"}, "compare: only with"),
        (
            {"match_columns": "name", "output_media_type": "text/turtle"},
            "match_columns: only for outputs that are compared as tables",
        ),
    ],
    ids=["rule", "compare", "values", "csv", "graph"],
)
def test_keys_of_tables_with_wrong_values(keys: dict[str, Any], problem: str) -> None:
    assert problem in problems_of(**{"output": "a,b\n1,2\n", **keys})


def test_a_reference_in_yaml_may_hold_rows_and_nodes(tmp_path: Path) -> None:
    path = tmp_path / "reference.yaml"
    path.write_text(
        """
- template_id: t
  questions:
  - id: q
    question_text: Who directed which film?
    reference_steps:
    - - name: cypher_query
        output:
        - film: {labels: [Film], properties: {title: Playtime, released: 1967-12-16}}
          directed: {type: DIRECTED, properties: {}}
          tags: [comedy, colour]
"""
    )
    node = {
        "elementId": "4:a:1",
        "labels": ["Film"],
        "properties": {"title": "Playtime", "released": "1967-12-16"},
    }
    directed = {
        "elementId": "5:a:1",
        "startNodeElementId": "4:a:2",
        "endNodeElementId": "4:a:1",
        "type": "DIRECTED",
        "properties": {},
    }
    row = [node, directed, ["colour", "comedy"]]
    output = {"data": {"fields": ["f", "d", "t"], "values": [row]}}
    response = {"question_id": "q", "actual_steps": [{"name": "cypher_query", "output": output}]}
    [result] = run_evaluation_sync(path, [response])
    assert result["steps_score"] == 1


def test_output_of_sparql_may_be_an_object() -> None:
    step = query(json.loads(encode([[literal("1")]], "a")))
    assert score_of(step, "a\n1\n") == 1
    assert result_of(step, "a\n2\n")["steps_score"] == 0
