"""Matches reference steps with actual steps, and scores the result."""

from __future__ import annotations

import re
from math import fsum
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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

MAX_ARGS_IN_DETAIL = 3
"""Maximum number of wrong arguments that the detail of a failure names."""

_NO_AGREEMENT = Agreement(0.0)

_is_nothing_text = re.compile(r"(null|\{\s*\})?").fullmatch


class StepsScore(msgspec.Struct, frozen=True):
    """How well an agent's steps match the reference steps."""

    score: float
    """From 0 to 1."""

    matches: tuple[tuple[int, int, int], ...] = ()
    """Indices of matched steps: of the group, of the reference step in it, and of the actual step
    it took.
    """

    errors: tuple[str, ...] = ()
    """Which comparisons failed, and why; the first `MAX_ERRORS` of them."""

    facts: Facts = Facts()
    """Why the steps are wrong."""

    diffs: tuple[tuple[int, int, list[Difference]], ...] = ()
    """Differences of steps matched in part, after the indices of the group and the step."""

    shares: tuple[tuple[float, ...], ...] = ()
    """`VALUES` of each matched step that asks for them."""


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
    the sum of scores is the greatest.

    Args:
        groups: the reference steps.
        actual_steps: the steps of the response.
        budget: what all comparisons may spend. Comparisons beyond it score 0, and `errors` says so.
        mode: ``"last"`` looks at the last group only: its score is the sum of match scores over its
            number of steps. ``"all"`` walks the groups backwards: one that is fully matched leaves
            the actual steps before its earliest match to the group before it, another ends the
            walk. The score is the mean over all groups, those not reached being 0. Without groups,
            the score is 1.
        usable: the `usable_names` of the actual steps, if they are known.
        invalid: the indices of actual steps whose queries do not parse.

    Raises:
        ComparisonBudgetExceeded: a quick budget was exceeded.
    """
    if usable is None:
        usable = usable_names(actual_steps)
    matcher = _Matcher(actual_steps, usable, budget or Budget())
    group_scores = []
    end = len(actual_steps)
    for index in reversed(range(len(groups))):
        group = groups[index]
        group_match = matcher.match_group(index, group, end)
        group_scores.append(_sum(group_match.scores) / (len(group) or 1))
        end = group_match.earliest
        if mode == "last" or not group_match.is_whole:
            break

    if not groups:
        score = 1.0
    elif mode == "all":
        score = _sum(group_scores) / len(groups)
    else:
        score = _sum(group_scores)
    facts = Facts()
    if score != 1:
        # This may add to the errors and differences.
        facts = matcher.explain_failure(groups, invalid)
    return StepsScore(
        score=score,
        matches=tuple(sorted(matcher.matches)),
        errors=tuple(matcher.errors),
        facts=facts,
        diffs=tuple(matcher.diffs),
        shares=tuple(matcher.shares),
    )


def mean_values(
    groups: Sequence[Sequence[PreparedStep]],
    shares: Sequence[Sequence[float]] | None,
    *,
    mode: Literal["last", "all"],
) -> dict[str, float | None]:
    """Return the means of `VALUES` over the scored reference steps that ask for them.

    Args:
        groups: the reference steps.
        shares: the `VALUES` of each of these steps that is matched; the others count 0. None if
            nothing was compared: then all means are None.
        mode: whether the last group or all of them are scored.

    Returns:
        the means by name; empty if no step asks for them.
    """
    scored_groups = groups
    if mode == "last":
        scored_groups = groups[-1:]
    number_of_steps = sum(step.as_values for group in scored_groups for step in group)
    if number_of_steps == 0:
        return {}
    if shares is None:
        return dict.fromkeys(VALUES)
    return {
        name: fsum(shares_of_step[position] for shares_of_step in shares) / number_of_steps
        for position, name in enumerate(VALUES)
    }


def usable_names(actual_steps: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """Return the names of steps, with None in place of those that failed or returned nothing."""
    names: list[str | None] = []
    for step in actual_steps:
        if step.get("status") == "success" and step.get("output") is not None:
            names.append(step.get("name"))
        else:
            names.append(None)
    return names


def _sum(scores: Sequence[float]) -> float:
    """Return the exact sum of scores, rounded once."""
    if len(scores) == 1:
        # The usual case, at a tenth of the cost.
        return scores[0]
    return fsum(scores)


class _Place(NamedTuple):
    """Where a reference step is: the index of its group, and its own index in the group."""

    group: int
    step: int


class _Pair(NamedTuple):
    """A reference step that is compared with an actual step."""

    place: _Place
    actual: int
    """Index of the actual step."""


class _GroupMatch(NamedTuple):
    """How the steps of a group are matched."""

    scores: list[float]
    """Scores of those reference steps that are matched."""

    earliest: int
    """Index of the earliest actual step that is taken; if none is, of the first one too late."""

    is_whole: bool
    """Whether all reference steps are fully matched."""


class _Unmatched(NamedTuple):
    """A reference step that is not fully matched."""

    step: PreparedStep
    place: _Place
    candidates: Sequence[int]
    """Indices of the actual steps that may be to blame."""


class _Matcher:
    """The actual steps of one response, each wrapped once, and the outcomes of comparisons.

    Attributes:
        matches: indices of matched steps, as in `StepsScore`.
        errors: which comparisons failed, and why.
        diffs: differences of steps, as in `StepsScore`.
        shares: `VALUES` of each matched step that asks for them.
    """

    def __init__(
        self,
        actual_steps: Sequence[Mapping[str, Any]],
        usable: Sequence[str | None],
        budget: Budget,
    ) -> None:
        """Take the steps of a response, their `usable_names`, and what comparisons may spend."""
        self.matches: list[tuple[int, int, int]] = []
        self.errors: list[str] = []
        self.diffs: list[tuple[int, int, list[Difference]]] = []
        self.shares: list[tuple[float, ...]] = []
        self._actual_steps = actual_steps
        self._usable = usable
        self._budget = budget
        self._wrapped: dict[int, ActualStep] = {}
        # What comparisons returned, or why an output could not be read.
        self._outcomes: dict[_Pair, Agreement | str] = {}
        # Why comparisons are undecided: the budget did not suffice.
        self._undecided: dict[_Pair, str] = {}
        # Of the earliest group that was looked at.
        self._unmatched: _Unmatched | None = None

    def match_group(self, group_index: int, group: Sequence[PreparedStep], end: int) -> _GroupMatch:
        """Match the steps of a group with actual steps before the index `end`.

        Add to `matches`, `errors`, `diffs` and `shares`.
        """
        scores: list[float] = []
        earliest = end
        is_whole = True
        unmatched: _Unmatched | None = None
        latest_first = list(range(end - 1, -1, -1))
        assigned = self._assign_steps(group_index, group, latest_first)
        for step_index, step in enumerate(group):
            place = _Place(group_index, step_index)
            if assigned is None:
                candidates: Sequence[int] = latest_first
            else:
                candidates = assigned.get(step_index, ())
            actual_index, agreement = self._find_best(step, place, candidates)
            score = agreement.score
            is_matched = actual_index is not None
            is_whole = is_whole and (score == 1 if step.partial else is_matched)
            if actual_index is not None:
                latest_first.remove(actual_index)
                earliest = min(earliest, actual_index)
                scores.append(score)
                self.matches.append((group_index, step_index, actual_index))
            if score < 1 and unmatched is None:
                blamed = latest_first if actual_index is None else [actual_index]
                unmatched = _Unmatched(step, place, blamed)
        self._unmatched = unmatched or self._unmatched
        return _GroupMatch(scores, earliest, is_whole)

    def _find_best(
        self, step: PreparedStep, place: _Place, candidates: Sequence[int]
    ) -> tuple[int | None, Agreement]:
        """Return the actual step that a reference step takes, and how far they agree.

        None if no candidate scores above 0. Add to `errors`, `diffs` and `shares`.

        Args:
            step: the reference step.
            place: where it is.
            candidates: the indices of actual steps that it may take; the first is preferred.
        """
        best = _NO_AGREEMENT
        best_index = None
        preferred: Agreement | None = None
        names = self._comparable_names(step)
        for index in candidates:
            if names[index] not in step.names:
                continue
            agreement = self._compare(step, _Pair(place, index))
            if preferred is None:
                preferred = agreement
            if agreement.score > best.score:
                best = agreement
                best_index = index
            if best.score == 1 or (agreement.score > 0 and not step.partial):
                break
        if best.differences:
            self.diffs.append((*place, list(best.differences)))
        # Without a match, the preferred candidate says how many of its values are wrong.
        shares = best.shares or (preferred and preferred.shares)
        if shares:
            self.shares.append(shares)
        return best_index, best

    def _assign_steps(
        self, group_index: int, group: Sequence[PreparedStep], latest_first: Sequence[int]
    ) -> dict[int, list[int]] | None:
        """Return the actual step for each step of a group, if they must be chosen together.

        They must be in a strict group, and where arguments are compared.

        Args:
            group_index: the index of the group.
            group: its steps.
            latest_first: the indices of the actual steps that may be taken.

        Returns:
            for each step of the group, by index, a list with the actual step that it may take.
            None if each step may take any.
        """
        if group and group[0].is_strict:
            return self._assign_in_order(group_index, group, latest_first[::-1])
        if not any(step.has_args for step in group):
            return None
        candidates, scores = self._score_pairs(group_index, group, latest_first)
        if not candidates:
            return {}
        try:
            pairs = assign(scores, self._budget)
        except ComparisonBudgetExceeded:
            if self._budget.quick:
                # The response is compared again in a thread, with a larger budget.
                raise
            return None
        return {step_index: [candidates[column]] for step_index, column in pairs}

    def _assign_in_order(
        self, group_index: int, group: Sequence[PreparedStep], earliest_first: Sequence[int]
    ) -> dict[int, list[int]]:
        """Return the actual step for each step of a strict group, for the greatest sum of scores.

        The actual steps are in the order of the group's steps. The method is dynamic programming.
        The arguments and the result are those of `_assign_steps`.
        """
        candidates, scores = self._score_pairs(group_index, group, earliest_first)
        # best[n]: the best sum of the group's steps so far with the first n candidates, and the
        # pairs of steps that make it.
        nothing: tuple[float, tuple[tuple[int, int], ...]] = (0.0, ())
        best = [nothing] * (len(candidates) + 1)
        for step_index, scores_of_step in enumerate(scores):
            longer = [nothing]
            for column, score in enumerate(scores_of_step):
                choices = []
                if score > 0:
                    sum_before, pairs_before = best[column]
                    pair = (step_index, candidates[column])
                    choices.append((sum_before + score, (*pairs_before, pair)))
                without_this_step = best[column + 1]
                without_this_candidate = longer[column]
                choices += [without_this_step, without_this_candidate]
                longer.append(max(choices, key=itemgetter(0)))
            best = longer
        _, pairs = best[-1]
        return {step_index: [actual_index] for step_index, actual_index in pairs}

    def _score_pairs(
        self, group_index: int, group: Sequence[PreparedStep], free: Sequence[int]
    ) -> tuple[list[int], list[list[float]]]:
        """Return the actual steps that a group may take, and the score of each with each step.

        Args:
            group_index: the index of the group.
            group: its steps.
            free: the indices of the actual steps that are not taken yet.

        Returns:
            the indices of those free steps whose names the group accepts; and, for each step of the
            group, its scores with them.
        """
        names_of_group = frozenset().union(*(step.names for step in group))
        candidates = [
            index for index in free if self._actual_steps[index].get("name") in names_of_group
        ]
        scores = []
        for step_index, step in enumerate(group):
            place = _Place(group_index, step_index)
            names = self._comparable_names(step)
            scores_of_step = []
            for index in candidates:
                score = 0.0
                if names[index] in step.names:
                    score = self._compare(step, _Pair(place, index)).score
                scores_of_step.append(score)
            scores.append(scores_of_step)
        return candidates, scores

    def _comparable_names(self, step: PreparedStep) -> Sequence[str | None]:
        """Return the names of all actual steps, with None for those that cannot match a reference
        step because they failed or returned nothing.

        If only arguments are compared, a step may return nothing.
        """
        if not step.args_only:
            return self._usable
        return [
            None if actual_step.get("status") == "error" else actual_step.get("name")
            for actual_step in self._actual_steps
        ]

    def _compare(self, step: PreparedStep, pair: _Pair) -> Agreement:
        """Return how far a reference step and an actual step agree; cached.

        If they cannot be compared, keep why, and return a score of 0.

        Raises:
            ComparisonBudgetExceeded: a quick budget was exceeded.
        """
        outcome = self._outcomes.get(pair)
        if isinstance(outcome, Agreement):
            return outcome
        try:
            self._budget.spend(STEPS_PER_COMPARISON)
            agreement = step.compare(self._wrap(pair.actual))
        except MalformedStep as error:
            self._outcomes[pair] = str(error)
            return _NO_AGREEMENT
        except ComparisonBudgetExceeded as error:
            if self._budget.quick:
                # The response is compared again in a thread, with a larger budget.
                raise
            self._undecided[pair] = str(error)
            self._add_error(step, pair, error)
            return _NO_AGREEMENT
        except ComparatorError as error:
            self._add_error(step, pair, error)
            return _NO_AGREEMENT
        self._outcomes[pair] = agreement
        return agreement

    def _wrap(self, index: int) -> ActualStep:
        """Return an actual step as input to comparators; cached, so that it is read once."""
        actual = self._wrapped.get(index)
        if actual is None:
            actual = ActualStep(self._actual_steps[index], self._budget)
            self._wrapped[index] = actual
        return actual

    def explain_failure(
        self, groups: Sequence[Sequence[PreparedStep]], invalid: Container[int]
    ) -> Facts:
        """Return why the steps are wrong. Add the differences of arguments to `diffs`.

        Args:
            groups: the reference steps.
            invalid: the indices of actual steps whose queries do not parse.
        """
        if self._unmatched is None:
            # The last group has no steps.
            return Facts("no_steps")
        step, place, candidates = self._unmatched
        same_name = [
            index for index in candidates if self._actual_steps[index].get("name") in step.names
        ]
        if not same_name:
            return self._explain_missing(step, groups)

        agreements: dict[int, Agreement] = {}
        for index in same_name:
            outcome = self._outcomes.get(_Pair(place, index))
            if isinstance(outcome, Agreement):
                agreements[index] = outcome
        out_of_order = self._first_out_of_order(agreements)
        if out_of_order is not None:
            name = self._actual_steps[out_of_order]["name"]
            detail = f"actual_steps[{out_of_order}] ({name}) is out of order"
            return Facts("wrong_step_order", detail=detail)

        return self._explain_blamed(
            step=step,
            place=place,
            candidates=same_name,
            agreements=agreements,
            invalid=invalid,
        )

    def _explain_blamed(
        self,
        step: PreparedStep,
        place: _Place,
        candidates: Sequence[int],
        agreements: Mapping[int, Agreement],
        invalid: Container[int],
    ) -> Facts:
        """Return why the actual step that is to blame does not match a reference step.

        The first candidate is blamed, unless another one did not fail, or has the right arguments.
        Add the differences of its arguments to `diffs`.

        Args:
            step: the reference step.
            place: where it is.
            candidates: the indices of actual steps of its name.
            agreements: how far they agree, by index, if they could be compared.
            invalid: the indices of actual steps whose queries do not parse.
        """
        names = self._comparable_names(step)
        wrong_args = {
            index: agreement.differences
            for index, agreement in agreements.items()
            if agreement.reason == WRONG_ARGS
        }
        blamed = min(candidates, key=lambda index: (names[index] is None, index in wrong_args))
        if blamed in invalid:
            return Facts("query_invalid")
        if names[blamed] is None and self._actual_steps[blamed].get("status") != "success":
            return step_error(self._actual_steps, blamed)
        if blamed in wrong_args:
            differences = wrong_args[blamed]
            self.diffs.append((*place, list(differences)))
            detail = "; ".join(map(in_words, differences[:MAX_ARGS_IN_DETAIL]))
            return Facts(WRONG_ARGS, detail=detail)
        return self._explain_output(step, _Pair(place, blamed))

    def _explain_missing(
        self, step: PreparedStep, groups: Sequence[Sequence[PreparedStep]]
    ) -> Facts:
        """Return why no actual step has the name of a reference step.

        Either this step is missing, or there are no steps of any expected name.
        """
        expected_names = frozenset().union(*(step.names for group in groups for step in group))
        for actual_step in self._actual_steps:
            if actual_step.get("name") in expected_names:
                return Facts("missing_step", detail=f"no step {step.step['name']}")
        return Facts("no_steps")

    def _first_out_of_order(self, agreements: Mapping[int, Agreement]) -> int | None:
        """Return the first actual step that no reference step took, though it scores above 0.

        Only the order of steps in a strict group forbids that it is taken. None if there is none.

        Args:
            agreements: how far an unmatched reference step and actual steps agree, by index.
        """
        taken = {actual_index for _, _, actual_index in self.matches}
        for index, agreement in agreements.items():
            if agreement.score > 0 and index not in taken:
                return index
        return None

    def _explain_output(self, step: PreparedStep, pair: _Pair) -> Facts:
        """Return why the output of an actual step does not agree with that of a reference step."""
        actual_output = self._actual_steps[pair.actual].get("output")
        actual = self._wrapped.get(pair.actual)
        is_read_as_empty = actual is not None and actual.is_empty()
        if is_read_as_empty or _is_nothing(actual_output):
            expects_nothing = _is_nothing(step.step.get("output")) or returned_nothing(step.step)
            if not expects_nothing:
                return Facts("empty_result")

        outcome = self._outcomes.get(pair)
        if outcome is None or actual is None:
            return Facts("wrong_query_result", detail=self._undecided.get(pair))
        reason = None
        detail = None
        if isinstance(outcome, Agreement):
            reason = outcome.reason
            detail = outcome.detail
        elif step.quotes_unreadable:
            detail = outcome
        if reason is None:
            self._add_error_of_kind(step, pair, outcome)
        if detail is None:
            detail = _describe_output(step, actual)
        return Facts(reason or "wrong_query_result", detail=detail)

    def _add_error_of_kind(self, step: PreparedStep, pair: _Pair, outcome: Agreement | str) -> None:
        """Add to `errors` that an output could not be read, or is of another kind than expected.

        Only if the reference step is a table or a graph: other comparators read all outputs.

        Args:
            step: the reference step.
            pair: where both steps are.
            outcome: how far they agree, or why the output could not be read.
        """
        if step.kind is None:
            return
        expected_kind = step.kind()
        actual_kinds = self._wrapped[pair.actual].kinds()
        if actual_kinds and expected_kind not in actual_kinds:
            self._add_error(step, pair, f"output: expected {expected_kind}, got {actual_kinds[0]}")
        elif isinstance(outcome, str):
            self._add_error(step, pair, outcome)

    def _add_error(self, step: PreparedStep, pair: _Pair, error: object) -> None:
        """Add to `errors` why two steps were not compared, unless there are enough errors."""
        if len(self.errors) == MAX_ERRORS:
            return
        (group, index), actual = pair
        places = (
            f"reference_steps[{group}][{index}] ({step.step['name']}) against "
            f"actual_steps[{actual}]"
        )
        message = in_utf8(str(error)[:MAX_MESSAGE])
        self.errors.append(f"{places}: {message}")


def _describe_output(step: PreparedStep, actual: ActualStep) -> str | None:
    """Return what is unusual in the output of an actual step that is wrong; None if nothing is.

    It has an IRI in another form than the reference step, or text around its table.
    """
    other_form = describe_other_form(step.step, actual.step)
    unread = actual.unread()
    if other_form is not None:
        return other_form
    if not unread:
        return actual.doubt() or None
    quoted = " ".join(unread[:MAX_UNREAD].split())
    return f"not read, since it stands outside the table: {quoted}"


def _is_nothing(output: Any) -> bool:
    """Return whether an output is blank, null or empty.

    It is more than `is_empty`, which is counted for all steps.
    """
    if isinstance(output, str) and _is_nothing_text(output.strip()):
        return True
    if isinstance(output, dict) and output.get("content") == []:
        return True  # MCP has no content if a tool returned nothing.
    return output is None or output == {} or is_empty(output)
