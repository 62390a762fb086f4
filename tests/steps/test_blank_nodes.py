"""Blank nodes in tables: their labels are local to a document."""

from __future__ import annotations

import random
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.steps.support import encode, literal, query, result_of, score_of, to_csv, to_tsv, to_xml
from tests.steps.table_oracle import oracle
from tests.support.cpu import affordable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.steps.support import Table, Term


def node(label: str) -> Term:
    return {"type": "bnode", "value": label}


def nodes(*rows: str, names: str = "xyz") -> str:
    """SPARQL results whose cells are blank nodes with labels of one letter; a dot is unbound."""
    table: Table = [[None if label == "." else node(label) for label in row] for row in rows]
    return encode(table, names[: len(rows[0])])


@pytest.mark.parametrize(
    ("expected", "actual", "agrees"),
    [
        pytest.param(nodes("a"), nodes("b"), True, id="renamed"),
        pytest.param(nodes("ab"), nodes("ba"), True, id="swapped"),
        pytest.param(nodes("aa"), nodes("bb"), True, id="one-shared-node"),
        pytest.param(nodes("aa"), nodes("ab"), False, id="one-shared-node-is-not-two"),
        pytest.param(nodes("ab"), nodes("aa"), False, id="two-are-not-one-shared-node"),
        pytest.param(nodes("a", "b"), nodes("c", "d"), True, id="two-rows"),
        pytest.param(nodes("a", "a"), nodes("c", "c"), True, id="equal-rows"),
        pytest.param(nodes("a", "b"), nodes("c"), False, id="two-nodes-are-not-one"),
        pytest.param(nodes("ab", "bc", "ca"), nodes("xz", "yx", "zy"), True, id="ring"),
        pytest.param(
            nodes("ab", "bc", "ca", "de", "ef", "fd"),
            nodes("ab", "bc", "cd", "de", "ef", "fa"),
            False,
            id="ring-of-six-and-two-of-three",
        ),
        pytest.param(nodes("ab", "bc"), nodes("ab", "cb"), False, id="path-and-star"),
        pytest.param(nodes("a."), nodes(".b"), True, id="unbound"),
        pytest.param(
            nodes("ab", "ac"), nodes("ba", "ca", names="yx"), True, id="columns-of-other-names"
        ),
        pytest.param(
            nodes("a"), encode([[literal("a")]], "x"), False, id="a-literal-of-the-same-text"
        ),
        pytest.param(nodes("a"), "x\r\n_:b7\r\n", True, id="csv"),
        pytest.param(nodes("a"), "x\r\nnodeID://b10001\r\n", True, id="csv-of-virtuoso"),
        pytest.param(nodes("a"), [{"x": "_:b7"}], True, id="list-of-objects"),
    ],
)
@pytest.mark.parametrize("keys", [{}, {"ordered": True}, {"ignore_duplicates": False}], ids=str)
def test_labels_are_local_to_a_table(
    expected: str, actual: Any, agrees: bool, keys: dict[str, Any]
) -> None:
    assert score_of(query(expected, **keys), actual) == agrees
    partial = score_of(query(expected, score="f1", **keys), actual)
    assert (partial == 1) == agrees


def triple(subject: Term, *, target: Term | None = None) -> Term:
    """A quoted triple."""
    parts = {
        "subject": subject,
        "predicate": {"type": "uri", "value": "urn:p"},
        "object": target or literal("1"),
    }
    return {"type": "triple", "value": parts}


QUOTED: dict[str, tuple[Table, Table, bool]] = {
    # The rows of two tables, and whether they agree.
    "renamed": ([[triple(node("a"))]], [[triple(node("b"))]], True),
    "with the label's start": ([[triple(node("a"))]], [[triple(node("_:b"))]], True),
    "another object": (
        [[triple(node("a"))]],
        [[triple(node("b"), target=literal("2"))]],
        False,
    ),
    "an IRI": ([[triple(node("a"))]], [[triple({"type": "uri", "value": "urn:b"})]], False),
    "the same node beside it": (
        [[triple(node("a")), node("a")]],
        [[triple(node("q")), node("q")]],
        True,
    ),
    "another node beside it": (
        [[triple(node("a")), node("a")]],
        [[triple(node("q")), node("r")]],
        False,
    ),
    "nested": ([[triple(triple(node("a")))]], [[triple(triple(node("b")))]], True),
    "two nodes": (
        [[triple(node("a"), target=node("b"))]],
        [[triple(node("c"), target=node("d"))]],
        True,
    ),
    "one node twice": (
        [[triple(node("a"), target=node("a"))]],
        [[triple(node("c"), target=node("d"))]],
        False,
    ),
    "two rows": (
        [[triple(node("a"))], [triple(node("b"))]],
        [[triple(node("c"))], [triple(node("d"))]],
        True,
    ),
    "two rows of one node": (
        [[triple(node("a")), literal("1")], [triple(node("a")), literal("2")]],
        [[triple(node("c")), literal("1")], [triple(node("d")), literal("2")]],
        False,
    ),
    "no nodes": ([[triple(literal("a"))]], [[triple(literal("a"))]], True),
}


