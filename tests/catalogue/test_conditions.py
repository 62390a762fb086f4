"""How conditions on means are written, and which are possible."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.catalogue.conditions import (
    OPERATORS,
    Condition,
    parse_condition,
    parse_gate,
    rounded,
)
from graphrag_eval_async.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("steps_score>=0.8", Condition(None, "steps_score", ">=", 0.8), id="no spaces"),
        pytest.param(" elapsed_sec  <  30 ", Condition(None, "elapsed_sec", "<", 30), id="spaces"),
        pytest.param("a: b: tone > -2", Condition("a: b", "tone", ">", -2), id="colon in template"),
        pytest.param(
            "a <= b: x <= 1", Condition("a <= b", "x", "<=", 1), id="operator in template"
        ),
        pytest.param(":x < 1", Condition("", "x", "<", 1), id="empty template"),
        pytest.param("x[hops=2] < 1", Condition(None, "x", "<", 1, ("hops", "2")), id="tag"),
        pytest.param(
            "x[hard] < 1", Condition(None, "x", "<", 1, ("hard", "true")), id="name alone"
        ),
    ],
)
def test_gates_are_read_and_written_again(text: str, expected: Condition) -> None:
    gate = parse_gate(text)
    assert gate == expected
    assert parse_gate(gate.text) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("steps_score", id="no operator"),
        pytest.param("steps_score = 1", id="another operator"),
        pytest.param("> 1", id="no metric"),
        pytest.param("two words > 1", id="two metrics"),
        pytest.param("x >", id="no bound"),
        pytest.param("x > nan", id="NaN"),
        pytest.param("x > inf", id="infinity"),
        pytest.param("x > much", id="a word as bound"),
        pytest.param("t: x[hops=2] > 1", id="template and tag"),
    ],
)
def test_what_is_no_gate(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|finite number"):
        parse_gate(text)


def test_only_gates_are_on_tags() -> None:
    with pytest.raises(ValueError, match=r"only a gate can be on a tag, \[hops=2\]"):
        parse_condition("x[hops=2] > 1")


@pytest.mark.parametrize(
    ("metric", "least", "greatest"),
    [
        pytest.param("steps_score", 0, 1, id="a score"),
        pytest.param("error_rate", 0, 1, id="a rate"),
        pytest.param("pass^3", 0, 1, id="a rate of repeats"),
        pytest.param("answer_relevance", -1, 1, id="a cosine similarity"),
        pytest.param("total_tokens", 0, math.inf, id="a resource"),
        pytest.param("faithfulness_cost", 0, math.inf, id="a cost"),
        pytest.param("tone", -math.inf, math.inf, id="the output of a custom evaluation"),
    ],
)
def test_bounds_are_possible_values(metric: str, least: float, greatest: float) -> None:
    for bound in (least, greatest):
        if math.isfinite(bound):
            assert parse_condition(f"{metric} >= {bound}").bound == bound
    for outside in (least - 1, greatest + 1):
        if math.isfinite(outside):
            with pytest.raises(UsageError, match=r"or more, not|from .* to .*, not"):
                parse_condition(f"{metric} >= {outside}")


@given(st.floats(0, 1), st.floats(0, 1) | st.sampled_from([0.8, 0.5, 1.0]))
def test_rounding_keeps_a_value_on_its_side_of_a_bound(value: float, bound: float) -> None:
    shown = float(rounded(value, bound))
    for holds in OPERATORS.values():
        assert holds(shown, bound) == holds(value, bound)
    assert shown == pytest.approx(value, rel=1e-2, abs=1e-12)
