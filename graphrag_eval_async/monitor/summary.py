"""What a summary of finished runs says, in whatever format it is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.monitor.questions import Questions
from graphrag_eval_async.monitor.wording import greatest_losses
from graphrag_eval_async.monitor.worst import LISTED, worst_questions
from graphrag_eval_async.records.conditions import CheckedGate as CheckedGate  # noqa: TC001
from graphrag_eval_async.records.outcomes import EXECUTION_ERROR
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.reference import StepNames, misnamed_steps

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.inference.running import Interval
    from graphrag_eval_async.monitor.questions import Question
    from graphrag_eval_async.records.conditions import Condition
    from graphrag_eval_async.reference import Reference


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Everything that a summary says, from detailed snapshots of aggregates and of a comparison."""

    snapshot: Mapping[str, Any]
    questions: Sequence[Question]
    gates: Sequence[CheckedGate] = ()
    comparison: Mapping[str, Any] | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)  # by reason
    rejects: Sequence[str] = ()  # the first, with their places and reasons
    places: Mapping[str, str] = field(default_factory=dict)  # ``NAME:LINE`` of results of listed questions
    texts: Mapping[str, str] = field(default_factory=dict)  # of listed questions
    listed: int = LISTED  # the most questions in each list of the worst
    lowest: Sequence[QuestionScore] = ()  # the worst, whether they passed or not
    misnamed: str | None = None  # the warning of `misnamed_steps`
    not_run: str | None = None  # why the queries of the first such result could not be run
    by_means: bool = True  # whether `lowest` come first in `worst`; not if conditions were given

    @property
    def failed_gates(self) -> list[CheckedGate]:
        return [gate for gate in self.gates if not gate.holds]

    @property
    def worst(self) -> list[Question]:
        """The worst questions that did not pass: those of `lowest`, then others by their own scores."""
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
        regressions = [] if self.comparison is None else self.comparison["regressions"][: self.listed]
        worse = [row["question_id"] for _, row in self.got_worse]
        return {*regressions, *worse, *(question.question_id for question in self.worst)}

    @property
    def got_worse(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The questions that got worse most; see `greatest_losses`."""
        return [] if self.comparison is None else greatest_losses(self.comparison["worse"], self.listed)


class Reading:
    """Collects from results what a summary says; `comparison` is with the baseline, if there is one."""

    def __init__(
        self,
        conditions: Sequence[Condition] = (),
        reference: Reference | None = None,
        *,
        compares: bool = False,
        include_errors: bool = False,
        primary: Collection[str] | None = None,
    ) -> None:
        self._reference, self._names = reference, StepNames()
        self._include_errors = include_errors
        self._conditions = conditions
        self._aggregates = RunningAggregates(include_errors=include_errors)
        self.comparison = (
            RunningComparison(include_errors=include_errors, primary=primary) if compares else None
        )
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
        seen = observe(result, include_errors=self._include_errors)
        if self.comparison is not None:
            self.comparison.add(seen)
        self._aggregates.add(seen)
        self._names.add(result)
        self._questions.add(seen)
        self._not_run = self._not_run or result.get(EXECUTION_ERROR)

    def summary(
        self, *, level: float = 0.95, interval: Interval | None = None, listed: int = LISTED, **more: Any
    ) -> Summary:
        """Return a summary of all results, which are those of finished runs."""
        self._aggregates.finish()
        return Summary(
            snapshot=self._aggregates.snapshot(detail=True, level=level, interval=interval),
            comparison=None if self.comparison is None else self.comparison.snapshot(level=level),
            questions=[*self._questions],
            lowest=worst_questions(self._aggregates, max(listed, LISTED)),
            misnamed=misnamed_steps(self._reference or self._names, self._aggregates._step_names()),
            not_run=self._not_run,
            by_means=not self._conditions,
            listed=listed,
            **more,
        )
