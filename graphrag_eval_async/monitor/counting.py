"""Counts the results of a run one by one, all of them and those in a window."""

from __future__ import annotations

from collections import deque
from time import monotonic, time
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

LOOK_SECONDS = 1.0  # how often alerts look whether time alone has changed something
LISTED = 100  # how many of them a terminal may list
Show = Literal["last", "worst"]


class Counting:
    """Counts the results of a run one by one.

    Attributes:
        count: number of results of this run.
        kept: the latest and the worst results.
        history: how the scores moved with the number of results.
        timeline: how the scores moved over time.
        alerts: the alerts on them.
        last_result_time: when the latest result of this run came, in seconds since 1970; None
            before the first one.
    """

    def __init__(self, window: Last | Seconds, show: Show, alerts: Iterable[Alert]) -> None:
        self.count = 0
        self.window = window
        self._recent = RunningAggregates(window=window)
        # Those in a short window are only counted if somebody looks.
        self._is_short = isinstance(window, Last) and window.count <= KEPT
        self._waiting: deque[Evaluation] = deque(
            maxlen=window.count if isinstance(window, Last) else None
        )
        self.show = show
        self.kept = Kept()
        self.alerts = Alerts(alerts, window)
        self.history = History(window)
        self.timeline = TimelineRecorder(window)
        self.last_result_time: float | None = None

    def add(self, result: Mapping[str, Any] | Evaluation) -> None:
        """Count one result, unless it is pending."""
        if (seen := self._count(result, restored=False)) is not None:
            self.count += 1
            self.last_result_time = time()
            self._add_recent(seen)
            self.alerts.add(seen, monotonic())

    def restore(self, result: Mapping[str, Any]) -> None:
        """Count the next result in a journal, but not in windows of time: nobody knows when it
        came.
        """
        seen = self._count(result, restored=True)
        if seen is not None and isinstance(self.window, Last):
            self._add_recent(seen)

    def _add_recent(self, seen: Evaluation) -> None:
        if self._is_short:
            self._waiting.append(seen)
        else:
            self._recent.add(seen)

    @property
    def recent(self) -> RunningAggregates:
        """Aggregates of the results in the `window`."""
        while self._waiting:
            self._recent.add(self._waiting.popleft())
        return self._recent

    def look(self, stream: EvaluationStream) -> None:
        """Update `recent`, and the alerts that time alone changes; to be called once a second."""
        _ = self.recent
        self.alerts.look(
            monotonic(), (self.count, stream.rejects.total, stream.skipped, stream.in_flight)
        )

    def listed(self) -> list[dict[str, Any]]:
        """The results that a terminal shows."""
        entries = [*self.kept.latest] if self.show == "last" else self.kept.worst()
        rows = [each.row.copy() for each in entries[:LISTED]]
        for row in rows:
            del row["question"], row["number"]
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
        """Count a result, whenever it arrived; return None if it is pending."""
        seen = observe(result)
        if seen.pending is not None:
            return None
        self.kept.add(seen)
        self.history.add(seen, restored=restored)
        self.timeline.add(seen, restored=restored)
        return seen
