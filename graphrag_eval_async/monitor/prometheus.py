"""A collector for Prometheus, which reads the state of a stream when it is scraped."""

from __future__ import annotations

import asyncio
from itertools import chain
from math import inf
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError, check_extra
from graphrag_eval_async.inference.confidence import check_level, confidence_sequence
from graphrag_eval_async.monitor.prometheus_metrics import (
    ELAPSED,
    MAX_TEMPLATES,
    OTHER,
    RESPONSE_BUCKETS,
    SCORE_BUCKETS,
    State,
    families,
    label_of,
    rest_of,
    weights_of,
)
from graphrag_eval_async.records.metrics import counts_of, is_score, means_of
from graphrag_eval_async.threads import work_in_slices
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prometheus_client.metrics_core import Metric

    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.monitor.prometheus_metrics import Bounds, Groups
    from graphrag_eval_async.scale.redis.results import Run
    from graphrag_eval_async.sources import Follower

SCRAPE_SECONDS = 5.0
"""How long a scrape in another thread waits for the event loop."""

BOUNDS_SHARE = 0.05
"""Share of the time that computing confidence intervals may take: with many, they are kept for seconds."""


class PrometheusCollector:
    """Exports the state of a stream to Prometheus, for ``REGISTRY.register(PrometheusCollector(stream))``.

    A scrape reads the state at that time, so results cost nothing extra. Scrape from a thread, as
    ``prometheus_client.start_http_server`` does: the state is then read on the event loop in small slices,
    and the rest is computed in the thread. A scrape on the event loop itself blocks it for about a tenth of a
    second. The stream never waits for a scrape. After the end of the stream, scrapes give the final values.

    The first 50 templates have labels of their own; all others count as ``other``. Needs the extra
    ``prometheus``.
    """

    def __init__(
        self,
        stream: Run,
        *,
        recent: RunningAggregates | None = None,
        source: Follower | None = None,
        alerts: Callable[[], Mapping[str, bool]] | None = None,
        reference: str | None = None,
        judge_model: str | None = None,
        level: float = 0.95,
    ) -> None:
        """Make a collector; call this on the event loop that runs the stream.

        Args:
            stream: the stream.
            recent: aggregates with a window, for the mean of recent results.
            source: the follower that the stream reads, for its lag.
            alerts: returns the alerts by name, and whether each is active; called on the event loop.
            reference: name of the reference set, for `graphrag_eval_info`.
            judge_model: name of the judge's model, for `graphrag_eval_info`.
            level: confidence level of the intervals, between 0 and 1.

        Raises:
            UsageError: prometheus-client is not installed, no event loop is running, or `level` is not
                between 0 and 1.
        """
        check_extra("PrometheusCollector", "prometheus", "prometheus_client")
        check_level(level)
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError(
                "PrometheusCollector: no event loop is running; make it in the coroutine that iterates over "
                "the stream"
            ) from None
        self._stream = stream
        self._recent = recent
        self._source = source
        self._alerts = alerts or dict
        self._level = level
        self._about = (version(), reference, judge_model, f"{level:g}")
        self._labels: dict[str, str] = {}  # of the templates that have one
        self._results = 0
        self._last_result: float | None = None
        self._final: State | None = None
        self._bounds: Bounds = {}
        self._bounds_due = -inf

    def describe(self) -> list[Metric]:
        """Return the metrics without values; for `prometheus_client`."""
        return [*families(None, {}, ())]

    def collect(self) -> list[Metric]:
        """Return the metrics with their current values; for `prometheus_client`.

        Raises:
            TimeoutError: the event loop did not answer within 5 seconds.
        """
        state = self._read_anywhere()
        return [*families(state, self._bounds_of(state), self._about)]

    def _read_anywhere(self) -> State:
        if self._loop.is_closed():  # Nothing changes any more.
            self._final = self._final or self._read()
            return self._final
        try:
            is_own_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_own_loop = False
        if is_own_loop or not self._loop.is_running():
            return self._read()
        reading = asyncio.run_coroutine_threadsafe(self._read_in_slices(), self._loop)
        try:
            return reading.result(SCRAPE_SECONDS)
        finally:
            reading.cancel()

    async def _read_in_slices(self) -> State:
        aggregates = [self._stream.aggregates, *([] if self._recent is None else [self._recent])]
        self._choose_labels()
        await work_in_slices(chain.from_iterable(each.prepare(self._labels) for each in aggregates))
        return self._read()

    def _read(self) -> State:
        stream, aggregates, recent = self._stream, self._stream.aggregates, self._recent
        overall, dropped = aggregates.overall(), self._choose_labels()
        self._note_results(overall)
        buckets = {metric: (*SCORE_BUCKETS, inf) for metric in means_of(overall) if is_score(metric)}
        buckets[ELAPSED] = (*RESPONSE_BUCKETS, inf)
        return State(
            overall=overall,
            groups=self._by_label(aggregates, overall, dropped),
            recent={} if recent is None else self._by_label(recent, recent.overall(), dropped),
            counts={metric: aggregates.cumulative_counts(metric, ends) for metric, ends in buckets.items()},
            usage=stream.usage.as_dict(),
            rejects={str(reason): count for reason, count in stream.rejects.counts.items()},
            in_flight=stream.in_flight,
            lag=None if self._source is None else self._source.lag,
            alerts=dict(self._alerts()),
            last_result=self._last_result,
            dropped=dropped,
        )

    def _note_results(self, overall: Mapping[str, Any]) -> None:
        """Note the time if there are new results; those of an earlier run are not new."""
        journal = self._stream.journal
        results = counts_of(overall)[0] - (0 if journal is None else journal.restored)
        if results > self._results:
            self._results, self._last_result = results, time()

    def _choose_labels(self) -> int:
        """Give templates labels of their own, while there are any; return how many have none.

        Those known first keep theirs, so that counters never fall.
        """
        templates = self._stream.aggregates.templates
        for template in templates:
            if len(self._labels) >= MAX_TEMPLATES:
                break
            if template not in self._labels:
                label = label_of(template)
                if label not in {OTHER, *self._labels.values()}:
                    self._labels[template] = label
        return len(templates) - len(self._labels)

    def _by_label(self, aggregates: RunningAggregates, overall: Mapping[str, Any], dropped: int) -> Groups:
        """Return templates by their labels, and the rest of all results."""
        shown = aggregates.per_template(self._labels)
        rest = {OTHER: rest_of(overall, shown.values())} if dropped else {}
        return {self._labels[template]: group for template, group in shown.items()} | rest

    def _bounds_of(self, state: State) -> Bounds:
        """Return the confidence intervals; at most `BOUNDS_SHARE` of the time goes into new ones."""
        known, start = self._bounds, monotonic()
        if start >= self._bounds_due or self._loop.is_closed():
            known = {}
        bounds = {
            key: known.get(key) or confidence_sequence(weights, level=self._level)
            for key, weights in weights_of(state.groups)
        }
        if not known:
            now = monotonic()
            self._bounds_due = now + (now - start) / BOUNDS_SHARE
        self._bounds = bounds
        return bounds
