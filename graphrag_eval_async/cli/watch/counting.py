"""What is known of results besides the aggregates of all of them."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.cli.watch.alerts import Alerts, find_alerts
from graphrag_eval_async.cli.watch.results import LastResults, WorstResults, shorten
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from graphrag_eval_async.aggregates import Last, Seconds
    from graphrag_eval_async.cli.watch.alerts import Alert
    from graphrag_eval_async.cli.watch.results import Show
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.inference.comparison import RunningComparison

KEPT_RESULTS = 100
"""More than most terminals show."""


class Showing(NamedTuple):
    """What the options say is to be shown; times in seconds."""

    window: Last | Seconds
    show: Show
    interval: float
    alerts: Sequence[Alert]
    on_alert: str | None
    baseline: str | None = None
    level: float = 0.95

    def of(self, templates: Collection[str], config: Config | None) -> Showing:
        """The same, of a run: see `find_alerts`.

        Raises:
            UsageError: there can be no values for an alert, or no alert for the command.
        """
        if self.on_alert is not None and not self.alerts:
            raise UsageError("--on-alert needs --alert: it is run for each that begins or ceases")
        return self._replace(alerts=find_alerts(self.alerts, templates, config))


class Counting:
    """Takes results one by one.

    Attributes:
        answered: ids of the questions that they answer.
        count: how many there were.
        recent: aggregates of those in the window.
        results: the last ones, or the worst.
        alerts: about them.
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
        """Count one result, unless it is still to come whole."""
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
