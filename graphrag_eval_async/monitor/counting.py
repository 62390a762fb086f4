"""Counts recent results, and keeps the last or the worst ones."""

from __future__ import annotations

from bisect import insort
from collections import deque
from math import fsum, inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.monitor.arrivals import Arrivals
from graphrag_eval_async.monitor.watched import Alerts
from graphrag_eval_async.records.metrics import COST, is_counted_cost
from graphrag_eval_async.records.outcomes import EXECUTION_ERROR, REASON
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphrag_eval_async.aggregates import Seconds
    from graphrag_eval_async.inference.comparison import RunningComparison
    from graphrag_eval_async.monitor.alerts import Alert
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.records.results import Values
    from graphrag_eval_async.scale.redis.results import Run

LOOK_SECONDS = 1.0  # how often alerts look whether time alone has changed something
KEPT_RESULTS = 100  # how many results are kept: more than most terminals show
Show = Literal["last", "worst"]

SCORES = ("steps_score", "answer_f1", "answer_relevance", "ragas_answer_correctness")
"""The metrics whose mean ranks results."""

ERROR_CHARACTERS = 500


def shorten(result: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """The part of a result that is shown; `values` are its metrics, and those of its steps."""
    status = result.get("status", "success")
    short: dict[str, Any] = {key: result.get(key) for key in ("question_id", "template_id", "sample")}
    short["status"] = status
    error = result.get("error") if status == "error" else _error_of_judge(result)
    if error is not None:
        short["error"] = str(error)[:ERROR_CHARACTERS]
    for key in (REASON, EXECUTION_ERROR):
        if isinstance(told := result.get(key), str):
            short[key] = told[:ERROR_CHARACTERS]
    metrics: dict[str, float] = {}
    costs = []
    for metric, value in values:
        if metric.endswith(COST):
            if is_counted_cost(metric):
                costs.append(value)
        elif metric in result:
            metrics[metric] = value
    short["metrics"] = metrics
    if costs:
        short["cost"] = fsum(costs)
    return short


def _error_of_judge(result: Mapping[str, Any]) -> Any:
    for key in result:
        if key.endswith("_error"):
            return result[key]
    return None


def quality(short: Mapping[str, Any]) -> float | None:
    """The mean of the `SCORES` of a result, below all for an error; None if it has no such score."""
    if short["status"] == "error":
        return -inf
    scores = [short["metrics"][name] for name in SCORES if name in short["metrics"]]
    return fsum(scores) / len(scores) if scores else None


def is_wrong(short: Mapping[str, Any]) -> bool:
    """Whether a result is an error, or one of its scores is below 1."""
    own = quality(short)
    return own is not None and own < 1


class Latest:
    """The `kept` latest results, the newest first."""

    def __init__(self, kept: int = KEPT_RESULTS) -> None:
        self._results: deque[dict[str, Any]] = deque(maxlen=kept)

    def add(self, short: dict[str, Any]) -> None:
        self._results.appendleft(short)

    def facts(self) -> list[dict[str, Any]]:
        return [*self._results]


class Worst:
    """The `kept` worst results, these first; of equally bad ones, the latest.

    The worst are errors, then results with the lowest mean of `SCORES`; those without such a score are none.
    """

    def __init__(self, kept: int = KEPT_RESULTS) -> None:
        self._kept = kept
        self._results: list[tuple[float, int, dict[str, Any]]] = []
        self._count = 0

    def add(self, short: dict[str, Any]) -> None:
        rank = quality(short)
        if rank is None or (len(self._results) >= self._kept and rank > self._results[-1][0]):
            return
        self._count += 1
        insort(self._results, (rank, -self._count, short))
        del self._results[self._kept :]

    def facts(self) -> list[dict[str, Any]]:
        return [short for _, _, short in self._results]


class Counting:
    """Counts results one by one.

    Attributes:
        count: the number of results.
        recent: aggregates of those in the `window`.
        results: those that are listed, by `show`.
        alerts, comparison: what else counts them.
        arrivals: when those of earlier runs came.
        on_result: called with each complete result, the part of it that is shown, and whether it is restored.
    """

    def __init__(
        self,
        window: Last | Seconds,
        show: Show,
        alerts: Iterable[Alert],
        *,
        include_errors: bool,
        comparison: RunningComparison | None = None,
        arrivals: Arrivals | None = None,
    ) -> None:
        self.count = 0
        self.window = window
        self.recent = RunningAggregates(window=window, include_errors=include_errors)
        self.show = show
        self.results = Latest() if show == "last" else Worst()
        self.alerts = Alerts(alerts, window)
        self.comparison = comparison
        self.arrivals = arrivals or Arrivals([])
        self.on_result: Callable[[Mapping[str, Any], dict[str, Any], bool], object] | None = None
        self._include_errors = include_errors

    def add(self, result: Mapping[str, Any]) -> None:
        """Count one result, unless it is pending."""
        if (seen := self._count(result, restored=False)) is not None:
            self.count += 1
            self.recent.add(seen)
            self.alerts.add(seen, monotonic())

    def restore(self, result: Mapping[str, Any]) -> None:
        """Count the next result in a journal."""
        if (seen := self._count(result, restored=True)) is not None:
            age = self.arrivals.restore()
            if age is not None or isinstance(self.window, Last):
                self.recent.add(seen, age=age or 0.0)
            arrived = None if age is None else monotonic() - age
            self.alerts.restore(seen, arrived)

    def look(self, stream: Run) -> None:
        """Update the alerts that time alone changes; to be called once a second."""
        lines = (self.count, stream.rejects.total, stream.skipped, stream.in_flight)
        self.alerts.look(monotonic(), lines)

    def _count(self, result: Mapping[str, Any], *, restored: bool) -> Evaluation | None:
        """Count a result, whenever it arrived; return None if it is pending."""
        if "pending" in result:
            return None
        seen = observe(result, include_errors=self._include_errors)
        short = shorten(result, seen.values)
        self.results.add(short)
        if self.on_result is not None:
            self.on_result(result, short, restored)
        if self.comparison is not None:
            self.comparison.add(seen)
        return seen
