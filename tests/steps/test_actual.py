from __future__ import annotations

from typing import Any

import pytest

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import ActualStep, read_whole_number


def test_an_output_is_read_once_per_reader() -> None:
    calls = []

    def length(output: Any) -> int:
        calls.append(output)
        return len(output)

    actual = ActualStep({"output": "abc"})
    assert [actual.output(length), actual.output(length), actual.output(str.upper)] == [3, 3, "ABC"]
    assert calls == ["abc"]


def test_a_failure_is_remembered_too() -> None:
    calls = []

    def fail(output: Any) -> None:
        calls.append(output)
        raise MalformedStep("no")

    actual = ActualStep({"output": "abc"})
    for _ in range(2):
        with pytest.raises(MalformedStep, match=r"^output: no$"):
            actual.output(fail)
    assert calls == ["abc"]


@pytest.mark.parametrize("step", [{}, {"output": None}])
def test_a_step_without_output_is_malformed(step: dict[str, Any]) -> None:
    with pytest.raises(MalformedStep, match=r"^output: missing$"):
        ActualStep(step).output(str)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), (5, 5), (5.0, 5), (-0.0, 0), (-(2.0**53), -(2**53)), (10**30, 10**30)],
)
def test_whole_numbers(value: Any, expected: int | None) -> None:
    assert read_whole_number({"k": value}, "k") == expected
