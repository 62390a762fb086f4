"""Which actual step each reference step takes, and what that may cost."""

from __future__ import annotations

import asyncio
import threading
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import Evaluator
from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps import Budget, PreparedStep, StepsScore, prepare_step, score_steps
from graphrag_eval_async.steps.differences import Agreement
from graphrag_eval_async.steps.failure import Facts
from tests.steps.support import groups
from tests.support.data import HEAVY_BYTES
from tests.support.deadlines import wait
from tests.support.loop import settle

if TYPE_CHECKING:
    from graphrag_eval_async.steps.actual import ActualStep


def ref(output: str, name: str = "a") -> PreparedStep:
    return prepare_step({"name": name, "output": output})


def act(output: Any, name: Any = "a", status: Any = "success") -> dict[str, Any]:
    return {"name": name, "status": status, "output": output}


def last(group: list[PreparedStep], actual: list[Any]) -> StepsScore:
    """What decides the failure is not looked at here."""
    return msgspec.structs.replace(score_steps([group], actual, mode="last"), facts=Facts())


MALFORMED: list[Any] = [{}, {"name": "a"}, act("x", status=["success"]), act("x", name=None)]


def test_an_exhausted_budget_scores_zero_and_is_reported() -> None:
    def exhausted(_: ActualStep) -> Agreement:
        raise ComparisonBudgetExceeded("too ambiguous")

    step = PreparedStep({"name": "q"}, frozenset(["q"]), exhausted)
    error = "reference_steps[0][1] (q) against actual_steps[1]: too ambiguous"
    assert last([ref("1"), step], [act("1"), act("2", "q")]) == StepsScore(
        0.5, ((0, 0, 0),), (error,)
    )
    with pytest.raises(ComparisonBudgetExceeded):
        score_steps([[step]], [act("2", "q")], Budget(quick=True), mode="last")


SCORES = {"x": {"x": 1.0, "y": 0.1}, "y": {"x": 0.3, "y": 1.0}, "z": {"z": 0.7}}


def tabled(name: str, output: str) -> PreparedStep:
    def compare(actual: ActualStep) -> Agreement:
        if actual.step["output"] == "bad":
            raise MalformedStep("output: bad")
        return Agreement(SCORES[output].get(actual.step["output"], 0.0))

    return PreparedStep({"name": name, "output": output}, frozenset([name]), compare)


def oracle(
    reference: list[list[tuple[str, str]]], actual: list[Any], mode: str
) -> tuple[Fraction, list[Any]]:
    """The definition, step by step."""
    matches = []
    total = Fraction(0)
    numbered = list(enumerate(reference))[-1:] if mode == "last" else list(enumerate(reference))
    visible = list(enumerate(actual))
    for group_index, group in reversed(numbered):
        taken = []
        for step_index, (name, output) in enumerate(group):
            fitting = [
                (index, SCORES[output][step["output"]])
                for index, step in visible
                if isinstance(step, dict)
                and step.get("name") == name
                and step.get("status") == "success"
                and SCORES[output].get(step.get("output") or "", 0) > 0
                and index not in taken
            ]
            if fitting:
                index, score = max(fitting)
                taken.append(index)
                matches.append((group_index, step_index, index))
                total += Fraction(score) / len(group)
        if len(taken) < len(group):
            break
        visible = [(index, step) for index, step in visible if index < min(taken)]
    return total / len(numbered), sorted(matches)


