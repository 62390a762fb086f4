"""Scores the steps and the answers of responses, before a judge does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from graphrag_eval_async.catalogue.metrics import ANSWER_MATCH
from graphrag_eval_async.catalogue.outcomes import ANSWERED, answer_state, outcomes_of
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
from graphrag_eval_async.steps.answers import QUICK_CHARACTERS, match_answer

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
    """How a configuration asks for responses to be scored."""

    mode: StepsGroups = "last"
    strict_types: bool = False
    tool_calls: bool = False
    match: Matching | None = None  # Of questions without their own.
    tolerance: float | None = None


class Scoring(NamedTuple):
    """What scores the steps and answers of responses to the questions of a reference set."""

    rules: Rules
    comparators: Mapping[str, Comparator]
    prepared: PreparedSteps
    names: Mapping[str, str]  # Of steps, by other names.

    def budget(self, *, quick: bool = False) -> Budget:
        """Return a budget for the comparisons of one response; `quick`: on an event loop."""
        steps = QUICK_STEPS if quick else STEPS
        return Budget(steps, quick=quick, strict_types=self.rules.strict_types)

    def score(
        self,
        question: Question,
        response: Response,
        sample: int | None,
        budget: Budget,
        executed: Executed | None,
    ) -> Evaluation:
        """Evaluate a response without judging it; a quick budget may raise
        `ComparisonBudgetExceeded`.
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
        if question.data is not None:
            self._score_steps(evaluation, budget, executed)
        elif response.failed:
            evaluation.facts = agent_error(response.fields)
        self._match_answer(evaluation, question, response, budget)
        if evaluation.facts is not None:
            evaluation.failure = failure_of(evaluation.facts, evaluation.judged)
        if steps:
            counted_steps = steps if executed is None else executed.judged_steps(steps)
            evaluation.steps = step_outcomes(counted_steps)
        _count(evaluation, question, response, answer)
        return evaluation

    def _score_steps(
        self, evaluation: Evaluation, budget: Budget, executed: Executed | None
    ) -> None:
        """Compare the steps of a response with the reference steps of its question."""
        question = evaluation.question
        response = evaluation.response
        assert question is not None and response is not None  # noqa: PT018, S101

        # What is compared: what was returned, or what the executed queries return now.
        prepared = self.prepared[question.id]
        usable = response.usable
        steps: list[dict[str, Any]] | None = response.fields.get("actual_steps")
        compared = steps or []
        if executed is not None:
            prepared = self._apply(executed, evaluation, prepared)
            compared = executed.actual_steps(compared)
            usable = usable_names(compared)
        evaluation.reference_steps = prepared.steps

        # The metrics of steps that are asked for; these stay if nothing is compared.
        if self.rules.tool_calls and prepared.groups:
            called = None if evaluation.failed else steps
            evaluation.of_steps = tool_calls(prepared.groups, called, mode=self.rules.mode)
        if prepared.has_values:
            nulls = mean_values(prepared.groups, None, mode=self.rules.mode)
            evaluation.of_steps = {**evaluation.of_steps, **nulls}

        # A broken limit comes first, and then why nothing is compared.
        broken = broken_limit(question, compared, self.names)
        if evaluation.failed or (steps is None and prepared.groups):
            evaluation.facts = broken or _not_compared(response)
            return
        if broken is not None:
            evaluation.score = 0.0
            evaluation.facts = broken
        if steps is None or evaluation.execution_error is not None:
            return

        # The comparison. After a broken limit, it only adds details.
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
        if prepared.has_values:
            means = mean_values(prepared.groups, scored.shares, mode=self.rules.mode)
            evaluation.of_steps = {**evaluation.of_steps, **means}
        if broken is None and scored.facts.reason is None and not evaluation.is_answered:
            has_reference_answer = answer_state(question.reference_answer) == ANSWERED
            evaluation.facts = Facts(unanswered=has_reference_answer)

    def _apply(self, executed: Executed, evaluation: Evaluation, prepared: Prepared) -> Prepared:
        """Add what the executed queries returned; return the reference steps to compare with."""
        evaluation.execution = executed.provenance
        evaluation.execution_error = executed.error
        evaluation.executed_steps = executed.additions()
        if not executed.expected:
            return prepared
        steps = executed.reference_steps(prepared.steps)
        groups = [[*group] for group in prepared.groups]
        for group, index in executed.expected:
            try:
                check_step(steps[group][index], self.comparators)
                groups[group][index] = prepare_step(steps[group][index], self.comparators)
            except MalformedStep as error:
                # The data do not have the columns that it requires, for example.
                place = f"reference_steps[{group}][{index}]"
                evaluation.execution_error = f"invalid_reply: {place}: {error}"
        return prepared._replace(steps=steps, groups=groups)

    def _match_answer(
        self, evaluation: Evaluation, question: Question, response: Response, budget: Budget
    ) -> None:
        """Match the answer with the reference answer, if the question or the configuration says
        how.
        """
        match = question.match or self.rules.match
        if match is None or question.reference_answer is None:
            return
        evaluation.judged = {ANSWER_MATCH: None}
        if question.data is None and not evaluation.failed:
            evaluation.facts = Facts(unanswered=not evaluation.is_answered, has_steps=False)
        if not evaluation.failed and evaluation.is_answered:
            tolerance = self.rules.tolerance if question.tolerance is None else question.tolerance
            answer = response.fields["actual_answer"]
            if budget.quick and len(answer) > QUICK_CHARACTERS:
                raise ComparisonBudgetExceeded
            score, why = match_answer(match, question.reference_answer, answer, tolerance)
            evaluation.judged = {ANSWER_MATCH: score, f"{ANSWER_MATCH}_reason": why}


def _not_compared(response: Response) -> Facts:
    """Return why no steps were compared: the response is an error, or it does not list its
    steps.
    """
    return agent_error(response.fields) if response.failed else Facts("no_steps")


def _count(evaluation: Evaluation, question: Question, response: Response, answer: int) -> None:
    """Set the metrics that need no judge, and record which are missing and why."""
    scores = {
        "steps_score": evaluation.score,
        **evaluation.of_steps,
        ANSWER_MATCH: evaluation.judged.get(ANSWER_MATCH),
    }
    present = {name: value for name, value in scores.items() if value is not None}
    metrics = (*present, *response.metrics)
    evaluation.numbers = (*present.values(), *response.numbers)
    evaluation.metrics, evaluation.outcomes, evaluation.outcomes_of_error = outcomes_of(
        metrics,
        response.failed,
        answer,
        question.reference_answer is not None,
        question.data is not None,
        bool(response.usable),
        evaluation.failure,
        evaluation.execution_error is not None,
        (*evaluation.of_steps, *evaluation.judged),
    )
