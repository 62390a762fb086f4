"""Which cells of two tables are marked as different."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.reports.cells import Grid, mark_differences
from graphrag_eval_async.reports.evidence import MAX_COMPARED_ROWS, MAX_ROWS, pairs_of
from tests.support.evidence import query, result, table

X = "missing"
E = "unexpected"
W = "wrong"


@pytest.mark.parametrize(
    ("expected", "actual", "expected_marks", "actual_marks"),
    [
        pytest.param(["a", "b"], ["b", "a"], ["", ""], ["", ""], id="another order"),
        pytest.param(["a", "b"], ["a"], ["", X], [""], id="a missing row"),
        pytest.param(["a"], ["a", "b"], [""], ["", E], id="an extra row"),
        pytest.param(["a", "a"], ["a"], ["", X], [""], id="a row that is there once too few"),
        pytest.param(["1"], ["1.0"], [""], [""], id="equal numbers"),
        pytest.param(["a"], [" a "], [""], [""], id="spaces around"),
        pytest.param(["1"], ["2"], [X], [E], id="another value"),
        pytest.param([], ["2"], [], [E], id="nothing expected"),
        pytest.param(["1"], [], [X], [], id="nothing returned"),
        pytest.param([None], [None], [""], [""], id="empty cells"),
    ],
)
def test_rows_of_one_column(
    expected: list[Any], actual: list[Any], expected_marks: list[str], actual_marks: list[str]
) -> None:
    marks = mark_differences(
        Grid(["x"], [[cell] for cell in expected]), Grid(["x"], [[cell] for cell in actual])
    )
    assert marks == ([[mark] for mark in expected_marks], [[mark] for mark in actual_marks])


@pytest.mark.parametrize(
    ("names", "rows", "expected_marks", "actual_marks"),
    [
        pytest.param(
            ["name", "km"], [["a", "1"], ["b", "3"]], [["", ""], ["", W]], [["", ""], ["", W]],
            id="one cell",
        ),
        pytest.param(
            ["km", "name"], [["3", "b"], ["1", "a"]], [["", ""], ["", W]], [[W, ""], ["", ""]],
            id="columns and rows in another order",
        ),
        pytest.param(
            ["n", "length"], [["a", "1"], ["b", "3"]], [["", ""], ["", W]], [["", ""], ["", W]],
            id="columns of other names",
        ),
        pytest.param(
            ["name"], [["a"], ["b"]], [["", X], ["", X]], [[""], [""]],
            id="a column too few",
        ),
        pytest.param(
            ["name", "km", "more"], [["a", "1", "x"], ["b", "2", "y"]],
            [["", ""], ["", ""]], [["", "", ""], ["", "", ""]],
            id="a column more",
        ),
        pytest.param(
            ["name", "km"], [["c", "7"]], [[X, X], [X, X]], [[E, E]],
            id="nothing alike",
        ),
    ],
)  # fmt: skip
def test_rows_of_two_columns(
    names: list[str],
    rows: list[list[str]],
    expected_marks: list[list[str]],
    actual_marks: list[list[str]],
) -> None:
    expected = Grid(["name", "km"], [["a", "1"], ["b", "2"]])
    assert mark_differences(expected, Grid(names, rows)) == (expected_marks, actual_marks)


ROW = st.tuples(st.sampled_from("ab"), st.sampled_from("12"), st.none() | st.sampled_from("xy"))


@given(st.lists(ROW, max_size=8), st.lists(ROW, max_size=8))
def test_rows_without_marks_are_those_that_both_have(
    expected: list[Any], actual: list[Any]
) -> None:
    names = ["a", "b", "c"]
    expected_marks, actual_marks = mark_differences(Grid(names, expected), Grid(names, actual))
    both = Counter(expected) & Counter(actual)
    for rows, marks in ((expected, expected_marks), (actual, actual_marks)):
        unmarked = [row for row, of_row in zip(rows, marks, strict=True) if not any(of_row)]
        assert Counter(unmarked) == both


def test_a_step_shows_the_marks_and_a_long_table_the_rows_that_differ_first() -> None:
    rows = [[f"n{i}", i] for i in range(200)]
    wrong = [*rows[:150], ["n150", 7], *rows[151:]]
    (pair,) = pairs_of(
        result([[query(table(["n", "v"], *rows))]], [query(table(["n", "v"], *wrong), id="1")])
    )
    assert pair.expected is not None
    assert pair.actual is not None
    for step, value in ((pair.expected, "150"), (pair.actual, "7")):
        assert step.table is not None
        assert [*step.table.rows[0]] == ["n150", value]
        assert [*step.table.marks[0]] == ["", W]
        assert len(step.table.rows) == MAX_ROWS
        assert step.table.hidden == "150 more rows, rows that differ come first"


def test_tables_that_are_equal_or_too_long_have_no_marks() -> None:
    for count in (3, MAX_COMPARED_ROWS + 1):
        rows = [[i] for i in range(count)]
        steps = query(table(["x"], *rows)), query(table(["x"], *rows[1:]), id="1")
        (pair,) = pairs_of(result([[steps[0]]], [steps[1]]))
        assert pair.expected is not None
        assert pair.expected.table is not None
        assert bool(pair.expected.table.marks) == (count == 3)


@pytest.mark.parametrize("paired_columns", [None, {}, {"source": "target", "target": "source"}])
def test_swapped_columns_are_marked_as_they_were_scored(
    paired_columns: dict[str, str] | None,
) -> None:
    expected = Grid(["source", "target"], [["a", "b"], ["c", "d"]])
    actual = Grid(["target", "source"], [["a", "x"], ["c", "d"]])
    marks = [["", "wrong"], ["", ""]]
    assert mark_differences(expected, actual, paired_columns) == (marks, marks)


def test_columns_are_paired_as_the_result_says() -> None:
    expected = Grid(["min", "max"], [["1", "2"]])
    actual = Grid(["min", "max"], [["2", "3"]])
    marks = mark_differences(expected, actual, {"min": "max", "max": "min"})
    assert marks == ([["wrong", ""]], [["", "wrong"]])
