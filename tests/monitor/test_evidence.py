"""What the page of a result shows of its steps and metrics."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import run_evaluation_sync
from graphrag_eval_async.monitor.evidence import HIT, MISSING, ROWS, UNEXPECTED, pairs_of, values_of
from tests.cases import each


def table(names: list[str], *rows: list[Any]) -> str:
    bindings = [
        {name: {"type": "literal", "value": str(cell)} for name, cell in zip(names, row, strict=True)}
        for row in rows
    ]
    return orjson.dumps({"head": {"vars": names}, "results": {"bindings": bindings}}).decode()


def query(output: str, **more: Any) -> dict[str, Any]:
    return {"name": "sparql_query", "args": {"query": "SELECT"}, "output": output, **more}


def result(expected: list[Any], actual: list[Any]) -> dict[str, Any]:
    return {"reference_steps": expected, "actual_steps": actual}


def marks(step: Any) -> list[list[str]]:
    return [[cell.mark for cell in row] for row in step.table.rows]


def test_cells_that_the_other_table_lacks_are_marked() -> None:
    expected = query(table(["name", "km"], ["a", 1], ["b", 2]))
    actual = query(table(["km", "name"], [1, "a"], [3, "b"]), id="1")
    (pair,) = pairs_of(result([[expected]], [actual]))
    assert pair.verdict == "different"
    assert pair.expected is not None
    assert pair.actual is not None
    assert marks(pair.expected) == [["", ""], ["", MISSING]]
    assert marks(pair.actual) == [["", ""], [UNEXPECTED, ""]]


def test_known_values_in_a_new_combination_are_marked_as_a_row() -> None:
    expected = query(table(["name", "km"], ["a", 1], ["b", 2]))
    actual = query(table(["name", "km"], ["a", 2], ["b", 2]), id="1")
    (pair,) = pairs_of(result([[expected]], [actual]))
    assert pair.actual is not None
    assert marks(pair.actual) == [[UNEXPECTED, UNEXPECTED], ["", ""]]


def test_columns_are_compared_by_their_values_if_their_names_differ() -> None:
    expected = query(table(["name", "km"], ["a", 1]), required_columns=["name"])
    actual = query(table(["x", "label"], [7, "a"]), id="1")
    (pair,) = pairs_of(result([[expected]], [actual]))
    assert pair.expected is not None
    assert pair.actual is not None
    assert marks(pair.expected) == [["", ""]]
    assert marks(pair.actual) == [["", ""]]
    assert not any(heading.mark for heading in pair.expected.table.headings)  # type: ignore[union-attr]


def test_a_column_without_a_partner_is_marked() -> None:
    expected, actual = query(table(["name"], ["a"])), query(table(["x"], ["b"]), id="1")
    (pair,) = pairs_of(result([[expected]], [actual]))
    assert pair.expected is not None
    assert pair.expected.table is not None
    assert [heading.mark for heading in pair.expected.table.headings] == [MISSING]


def test_columns_that_are_unbound_in_all_rows_are_shown() -> None:
    (pair,) = pairs_of(result([], [query("a,b,c\n,1,\n,2,\n", id="1")]))
    assert pair.actual is not None
    assert pair.actual.table is not None
    assert [heading.text for heading in pair.actual.table.headings] == ["a", "b", "c"]
    assert [[cell.text for cell in row] for row in pair.actual.table.rows] == [["", "1", ""], ["", "2", ""]]


def test_a_match_without_all_documents_says_how_many_were_found() -> None:
    def retrieval(*ids: str, **more: Any) -> dict[str, Any]:
        output = orjson.dumps([{"id": each, "text": "t"} for each in ids]).decode()
        return {"name": "retrieval", "output": output, **more}

    for found, verdict in (("ab", "2 of 3 documents found"), ("xcab", "matched")):
        (pair,) = pairs_of(result([[retrieval(*"abc", matches="1")]], [retrieval(*found, id="1")]))
        assert pair.verdict == verdict


def test_nothing_is_marked_in_steps_that_matched() -> None:
    expected = query(table(["km"], ["1.0"]), matches="1")
    (pair,) = pairs_of(result([[expected]], [query(table(["km"], ["1"]), id="1")]))
    assert pair.verdict == "matched"
    assert pair.actual is not None
    assert marks(pair.actual) == [[""]]


def test_retrieved_documents_are_marked_as_hits_or_missing() -> None:
    expected = {"name": "retrieval", "output": [{"id": "1", "text": "one"}, {"id": "2", "text": "two"}]}
    actual = {"name": "retrieval", "output": '[{"id": "3"}, {"id": "1", "text": "one"}]', "id": "x"}
    (pair,) = pairs_of(result([[expected | {"matches": "x"}]], [actual]))
    assert pair.expected is not None
    assert pair.actual is not None
    assert [(each.id, each.mark) for each in pair.actual.documents] == [("3", ""), ("1", HIT)]
    assert [(each.id, each.mark) for each in pair.expected.documents] == [("1", ""), ("2", MISSING)]


def test_steps_are_paired_by_match_then_by_name() -> None:
    expected = [[{"name": "iri_discovery", "output": "<urn:a>"}], [query("a"), query("b", matches="2")]]
    actual = [query("c", id="1"), query("b", id="2"), {"name": "look_up", "id": "3", "status": "error"}]
    pairs = pairs_of(result(expected, actual))
    shown = [(pair.verdict, pair.actual and pair.actual.text) for pair in pairs]
    assert shown == [("earlier step", None), ("different", "c"), ("matched", "b"), ("not expected", "")]


def test_earlier_groups_are_judged_if_they_are_scored() -> None:
    expected = [[query("a", matches="1"), query("b")], [query("c")]]
    assert [pair.verdict for pair in pairs_of(result(expected, [query("a", id="1")]))] == [
        "matched",
        "missing",
        "missing",
    ]


def test_long_tables_are_cut() -> None:
    long = query(table(["a"], *([i] for i in range(ROWS + 7))), id="1")
    (pair,) = pairs_of(result([], [long]))
    assert pair.actual is not None
    assert pair.actual.table is not None
    assert (len(pair.actual.table.rows), pair.actual.table.hidden) == (ROWS, "7 more rows")


def test_every_metric_stands_with_its_reason_cost_and_error() -> None:
    judged = {
        "steps_score": 0.5,
        "elapsed_sec": 2.5,
        "answer_recall": 1.0,
        "answer_precision": 0.5,
        "answer_f1": 0.667,
        "answer_correctness_reason": "half of it",
        "answer_correctness_cost": 0.01,
        "answer_relevance_error": "timeout: no reply",
        "politeness": 0.9,
        "politeness_reason": "kind",
        "status": "success",
    }
    values = {value.name: value for value in values_of(judged)}
    correctness = values["answer_correctness"]
    assert correctness.values == [("answer_recall", 1.0), ("answer_precision", 0.5), ("answer_f1", 0.667)]
    assert (correctness.reason, correctness.cost) == ("half of it", 0.01)
    assert (values["answer_relevance"].values, values["answer_relevance"].error) == ([], "timeout: no reply")
    assert (values["politeness"].values, values["politeness"].reason) == ([("politeness", 0.9)], "kind")
    assert {*values} == {
        *("answer_correctness", "answer_relevance", "steps_score", "used", "politeness"),
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
STEP = st.dictionaries(
    st.sampled_from(["name", "args", "output", "id", "matches", "error", "status", "required_columns"]),
    st.sampled_from(["retrieval", "sparql_query", "1", table(["a"], ["b"]), '[{"id": []}]']) | JSON,
)


@given(st.lists(st.lists(STEP, max_size=3) | JSON, max_size=2), st.lists(STEP | JSON, max_size=3))
def test_no_result_breaks_its_page(expected: list[Any], actual: list[Any]) -> None:
    shown = pairs_of(result(expected, actual))
    # Damaged results may have two expected steps that match the same one.
    assert sum(pair.actual is not None for pair in shown) >= sum(isinstance(each, dict) for each in actual)


@each("key", ["reference_steps", "actual_steps"])
@given(value=JSON)
def test_steps_of_another_type_are_nothing(key: str, value: Any) -> None:
    pairs_of({key: value})
    [*values_of({"answer_correctness_reason": value, "x_by": value, "x": value})]


def test_differences_are_told_and_marked() -> None:
    rows = [["a", 1], ["b", 2], ["c", 3]]
    expected = query(table(["name", "km"], *rows), matches="1")
    expected["diff"] = [
        {"kind": "missing_column", "column": "since"},
        {"kind": "missing_row", "row": {"name": "c", "km": "3"}},
        {"kind": "extra_row", "row": {"name": "d", "km": None}},
        {"kind": "wrong_value", "row": 1, "column": "km", "expected": "2", "actual": "9"},
        {"kind": "missing_triple", "triple": "<urn:a> <urn:b> <urn:c> ."},
    ]
    actual = query(table(["name", "km"], ["a", 1], ["b", 9]), id="1")
    (pair,) = pairs_of(result([[expected]], [actual]))
    assert pair.verdict == "matched in part"
    assert pair.differences == [
        ("missing column", "since", MISSING),
        ("missing row", "name = c, km = 3", MISSING),
        ("extra row", "name = d, km = nothing", UNEXPECTED),
        ("wrong value", "row 2, km: expected 2, got 9", ""),
        ("missing triple", "<urn:a> <urn:b> <urn:c> .", MISSING),
    ]
    assert pair.actual is not None
    assert marks(pair.actual) == [["", ""], ["", UNEXPECTED]]


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["kind", "row", "column", "expected", "triple", "wrong_value"]),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_differences_may_be_anything(diff: Any) -> None:
    for each_diff in (
        diff,
        [diff],
        [{"kind": "wrong_value", "row": diff}],
        [{"kind": "extra_row", "row": diff}],
    ):
        expected = query(table(["a"], [1]), matches="1", diff=each_diff)
        (pair,) = pairs_of(result([[expected]], [query(table(["a"], [2]), id="1")]))
        assert all(isinstance(text, str) for shown in pair.differences for text in shown)


def test_many_and_long_differences_are_cut() -> None:
    row = {f"{'n' * 500}{number}": "x" * 10_000 for number in range(200)}
    expected = query(table(["a"], [1]), matches="1", diff=[{"kind": "extra_row", "row": row}] * 1000)
    (pair,) = pairs_of(result([[expected]], [query(table(["a"], [2]), id="1")]))
    assert len(pair.differences) == 10
    assert len(pair.differences[0].text) < 15_000
    assert pair.differences[0].text.endswith("188 more columns")


def test_steps_without_ids_match() -> None:
    steps = [[query(table(["x"], [2])), query(table(["x"], [1]))]]
    reference = [
        {"template_id": "t", "questions": [{"id": "q", "question_text": "?", "reference_steps": steps}]}
    ]
    given = {"question_id": "q", "actual_steps": [query(table(["x"], [1])), query(table(["x"], [3]))]}
    [evaluated] = run_evaluation_sync(reference, [given])
    verdicts = [pair.verdict for pair in pairs_of(evaluated)]
    assert verdicts == ["different", "matched"]
