"""Matches reference steps with actual steps, and scores the result."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import fsum
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from graphrag_eval_async.catalogue.metrics import VALUES
from graphrag_eval_async.errors import (
    ComparatorError,
    ComparisonBudgetExceeded,
    MalformedStep,
    in_utf8,
)
from graphrag_eval_async.records.evaluation import MAX_ERRORS
from graphrag_eval_async.records.outputs import is_empty, returned_nothing
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.arguments import WRONG_ARGS, in_words
from graphrag_eval_async.steps.budget import STEPS_PER_COMPARISON, Budget
from graphrag_eval_async.steps.differences import Agreement
from graphrag_eval_async.steps.failure import Facts, step_error
from graphrag_eval_async.steps.iri_forms import describe_other_form
from graphrag_eval_async.steps.tables.rows import assign

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from graphrag_eval_async.steps.comparators import PreparedStep
    from graphrag_eval_async.steps.differences import Difference

MAX_MESSAGE = 500
"""Maximum characters kept of an error's text; a comparator's text may hold everything it
compared.
"""

MAX_UNREAD = 200
"""Maximum characters that are quoted of what stands outside a table."""

_NONE = Agreement(0.0)

_is_nothing_text = re.compile(r"(null|\{\s*\})?").fullmatch


class StepsScore(msgspec.Struct, frozen=True):
    """How well an agent's steps match the reference steps."""

    score: float  # From 0 to 1.
    # Indices: the group, its step, the actual step it took.
    matches: tuple[tuple[int, int, int], ...] = ()
    # Which comparisons failed, and why; the first `MAX_ERRORS` of them.
    errors: tuple[str, ...] = ()
    facts: Facts = Facts()
    diffs: tuple[tuple[int, int, list[Difference]], ...] = ()  # Of steps that are matched in part.
    shares: tuple[tuple[float, ...], ...] = ()  # `VALUES` of each matched step that asks for them.


def score_steps(
    groups: Sequence[Sequence[PreparedStep]],
    actual_steps: Sequence[Mapping[str, Any]],
    budget: Budget | None = None,
    *,
    mode: Literal["last", "all"],
    usable: Sequence[str | None] | None = None,
    invalid: Container[int] = (),
) -> StepsScore:
    """Match the reference's groups of steps with the steps of a response.

    In its group's order, each reference step takes the latest unused successful actual step of a
    name that it accepts that scores above 0. With partial credit, it takes the one that scores
    most, the latest among equals, and is fully matched only by a score of 1. In a strict group,
    steps are taken in the order of the reference steps. There, and where arguments are compared,
    the sum of scores is the greatest. ``"last"``
    looks at the last group only: its score is the sum of match scores over its number of steps.
    ``"all"``
    walks the groups backwards: one fully matched hands the actual steps before its earliest match
    to the group before it, another ends the walk; the score is the mean over all groups, those not
    reached being 0. Without groups, the score is 1.

    Comparisons beyond the `budget` score 0, and `errors` says so; if it is quick, they raise
    `ComparisonBudgetExceeded`. `usable` are the `usable_names`, if known, and `invalid` the indices
    of actual steps whose queries do not parse.
    """
    usable = usable_names(actual_steps) if usable is None else usable
    budget = budget or Budget()
    matcher = _Matcher(actual_steps, usable, budget)
    shares = []
    end = len(actual_steps)
    for index in reversed(range(len(groups))):
        scores, end, is_whole = matcher.match(index, groups[index], end)
        shares.append(_sum(scores) / (len(groups[index]) or 1))
        if mode == "last" or not is_whole:
            break
    score = _sum(shares) / (len(groups) if mode == "all" else 1) if groups else 1.0
    facts = Facts() if score == 1 else matcher.facts(groups, invalid)
    matches, errors = tuple(sorted(matcher.matches)), tuple(matcher.errors)
    return StepsScore(score, matches, errors, facts, tuple(matcher.diffs), tuple(matcher.shares))


def mean_values(
    groups: Sequence[Sequence[PreparedStep]],
    shares: Sequence[Sequence[float]] | None,
    *,
    mode: Literal["last", "all"],
) -> dict[str, float | None]:
    """Return `VALUES`, each the mean over the scored reference steps that ask for them; {} if none
    does.

    `shares` are those of the steps that are matched; others count 0. Without `shares`, all values
    are None.
    """
    scored = groups if mode == "all" else groups[-1:]
    if not (count := sum(step.as_values for group in scored for step in group)):
        return {}
    if shares is None:
        return dict.fromkeys(VALUES)
    return {name: fsum(each[i] for each in shares) / count for i, name in enumerate(VALUES)}