names = st.sampled_from("ab")
reference_groups = st.lists(
    st.lists(st.tuples(names, st.sampled_from("xyz")), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)
statuses = st.sampled_from(["success"] * 4 + ["error"])
actual_steps: st.SearchStrategy[list[Any]] = st.lists(
    st.builds(act, st.sampled_from(["x", "y", "z", "bad", None]), names, statuses)
    | st.sampled_from(MALFORMED),
    max_size=8,
)


@given(reference_groups, actual_steps, st.sampled_from(["last", "all"]))
def test_agrees_with_a_plain_oracle(
    reference: list[list[tuple[str, str]]], actual: list[Any], mode: Literal["last", "all"]
) -> None:
    result = score_steps(
        [[tabled(*step) for step in group] for group in reference], actual, mode=mode
    )
    score, matches = oracle(reference, actual, mode)
    assert list(result.matches) == matches
    assert result.score == pytest.approx(float(score), abs=1e-15)
    assert (result.score == 1.0) == (score == 1)
    assert result.errors == ()


def graded(score: dict[str, float]) -> PreparedStep:
    """A reference step that gives partial credit by output, and says what it gave."""

    def compare(actual: ActualStep) -> Agreement:
        output = actual.step["output"]
        found = score.get(output, 0.0)
        differences = [{"kind": "extra_row", "row": {"x": output}}] if 0 < found < 1 else []
        return Agreement(found, differences=differences)

    return PreparedStep({"name": "a"}, frozenset("a"), compare, partial=True)


def test_partial_credit_takes_the_best_attempt_and_the_latest_among_equals() -> None:
    step = graded({"low": 0.2, "best": 0.7, "zero": 0.0, "all": 1.0})
    for outputs, score, taken in (
        (["best", "low"], 0.7, 0),
        (["best", "low", "best", "zero"], 0.7, 2),
        (["low", "zero"], 0.2, 0),
        (["all", "best"], 1.0, 0),
        (["all", "all", "low"], 1.0, 1),
    ):
        scored = last([step], [act(output) for output in outputs])
        assert (scored.score, scored.matches) == (score, ((0, 0, taken),)), outputs
        shown = {"kind": "extra_row", "row": {"x": outputs[taken]}}
        assert scored.diffs == (((0, 0, [shown]),) if score < 1 else ())
    assert last([step], [act("zero")]) == StepsScore(0.0)


def test_with_partial_credit_only_1_is_a_full_match() -> None:
    step = graded({"part": 0.5, "all": 1.0})
    both = [[ref("1")], [step]]
    scored = score_steps(both, [act("1"), act("part")], mode="all")
    assert (scored.score, scored.matches) == (0.25, ((1, 0, 1),))
    scored = score_steps(both, [act("1"), act("all")], mode="all")
    assert (scored.score, scored.matches) == (1.0, ((0, 0, 0), (1, 0, 1)))


def best_in_order(group: list[dict[str, float]], actual: list[str]) -> float:
    if not group or not actual:
        return 0
    pair = group[0].get(actual[0], 0) + best_in_order(group[1:], actual[1:])
    return max(pair, best_in_order(group[1:], actual), best_in_order(group, actual[1:]))


BY_OUTPUT = st.dictionaries(st.sampled_from("xyz"), st.sampled_from([0.25, 0.5, 1.0]))


@given(st.lists(BY_OUTPUT, min_size=1, max_size=4), st.lists(st.sampled_from("wxyz"), max_size=6))
def test_a_strict_group_takes_the_best_in_order(
    group: list[dict[str, float]], actual: list[str]
) -> None:
    steps = [msgspec.structs.replace(graded(scores), is_strict=True) for scores in group]
    found = last(steps, [act(output) for output in actual])
    taken = [index for *_, index in found.matches]  # They are sorted by the reference step.
    assert taken == sorted({*taken})
    total = sum(group[place][actual[index]] for _, place, index in found.matches)
    assert found.score * len(group) == pytest.approx(total) == best_in_order(group, actual)


EXHAUSTED = "not compared: the comparison budget of this response is exhausted"
TEXTS = [f"x{index}" for index in range(1000)]


def test_what_a_users_comparator_gets_is_paid_for() -> None:
    group = [prepare_step({"name": "own", "output": "x" * 400_000}, {"own": lambda *_: 0.0})]
    scored = score_steps([group], [act(text, "own") for text in TEXTS], mode="last")
    assert 0 < len(scored.errors) <= 10
    assert EXHAUSTED in scored.errors[-1]


async def test_a_cancelled_evaluation_compares_no_further() -> None:
    begun, release, calls = threading.Event(), threading.Event(), []

    def own(reference: object, _: object) -> float:
        calls.append(reference)
        begun.set()
        wait(release)
        return 0.0

    evaluator = Evaluator(groups([{"name": "own", "output": "a"}]), comparators={"own": own})
    response = {"question_id": "q", "actual_steps": [act(text, "own") for text in TEXTS]}
    task = asyncio.create_task(evaluator.evaluate(response | {"padding": "x" * HEAVY_BYTES}))
    await asyncio.to_thread(wait, begun)
    task.cancel()
    await settle()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(calls) == 1


async def test_the_result_says_what_was_not_compared() -> None:
    group = [{"name": "a", "output": f"a{index}"} for index in range(250)]
    for some, is_reported in ((group[:20], False), (group, True)):
        response = {"question_id": "q", "actual_steps": [act(text) for text in TEXTS]}
        result = await Evaluator(groups(some)).evaluate(response)
        assert result["steps_score"] == 0
        assert (EXHAUSTED in result.get("steps_score_error", "")) == is_reported