@pytest.mark.parametrize(("expected", "actual", "agrees"), QUOTED.values(), ids=QUOTED)
@pytest.mark.parametrize("keys", [{}, {"ordered": True}, {"score": "f1"}], ids=str)
def test_labels_in_quoted_triples_are_local(
    expected: Table, actual: Table, agrees: bool, keys: dict[str, Any]
) -> None:
    for left, right in ((expected, actual), (actual, expected)):
        reference = query(encode(left, "xyz"[: len(left[0])]), **keys)
        output = encode(right, "xyz"[: len(right[0])])
        assert (score_of(reference, output) == 1) == agrees


def test_values_compare_quoted_triples_without_labels() -> None:
    expected = encode([[triple(node("a"))]], "x")
    renamed = encode([[triple(node("b"))]], "x")
    another = encode([[triple(node("b"), target=literal("2"))]], "x")
    assert score_of(query(expected, score="values_f1"), renamed) == 1
    assert score_of(query(expected, score="values_f1"), another) == 0


@pytest.mark.parametrize("write", [encode, to_csv, to_tsv, to_xml])
def test_in_each_format(write: Callable[[Table, Sequence[str]], str]) -> None:
    expected: Table = [[node("a"), literal("1")], [node("a"), literal("2")]]
    same: Table = [[node("q"), literal("2")], [node("q"), literal("1")]]
    apart: Table = [[node("q"), literal("2")], [node("r"), literal("1")]]
    assert score_of(query(encode(expected, "xy")), write(same, "xy")) == 1
    assert score_of(query(encode(expected, "xy")), write(apart, "xy")) == 0


def test_partial_credit_counts_the_nodes_that_correspond() -> None:
    expected = [[node("a"), literal("1")], [node("a"), literal("2")], [node("b"), literal("3")]]
    actual = [[node("p"), literal("1")], [node("q"), literal("2")], [node("r"), literal("3")]]
    result = result_of(query(encode(expected, "xy"), score="f1"), encode(actual, "xy"))
    assert result["steps_score"] == pytest.approx(5 / 6)
    [difference] = result["reference_steps"][0][0]["diff"]
    assert (difference["kind"], difference["column"]) == ("wrong_value", "x")


@pytest.mark.parametrize(
    ("expected", "actual", "score"),
    [
        pytest.param(nodes("ab"), nodes("cd"), 1.0, id="as-many"),
        pytest.param(nodes("ab"), nodes("cc"), 2 / 3, id="fewer"),
    ],
)
def test_values_as_a_set_count_nodes(expected: str, actual: str, score: float) -> None:
    assert score_of(query(expected, score="values_f1"), actual) == pytest.approx(score)


TERMS = st.sampled_from([None, node("a"), node("b"), node("c"), literal("a"), literal("5")])


@st.composite
def pairs_of_tables(draw: st.DrawFn) -> tuple[Table, Table, int]:
    """Two tables that often differ only in the order of rows and in labels."""
    width = draw(st.integers(1, 3))
    rows = st.lists(st.lists(TERMS, min_size=width, max_size=width), min_size=1, max_size=4)
    table = draw(rows)
    if draw(st.booleans()):
        return table, draw(rows), width
    letters = draw(st.permutations("abc"))
    return (
        table,
        renamed(draw(st.permutations(table)), dict(zip("abc", letters, strict=True))),
        width,
    )


def renamed(table: Sequence[Sequence[Term]], labels: dict[str, str]) -> Table:
    return [
        [
            node(labels[term["value"]]) if term and term.get("type") == "bnode" else term
            for term in row
        ]
        for row in table
    ]


def as_iris(table: Table) -> Table:
    """The table with an IRI in place of each blank node, which the oracle compares as text."""
    return [
        [
            {"type": "uri", "value": f"urn:node:{term['value']}"}
            if term and term.get("type") == "bnode"
            else term
            for term in row
        ]
        for row in table
    ]


@settings(max_examples=150)
@given(pairs_of_tables(), st.booleans(), st.booleans())
def test_tables_agree_if_some_renaming_makes_them_equal(
    tables: tuple[Table, Table, int], ordered: bool, ignore_duplicates: bool
) -> None:
    expected, actual, width = tables
    how = {"ordered": ordered, "ignore_duplicates": ignore_duplicates}
    agrees = any(
        oracle(
            as_iris(expected),
            list(range(width)),
            as_iris(renamed(actual, dict(zip("abc", letters, strict=True)))),
            width,
            **how,
        )
        for letters in permutations("abc")
    )
    names = "xyz"[:width]
    reference = query(encode(expected, names), **how)
    assert score_of(reference, encode(actual, names)) == agrees
    partial = score_of(reference | {"score": "f1"}, encode(actual, names))
    assert (partial == 1) == agrees


def test_many_nodes_that_are_alike_are_compared_within_the_budget() -> None:
    many = [[node(f"n{index}"), node(f"n{(index + 1) % 2000}")] for index in range(2000)]
    other = [[node(f"m{index}"), node(f"m{(index + 1) % 2000}")] for index in range(2000)]
    with affordable(2**22):
        assert score_of(query(encode(many, "xy")), encode(other[::-1], "xy")) == 1