def usable_names(actual_steps: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """Return the names of steps, with None in place of those that failed or returned nothing."""
    return [
        step.get("name")
        if step.get("status") == "success" and step.get("output") is not None
        else None
        for step in actual_steps
    ]


def _sum(scores: Sequence[float]) -> float:
    return scores[0] if len(scores) == 1 else fsum(scores)  # As most often, at a tenth of the cost.


@dataclass(slots=True)
class _Matcher:
    """The actual steps of one response, each wrapped once, and the outcomes of comparisons."""

    actual_steps: Sequence[Mapping[str, Any]]
    usable: Sequence[str | None]
    budget: Budget
    actual: dict[int, ActualStep] = field(default_factory=dict)
    compared: dict[tuple[int, int, int], Agreement | str] = field(default_factory=dict)
    matches: list[tuple[int, int, int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    diffs: list[tuple[int, int, list[Difference]]] = field(default_factory=list)
    shares: list[tuple[float, ...]] = field(default_factory=list)
    # The earliest reference step seen that is not fully matched, its place, and the actual steps to
    # blame.
    unmatched: tuple[PreparedStep, tuple[int, int], list[int]] | None = None

    def match(
        self, group_index: int, group: Sequence[PreparedStep], end: int
    ) -> tuple[list[float], int, bool]:
        """Return a group's scores, the earliest step it takes (`end` if none), whether all are
        matched.
        """
        scores, earliest, unmatched, whole = [], end, None, True
        free = list(range(end - 1, -1, -1))
        taken: dict[int, list[int]] | None = None
        if group and group[0].is_strict:
            taken = self._in_order(group_index, group, free)
        elif any(step.has_args for step in group):
            taken = self._assigned(group_index, group, free)
        for step_index, step in enumerate(group):
            place = group_index, step_index
            index, score = self._best(
                step, place, free if taken is None else taken.get(step_index, ())
            )
            whole = whole and (score == 1 if step.partial else score > 0)
            if score > 0:
                free.remove(index)
                earliest = min(earliest, index)
                scores.append(score)
                self.matches.append((*place, index))
            if score < 1 and unmatched is None:
                unmatched = step, place, [index] if score > 0 else free
        self.unmatched = unmatched or self.unmatched
        return scores, earliest, whole

    def _best(
        self, step: PreparedStep, place: tuple[int, int], free: Sequence[int]
    ) -> tuple[int, float]:
        """Return the free actual step that a reference step takes, if any, and its score."""
        best, taken, usable = _NONE, -1, self._names_for(step)
        for index in free:
            if usable[index] in step.names:
                found = self._compare(step, place, index)
                if found.score > best.score:
                    best, taken = found, index
                if best.score == 1 or (found.score and not step.partial):
                    break
        if best.differences:
            self.diffs.append((*place, [*best.differences]))
        if best.shares:
            self.shares.append(best.shares)
        return taken, best.score

    def _assigned(
        self, group_index: int, group: Sequence[PreparedStep], free: Sequence[int]
    ) -> dict[int, list[int]] | None:
        """Return what the steps of a group take for the greatest sum; None if that is too much
        work.
        """
        columns, scores = self._scores(group_index, group, free)
        try:
            return {at: [columns[i]] for at, i in assign(scores, self.budget)} if columns else {}
        except ComparisonBudgetExceeded:
            if self.budget.quick:
                raise
            return None

    def _in_order(
        self, group_index: int, group: Sequence[PreparedStep], free: Sequence[int]
    ) -> dict[int, list[int]]:
        """Return what the steps of a strict group take, by dynamic programming."""
        columns, scores = self._scores(group_index, group, free[::-1])
        # The best sum of the steps so far with the first columns, and its pairs of steps.
        best: list[tuple[float, tuple[tuple[int, int], ...]]] = [(0.0, ())] * (len(columns) + 1)
        for at, own in enumerate(scores):
            row = best[:1]
            for i, score in enumerate(own):
                choices = [best[i + 1], row[i]]
                if score:
                    choices.insert(0, (best[i][0] + score, (*best[i][1], (at, columns[i]))))
                row.append(max(choices, key=itemgetter(0)))
            best = row
        return {at: [index] for at, index in best[-1][1]}

    def _scores(
        self, group_index: int, group: Sequence[PreparedStep], free: Sequence[int]
    ) -> tuple[list[int], list[list[float]]]:
        """Return the free steps of names that a group accepts, and for each of its steps, their
        scores.
        """
        names = frozenset().union(*(step.names for step in group))
        columns = [index for index in free if self.actual_steps[index].get("name") in names]
        scores = []
        for at, step in enumerate(group):
            usable, place = self._names_for(step), (group_index, at)
            compared = (
                self._compare(step, place, i) if usable[i] in step.names else _NONE for i in columns
            )
            scores.append([each.score for each in compared])
        return columns, scores

    def _names_for(self, step: PreparedStep) -> Sequence[str | None]:
        """The names of the actual steps that can match, None for each of the others."""
        if not step.args_only:
            return self.usable
        return [
            None if each.get("status") == "error" else each.get("name")
            for each in self.actual_steps
        ]

    def _compare(self, step: PreparedStep, place: tuple[int, int], index: int) -> Agreement:
        budget, key = self.budget, (*place, index)
        if isinstance(known := self.compared.get(key), Agreement):
            return known
        try:
            budget.spend(STEPS_PER_COMPARISON)
            actual = self.actual.get(index)
            if actual is None:
                actual = self.actual[index] = ActualStep(self.actual_steps[index], budget)
            found = self.compared[key] = step.compare(actual)
        except MalformedStep as error:
            self.compared[key] = str(error)
            return _NONE
        except (ComparisonBudgetExceeded, ComparatorError) as error:
            if budget.quick and isinstance(error, ComparisonBudgetExceeded):
                raise
            self._note(step, key, error)
            return _NONE
        return found

    def facts(self, groups: Sequence[Sequence[PreparedStep]], invalid: Container[int]) -> Facts:
        """Return why the steps are wrong."""
        if self.unmatched is None:
            return Facts("no_steps")
        step, place, candidates = self.unmatched
        steps, wanted = self.actual_steps, step.step
        named = [index for index in candidates if steps[index].get("name") in step.names]
        if not named:
            expected = frozenset().union(*(step.names for group in groups for step in group))
            if any(step.get("name") in expected for step in steps):
                return Facts("missing_step", detail=f"no step {wanted['name']}")
            return Facts("no_steps")
        usable, compared = (
            self._names_for(step),
            ((i, self.compared.get((*place, i))) for i in named),
        )
        found = {index: each for index, each in compared if isinstance(each, Agreement)}
        taken = {index for *_, index in self.matches}
        if free := [
            index for index, each in found.items() if each.score > 0 and index not in taken
        ]:
            detail = f"actual_steps[{free[0]}] ({steps[free[0]]['name']}) is out of order"
            # Otherwise the step would have taken it.
            return Facts("wrong_step_order", detail=detail)
        differing = {i: each.differences for i, each in found.items() if each.reason == WRONG_ARGS}
        blamed = min(named, key=lambda index: (usable[index] is None, index in differing))
        if blamed in invalid:
            return Facts("query_invalid")
        if usable[blamed] is None and steps[blamed].get("status") != "success":
            return step_error(steps, blamed)
        if blamed in differing:
            self.diffs.append((*place, [*differing[blamed]]))
            return Facts(WRONG_ARGS, detail="; ".join(map(in_words, differing[blamed][:3])))
        actual = self.actual.get(blamed)
        returned = _is_nothing(steps[blamed].get("output")) or (
            actual is not None and actual.is_empty()
        )
        if returned and not (_is_nothing(wanted.get("output")) or returned_nothing(wanted)):
            return Facts("empty_result")
        return self._explain(step, (*place, blamed))

    def _explain(self, step: PreparedStep, key: tuple[int, int, int]) -> Facts:
        """Return why a comparison scored below 1, and note why two outputs cannot be compared."""
        found, actual = self.compared.get(key), self.actual.get(key[2])
        if found is None or actual is None:
            return Facts("wrong_query_result")
        reason = None if isinstance(found, str) else found.reason
        if reason is None and step.kind is not None:
            expected, kind = step.kind(), actual.kind()
            if kind not in (None, expected):
                found = f"output: expected {expected}, got {kind}"
            if isinstance(found, str):
                self._note(step, key, found)
        detail = describe_other_form(step.step, actual.step)
        if detail is None and actual.unread():
            quoted = " ".join(actual.unread()[:MAX_UNREAD].split())
            detail = f"not read, since it stands outside the table: {quoted}"
        return Facts(reason or "wrong_query_result", detail=detail)

    def _note(self, step: PreparedStep, key: tuple[int, int, int], error: object) -> None:
        if len(self.errors) == MAX_ERRORS:
            return
        group, index, actual = key
        places = (
            f"reference_steps[{group}][{index}] ({step.step['name']}) against "
            f"actual_steps[{actual}]"
        )
        self.errors.append(f"{places}: {in_utf8(str(error)[:MAX_MESSAGE])}")


def _is_nothing(output: Any) -> bool:
    """Whether an output is blank, null or empty: more than `is_empty`, which is counted for all
    steps.
    """
    if isinstance(output, str) and _is_nothing_text(output.strip()):
        return True
    return output is None or output == {} or is_empty(output)
