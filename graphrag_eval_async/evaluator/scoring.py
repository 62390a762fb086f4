"""Scores responses without a judge: their steps, and answers that can be matched as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from graphrag_eval_async.catalogue.metrics import ANSWER_MATCH, EXECUTABLE
from graphrag_eval_async.catalogue.outcomes import ANSWERED, answer_state, outcomes_of
from graphrag_eval_async.catalogue.reference_steps import BY_CONTENTS
from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.records.evaluation import Evaluation, step_outcomes
from graphrag_eval_async.steps import (
    QUICK_STEPS,
    STEPS,
    Budget,
    Facts,
    agent_error,
    broken_limit,
    check_step,
    failure_of,
    mean_values,
    prepare_step,
    score_steps,
    tool_calls,
    usable_names,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.execution import Executed
    from graphrag_eval_async.records import Question, Response
    from graphrag_eval_async.records.question import Matching
    from graphrag_eval_async.reference import Prepared, PreparedSteps
    from graphrag_eval_async.steps import Comparator

    Steps = Sequence[Mapping[str, Any]]

StepsGroups = Literal["last", "all"]


class Rules(NamedTuple):
    """The options that say how responses are scored.

    Attributes:
        mode: which groups of reference steps count: the last one, or the mean over all.
        strict_types: whether outputs that differ only in the types of their values are different.
        match_columns: which columns of tables are paired, one of `COLUMN_RULES`, for reference
            steps that do not say so.
        tool_calls: whether to compute the metrics of tool calls.
        match: how to match answers to questions that do not say it themselves; None for not at all.
        tolerance: the tolerance for numbers in answers to questions without their own; None for
            the default.
    """

    mode: StepsGroups = "last"
    strict_types: bool = False
    match_columns: str = BY_CONTENTS
    tool_calls: bool = False
    match: Matching | None = None
    tolerance: float | None = None


class Scoring(NamedTuple):
    """Scores responses to the questions of a reference set.

    Attributes:
        rules: the options.
        comparators: the user's own comparisons of steps, by name of the reference step.
        prepared: the reference steps, ready to be compared.
        names: the names of reference steps by their aliases and other spellings.
    """

    rules: Rules
    comparators: Mapping[str, Comparator]
    prepared: PreparedSteps
    names: Mapping[str, str]

    def budget(self, *, quick: bool = False) -> Budget:
        """Return a budget, which limits the work of comparing the steps of one response.

        Args:
            quick: whether the comparison runs on an event loop. Then the limit is lower, and
                exceeding it raises an error, so that the comparison can be repeated in a thread.
        """
        max_steps = QUICK_STEPS if quick else STEPS
        return Budget(
            max_steps,
            quick=quick,
            strict_types=self.rules.strict_types,
            match_columns=self.rules.match_columns,
        )

    def score(
        self,
        question: Question,
        response: Response,
        sample: int | None,
        budget: Budget,
        executed: Executed | None,
    ) -> Evaluation:
        """Evaluate a response without a judge.

        Args:
            question: the question that it answers.
            response: the response.
            sample: number of the sample of the question, if it has one.
            budget: limits the work of the comparisons.
            executed: the results of the queries in the steps, if they were run.

        Raises:
            ComparisonBudgetExceeded: the budget is a quick one, and was exceeded.
        """
        steps = response.fields.get("actual_steps")
        answer = answer_state(response.fields.get("actual_answer"))
        evaluation = Evaluation(
            template_id=question.template_id,
            question_id=question.id,
            failed=response.failed,
            sample=sample,
            is_answered=answer == ANSWERED,
            tags=question.tags,
            question=question,
            response=response,
        )

        # Score the steps and the answer, and class the failure if there is one.
        has_reference_steps = question.data is not None
        if has_reference_steps:
            self._score_steps(evaluation, budget, executed)
        elif response.failed:
            evaluation.facts = agent_error(response.fields)
        self._match_answer(evaluation, question, response, budget)
        if evaluation.facts is not None:
            evaluation.failure = failure_of(evaluation.facts, evaluation.judged)

        # What the aggregates count.
        if steps:
            counted_steps = steps
            if executed is not None:
                counted_steps = executed.judged_steps(steps)
            evaluation.steps = step_outcomes(counted_steps)
        _count_outcomes(evaluation, question, response, answer)
        return evaluation

    def _score_steps(
        self, evaluation: Evaluation, budget: Budget, executed: Executed | None
    ) -> None:
        """Compare the steps of a response with the reference steps, and set what that gives.

        Args:
            evaluation: the evaluation of the response; gets the score of the steps, the other
                metrics of steps and the facts that explain a failure.
            budget: limits the work of the comparison.
            executed: the results of the queries in the steps, if they were run.
        """
        question = evaluation.question
        response = evaluation.response
        assert question is not None and response is not None  # noqa: PT018, S101

        # Find out what is compared: the outputs in the response, or what the queries return now.
        prepared = self.prepared[question.id]
        usable = response.usable
        steps: list[dict[str, Any]] | None = response.fields.get("actual_steps")
        compared = steps or []
        if executed is not None:
            prepared = self._add_execution(executed, evaluation, prepared)
            compared = executed.actual_steps(compared)
            usable = usable_names(compared)
        evaluation.reference_steps = prepared.steps

        self._add_metrics_of_steps(evaluation, prepared, steps)

        # A limit of the question, such as its maximum number of steps, may be broken. That explains
        # a failure before anything else does.
        broken = broken_limit(question, compared, self.names)
        are_steps_missing = steps is None and bool(prepared.groups)
        if evaluation.failed or are_steps_missing:
            evaluation.facts = broken or _why_not_compared(response)
            return
        if broken is not None:
            evaluation.score = 0.0
            evaluation.facts = broken
        if steps is None or evaluation.execution_error is not None:
            return

        # Compare. After a broken limit, this only adds details; the score stays 0.
        invalid = () if executed is None else executed.invalid
        scored = score_steps(
            prepared.groups, compared, budget, mode=self.rules.mode, usable=usable, invalid=invalid
        )
        if broken is None:
            evaluation.score = scored.score
            evaluation.facts = scored.facts
        evaluation.errors = scored.errors
        evaluation.matches = scored.matches
        evaluation.diffs = scored.diffs
        evaluation.paired_columns = scored.paired_columns
        if prepared.has_values:
            means = mean_values(prepared.groups, scored.shares, mode=self.rules.mode)
            evaluation.of_steps = {**evaluation.of_steps, **means}
        are_steps_right = broken is None and scored.facts.reason is None
        if are_steps_right and not evaluation.is_answered:
            # Without a reference answer, no answer was expected.
            has_reference_answer = answer_state(question.reference_answer) == ANSWERED
            evaluation.facts = Facts(unanswered=has_reference_answer)

    def _add_metrics_of_steps(
        self, evaluation: Evaluation, prepared: Prepared, steps: Steps | None
    ) -> None:
        """Add the metrics of steps besides their score to an evaluation.

        Means of values are null, unless the comparison of the steps sets them later.

        Args:
            evaluation: the evaluation.
            prepared: the reference steps of the question.
            steps: the steps of the response; None if it does not list them.
        """
        mode = self.rules.mode
        if self.rules.tool_calls and prepared.groups:
            called_steps = steps
            if evaluation.failed:
                called_steps = None
            tool_scores = tool_calls(prepared.groups, called_steps, mode=mode)
            evaluation.of_steps = {**evaluation.of_steps, **tool_scores}
        if prepared.has_values:
            null_means = mean_values(prepared.groups, None, mode=mode)
            evaluation.of_steps = {**evaluation.of_steps, **null_means}

    def _add_execution(
        self, executed: Executed, evaluation: Evaluation, prepared: Prepared
    ) -> Prepared:
        """Add the results of executed queries to an evaluation.

        Args:
            executed: the results.
            evaluation: the evaluation; gets the results, and an error if a result cannot be
                compared.
            prepared: the reference steps of the question.

        Returns:
            the reference steps with the outputs that their queries return now.
        """
        evaluation.execution = executed.provenance
        evaluation.execution_error = executed.error
        evaluation.executed_steps = executed.additions()
        if executed.executable is not None:
            evaluation.of_steps = {**evaluation.of_steps, EXECUTABLE: executed.executable}
        if not executed.expected:
            return prepared
        steps = executed.reference_steps(prepared.steps)
        groups = [[*group] for group in prepared.groups]
        # The reference steps whose queries were run; several queries give alternatives of a step.
        indices = dict.fromkeys((place.group, place.step) for place in executed.expected)
        for group_index, step_index in indices:
            step = steps[group_index][step_index]
            try:
                check_step(step, self.comparators)
                groups[group_index][step_index] = prepare_step(step, self.comparators)
            except MalformedStep as error:
                # For example, the result lacks a column that the reference step requires.
                place = f"reference_steps[{group_index}][{step_index}]"
                evaluation.execution_error = f"invalid_reply: {place}: {error}"
        return prepared._replace(steps=steps, groups=groups)

    def _match_answer(
        self, evaluation: Evaluation, question: Question, response: Response, budget: Budget
    ) -> None:
        """Compare the answer with the reference answer, and set the score `ANSWER_MATCH`.

        Nothing is set unless the question or the configuration says how to match answers.

        Raises:
            ComparisonBudgetExceeded: the budget is a quick one, and the answer is long.
        """
        match = question.match or self.rules.match
        if match is None or question.reference_answer is None:
            return
        # Without an answer, the score is null. An answer of blanks is a wrong one.
        evaluation.judged = {ANSWER_MATCH: None}
        if evaluation.failed:
            return
        has_reference_steps = question.data is not None
        if not has_reference_steps:
            evaluation.facts = Facts(unanswered=not evaluation.is_answered, has_steps=False)
        if not evaluation.is_answered:
            if response.fields.get("actual_answer") is not None:
                reason = f"{match}: the answer is blank"
                evaluation.judged = {ANSWER_MATCH: 0.0, f"{ANSWER_MATCH}_reason": reason}
            return

        # The rules for answers take long to import, and most reference sets do not match answers.
        from graphrag_eval_async.steps.answers import QUICK_CHARACTERS, match_answer

        answer = response.fields["actual_answer"]
        if budget.quick and len(answer) > QUICK_CHARACTERS:
            raise ComparisonBudgetExceeded
        tolerance = question.tolerance
        if tolerance is None:
            tolerance = self.rules.tolerance
        score, reason = match_answer(match, question.reference_answer, answer, tolerance)
        evaluation.judged = {ANSWER_MATCH: score, f"{ANSWER_MATCH}_reason": reason}


def _why_not_compared(response: Response) -> Facts:
    """Return the facts that explain why the steps of a response were not compared.

    The response is an error, or it does not list its steps.
    """
    if response.failed:
        return agent_error(response.fields)
    return Facts(reason="no_steps")


def _count_outcomes(
    evaluation: Evaluation, question: Question, response: Response, answer: int
) -> None:
    """Set the values of all metrics that need no judge, and the reasons for missing ones.

    Args:
        evaluation: the scored evaluation; gets the metrics, numbers and outcomes.
        question: its question.
        response: its response.
        answer: the state of the answer, as `answer_state` returns it.
    """
    scores = {
        "steps_score": evaluation.score,
        **evaluation.of_steps,
        ANSWER_MATCH: evaluation.judged.get(ANSWER_MATCH),
    }
    present = {name: value for name, value in scores.items() if value is not None}
    metrics = (*present, *response.metrics)
    evaluation.numbers = (*present.values(), *response.numbers)

    has_reference_answer = question.reference_answer is not None
    has_reference_steps = question.data is not None
    took_steps = bool(response.usable)
    has_execution_failed = evaluation.execution_error is not None
    keys_of_metrics = (*evaluation.of_steps, *evaluation.judged)
    # The function is cached, which is faster with positional arguments.
    evaluation.metrics, evaluation.outcomes, evaluation.outcomes_of_error = outcomes_of(
        metrics,
        response.failed,
        answer,
        has_reference_answer,
        has_reference_steps,
        took_steps,
        evaluation.failure,
        has_execution_failed,
        keys_of_metrics,
    )
