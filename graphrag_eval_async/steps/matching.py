"""Matches reference steps with actual steps, and scores the result."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import fsum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from graphrag_eval_async.errors import ComparatorError, ComparisonBudgetExceeded, MalformedStep, in_utf8
from graphrag_eval_async.records.evaluation import MAX_ERRORS
from graphrag_eval_async.records.outputs import is_empty, returned_nothing
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.differences import MAX_DIFFERENCES
from graphrag_eval_async.steps.failure import Facts, other_form
from graphrag_eval_async.steps.sparql.budget import STEPS_PER_COMPARISON, Budget

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from graphrag_eval_async.steps.comparators import PreparedStep
    from graphrag_eval_async.steps.differences import Difference

MAX_MESSAGE = 500
"""Maximum characters kept of an error's text; a comparator's text may hold everything it compared."""

_is_nothing_text = re.compile(r"(null|\{\s*\})?").fullmatch


class StepsScore(msgspec.Struct, frozen=True):
    """How well an agent's steps match the reference steps.

    Attributes:
        score: from 0 to 1.
        matches: in order of the reference, the indices of the group, of the step in the group, and of the
            actual step that it took.
        errors: which comparisons failed, and why; the first `MAX_ERRORS` of them.
        facts: those that decide what the failure is.
        diffs: of steps with partial credit that are matched in part, the indices of the group and of the step
            in the group, and what differs; see `steps.differences`.
    """

    score: float
    matches: tuple[tuple[int, int, int], ...] = ()
    errors: tuple[str, ...] = ()
    facts: Facts = Facts()
    diffs: tuple[tuple[int, int, list[Difference]], ...] = ()


def score_steps(
    groups: Sequence[Sequence[PreparedStep]],
    actual_steps: Sequence[Mapping[str, Any]],
    budget: Budget | None = None,
    *,
    mode: Literal["last", "all"],
    quick: bool = False,
    usable: Sequence[str | None] | None = None,
    invalid: Container[int] = (),
) -> StepsScore:
    """Match the reference's groups of steps with the steps of a response.

    In its group's order, each reference step takes the latest unused successful actual step of a name that it
    accepts that scores above 0. With partial credit, it takes the one that scores most, the latest among
    equals, and is fully matched only by a score of 1. ``"last"`` looks at the last group only: its score is
    the sum of match scores over its number of steps. ``"all"`` walks the groups backwards: one fully matched
    hands the actual steps before its earliest match to the group before it, another ends the walk; the score
    is the mean over all groups, those not reached being 0. Without reference steps the score is 0.

    The comparisons share the `budget`; stopping it from another thread ends them. `usable` are the names of
    the actual steps, or None of those that did not succeed or returned nothing, if known. `invalid` are the
    indices of actual steps whose queries do not parse.

    Raises:
        ComparisonBudgetExceeded: only if `quick`: the comparisons take more than the budget; without `quick`,
            those that cannot be paid score 0 then, and `errors` says so.
    """
    usable = usable_names(actual_steps) if usable is None else usable
    budget = budget or Budget()
    budget.quick = quick
    matcher = _Matcher(actual_steps, usable, budget, quick, invalid)
    shares = []
    end = len(actual_steps)
    for index in reversed(range(len(groups))):
        group = groups[index]
        taken, scores, matched = matcher.match(index, group, end)
        shares.append(_sum(scores) / (len(group) or 1))
        if mode == "last" or not matched:
            break
        end = min([end, *taken])
    score = _sum(shares) / (len(groups) if mode == "all" and groups else 1)
    facts = Facts() if score == 1 else matcher.facts(groups)
    errors = tuple(matcher.errors.values())[:MAX_ERRORS]
    return StepsScore(score, tuple(sorted(matcher.matches)), errors, facts, matcher.diffs)


def usable_names(actual_steps: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """Return the names of steps, with None in place of those that failed or returned nothing."""
    return [
        step.get("name") if step.get("status") == "success" and step.get("output") is not None else None
        for step in actual_steps
    ]


def _sum(scores: Sequence[float]) -> float:
    return scores[0] if len(scores) == 1 else fsum(scores)  # As most often, at a tenth of the cost.


class _Short(NamedTuple):
    """A reference step that is not fully matched, its place, and the actual steps that may be to blame.

    These are the step that it took, or all that no step of its group took.
    """

    step: PreparedStep
    place: tuple[int, int]
    blamable: list[int]


@dataclass(slots=True)
class _Matcher:
    """The actual steps of one response, each wrapped once, and the outcomes of comparisons."""

    actual_steps: Sequence[Mapping[str, Any]]
    usable: Sequence[str | None]
    budget: Budget
    quick: bool
    invalid: Container[int]
    compared: dict[int, ActualStep] = field(default_factory=dict)
    matches: list[tuple[int, int, int]] = field(default_factory=list)
    errors: dict[tuple[int, int, int], str] = field(default_factory=dict)
    diffs: tuple[tuple[int, int, list[Difference]], ...] = ()
    short: _Short | None = None
    detail: str | None = None

    def match(
        self, group_index: int, group: Sequence[PreparedStep], end: int
    ) -> tuple[list[int], list[float], bool]:
        """Return the actual steps before `end` that the steps of the group take, and their scores.

        Also return whether the group is fully matched.
        """
        taken, scores, short = [], [], None
        free = list(range(end - 1, -1, -1))
        whole = True
        for step_index, step in enumerate(group):
            index, score = self._best(step, group_index, step_index, free)
            whole = whole and (score == 1 if step.partial else score > 0)
            if score > 0:
                free.remove(index)
                taken.append(index)
                scores.append(score)
                self.matches.append((group_index, step_index, index))
            if score < 1 and short is None:
                short = _Short(step, (group_index, step_index), [index] if score > 0 else free)
        self.short = short or self.short
        return taken, scores, whole

    def _best(
        self, step: PreparedStep, group_index: int, step_index: int, free: Sequence[int]
    ) -> tuple[int, float]:
        """Return the free actual step that a reference step takes, if any, and its score."""
        best, taken = 0.0, -1
        for index in free:
            if self.usable[index] in step.names:
                score = self._score(step, (group_index, step_index, index))
                if score > best:
                    best, taken = score, index
                if best == 1 or (score and not step.partial):
                    break
        if step.partial and 0 < best < 1:
            self._add_diff(step, (group_index, step_index, taken))
        return taken, best

    def _add_diff(self, step: PreparedStep, place: tuple[int, int, int]) -> None:
        try:
            diff = step.diff(self.compared[place[2]])
        except ComparisonBudgetExceeded:
            if self.quick:
                raise
            return
        if diff:
            self.diffs += ((place[0], place[1], diff[:MAX_DIFFERENCES]),)

    def facts(self, groups: Sequence[Sequence[PreparedStep]]) -> Facts:
        """Return why the steps are wrong."""
        reason = self.reason()
        if self.short is not None and reason == "no_steps":
            expected = frozenset().union(*(step.names for group in groups for step in group))
            if any(step.get("name") in expected for step in self.actual_steps):
                return Facts("missing_step", detail=f"no step {self.short.step.step['name']}")
        return Facts(reason, detail=self.detail)

    def reason(self) -> str:
        """Return why the earliest reference step, in the groups seen, that is not fully matched is not."""
        if self.short is None:
            return "no_steps"
        steps, names = self.actual_steps, self.short.step.names
        named = [index for index in self.short.blamable if steps[index].get("name") in names]
        if not named:
            return "no_steps"
        blamed = next((index for index in named if self.usable[index] in names), named[0])
        if blamed in self.invalid:
            return "query_invalid"
        if steps[blamed].get("status") != "success":
            return "step_error"
        actual = self.compared.get(blamed)
        wanted = self.short.step.step
        is_nothing = _is_nothing(steps[blamed].get("output")) or (actual is not None and actual.is_empty())
        if is_nothing and not (_is_nothing(wanted.get("output")) or returned_nothing(wanted)):
            return "empty_result"
        found = "wrong_query_result"
        if actual is not None and (*self.short.place, blamed) not in self.errors:
            try:
                found = self.short.step.explain(actual) or found
                self.detail = other_form(self.short.step.step, actual.step)
            except MalformedStep as error:
                self._note(self.short.step, (*self.short.place, blamed), error)
            except ComparisonBudgetExceeded:
                if self.quick:
                    raise
        return found

    def _score(self, step: PreparedStep, place: tuple[int, int, int]) -> float:
        """Return the score of a pair; -1 if the budget is spent, for this pair and all later ones."""
        index, budget = place[2], self.budget
        budget.free -= 1
        if budget.free < 0 or budget.stopped:
            try:
                budget.spend(STEPS_PER_COMPARISON)
            except ComparisonBudgetExceeded as error:
                if self.quick:
                    raise
                self._note(step, place, error)
                return -1.0
        actual = self.compared.get(index)
        if actual is None:
            actual = self.compared[index] = ActualStep(self.actual_steps[index], budget)
        try:
            return step.score(actual)
        except MalformedStep:
            return 0.0
        except (ComparisonBudgetExceeded, ComparatorError) as error:
            if self.quick and isinstance(error, ComparisonBudgetExceeded):
                raise
            self._note(step, place, error)
            return 0.0

    def _note(self, step: PreparedStep, place: tuple[int, int, int], error: Exception) -> None:
        message = ""
        if len(self.errors) < MAX_ERRORS:
            reference = f"reference_steps[{place[0]}][{place[1]}] ({step.step['name']})"
            message = f"{reference} against actual_steps[{place[2]}]: {in_utf8(str(error)[:MAX_MESSAGE])}"
        self.errors[place] = message


def _is_nothing(output: Any) -> bool:
    """Whether an output is blank, null or empty: more than `is_empty`, which is counted for all steps."""
    if isinstance(output, str) and _is_nothing_text(output.strip()):
        return True
    return output is None or output == {} or is_empty(output)
