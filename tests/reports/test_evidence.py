"""What the page of a result shows of its steps and metrics."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import run_evaluation_sync
from graphrag_eval_async.reports.cells import MISSING, UNEXPECTED
from graphrag_eval_async.reports.evidence import (
    HIT,
    Marked,
    pairs_of,
    result_names,
)
from graphrag_eval_async.reports.values import values_of
from tests.support.data import question, template
from tests.support.evidence import query, result, table

TABLE = "application/sparql-results+json"


def test_differences_of_tables_are_told_and_marked() -> None:
    expected = query(table(["name", "km"], ["a", 1], ["b", 2]), output_media_type=TABLE)
    actual = query(table(["km", "name"], [1, "a"], [3, "b"]), id="1")
    (pair,) = pairs_of(result([[expected]], [actual]))
    wrong = Marked("wrong value", "row 2, km: expected 2, got 3", "")
    assert (pair.verdict, pair.differences) == ("different", [wrong])
    (pair,) = pairs_of(result([[expected]], [query(table(["x"], ["b"]), id="1")]))
    assert {each.mark for each in pair.differences} == {MISSING}
    (pair,) = pairs_of(result([[query("a")]], [query("b", id="1")]))
    assert (pair.verdict, pair.differences) == ("different", [])
    (pair,) = pairs_of(
        result([[{"name": "sparql_query", "reference_query": "SELECT"}]], [query("b")])
    )
    assert [step and step.args for step in (pair.expected, pair.actual)] == ["query: SELECT"] * 2
    # Those of a result that was scored.
    diff = [
        {"kind": "missing_column", "column": "since"},
        {"kind": "missing_row", "row": {"name": "c", "km": "3"}},
        {"kind": "extra_row", "row": {"name": "d", "km": None}},
        {"kind": "wrong_value", "row": 1, "column": "km", "expected": "2", "actual": "3"},
        {"kind": "missing_triple", "triple": "<urn:a> <urn:b> <urn:c> ."},
        {"kind": "extra_value", "value": "L3"},
    ]
    (pair,) = pairs_of(result([[expected | {"matches": "1", "diff": diff}]], [actual]))
    assert pair.verdict == "partly matched"
    assert pair.differences == [
        ("missing column", "since", MISSING),
        ("missing row", "name = c, km = 3", MISSING),
        ("extra row", "name = d, km = nothing", UNEXPECTED),
        wrong,
        ("missing triple", "<urn:a> <urn:b> <urn:c> .", MISSING),
        ("extra value", "L3", UNEXPECTED),
    ]


def test_retrieved_documents_are_marked_as_hits_or_missing() -> None:
    expected = {
        "name": "retrieval",
        "output": [{"id": "1", "text": "one"}, {"id": "2", "text": "two"}],
    }
    actual = {"name": "retrieval", "output": '[{"id": "3"}, {"id": "1", "text": "one"}]', "id": "x"}
    (pair,) = pairs_of(result([[expected | {"matches": "x"}]], [actual]))
    assert pair.expected is not None
    assert pair.actual is not None
    assert [(each.name, each.mark) for each in pair.actual.documents] == [("3", ""), ("1", HIT)]
    assert [(each.name, each.mark) for each in pair.expected.documents] == [
        ("1", ""),
        ("2", MISSING),
    ]


def test_steps_are_paired_by_match_then_by_name() -> None:
    expected = [
        [{"name": "iri_discovery", "output": "<urn:a>"}],
        [query("a"), query("b", matches="2")],
    ]
    actual = [
        query("c", id="1"),
        query("b", id="2"),
        {"name": "look_up", "id": "3", "status": "error"},
    ]
    pairs = pairs_of(result(expected, actual))
    shown = [(pair.verdict, pair.actual and pair.actual.text) for pair in pairs]
    assert shown == [
        ("earlier step", None),
        ("different", "c"),
        ("matched", "b"),
        ("not expected", ""),
    ]


def test_every_metric_stands_with_its_reason_cost_and_error() -> None:
    judged: dict[str, Any] = {"answer_recall": 1.0, "answer_precision": 0.5, "answer_f1": 0.667}
    judged |= {
        "elapsed_sec": 2.5,
        "answer_correctness_reason": "half of it",
        "answer_correctness_cost": 0.01,
    }
    judged |= {
        "answer_relevance_error": "timeout: no reply",
        "politeness": 0.9,
        "politeness_reason": "kind",
    }
    judged |= {"steps_score": 0.5, "status": "success"}
    values = {value.name: value for value in values_of(judged)}
    correctness = values["answer_correctness"]
    assert correctness.values == [
        ("answer_recall", 1.0),
        ("answer_precision", 0.5),
        ("answer_f1", 0.667),
    ]
    assert (correctness.reason, correctness.cost) == ("half of it", 0.01)
    assert (values["answer_relevance"].values, values["answer_relevance"].error) == (
        [],
        "timeout: no reply",
    )
    assert (values["politeness"].values, values["politeness"].reason) == (
        [("politeness", 0.9)],
        "kind",
    )
    assert {*values} == {
        "answer_correctness",
        "answer_relevance",
        "steps_score",
        "used",
        "politeness",
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = [
    "name",
    "args",
    "output",
    "id",
    "matches",
    "error",
    "status",
    "required_columns",
    "output_media_type",
]
KEYS += ["args_match"]
KNOWN = [
    "retrieval",
    "sparql_query",
    "1",
    table(["a"], ["b"]),
    '[{"id": []}]',
    TABLE,
    "text/turtle",
    "exact",
]
OF_DIFF = ["kind", "row", "column", "expected", "triple", "actual"]
KINDS = st.sampled_from(["wrong_value", "missing_row", "extra_row", "wrong_arg"])
DIFF = st.dictionaries(st.sampled_from(OF_DIFF), KINDS | JSON)
STEP = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(KNOWN) | JSON)
STEP |= st.builds(
    lambda step, diff: step | {"diff": diff}, STEP, JSON | st.lists(DIFF | JSON, max_size=3)
)


@settings(max_examples=40)
@given(
    st.lists(st.lists(STEP, max_size=3) | JSON, max_size=2), st.lists(STEP | JSON, max_size=3), JSON
)
def test_no_result_breaks_its_page(expected: list[Any], actual: list[Any], value: Any) -> None:
    names = result_names(
        result(expected, actual) | {"answer_correctness_reason": value, "x_by": value, "x": value}
    )
    # Damaged results may have two expected steps that match the same one.
    shown = sum(pair.actual is not None for pair in names["pairs"])
    assert shown >= sum(isinstance(each, dict) for each in actual)
    assert all(
        isinstance(text, str)
        for pair in names["pairs"]
        for each in pair.differences
        for text in each
    )
    for key in ("reference_steps", "actual_steps"):
        assert pairs_of({key: value}) is not None


def test_steps_without_ids_match() -> None:
    reference = template(question(query(table(["x"], [2])), query(table(["x"], [1]))))
    given = {
        "question_id": "q",
        "actual_steps": [query(table(["x"], [1])), query(table(["x"], [3]))],
    }
    [evaluated] = run_evaluation_sync(reference, [given])
    assert [pair.verdict for pair in pairs_of(evaluated)] == ["different", "matched"]


def test_columns_that_were_compared_are_told_where_their_names_differ() -> None:
    expected = query(table(["source", "target"], ["a", "b"]), output_media_type=TABLE)
    reference = template(question(expected))

    def columns_of(output: str) -> str:
        response = {"question_id": "q", "actual_steps": [query(output)]}
        [scored] = run_evaluation_sync(reference, [response])
        [pair] = pairs_of(scored)
        assert pair.verdict == "matched"
        return pair.columns

    assert columns_of(table(["source", "target"], ["a", "b"])) == ""
    swapped = columns_of(table(["target", "source"], ["a", "b"]))
    assert swapped == "source with target, target with source"
    # Results may come from anywhere.
    for other in (None, 1, "x", ["a"], {"a": {"b": None}}):
        [pair] = pairs_of(result([[expected | {"paired_columns": other}]], [query("b")]))
        assert pair.columns in ("", "a with {'b': None}")
