from __future__ import annotations

import contextlib
import copy
import gc
from typing import Any

import pytest

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import ActualStep, read_args, read_whole_number
from tests.cases import each


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


def test_a_failure_leaves_no_cycle_behind() -> None:
    def fail(_: Any) -> None:
        raise MalformedStep("no")

    def steps() -> int:
        return sum(isinstance(kept, ActualStep) for kept in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = steps()
        for _ in range(2):
            with contextlib.suppress(MalformedStep):
                ActualStep({"output": "abc"}).output(fail)
        assert steps() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("step", [{}, {"output": None}])
def test_a_step_without_output_is_malformed(step: dict[str, Any]) -> None:
    with pytest.raises(MalformedStep, match=r"^output: missing$"):
        ActualStep(step).output(str)


def test_absent_and_null_args_are_empty() -> None:
    assert read_args({}) == read_args({"args": None}) == {}


@pytest.mark.parametrize("args", [[], "", 0, "{}", [["k", 1]]])
def test_other_args_are_malformed(args: Any) -> None:
    with pytest.raises(MalformedStep, match=r"^args: "):
        read_args({"args": args})


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), (5, 5), (5.0, 5), (-0.0, 0), (-(2.0**53), -(2**53)), (10**30, 10**30)],
)
def test_whole_numbers(value: Any, expected: int | None) -> None:
    assert read_whole_number({"k": value}, "k") == expected


@each("value", [True, False, 5.5, "5", float("inf"), float("nan"), [5], {}])
def test_not_a_whole_number(value: Any) -> None:
    with pytest.raises(MalformedStep, match=r"^args\.k: "):
        read_whole_number({"k": value}, "k")


def test_a_step_can_be_malformed_in_several_ways() -> None:
    error = MalformedStep("args.a: no", "args.b: no")
    assert error.problems == ("args.a: no", "args.b: no")
    assert str(error) == "args.a: no; args.b: no"
    assert copy.copy(error).problems == error.problems
