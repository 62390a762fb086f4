"""The counts of a run, defined once, with the words in which all reports say them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.catalogue.outcomes import NO_STEPS, NOT_RUN, NOT_SCORED, RESPONSE_ERROR
from graphrag_eval_async.helpers.text import counted
from graphrag_eval_async.records.snapshots import counts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

CAUSES_IN_WORDS = {
    NO_STEPS: "the response lists no steps",
    NOT_SCORED: "the steps could not be scored",
    NOT_RUN: "the queries could not be run",
}
"""Why a result has no score of its steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCounts:
    """How many results, questions, errors and lines a run has.

    Attributes:
        results: number of complete results.
        errors: how many of the results are errors of the agent.
        rejected: number of lines that could not be evaluated, and have no result.
        questions: number of questions of the reference set or, without one, of those with a
            result; None if nobody knows, since some results do not name their question.
        missing: number of questions of the reference set without a response.
        scored_questions: for each metric, the number of questions that have a value, so that they
            count in its mean; a metric is absent if nobody knows.
        unscored: number of results without a score of their steps, by cause. The errors of the
            agent are not among them.
    """

    results: int
    errors: int = 0
    rejected: int = 0
    questions: int | None = None
    missing: int = 0
    scored_questions: Mapping[str, int] = field(default_factory=dict)
    unscored: Mapping[str, int] = field(default_factory=dict)

    @property
    def results_in_words(self) -> str:
        """The results, and how many are errors: "150 results, 2 of them errors of the agent"."""
        if self.errors == 0:
            return f"{counted(self.results, 'result')}, no error of the agent"
        if self.results == 1:
            return "1 result, an error of the agent"
        errors = "an error" if self.errors == 1 else "errors"
        return f"{counted(self.results, 'result')}, {self.errors:,} of them {errors} of the agent"

    @property
    def missing_in_words(self) -> str:
        """The questions without a response, such as "2 of 50 questions without a response".

        Empty if there are none.
        """
        if self.missing == 0 or self.questions is None:
            return ""
        return f"{self.missing:,} of {counted(self.questions, 'question')} without a response"

    @property
    def unscored_in_words(self) -> str:
        """The results without a score of their steps, by cause, the most frequent cause first.

        Such as "2 results without a score: the queries could not be run". Empty if there are none.
        """
        causes = sorted(self.unscored, key=lambda cause: -self.unscored[cause])
        parts = []
        for cause in causes:
            results = counted(self.unscored[cause], "result")
            reason = CAUSES_IN_WORDS.get(cause, cause)
            parts.append(f"{results} without a score: {reason}")
        return "; ".join(parts)

    @property
    def rejected_in_words(self) -> str:
        """The lines without a result, such as "3 rejected lines"; empty if there are none."""
        if self.rejected == 0:
            return ""
        return counted(self.rejected, "rejected line")

    @property
    def lines(self) -> list[str]:
        """All counts in words: the results, then each count of what is missing that is not 0."""
        lines = [
            self.results_in_words,
            self.missing_in_words,
            self.unscored_in_words,
            self.rejected_in_words,
        ]
        return [line for line in lines if line]

    def over(self, metric: str) -> str:
        """Return how many questions count in the mean of a metric, in words.

        Such as "over 48 of 50 questions", or "over 50 questions" if all have a value.

        Args:
            metric: the name of a metric, or `ERROR_RATE`.

        Returns:
            "" if there is no such metric, or nobody knows the number of questions.
        """
        with_value = self.scored_questions.get(metric)
        if with_value is None:
            return ""
        if self.questions is None or with_value >= self.questions:
            return f"over {counted(with_value, 'question')}"
        return f"over {with_value:,} of {counted(self.questions, 'question')}"


def run_counts(
    group: Mapping[str, Any], *, questions: int | None = None, missing: int = 0, rejected: int = 0
) -> RunCounts:
    """Return the counts of a run.

    Args:
        group: all results, as a detailed snapshot has them under ``micro``.
        questions: number of questions of the reference set; None without one.
        missing: number of these questions without a response.
        rejected: number of lines that could not be evaluated.
    """
    results, errors = counts_of(group)
    answered = group.get("number_of_questions")
    if questions is None:
        questions = answered
    # The statistics of metrics are dicts; the other entries of a group are numbers.
    scored_questions = {
        name: stats["questions"]
        for name, stats in group.items()
        if isinstance(stats, dict) and "questions" in stats
    }
    causes = group.get("steps_score", {}).get("coverage", {}).get("failed", {})
    return RunCounts(
        results=results,
        errors=errors,
        rejected=rejected,
        questions=questions,
        missing=missing,
        scored_questions=_with_error_rate(scored_questions, answered),
        unscored=_without_agent_errors(causes),
    )


def counts_from_facts(facts: Mapping[str, Any]) -> RunCounts:
    """Return the counts of a run.

    Args:
        facts: the state of the run, as live pages and reports have it.
    """
    overall = facts["overall"]
    answered = overall.get("number_of_questions")
    # `questions` is 0 without a reference set.
    questions = facts["questions"] or answered
    causes = overall.get("coverage", {}).get("steps_score", {}).get("failed", {})
    return RunCounts(
        results=overall["samples"]["total"],
        errors=overall["errors"]["total"],
        rejected=sum(facts["rejects"].values()),
        questions=questions,
        missing=facts["missing"],
        scored_questions=_with_error_rate(overall.get("scored_questions", {}), answered),
        unscored=_without_agent_errors(causes),
    )


def _with_error_rate(scored_questions: Mapping[str, int], answered: int | None) -> dict[str, int]:
    """Return how many questions count in the mean of each metric and in the error rate.

    Args:
        scored_questions: for each metric, the number of questions with a value.
        answered: number of questions with a result, which all count in the error rate. None if
            nobody knows: then the error rate is left out.
    """
    if answered is None:
        return dict(scored_questions)
    return {ERROR_RATE: answered, **scored_questions}


def _without_agent_errors(causes: Mapping[str, int]) -> dict[str, int]:
    """Return how many results have no score of their steps, by cause, without errors of the agent.

    `RunCounts` has a count of its own for errors of the agent.
    """
    return {cause: count for cause, count in causes.items() if cause != RESPONSE_ERROR}
