"""Tables of Cypher against a plain and slow comparison that tries everything."""

from __future__ import annotations

import json
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.steps.cypher.forms import FORMS, Node, Point, Table, score, typed
from tests.support.cpu import affordable

if TYPE_CHECKING:
    import random

WORDS = st.sampled_from(["x", "y", "Oslo"])
SCALARS = st.one_of(st.none(), st.integers(2, 4), st.sampled_from([2.0, 2.5]), WORDS)
NODES = st.builds(
    Node,
    st.sampled_from([("Film",), ("Film", "Short"), ("Person",)]),
    st.dictionaries(st.sampled_from("ab"), SCALARS, max_size=2),
    st.integers(0, 3),
)
POINTS = st.builds(
    Point,
    st.sampled_from([(1.0, 2.0), (2.0, 1.0)]),
    st.sampled_from([4326, 7203]),
)
VALUES = st.recursive(
    st.one_of(SCALARS, NODES, POINTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYS = (  # noqa: SIM905 - longer as a list
    "$type _value labels properties _ID _LABEL _SRC _NODES _RELS type start end row meta graph "
    "columns data results errors fields values context content text srid x y crs coordinates low "
    "high segments length a"
).split()
"""Keys that mean something in some form."""


@st.composite
def tables(draw: st.DrawFn) -> Table:
    width = draw(st.integers(1, 3))
    rows = draw(st.lists(st.lists(VALUES, min_size=width, max_size=width), min_size=1, max_size=3))
    return Table(tuple("abc"[:width]), tuple(map(tuple, rows)))


def same(one: Any, other: Any, *, is_ordered: bool) -> bool:
    """Whether two values are the same."""
    if isinstance(one, Node) and isinstance(other, Node):
        has_labels = {*one.labels} == {*other.labels}
        return has_labels and same(one.properties, other.properties, is_ordered=is_ordered)
    if isinstance(one, dict) and isinstance(other, dict):
        left = {key: value for key, value in one.items() if value is not None}
        right = {key: value for key, value in other.items() if value is not None}
        return left.keys() == right.keys() and all(
            same(left[key], right[key], is_ordered=is_ordered) for key in left
        )
    if isinstance(one, list) and isinstance(other, list):
        orders = [tuple(other)] if is_ordered else permutations(other)
        return len(one) == len(other) and any(
            all(same(*pair, is_ordered=is_ordered) for pair in zip(one, order, strict=True))
            for order in orders
        )
    if isinstance(one, Node | dict | list) or isinstance(other, Node | dict | list):
        return False
    return bool(one == other)


def agree(expected: Table, actual: Table, *, is_ordered: bool) -> bool:
    """Whether some choice of actual columns and some order of rows make all cells the same."""
    width = len(expected.names)
    if len(expected.rows) != len(actual.rows):
        return False
    for chosen in permutations(range(len(actual.names)), width):
        rows = [tuple(row[column] for column in chosen) for row in actual.rows]
        orders = [tuple(rows)] if is_ordered else permutations(rows)
        for order in orders:
            if all(
                same(left, right, is_ordered=is_ordered)
                for row, other in zip(expected.rows, order, strict=True)
                for left, right in zip(row, other, strict=True)
            ):
                return True
    return False


def shuffled(value: Any, rng: random.Random) -> Any:
    """The same value with other ids, and with items and keys in another order."""
    if isinstance(value, list):
        items = [shuffled(item, rng) for item in value]
        return rng.sample(items, len(items))
    if isinstance(value, dict):
        entries = [(key, shuffled(item, rng)) for key, item in value.items()]
        return dict(rng.sample(entries, len(entries)))
    if isinstance(value, Node):
        labels = tuple(rng.sample(value.labels, len(value.labels)))
        return Node(labels, shuffled(value.properties, rng), rng.randrange(100))
    return value


def changed(expected: Table, rng: random.Random, other: Any) -> Table:
    """A table with other names and orders, and maybe another cell, row or column."""
    rows = [[shuffled(cell, rng) for cell in row] for row in expected.rows]
    width = len(expected.names)
    if rng.random() < 0.3:
        rows[rng.randrange(len(rows))][rng.randrange(width)] = other
    if rng.random() < 0.2:
        rows.append([*rows[0]])
    if rng.random() < 0.3:
        rows = [[*row, other] for row in rows]
        width += 1
    if rng.random() < 0.8:
        rng.shuffle(rows)
    order = rng.sample(range(width), width)
    return Table(tuple("wxyz"[:width]), tuple(tuple(row[place] for place in order) for row in rows))


@settings(max_examples=400, suppress_health_check=list(HealthCheck), deadline=None)
@given(tables(), VALUES, st.booleans(), st.randoms(use_true_random=False))
def test_tables_agree_if_some_pairing_of_columns_rows_and_items_does(
    expected: Table, other: Any, is_ordered: bool, rng: random.Random
) -> None:
    actual = changed(expected, rng, other)
    wanted = agree(expected, actual, is_ordered=is_ordered)
    event(f"agree: {wanted}")
    reference = FORMS["typed"](expected)
    assert score(reference, FORMS["typed"](actual), ordered=is_ordered) == wanted
    partial = score(reference, FORMS["typed"](actual), ordered=is_ordered, score="f1")
    assert (partial == 1) == wanted


@settings(max_examples=200, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.text(max_size=5),
            st.sampled_from(
                ["<Node ", "<Record a=", "POINT (1 2)", "P1D", "10:00", "[{'a'", "{", "```"]
            ),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(KEYS),
                inner,
                max_size=4,
            ),
        ),
        max_leaves=12,
    ),
    st.sampled_from(["value", "json", "python"]),
)
def test_odd_output_never_ends_a_run(value: Any, form: str) -> None:
    output = value
    if form == "json":
        output = json.dumps(value)
    elif form == "python":
        output = str(value)
    result = score([{"a": 1}, {"a": [2]}], output)
    assert 0 <= result <= 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<Record " * 25_000, id="records"),
        pytest.param("[" * 200_000, id="lists"),
        pytest.param("<Record a='" + "x" * 200_000, id="text"),
        pytest.param("<Record " + "a= " * 70_000, id="names"),
        pytest.param("(:A)" + "-[:T]->(:B)" * 20_000, id="path"),
        pytest.param("{'" + "\\'" * 100_000, id="escapes"),
        pytest.param('[{"a":"POINT (' + "1 " * 100_000 + '"}]', id="point"),
        pytest.param("items=[" + "A(a=1," * 30_000, id="calls"),
    ],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    with affordable(len(text)):
        assert score([{"a": 1}], text) == 0


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_typed_values_equal_themselves(value: Any) -> None:
    cell = {"data": {"fields": ["a"], "values": [[typed(value)]]}}
    assert score(cell, cell) == 1
