"""Counts the results of a run one by one, all of them and those in a window."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.monitor.watched import Alerts
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.reports.history import History
from graphrag_eval_async.reports.kept import KEPT, Kept
from graphrag_eval_async.reports.timeline import TimelineRecorder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.aggregates import Seconds
    from graphrag_eval_async.monitor.alerts import Alert
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.stream import EvaluationStream

LOOK_SECONDS = 1.0
"""Seconds between two looks whether time alone has changed an alert."""

LISTED = 100
"""Maximum number of results that a terminal lists."""

Show = Literal["last", "worst"]
"""Which results a terminal lists."""


class Counting:
    """Counts the results of a run one by one.

    Attributes:
        count: number of results of this run.
        window: which results count as recent.
        show: which results a terminal lists.
        kept: the latest and the worst results.
        history: how the scores moved with the number of results.
        timeline: how the scores moved over time.
        alerts: the alerts on them.
    """

    def __init__(self, window: Last | Seconds, show: Show, alerts: Iterable[Alert]) -> None:
        """Start without results.

        Args:
            window: the window of recent results, also for alerts that do not name one.
            show: whether a terminal lists the last or the worst results.
            alerts: the alerts to watch.
        """
        self.count = 0
        self.window = window
        self.show = show
        self.kept = Kept()
        self.history = History()
        self.timeline = TimelineRecorder(window)
        self.alerts = Alerts(alerts, window)
        self._recent = RunningAggregates(window=window)
        # In a short window, results are only counted once somebody looks at it: most of them leave
        # it before. Until then they wait here.
        self._waits_for_looks = isinstance(window, Last) and window.count <= KEPT
        self._waiting: deque[Evaluation] = deque(
            maxlen=window.count if isinstance(window, Last) else None
        )

    def add(self, result: Mapping[str, Any] | Evaluation) -> None:
        """Count one result, unless it is pending."""
        evaluation = self._count(result, restored=False)
        if evaluation is not None:
            self.count += 1
            self._add_recent(evaluation)
            self.alerts.add(evaluation, monotonic())

    def restore(self, result: Mapping[str, Any]) -> None:
        """Count the next result in a journal, unless it is pending.

        It does not count in windows of time: a journal does not say when a result came.
        """
        evaluation = self._count(result, restored=True)
        if evaluation is not None and isinstance(self.window, Last):
            self._add_recent(evaluation)

    def _add_recent(self, evaluation: Evaluation) -> None:
        """Count a result in the window, or let it wait until somebody looks at the window."""
        if self._waits_for_looks:
            self._waiting.append(evaluation)
        else:
            self._recent.add(evaluation)

    @property
    def recent(self) -> RunningAggregates:
        """Aggregates of the results in the `window`."""
        while self._waiting:
            self._recent.add(self._waiting.popleft())
        return self._recent

    def look(self, stream: EvaluationStream) -> None:
        """Update `recent`, and the alerts that time alone changes; to be called once a second."""
        self._recent = self.recent
        lines_read = (self.count, stream.rejects.total, stream.skipped, stream.in_flight)
        self.alerts.look(monotonic(), lines_read)

    def listed(self) -> list[dict[str, Any]]:
        """Return the rows of the results that a terminal lists: the latest or the worst ones."""
        entries = [*self.kept.latest] if self.show == "last" else self.kept.worst()
        rows = []
        for entry in entries[:LISTED]:
            row = entry.row.copy()
            # The terminal shows neither of these keys.
            del row["question"]
            del row["number"]
            rows.append(row)
        return rows

    def failure_texts(self) -> dict[str, str]:
        """Return the most frequent text of the results that failed, by reason of failure.

        Reasons without a text are not included.
        """
        texts = {}
        for reason, summary in self.kept.failures.summaries().items():
            if summary.text:
                texts[reason] = summary.text
        return texts

    def _count(
        self, result: Mapping[str, Any] | Evaluation, *, restored: bool
    ) -> Evaluation | None:
        """Count a result everywhere except in the window.

        Args:
            result: the result.
            restored: whether the result is from an earlier run, out of the journal.

        Returns:
            the result; None if it is pending, and so not counted.
        """
        evaluation = observe(result)
        if evaluation.pending is not None:
            return None
        self.kept.add(evaluation)
        self.history.add(evaluation, restored=restored)
        self.timeline.add(evaluation, restored=restored)
        return evaluation
