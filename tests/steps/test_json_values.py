from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.json_values import (
    json_comparator,
    same_output_comparator,
)
from tests.support.cases import each


def score(reference: Any, actual: Any) -> float:
    return json_comparator({"output": reference})(ActualStep({"output": actual})).score


@each(
    ("left", "right", "expected"),
    [
        ('{"a": 1, "b": [2]}', ' {"b":[2.0],\n"a":1.0}\t', 1),
        ("100000000000000000000", "1e20", 1),
        ('{"a": [1, true]}', '{"a": [true, 1]}', 0),
        ("18446744073709551616", "18446744073709551617", 0),
    ],
)
def test_what_is_equal(left: Any, right: Any, expected: float) -> None:
    assert score(left, right) == score(right, left) == expected
    assert same_output_comparator({"output": left})(ActualStep({"output": left})).score == 1
    assert same_output_comparator({"output": left})(ActualStep({"output": [left]})).score == 0


GARBAGE = ["", "nope", "[1,]", "NaN", "1e400", "\ufeff1", "[" * 1_000_000, "[" * 900 + "]" * 900]


@each("text", GARBAGE)
def test_garbage_is_malformed_on_either_side(text: str) -> None:
    with pytest.raises(MalformedStep, match=r"^output: not JSON: "):
        json_comparator({"output": text})
    with pytest.raises(MalformedStep, match=r"^output: not JSON: "):
        score("1", text)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.integers(2**53 - 1, 2**53 + 1)
    | st.integers(2**64 - 1, 2**64 + 1)
    | st.sampled_from([-0.0, 0.0, 1.0, 0.5, 2.0**53, 2.0**64])
    | st.sampled_from(["", "1", "a", "é", "true"])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab1"), inner, max_size=2),
    max_leaves=6,
)


def canonical(value: Any) -> Any:
    """Numbers tagged, so that no boolean equals one."""
    match value:
        case None | bool() | str():
            return (type(value).__name__, value)
        case int() | float():
            return ("number", value)
        case list():
            return ("array", [canonical(item) for item in value])
    return ("object", {key: canonical(item) for key, item in value.items()})


@given(values, values, st.sampled_from([None, 2]), st.booleans())
def test_agrees_with_a_plain_oracle(left: Any, right: Any, indent: int | None, ascii_only: bool) -> None:
    left_text = json.dumps(left)
    right_text = json.dumps(right, indent=indent, ensure_ascii=ascii_only, sort_keys=True)
    expected = canonical(json.loads(left_text)) == canonical(json.loads(right_text))
    assert score(left_text, right_text) == expected
    assert score([left], f"[{right_text}]") == expected