def test_many_columns_of_blank_nodes_are_refused_in_time() -> None:
    names = [f"v{number}" for number in range(1_000)]
    table: Table = [[node(f"n{number}") for number in range(1_000)]]
    with affordable(2**22):
        score_of(query(encode(table, names)), encode([row[::-1] for row in table], names[::-1]))
        columns = [f"c{number}" for number in range(12)]
        rows: Table = [[node(f"r{row}c{column}") for column in range(12)] for row in range(3)]
        other: Table = [[*row] for row in rows]
        other[2][11] = other[2][10]
        assert score_of(query(encode(rows, columns)), encode(other, columns)) == 0


WIDTH = 10
HEIGHT = 50


def all_different(row: int, column: int) -> int:
    return row * WIDTH + column


def one_for_each_row(row: int, _column: int) -> int:
    return row


def shared_by_two_columns(row: int, column: int) -> int:
    """Column 7 has the nodes of column 3."""
    return all_different(row, 3 if column == 7 else column)


def few(row: int, column: int) -> int:
    return (row * 7919 + column * 104_729) % 1009 % 40


def anew(table: Table, rng: random.Random, *, further_columns: int = 0) -> Table:
    """The same table with other labels, and rows and columns in another order."""
    labels = sorted({term["value"] for row in table for term in row if term})
    fresh = rng.sample(range(len(labels)), len(labels))
    relabelled = renamed(table, {old: f"m{new}" for old, new in zip(labels, fresh, strict=True)})
    wider: Table = [
        [*row, *(node(f"x{number}y{column}") for column in range(further_columns))]
        for number, row in enumerate(relabelled)
    ]
    order = rng.sample(range(len(wider[0])), len(wider[0]))
    shuffled: Table = [[row[column] for column in order] for row in wider]
    rng.shuffle(shuffled)
    return shuffled


@pytest.mark.parametrize("further_columns", [0, 2])
@pytest.mark.parametrize("score", ["exact", "f1"])
@pytest.mark.parametrize("label", [all_different, one_for_each_row, shared_by_two_columns, few])
def test_columns_of_nothing_but_blank_nodes_are_paired(
    label: Callable[[int, int], int], score: str, further_columns: int
) -> None:
    table: Table = [
        [node(f"n{label(row, column)}") for column in range(WIDTH)] for row in range(HEIGHT)
    ]
    other = anew(table, random.Random(1), further_columns=further_columns)
    names = [f"a{column}" for column in range(WIDTH)]
    other_names = [f"b{column}" for column in range(WIDTH + further_columns)]
    reference = query(encode(table, names), score=score)
    with affordable(2**20):
        assert score_of(reference, encode(other, other_names)) == 1


@pytest.mark.parametrize("label", [all_different, one_for_each_row, shared_by_two_columns, few])
def test_one_other_node_in_columns_of_blank_nodes_is_seen(label: Callable[[int, int], int]) -> None:
    table: Table = [
        [node(f"n{label(row, column)}") for column in range(WIDTH)] for row in range(HEIGHT)
    ]
    other = anew(table, random.Random(2))
    other[3][2] = other[4][5]
    names = [f"a{column}" for column in range(WIDTH)]
    other_names = [f"b{column}" for column in range(WIDTH)]
    with affordable(2**20):
        result = result_of(query(encode(table, names)), encode(other, other_names))
    assert result["steps_score"] == 0
    assert "steps_score_error" not in result


def test_an_undecided_comparison_is_no_silent_zero() -> None:
    width = 301
    table: Table = [[node(f"n{column}") for column in range(width)]]
    other = anew(table, random.Random(3), further_columns=1)
    names = [f"a{column}" for column in range(width)]
    other_names = [f"b{column}" for column in range(width + 1)]
    result = result_of(query(encode(table, names)), encode(other, other_names))
    undecided = (
        "301 columns of 1 rows, 302 of 1 in the actual output: not compared: "
        "blank nodes in more than 300 columns"
    )
    assert result["steps_score"] == 0
    assert undecided in result["steps_score_error"]
    assert (result["failure"], result["failure_detail"]) == ("wrong_query_result", undecided)


def test_blank_nodes_that_form_rings_are_compared_in_time() -> None:
    # Each column of the second half has the nodes of one of the first half, a row later. Only a
    # search tells which way each pair of columns runs.
    half = WIDTH // 2
    table: Table = [
        [node(f"r{row}c{column}") for column in range(half)]
        + [node(f"r{(row + 1) % HEIGHT}c{column}") for column in range(half)]
        for row in range(HEIGHT)
    ]
    names = [f"a{column}" for column in range(WIDTH)]
    other_names = [f"b{column}" for column in range(WIDTH)]
    with affordable(2**21):
        result = result_of(
            query(encode(table, names)), encode(anew(table, random.Random(3)), other_names)
        )
    assert result["steps_score"] == 1 or "exhausted" in result["failure_detail"]
