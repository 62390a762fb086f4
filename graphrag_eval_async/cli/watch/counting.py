"""What is known of results besides the aggregates of all of them: the window, and the last or the worst."""

from __future__ import annotations

from bisect import insort
from collections import deque
from math import fsum, inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from graphrag_eval_async.cli.watch.alerts import Alerts
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records.metrics import COST
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.aggregates import Last, Seconds
    from graphrag_eval_async.cli.watch.alerts import Alert
    from graphrag_eval_async.inference.comparison import RunningComparison
    from graphrag_eval_async.records.results import Values

KEPT_RESULTS = 100
"""How many results are kept: more than most terminals show."""

Show = Literal["last", "worst"]

SCORES = ("steps_score", "answer_f1", "answer_relevance", "ragas_answer_correctness")
"""The metrics whose mean ranks results."""

ERROR_CHARACTERS = 500

F1_COST = f"_f1{COST}"
"""The suffix of the cost of an F1 score, which is the sum of the costs of recall and precision."""


def is_counted_cost(metric: str) -> bool:
    """Whether a metric is a cost that is not the sum of other costs."""
    return metric.endswith(COST) and not metric.endswith(F1_COST)


def shorten(result: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """The part of a result that is shown; `values` are its metrics, and those of its steps."""
    short: dict[str, Any] = {key: result[key] for key in ("question_id", "template_id", "sample", "status")}
    errors = (value for key, value in result.items() if key.endswith("_error"))
    error = result.get("error") if result["status"] == "error" else next(errors, None)
    if error is not None:
        short["error"] = str(error)[:ERROR_CHARACTERS]
    short["metrics"] = {
        metric: value for metric, value in values if metric in result and not metric.endswith(COST)
    }
    if costs := [value for metric, value in values if is_counted_cost(metric)]:
        short["cost"] = fsum(costs)
    return short


class LastResults:
    """The last `kept` results, the latest first."""

    def __init__(self, kept: int) -> None:
        self._results: deque[dict[str, Any]] = deque(maxlen=kept)

    def add(self, short: dict[str, Any]) -> None:
        """Add what `shorten` gave."""
        self._results.appendleft(short)

    def facts(self) -> list[dict[str, Any]]:
        """All of them."""
        return list(self._results)


class WorstResults:
    """The `kept` worst results: errors, then those with the lowest mean of `SCORES`; of equals, the latest.

    Results without any of these scores are left out.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._results: list[tuple[float, int, dict[str, Any]]] = []
        self._count = 0

    def add(self, short: dict[str, Any]) -> None:
        """Add what `shorten` gave."""
        scores = [short["metrics"][name] for name in SCORES if name in short["metrics"]]
        if short["status"] == "error":
            quality = -inf
        elif scores:
            quality = fsum(scores) / len(scores)
        else:
            return
        self._count += 1
        insort(self._results, (quality, -self._count, short))
        del self._results[self._kept :]

    def facts(self) -> list[dict[str, Any]]:
        """All of them, the worst first."""
        return [short for _, _, short in self._results]


class Showing(NamedTuple):
    """What is to be shown; times in seconds."""

    window: Last | Seconds
    show: Show
    interval: float
    alerts: Sequence[Alert]
    on_alert: str | None
    level: float = 0.95


class Counting:
    """Counts results one by one.

    Attributes:
        answered: ids of the questions with results.
        count: the number of results.
        recent: aggregates of the results in the window.
        results: the last results, or the worst.
        alerts: the alerts on them.
        comparison: with a baseline, if there is one.
    """

    def __init__(
        self, showing: Showing, *, include_errors: bool, comparison: RunningComparison | None = None
    ) -> None:
        self.comparison = comparison
        self.answered: set[str] = set()
        self.count = 0
        self.recent = RunningAggregates(window=showing.window, include_errors=include_errors)
        self.results = (WorstResults if showing.show == "worst" else LastResults)(KEPT_RESULTS)
        self.alerts = Alerts(showing.alerts, showing.window)
        self._include_errors = include_errors

    def add(self, result: Mapping[str, Any]) -> None:
        """Count one result; a pending one only answers its question."""
        self.answered.add(result["question_id"])
        if "pending" in result:
            return
        self.count += 1
        self.recent.add(result)
        if self.comparison is not None:
            self.comparison.add(result)
        seen = observe(result, include_errors=self._include_errors)
        self.results.add(shorten(result, seen.values))
        self.alerts.add(seen.template_id, seen.values, monotonic(), failed=seen.failed)
