"""The questions of a run: whether each one passed and, if not, why."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import fsum, inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from graphrag_eval_async.catalogue.conditions import (
    OPERATORS,
    RIGHT_CONDITIONS,
    Condition,
    rounded,
)
from graphrag_eval_async.catalogue.metrics import ANSWER_MATCH
from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, CAUSED_BY_AGENT, REASON
from graphrag_eval_async.helpers.text import one_line
from graphrag_eval_async.steps.failure import NO_FAILURE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.records.evaluation import Evaluation

Outcome: TypeAlias = Literal["passed", "failed", "error", "skipped"]

NO_RESPONSE = "no_response"
"""The kind of a question without any result."""

PENDING = "pending"
"""The kind of a question whose results all wait for a judge."""

SCORE = "score"
"""The kind of a question that failed because of a score, without a more telling reason."""

MAX_ERROR = 300
"""How many characters are kept of an error, or of why an answer is wrong."""


class Question(NamedTuple):
    """A question and its outcome.

    It is "failed" if a mean does not meet a condition, or the agent did not answer; "error" if a
    response is an error, unless another failure is more frequent, or a score has no value for
    another reason; "skipped" if there is nothing to decide it; or else "passed".

    Attributes:
        template_id: the template of the question.
        question_id: the id of the question.
        outcome: whether it passed.
        kind: why it did not pass: the most frequent `failure`, or the kind of the error.
        explanation: why it did not pass, on one line.
        score: the metric that decided, and its mean; None if none did.
        rank: a number that is lower for worse questions: the mean of the score, negated if low
            means are good.
        samples: number of complete results.
        seconds: the sum of `elapsed_sec` of the results.
        means: the mean over the samples of each metric that has a condition.
    """

    template_id: str
    question_id: str
    outcome: Outcome
    kind: str = ""
    explanation: str = ""
    score: tuple[str, float] | None = None
    rank: float = -inf
    samples: int = 0
    seconds: float = 0.0
    means: Mapping[str, float] = MappingProxyType({})

    @property
    def did_not_pass(self) -> bool:
        """Whether the agent failed the question.

        False if only a score is missing, since a query could not be run or a judge failed.
        """
        return self.outcome == "failed" or self.kind == AGENT_ERROR

    @property
    def why(self) -> str:
        """Why the question did not pass: the kind, and the explanation if it says more."""
        # A question that failed for a reason, such as "missing_rows", needs no explanation that
        # repeats its score, unless this says what is wrong with the answer.
        has_telling_kind = self.outcome == "failed" and self.kind != SCORE
        explains_answer = f"{ANSWER_MATCH} is" in self.explanation
        if has_telling_kind and not explains_answer:
            return self.kind
        return f"{self.kind}: {self.explanation}"


class Questions:
    """The questions of a run, each with its outcome, in the order in which they came.

    A question passes if its means over all samples meet the `conditions` that apply to its
    template. Without conditions, it passes if `compare` calls it right: `steps_score` is 1, and
    `answer_match`, `answer_f1` and `ragas_answer_correctness` are at least 0.5, as far as the run
    has these metrics.
    """

    def __init__(self, conditions: Sequence[Condition] = ()) -> None:
        self._conditions = conditions or RIGHT_CONDITIONS
        self._metrics = {condition.metric for condition in self._conditions}
        # The metrics whose conditions apply: all if a user gave the conditions. A default condition
        # applies as soon as a result has its metric.
        self._applicable_metrics: set[str] = set()
        if conditions:
            self._applicable_metrics |= self._metrics
        self._samples: dict[tuple[str, str], _Samples] = {}

    def expect(self, template_id: str, question_id: str) -> None:
        """Add a question of the reference set, which is listed even if it has no result."""
        self._samples.setdefault((template_id, question_id), _Samples())

    def add(self, seen: Evaluation) -> None:
        """Add an observed result to its question. A result that names no question is ignored."""
        if not isinstance(seen.question_id, str):
            return
        samples = self._samples.setdefault((seen.template_id, seen.question_id), _Samples())
        if seen.pending is not None:
            samples.pending += 1
            return

        samples.add(seen, self._metrics)
        for metric, _ in seen.values:
            if metric in self._metrics:
                self._applicable_metrics.add(metric)
        for metric, cause in seen.outcomes:
            # If the agent failed, nobody knows whether the run has the metric.
            if metric in self._metrics and cause not in CAUSED_BY_AGENT:
                self._applicable_metrics.add(metric)

    def __iter__(self) -> Iterator[Question]:
        for (template_id, question_id), samples in self._samples.items():
            # A condition without a template applies to all templates.
            conditions = [
                condition
                for condition in self._conditions
                if condition.template in (None, template_id)
                and condition.metric in self._applicable_metrics
            ]
            yield _decide(template_id, question_id, samples, conditions)


@dataclass(slots=True)
class _Samples:
    """What the results of one question have in common.

    Attributes:
        count: number of complete results.
        pending: number of results that wait for a judge.
        seconds: the sum of `elapsed_sec`.
        errors: the message of each result that is an error.
        values: the values of each metric that has a condition.
        causes: why such a metric has no value, in the first result without one.
        failures: how many results have each reason of failure.
        why_wrong: the `answer_match_reason` of the first wrong answer, in brackets; "" if none.
    """

    count: int = 0
    pending: int = 0
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)
    values: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    causes: dict[str, str] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    why_wrong: str = ""

    def add(self, seen: Evaluation, metrics: set[str]) -> None:
        """Add a complete result.

        Args:
            seen: the result.
            metrics: the metrics that have a condition, whose values are kept.
        """
        result = seen.as_dict()
        self.count += 1
        seconds = result.get("elapsed_sec")
        # Results of other programs may have anything here.
        if isinstance(seconds, int | float) and 0 <= seconds < inf:
            self.seconds += seconds
        if seen.failed:
            self.errors.append(_error_message(result))
        if not self.why_wrong:
            self.why_wrong = _why_wrong(seen, result)

        for metric, value in seen.values:
            if metric in metrics:
                self.values[metric].append(value)
        # Outcomes are the reason of failure, and why metrics have no value.
        for name, text in seen.outcomes:
            is_reason_of_failure = name == REASON
            if is_reason_of_failure and not seen.failed and text != NO_FAILURE:
                self.failures[text] += 1
            elif not is_reason_of_failure and name in metrics:
                self.causes.setdefault(name, text)

    @property
    def most_frequent_failure(self) -> tuple[str, int] | None:
        """The most frequent reason of failure, and how many results have it.

        Of equally frequent reasons, it is the first in alphabetical order. It is None if no result
        has a reason of failure.
        """
        if not self.failures:
            return None
        most = max(self.failures.values())
        reason = min(reason for reason, count in self.failures.items() if count == most)
        return reason, most


def _error_message(result: Mapping[str, Any]) -> str:
    """Return the message of a result that is an error on one line, or "no message"."""
    error = result.get("error")
    if not isinstance(error, str):
        return "no message"
    return one_line(error, limit=MAX_ERROR) or "no message"


def _why_wrong(seen: Evaluation, result: Mapping[str, Any]) -> str:
    """Return why the answer of a result is wrong, in brackets after a space.

    Returns:
        "" if the answer is right, or nobody knows why it is wrong.
    """
    reason = result.get(f"{ANSWER_MATCH}_reason")
    answer_match = dict(seen.values).get(ANSWER_MATCH)
    is_wrong = answer_match is not None and answer_match < 1
    if not is_wrong or not isinstance(reason, str):
        return ""
    return f" ({one_line(reason, limit=MAX_ERROR)})"


def _decide(
    template_id: str, question_id: str, samples: _Samples, conditions: Sequence[Condition]
) -> Question:
    """Return a question with its outcome.

    Args:
        template_id: the template of the question.
        question_id: the id of the question.
        samples: its results.
        conditions: the conditions that apply to it.
    """
    means = {metric: fsum(values) / len(values) for metric, values in samples.values.items()}
    # A condition whose metric has no value in any sample cannot be checked.
    checked = [condition for condition in conditions if condition.metric in means]
    unmet = [condition for condition in checked if not _is_met(condition, means)]
    causes = {condition.metric: samples.causes.get(condition.metric) for condition in conditions}
    outcome, kind, explanation = _outcome(
        samples,
        causes=causes,
        unmet=[_unmet_in_words(condition, means, samples) for condition in unmet],
        is_scored=bool(checked),
    )

    # The score that decided is that of the first unmet condition or, if all are met, of the first.
    score = None
    rank = -inf
    if checked:
        decisive = unmet[0] if unmet else checked[0]
        mean = means[decisive.metric]
        score = (decisive.metric, mean)
        rank = mean if decisive.is_lower_bound else -mean
    return Question(
        template_id=template_id,
        question_id=question_id,
        outcome=outcome,
        kind=kind,
        explanation=explanation,
        score=score,
        rank=rank,
        samples=samples.count,
        seconds=samples.seconds,
        means=means,
    )


def _is_met(condition: Condition, means: Mapping[str, float]) -> bool:
    """Return whether the mean of a condition's metric meets the condition."""
    compare = OPERATORS[condition.operator]
    return compare(means[condition.metric], condition.bound)


