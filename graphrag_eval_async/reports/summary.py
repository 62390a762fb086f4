"""Everything that the reports of a run say of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.catalogue.conditions import CheckedGate as CheckedGate
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.reference import StepNames, misnamed_steps
from graphrag_eval_async.reports.comparison_words import greatest_losses
from graphrag_eval_async.reports.counts import RunCounts, run_counts
from graphrag_eval_async.reports.examples import Example, Examples
from graphrag_eval_async.reports.questions import MAX_ERROR, NO_RESPONSE, Questions
from graphrag_eval_async.reports.worst import LISTED, worst_questions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.inference.running import Interval
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.reference import Reference
    from graphrag_eval_async.reports.questions import Question


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Everything that the reports of a run say of it.

    Attributes:
        snapshot: a detailed snapshot of the aggregates of the run.
        questions: its questions, each with its outcome.
        gates: the gates, each with its outcome.
        comparison: a snapshot of the comparison with a baseline; None without one.
        rejected: number of rejected lines by reason.
        rejects: the first rejected lines, each with its place and reason.
        places: where the results of listed questions are, as ``NAME:LINE``, by question id.
        texts: the texts of listed questions, by question id.
        reference_file: path of the reference set, as GitHub knows it.
        reference_lines: the line of each question in `reference_file`, by its id; empty if
            annotations are not attached to it.
        listed: the maximum number of questions in each list of the worst.
        lowest: the questions with the lowest means, whether they passed or not.
        misnamed: the warning of `misnamed_steps`; None without one.
        first_errors: the first error of each metric and its question, by the key of the error.
        by: the key of the tags that are shown; None for all keys.
        right: the conditions that a question meets to pass.
        examples: the first result of each reason of failure, by reason.
        asked: number of questions of the reference set; None without one.
        merged_systems: the warning that files seem to be of several systems; None without one.
    """

    snapshot: Mapping[str, Any]
    questions: Sequence[Question]
    gates: Sequence[CheckedGate] = ()
    comparison: Mapping[str, Any] | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)
    rejects: Sequence[str] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    reference_file: str = ""
    reference_lines: Mapping[str, int] = field(default_factory=dict)
    listed: int = LISTED
    lowest: Sequence[QuestionScore] = ()
    misnamed: str | None = None
    first_errors: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    right: Sequence[Condition] = RIGHT_CONDITIONS
    examples: Mapping[str, Example] = field(default_factory=dict)
    asked: int | None = None
    merged_systems: str | None = None

    @property
    def counts(self) -> RunCounts:
        """How many results, questions, errors and rejected lines there are."""
        without_response = [question for question in self.questions if question.kind == NO_RESPONSE]
        return run_counts(
            self.snapshot["micro"],
            questions=self.asked,
            missing=len(without_response),
            rejected=sum(self.rejected.values()),
        )

    @property
    def by_means(self) -> bool:
        """Whether the worst questions are those with the lowest means.

        If a user gave conditions, they are those with the lowest rank.
        """
        return self.right is RIGHT_CONDITIONS

    @property
    def failed_gates(self) -> list[CheckedGate]:
        """The gates that do not hold."""
        return [gate for gate in self.gates if not gate.holds]

    @property
    def worst(self) -> list[Question]:
        """The worst questions that did not pass, the worst first, at most `listed`.

        Unless a user gave conditions, the questions of `lowest` come first. The other questions
        follow in the order of their rank.
        """
        did_not_pass = [question for question in self.questions if question.did_not_pass]
        did_not_pass.sort(key=lambda question: question.rank)
        remaining = {
            (question.template_id, question.question_id): question for question in did_not_pass
        }
        worst: list[Question] = []
        if self.by_means:
            # A question of `lowest` may have passed.
            worst += [remaining.pop(key) for key in self.means if key in remaining]
        worst += remaining.values()
        return worst[: self.listed]

    @property
    def means(self) -> dict[tuple[str, str], QuestionScore]:
        """The means of the questions of `lowest`, by template and question id."""
        return {(score.template, score.question): score for score in self.lowest}

    @property
    def listed_questions(self) -> set[str]:
        """The ids of the questions that a report lists among the worst or the changed ones."""
        listed = {question.question_id for question in self.worst}
        if self.comparison is not None:
            listed.update(self.comparison["regressions"][: self.listed])
            losses = greatest_losses(self.comparison, self.listed)
            listed.update(row["question_id"] for _, row in losses)
        return listed


