"""Matches reference steps with actual steps, and scores the result."""

from __future__ import annotations

import re
from math import fsum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from graphrag_eval_async.catalogue.metrics import VALUES
from graphrag_eval_async.errors import ComparatorError, ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.records.evaluation import MAX_ERRORS
from graphrag_eval_async.records.outputs import is_empty, returned_nothing
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.arguments import WRONG_ARGS, in_words
from graphrag_eval_async.steps.budget import STEPS_PER_COMPARISON, Budget
from graphrag_eval_async.steps.differences import Agreement
from graphrag_eval_async.steps.failure import Facts, step_error
from graphrag_eval_async.steps.iri_forms import describe_other_form
from graphrag_eval_async.steps.tables.rows import assign
from graphrag_eval_async.unicode import in_utf8

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from graphrag_eval_async.steps.comparators import PreparedStep
    from graphrag_eval_async.steps.differences import Difference, PairedColumns

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

    paired_columns: tuple[tuple[int, int, PairedColumns], ...] = ()
    """Columns that are paired although their names differ, after the indices of the group and the
    step.
    """


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

    The steps of a group take their turn in order. Each takes the latest actual step that is not
    taken yet, was successful, has an accepted name and scores above 0. There are these exceptions:

    - A step with partial credit takes the actual step that scores most, the latest among equals. It
      is fully matched only by a score of 1.
    - The steps of a strict group take actual steps in their own order, for the greatest sum of
      scores.
    - If the arguments of any step of a group are compared, the steps take actual steps in any
      order, for the greatest sum of scores.

    Args:
        groups: the reference steps.
        actual_steps: the steps of the response.
        budget: what all comparisons may spend. Comparisons beyond it score 0, and `errors` says so.
        mode: ``"last"`` looks at the last group only. Its score is the sum of its steps' scores,
            divided by the number of its steps. ``"all"`` looks at the last group, then at the one
            before it, and so on. A fully matched group leaves the actual steps before its earliest
            match to the group before it. After any other group, the rest scores 0. The score is the
            mean over all groups. Without groups, the score is 1.
        usable: the `usable_names` of the actual steps, if they are known.
        invalid: the indices of actual steps whose queries do not parse.

    Raises:
        ComparisonBudgetExceeded: a quick budget was exceeded.
    """
    if usable is None:
        usable = usable_names(actual_steps)
    matcher = _Matcher(actual_steps, usable, budget or Budget())

    # The last group comes first, since it leaves only earlier actual steps to the others.
    group_scores = []
    end = len(actual_steps)
    for index in reversed(range(len(groups))):
        group = groups[index]
        group_match = matcher.match_group(index, group, end)
        # A group without steps scores 0, and must not be divided by 0.
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
        # This may add to the errors and differences of the matcher, which are read below.
        facts = matcher.explain_failure(groups, invalid)
    return StepsScore(
        score=score,
        matches=tuple(sorted(matcher.matches)),
        errors=tuple(matcher.errors),
        facts=facts,
        diffs=tuple(matcher.diffs),
        shares=tuple(matcher.shares),
        paired_columns=tuple(matcher.paired_columns),
    )


def mean_values(
    groups: Sequence[Sequence[PreparedStep]],
    shares: Sequence[Sequence[float]] | None,
    *,
    mode: Literal["last", "all"],
) -> dict[str, float | None]:
    """Return the mean precision, recall and F1 of reference steps compared as sets of values.

    Args:
        groups: the reference steps.
        shares: precision, recall and F1 of each of these steps that is matched. Steps that are not
            matched count 0. None if nothing was compared; then all means are None.
        mode: whether the last group or all groups are scored.

    Returns:
        the means by the names in `VALUES`; empty if no scored step is compared as a set of values.
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
    """Return the name of each step; None for a step that failed or returned nothing."""
    names: list[str | None] = []
    for step in actual_steps:
        if step.get("status") == "success" and step.get("output") is not None:
            names.append(step.get("name"))
        else:
            names.append(None)
    return names


def _sum(scores: Sequence[float]) -> float:
    """Return the sum of scores, which is rounded only once, at the end."""
    if len(scores) == 1:
        # This is the usual case, and takes a tenth of the time.
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


