"""What a summary of finished runs says, and of each question whether it passed, and if not, why."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import fsum, inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from graphrag_eval_async.catalogue.conditions import OPERATORS, RIGHT_CONDITIONS, Condition, rounded
from graphrag_eval_async.catalogue.conditions import CheckedGate as CheckedGate
from graphrag_eval_async.catalogue.metrics import ANSWER_MATCH
from graphrag_eval_async.catalogue.outcomes import (
    AGENT_ERROR,
    CAUSED_BY_AGENT,
    EXECUTION_ERROR,
    REASON,
)
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.reference import StepNames, misnamed_steps
from graphrag_eval_async.reports.comparison_words import greatest_losses
from graphrag_eval_async.reports.worst import LISTED, worst_questions
from graphrag_eval_async.steps.failure import NO_FAILURE
from graphrag_eval_async.text import one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.inference.running import Interval
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.reference import Reference

Outcome: TypeAlias = Literal["passed", "failed", "error", "skipped"]

NO_RESPONSE = "no_response"  # The kind of a question without any result.

MAX_ERROR = 300  # characters of an error, or of why an answer is wrong, that are kept


class Question(NamedTuple):
    """A question and its outcome.

    It is "failed" if a mean does not meet a condition, or the agent did not answer; "error" if a
    response is an error, unless another failure is more frequent, or a score has no value for
    another reason; "skipped" if there is nothing to decide it; or else "passed".
    """

    template_id: str
    question_id: str
    outcome: Outcome
    kind: str = ""  # why it did not pass: the most frequent `failure`, or the kind of the error
    told: str = ""  # the same in words, on one line
    score: tuple[str, float] | None = None  # the metric that was decisive, and its mean
    rank: float = -inf  # the lower, the worse: the mean, negated if low ones are good
    samples: int = 0  # complete results
    seconds: float = 0.0  # the sum of `elapsed_sec`

    @property
    def is_explained(self) -> bool:
        """Whether `kind` and `score` say everything that `told` says."""
        return (
            self.outcome == "failed"
            and self.kind != "score"
            and f"{ANSWER_MATCH} is" not in self.told
        )


@dataclass(slots=True)
class _Samples:
    """What the results of one question have in common."""

    count: int = 0
    pending: int = 0
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)
    values: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    missing: dict[str, str] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    why: str = ""  # The `answer_match_reason` of the first answer that is not the reference answer.


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
        # Those that the run was asked for; a condition that was given always applies.
        self._scored = {*self._metrics} if conditions else set[str]()
        self._samples: dict[tuple[str, str], _Samples] = {}

    def expect(self, template_id: str, question_id: str) -> None:
        """List a question, even if it has no result."""
        self._samples.setdefault((template_id, question_id), _Samples())

    def add(self, seen: Evaluation) -> None:
        """Add an observed result; ignores it if it does not name its question."""
        if not isinstance(seen.question_id, str):
            return
        samples = self._samples.setdefault((seen.template_id, seen.question_id), _Samples())
        if seen.pending is not None:
            samples.pending += 1
            return
        result = seen.as_dict()
        samples.count += 1
        samples.why = samples.why or _why(seen, result)
        seconds = result.get("elapsed_sec")
        samples.seconds += (
            seconds if isinstance(seconds, int | float) and 0 <= seconds < inf else 0.0
        )
        if seen.failed:
            error = result.get("error")
            text = one_line(error, limit=MAX_ERROR) if isinstance(error, str) else ""
            samples.errors.append(text or "no message")
        for metric, value in seen.values:
            if metric in self._metrics:
                self._scored.add(metric)
                samples.values[metric].append(value)
        for metric, kind in seen.outcomes:
            if metric == REASON and not seen.failed:
                samples.failures[kind] += kind != NO_FAILURE
            elif metric in self._metrics:
                samples.missing.setdefault(metric, kind)
                if kind not in CAUSED_BY_AGENT:
                    self._scored.add(metric)

    def __iter__(self) -> Iterator[Question]:
        for (template, question), samples in self._samples.items():
            means = {
                metric: fsum(values) / len(values) for metric, values in samples.values.items()
            }
            apply = [each for each in self._conditions if each.template in (None, template)]
            apply = [each for each in apply if each.metric in self._scored]
            known = [each for each in apply if each.metric in means]
            unmet = [
                each
                for each in known
                if not OPERATORS[each.operator](means[each.metric], each.bound)
            ]
            score, rank = None, -inf
            if known:
                decisive = (unmet or known)[0]
                score = decisive.metric, means[decisive.metric]
                rank = score[1] if decisive.is_lower_bound else -score[1]
            missing = {each.metric: samples.missing.get(each.metric) for each in apply}
            whys = {ANSWER_MATCH: samples.why}
            told = [_told(each, means[each.metric]) + whys.get(each.metric, "") for each in unmet]
            outcome = _outcome(samples, missing, told, is_scored=bool(known))
            yield Question(
                template, question, *outcome, score, rank, samples.count, samples.seconds
            )


def _why(seen: Evaluation, result: Mapping[str, Any]) -> str:
    why = result.get(f"{ANSWER_MATCH}_reason")
    is_wrong = isinstance(why, str) and dict(seen.values).get(ANSWER_MATCH, 1) < 1
    return f" ({one_line(str(why), limit=MAX_ERROR)})" if is_wrong else ""


def _told(condition: Condition, mean: float) -> str:
    metric, operator, bound = condition[1:4]
    return one_line(f"{metric} is {rounded(mean, bound)}, expected {operator} {bound:.15g}")


def _outcome(
    samples: _Samples,
    missing: Mapping[str, str | None],
    unmet: Sequence[str],
    *,
    is_scored: bool,
) -> tuple[Outcome, str, str]:
    """Return the outcome of a question, its kind, and the same in words.

    `missing` tells by metric why it has no value in a result, `unmet` in words which conditions are
    not met.
    """
    if not samples.count:
        kind = "pending" if samples.pending else NO_RESPONSE
        return "skipped", kind, kind.replace("_", " ")
    reasons = sorted(samples.failures.items(), key=lambda item: (-item[1], item[0]))
    if samples.errors and not (unmet and reasons and reasons[0][1] > len(samples.errors)):
        of = f" ({len(samples.errors)} of {samples.count} samples)" if samples.count > 1 else ""
        return "error", AGENT_ERROR, samples.errors[0] + of
    unanswered = [kind for kind in missing.values() if kind in CAUSED_BY_AGENT]
    if unmet or unanswered:
        kind = next((reason for reason, count in reasons if count), None) or next(
            iter(unanswered), "score"
        )
        return "failed", kind, "; ".join(unmet) or kind.replace("_", " ")
    for metric, why in missing.items():
        if why is not None:
            return "error", why, f"{metric} has no value: {why}"
    return (
        ("passed", "", "")
        if is_scored
        else ("skipped", "no_score", "no score decides whether it passed")
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Everything that a summary says, from detailed snapshots of aggregates and of a comparison."""

    snapshot: Mapping[str, Any]
    questions: Sequence[Question]
    gates: Sequence[CheckedGate] = ()
    comparison: Mapping[str, Any] | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)  # by reason
    rejects: Sequence[str] = ()  # the first, with their places and reasons
    # ``NAME:LINE`` of results of listed questions
    places: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)  # of listed questions
    reference_file: str = ""  # path of the reference set, as GitHub knows it
    # By question id, its line in `reference_file`; empty if annotations are not attached to it.
    reference_lines: Mapping[str, int] = field(default_factory=dict)
    listed: int = LISTED  # the most questions in each list of the worst
    lowest: Sequence[QuestionScore] = ()  # the worst, whether they passed or not
    misnamed: str | None = None  # the warning of `misnamed_steps`
    not_run: str | None = None  # the first question with queries that could not be run, and why
    by: str | None = None  # the key of the tags that are shown; None for all
    right: Sequence[Condition] = RIGHT_CONDITIONS  # which questions pass

    @property
    def by_means(self) -> bool:
        """Whether `lowest` come first in `worst`; not if conditions were given."""
        return self.right is RIGHT_CONDITIONS

    @property
    def failed_gates(self) -> list[CheckedGate]:
        return [gate for gate in self.gates if not gate.holds]

    @property
    def worst(self) -> list[Question]:
        """The worst questions that did not pass: those of `lowest`, then others by their own
        scores.
        """
        wrong = [each for each in self.questions if each.outcome in {"failed", "error"}]
        wrong.sort(key=lambda each: each.rank)
        others = {(each.template_id, each.question_id): each for each in wrong}
        first = [others.pop(key) for key in self.means if key in others] if self.by_means else []
        return [*first, *others.values()][: self.listed]

    @property
    def means(self) -> dict[tuple[str, str], QuestionScore]:
        """The means of `lowest`, by template and question."""
        return {(each.template, each.question): each for each in self.lowest}

    @property
    def listed_questions(self) -> set[str]:
        """The ids of the questions whose places a summary may show."""
        regressions = (
            [] if self.comparison is None else self.comparison["regressions"][: self.listed]
        )
        worse = [row["question_id"] for _, row in self.got_worse]
        return {*regressions, *worse, *(question.question_id for question in self.worst)}

    @property
    def got_worse(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The questions that got worse most; see `greatest_losses`."""
        return [] if self.comparison is None else greatest_losses(self.comparison, self.listed)


class Reading:
    """Collects from results what a summary says; `comparison` is with the baseline, if there is
    one.
    """

    def __init__(
        self,
        conditions: Sequence[Condition] = (),
        reference: Reference | None = None,
        *,
        compares: bool = False,
        primary: Collection[str] | None = None,
        non_inferior: Mapping[str, float] | None = None,
        first_tag_keys: Iterable[str] = (),
    ) -> None:
        self._reference, self._names = reference, StepNames()
        self._conditions = conditions
        self._aggregates = RunningAggregates()
        self.comparison = (
            RunningComparison(primary=primary, non_inferior=non_inferior) if compares else None
        )
        self._aggregates._set_right_conditions(conditions or RIGHT_CONDITIONS)
        self._aggregates._count_tags_first(first_tag_keys)
        self._questions = Questions(conditions)
        self._not_run: str | None = None
        if reference is not None:
            self._aggregates.order_templates(reference.templates)
            self._aggregates.expect_steps(reference.step_names)
            for question in reference:
                self._questions.expect(question.template_id, question.id)

    def add_baseline(self, result: Mapping[str, Any]) -> None:
        """Add a result of the baseline."""
        if self.comparison is not None:
            self.comparison.add_baseline(result)

    def add(self, result: Mapping[str, Any]) -> None:
        """Add a result."""
        seen = observe(result)
        if self.comparison is not None:
            self.comparison.add(seen)
        self._aggregates.add(seen)
        self._names.add(result)
        self._questions.add(seen)
        if self._not_run is None and EXECUTION_ERROR in result:
            self._not_run = f"{seen.question_id}: {result[EXECUTION_ERROR]}"

    def summary(
        self,
        *,
        level: float = 0.95,
        interval: Interval | None = None,
        listed: int = LISTED,
        **more: Any,
    ) -> Summary:
        """Return a summary of all results, which are those of finished runs."""
        comparison = self.comparison
        self._aggregates.finish()
        snapshot = self._aggregates.snapshot(detail=True, level=level, interval=interval)
        return Summary(
            snapshot=snapshot,
            comparison=None
            if comparison is None
            else comparison.snapshot(level=level, by=more.get("by")),
            questions=[*self._questions],
            lowest=worst_questions(self._aggregates, max(listed, LISTED)),
            misnamed=misnamed_steps(self._reference or self._names, self._aggregates._step_names()),
            not_run=self._not_run,
            right=self._conditions or RIGHT_CONDITIONS,
            listed=listed,
            **more,
        )