class Findings:
    """Collects what a summary says of single questions and results.

    Attributes:
        questions: the questions of the run, each with its outcome.
        examples: the first result of each reason of failure.
        first_errors: the first error of each metric, by the key of the error, with its question.
    """

    def __init__(
        self, conditions: Sequence[Condition] = (), reference: Reference | None = None
    ) -> None:
        self.questions = Questions(conditions)
        self.examples = Examples()
        self.first_errors: dict[str, str] = {}
        for question in reference or ():
            self.questions.expect(question.template_id, question.id)

    def add(self, seen: Evaluation) -> None:
        """Add an observed result to the questions, the examples and the first errors."""
        self.questions.add(seen)
        if seen.pending is not None:
            return
        self.examples.add(seen)
        # An error of a metric, such as "answer_correctness_error"; only the first one is kept.
        for key, error in seen.as_dict().items():
            if key.endswith("_error") and isinstance(error, str):
                self.first_errors.setdefault(key, f"{seen.question_id}: {error[:MAX_ERROR]}")


class Reading:
    """Collects the results of finished runs for a `Summary`.

    Attributes:
        comparison: the comparison with the baseline; None without one.
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
        """Create a collection without results.

        Args:
            conditions: what the means of a question meet for it to pass; the default conditions if
                there are none.
            reference: the reference set, whose questions are listed even without a result.
            compares: whether the run is compared with a baseline.
            primary: the metrics that the comparison decides; see `RunningComparison`.
            non_inferior: by metric, the margin by which it may be worse; see `RunningComparison`.
            first_tag_keys: the keys of tags that are counted, even if there are too many keys.
        """
        self.comparison: RunningComparison | None = None
        if compares:
            self.comparison = RunningComparison(primary=primary, non_inferior=non_inferior)
        self._reference = reference
        self._names = StepNames()
        self._conditions = conditions or RIGHT_CONDITIONS
        self._findings = Findings(conditions, reference)
        self._aggregates = RunningAggregates()
        self._aggregates._set_right_conditions(self._conditions)
        self._aggregates._count_tags_first(first_tag_keys)
        if reference is not None:
            self._aggregates.order_templates(reference.templates)
            self._aggregates.expect_steps(reference.step_names)

    def add_baseline(self, result: Mapping[str, Any]) -> None:
        """Add a result of the baseline."""
        if self.comparison is not None:
            self.comparison.add_baseline(result)

    def add(self, result: Mapping[str, Any]) -> None:
        """Add a result of the run."""
        seen = observe(result)
        if self.comparison is not None:
            self.comparison.add(seen)
        self._aggregates.add(seen)
        self._names.add(result)
        self._findings.add(seen)

    def summary(
        self,
        *,
        level: float = 0.95,
        interval: Interval | None = None,
        listed: int = LISTED,
        by: str | None = None,
        **more: Any,
    ) -> Summary:
        """Return a summary of all results that were added.

        Args:
            level: confidence level of intervals and of the comparison.
            interval: the kind of intervals; None for the kind that fits finished runs.
            listed: the maximum number of questions in each list of the worst.
            by: the key of the tags that are shown; None for all keys.
            more: the attributes of the summary that this collection does not know, such as its
                gates.
        """
        self._aggregates.finish()
        comparison = None
        if self.comparison is not None:
            comparison = self.comparison.snapshot(level=level, by=by)
        asked = None
        if self._reference is not None:
            asked = len(self._reference)
        step_names = self._aggregates._step_names()
        return Summary(
            snapshot=self._aggregates.snapshot(detail=True, level=level, interval=interval),
            comparison=comparison,
            questions=list(self._findings.questions),
            examples=self._findings.examples.by_reason,
            first_errors=self._findings.first_errors,
            asked=asked,
            lowest=worst_questions(self._aggregates, max(listed, LISTED)),
            misnamed=misnamed_steps(self._reference or self._names, step_names),
            right=self._conditions,
            listed=listed,
            by=by,
            **more,
        )