class _Assigned(NamedTuple):
    """Actual steps that are chosen for some steps of a group."""

    total: float
    """The sum of their scores."""

    actual_by_step: Mapping[int, int]
    """The index of the actual step by the index of the group's step."""

    def with_pair(self, step_index: int, actual_index: int, score: float) -> _Assigned:
        """Return the same choice with one more pair of steps, which has this score."""
        return _Assigned(self.total + score, {**self.actual_by_step, step_index: actual_index})


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
        paired_columns: columns whose names differ, as in `StepsScore`.
    """

    def __init__(
        self,
        actual_steps: Sequence[Mapping[str, Any]],
        usable: Sequence[str | None],
        budget: Budget,
    ) -> None:
        """Prepare to match the steps of one response.

        Args:
            actual_steps: the steps of the response.
            usable: the name of each step; None if it failed or returned nothing.
            budget: what all comparisons may spend.
        """
        self.matches: list[tuple[int, int, int]] = []
        self.errors: list[str] = []
        self.diffs: list[tuple[int, int, list[Difference]]] = []
        self.shares: list[tuple[float, ...]] = []
        self.paired_columns: list[tuple[int, int, PairedColumns]] = []
        self._actual_steps = actual_steps
        self._usable = usable
        self._budget = budget
        self._wrapped: dict[int, ActualStep] = {}
        # What each comparison returned or, as a text, why an output could not be read.
        self._outcomes: dict[_Pair, Agreement | str] = {}
        # Why the budget did not suffice for a comparison.
        self._undecided: dict[_Pair, str] = {}
        # The first unmatched step of the earliest group that has any.
        self._unmatched: _Unmatched | None = None

    def match_group(self, group_index: int, group: Sequence[PreparedStep], end: int) -> _GroupMatch:
        """Match each step of a group with at most one actual step before the index `end`.

        Add to `matches`, `errors`, `diffs`, `shares` and `paired_columns`.

        Args:
            group_index: the index of the group.
            group: its steps.
            end: the index of the first actual step that cannot be taken any more.
        """
        scores: list[float] = []
        earliest = end
        is_whole = True
        unmatched: _Unmatched | None = None
        # The indices of the actual steps that are not taken yet.
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
            # With partial credit, a step may be matched in part.
            is_fully_matched = actual_index is not None
            if step.partial:
                is_fully_matched = score == 1
            is_whole = is_whole and is_fully_matched
            if actual_index is not None:
                latest_first.remove(actual_index)
                earliest = min(earliest, actual_index)
                scores.append(score)
                self.matches.append((group_index, step_index, actual_index))
            if score < 1 and unmatched is None:
                # The actual step that was taken is to blame or, if none was, any free one.
                blamed = latest_first if actual_index is None else [actual_index]
                unmatched = _Unmatched(step, place, blamed)
        # The groups are matched from the last to the first, so this is of the earliest group.
        if unmatched is not None:
            self._unmatched = unmatched
        return _GroupMatch(scores, earliest, is_whole)

    def _find_best(
        self, step: PreparedStep, place: _Place, candidates: Sequence[int]
    ) -> tuple[int | None, Agreement]:
        """Return the index of the actual step that a reference step takes, and how far they agree.

        The index is None if no candidate scores above 0. Add to `errors`, `diffs`, `shares` and
        `paired_columns`.

        Args:
            step: the reference step.
            place: where it is.
            candidates: the indices of actual steps that it may take; the first is preferred.
        """
        best = _NO_AGREEMENT
        best_index = None
        preferred: Agreement | None = None
        actual_names = self._comparable_names(step)
        for index in candidates:
            if actual_names[index] not in step.names:
                continue
            agreement = self._compare(step, _Pair(place, index))
            if preferred is None:
                preferred = agreement
            if agreement.score > best.score:
                best = agreement
                best_index = index
            # Only with partial credit may a later candidate be better.
            is_enough = best.score > 0 and not step.partial
            if best.score == 1 or is_enough:
                break
        if best.differences:
            self.diffs.append((*place, list(best.differences)))
        if best.paired_columns is not None:
            self.paired_columns.append((*place, best.paired_columns))
        # Without a match, the shares are those of the preferred candidate.
        shares = best.shares
        if not shares and preferred is not None:
            shares = preferred.shares
        if shares:
            self.shares.append(shares)
        return best_index, best

    def _assign_steps(
        self, group_index: int, group: Sequence[PreparedStep], latest_first: Sequence[int]
    ) -> dict[int, list[int]] | None:
        """Choose the actual steps of all steps of a group together, if that is necessary.

        It is necessary in a strict group, and in a group whose arguments are compared: the sum of
        the scores is to be the greatest.

        Args:
            group_index: the index of the group.
            group: its steps.
            latest_first: the indices of the actual steps that may be taken.

        Returns:
            a list with the index of the assigned actual step, by the index of the group's step.
            None if this is not necessary or costs too much: then the steps of the group take actual
            steps one after the other.
        """
        if group and group[0].is_strict:
            return self._assign_in_order(group_index, group, latest_first[::-1])
        if not any(step.has_args for step in group):
            return None
        candidates, scores = self._score_pairs(group_index, group, latest_first)
        if not candidates:
            # No actual step has a name that the group accepts, so none is assigned.
            return {}
        try:
            pairs = assign(scores, self._budget)
        except ComparisonBudgetExceeded:
            if self._budget.quick:
                # The response is compared again in a thread, with a larger budget.
                raise
            # Match the steps one by one, which costs less.
            return None
        return {step_index: [candidates[column]] for step_index, column in pairs}

    def _assign_in_order(
        self, group_index: int, group: Sequence[PreparedStep], earliest_first: Sequence[int]
    ) -> dict[int, list[int]]:
        """Choose the actual steps of a strict group, in the order of the group's steps.

        The sum of the scores is the greatest that is possible in this order. The method is dynamic
        programming.

        Args:
            group_index: the index of the group.
            group: its steps.
            earliest_first: the indices of the actual steps that may be taken.

        Returns:
            a list with the index of the assigned actual step, by the index of the group's step.
        """
        candidates, scores = self._score_pairs(group_index, group, earliest_first)
        # best_by_length[n] is the best choice for the steps so far from the first n candidates.
        nothing = _Assigned(total=0.0, actual_by_step={})
        best_by_length = [nothing] * (len(candidates) + 1)
        for step_index, scores_of_step in enumerate(scores):
            best_with_step = [nothing]
            for column, score in enumerate(scores_of_step):
                choices = []
                if score > 0:
                    # This step takes this candidate, and the steps before it earlier ones.
                    choices.append(
                        best_by_length[column].with_pair(step_index, candidates[column], score)
                    )
                without_this_step = best_by_length[column + 1]
                without_this_candidate = best_with_step[column]
                choices += [without_this_step, without_this_candidate]
                # Of equal sums, the first is taken.
                best_with_step.append(max(choices, key=attrgetter("total")))
            best_by_length = best_with_step
        best = best_by_length[-1]
        return {step_index: [actual] for step_index, actual in best.actual_by_step.items()}

    def _score_pairs(
        self, group_index: int, group: Sequence[PreparedStep], free: Sequence[int]
    ) -> tuple[list[int], list[list[float]]]:
        """Return the actual steps that a group may take, and their scores with each of its steps.

        Args:
            group_index: the index of the group.
            group: its steps.
            free: the indices of the actual steps that are not taken yet.

        Returns:
            the indices of those free steps whose names the group accepts; and, for each step of the
            group, a list of its scores with these free steps.
        """
        names_of_group = frozenset().union(*(step.names for step in group))
        candidates = [
            index for index in free if self._actual_steps[index].get("name") in names_of_group
        ]
        scores = []
        for step_index, step in enumerate(group):
            place = _Place(group_index, step_index)
            actual_names = self._comparable_names(step)
            scores_of_step = []
            for index in candidates:
                # Another step of the group may accept the name of this candidate.
                score = 0.0
                if actual_names[index] in step.names:
                    score = self._compare(step, _Pair(place, index)).score
                scores_of_step.append(score)
            scores.append(scores_of_step)
        return candidates, scores

    def _comparable_names(self, step: PreparedStep) -> Sequence[str | None]:
        """Return the name of each actual step; None for a step that cannot match a reference step.

        A step cannot match if it failed or returned nothing. If the reference step has arguments
        only, a step that returned nothing can match, too.
        """
        if not step.args_only:
            return self._usable
        return [
            None if actual_step.get("status") == "error" else actual_step.get("name")
            for actual_step in self._actual_steps
        ]

    def _compare(self, step: PreparedStep, pair: _Pair) -> Agreement:
        """Return how far a reference step and an actual step agree.

        The outcome is kept in `_outcomes`. If they cannot be compared, keep the reason, and return
        a score of 0.

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
        """Return an actual step as comparators take it, always the same object for an index.

        So its output is read only once.
        """
        actual = self._wrapped.get(index)
        if actual is None:
            actual = ActualStep(self._actual_steps[index], self._budget)
            self._wrapped[index] = actual
        return actual

    def explain_failure(
        self, groups: Sequence[Sequence[PreparedStep]], invalid: Container[int]
    ) -> Facts:
        """Return why the steps of the response are wrong.

        Add the differences of wrong arguments to `diffs`.

        Args:
            groups: the reference steps.
            invalid: the indices of actual steps whose queries do not parse.
        """
        if self._unmatched is None:
            # This happens only if a group has no steps.
            return Facts("no_steps")
        step, place, candidates = self._unmatched
        same_name = [
            index for index in candidates if self._actual_steps[index].get("name") in step.names
        ]
        if not same_name:
            return self._explain_missing(step, groups)

        # A step that agrees may be left over, because it is out of order in a strict group.
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
        """Choose the actual step that is to blame, and return why it does not match.

        A step that returned something comes before others, and among these a step with the right
        arguments. Of equals, the first candidate is blamed. Add the differences of its arguments to
        `diffs`.

        Args:
            step: the reference step.
            place: where the reference step is.
            candidates: the indices of actual steps of its name.
            agreements: how far each candidate agrees, by index, if it could be compared.
            invalid: the indices of actual steps whose queries do not parse.
        """
        actual_names = self._comparable_names(step)
        wrong_args = {
            index: agreement.differences
            for index, agreement in agreements.items()
            if agreement.reason == WRONG_ARGS
        }
        blamed = min(
            candidates, key=lambda index: (actual_names[index] is None, index in wrong_args)
        )
        if blamed in invalid:
            return Facts("query_invalid")
        has_succeeded = self._actual_steps[blamed].get("status") == "success"
        if actual_names[blamed] is None and not has_succeeded:
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

        Either this step alone is missing, or no actual step has the name of any reference step.
        """
        expected_names = frozenset().union(*(step.names for group in groups for step in group))
        for actual_step in self._actual_steps:
            if actual_step.get("name") in expected_names:
                return Facts("missing_step", detail=f"no step {step.step['name']}")
        return Facts("no_steps")

    def _first_out_of_order(self, agreements: Mapping[int, Agreement]) -> int | None:
        """Return the index of the first actual step that scores above 0 but was not taken.

        None if there is no such step. Only the order of a strict group can be the reason that no
        reference step took it.

        Args:
            agreements: how far actual steps, by index, agree with an unmatched reference step.
        """
        taken = {actual_index for _, _, actual_index in self.matches}
        for index, agreement in agreements.items():
            if agreement.score > 0 and index not in taken:
                return index
        return None

    def _explain_output(self, step: PreparedStep, pair: _Pair) -> Facts:
        """Return why the output of an actual step does not agree with the reference output."""
        # An empty output is a reason of its own, unless the expected output is empty, too.
        actual_output = self._actual_steps[pair.actual].get("output")
        actual = self._wrapped.get(pair.actual)
        is_read_as_empty = actual is not None and actual.is_empty()
        if is_read_as_empty or _is_nothing(actual_output):
            expects_nothing = _is_nothing(step.step.get("output")) or returned_nothing(step.step)
            if not expects_nothing:
                return Facts("empty_result")

        outcome = self._outcomes.get(pair)
        if outcome is None or actual is None:
            # The comparator failed, or the budget did not suffice for the comparison.
            return Facts("wrong_query_result", detail=self._undecided.get(pair))

        # Otherwise, the comparison says why, or why the output could not be read.
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
        """Add an error if an output could not be read, or is of another kind than expected.

        This concerns only references that are tables or graphs: the comparators of other steps
        accept all outputs.

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
        """Add to `errors` why two steps were not compared, unless `errors` is full."""
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
    """Return a remark on an output that does not agree; None if there is nothing to remark.

    The remark says why the output may seem right or, if it does not, that text around its table was
    not read.
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
    """Return whether an output is null, empty, or a text that is blank, "null" or "{}".

    `is_empty`, by which the outputs of all steps are counted, does not accept such texts.
    """
    if isinstance(output, str) and _is_nothing_text(output.strip()):
        return True
    if isinstance(output, dict) and output.get("content") == []:
        return True  # MCP has no content if a tool returned nothing.
    return output is None or output == {} or is_empty(output)