def _unmet_in_words(condition: Condition, means: Mapping[str, float], samples: _Samples) -> str:
    """Return why a condition is not met, such as "steps_score is 0.5, expected >= 1".

    A condition on answers is followed by the reason why an answer is wrong.
    """
    mean = rounded(means[condition.metric], condition.bound)
    expected = f"{condition.operator} {condition.bound:.15g}"
    in_words = one_line(f"{condition.metric} is {mean}, expected {expected}")
    if condition.metric == ANSWER_MATCH:
        in_words += samples.why_wrong
    return in_words


def _outcome(
    samples: _Samples,
    causes: Mapping[str, str | None],
    unmet: Sequence[str],
    *,
    is_scored: bool,
) -> tuple[Outcome, str, str]:
    """Return the outcome of a question, its kind, and its explanation, as `Question` has them.

    Args:
        samples: the results of the question.
        causes: for each metric that has a condition, why a result lacks its value; None if all
            results have a value.
        unmet: in words, the conditions that are not met.
        is_scored: whether a metric that has a condition has a mean.
    """
    if samples.count == 0:
        kind = PENDING if samples.pending else NO_RESPONSE
        return "skipped", kind, _in_words(kind)

    # Errors of the agent decide, unless the question failed otherwise more often.
    failure = samples.most_frequent_failure
    if samples.errors:
        failure_is_more_frequent = failure is not None and failure[1] > len(samples.errors)
        has_failed_otherwise = bool(unmet) and failure_is_more_frequent
        if not has_failed_otherwise:
            return "error", AGENT_ERROR, _errors_in_words(samples)

    # The question failed if a mean is too low, or if the agent gave nothing to compare.
    causes_of_agent = [
        cause for cause in causes.values() if cause is not None and cause in CAUSED_BY_AGENT
    ]
    if unmet or causes_of_agent:
        if failure is not None:
            kind = failure[0]
        elif causes_of_agent:
            kind = causes_of_agent[0]
        else:
            kind = SCORE
        return "failed", kind, "; ".join(unmet) or _in_words(kind)

    # A value may be missing since a judge failed, for example.
    for metric, cause in causes.items():
        if cause is not None:
            return "error", cause, f"{metric} has no value: {cause}"
    if is_scored:
        return "passed", "", ""
    return "skipped", "no_score", "no score decides whether it passed"


def _in_words(kind: str) -> str:
    """Return the kind of a question, such as "no_response", as words."""
    return kind.replace("_", " ")


def _errors_in_words(samples: _Samples) -> str:
    """Return the first error of a question, and how many of its samples are errors."""
    if samples.count == 1:
        return samples.errors[0]
    return f"{samples.errors[0]} ({len(samples.errors)} of {samples.count} samples)"
