"""A collector for Prometheus, which reads the state of a stream when it is scraped, and a server
for it.
"""

from __future__ import annotations

import asyncio
from itertools import chain
from threading import Thread
from time import time
from typing import TYPE_CHECKING, Any, Self

from graphrag_eval_async.errors import UsageError, check_extra
from graphrag_eval_async.exporters.prometheus_metrics import (
    MAX_TEMPLATES,
    OTHER,
    Sample,
    Scrape,
    families,
    histograms_of,
    label_of,
    rest_of,
    samples_of,
    single,
)
from graphrag_eval_async.helpers.threads import work_in_slices
from graphrag_eval_async.monitor.hosts import REFUSAL, HostCheck
from graphrag_eval_async.records.snapshots import counts_of
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from prometheus_client.metrics_core import Metric

    from graphrag_eval_async.exporters.prometheus_metrics import Groups
    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.sources import Follower
    from graphrag_eval_async.stream import EvaluationStream

SCRAPE_SECONDS = 5.0
"""Seconds that a scrape in another thread waits for the event loop."""


class PrometheusCollector:
    """Exports the state of a stream to Prometheus, for
    ``REGISTRY.register(PrometheusCollector(stream))``.

    A scrape reads the state at that time, so results cost nothing extra. Scrape from a thread, as
    ``prometheus_client.start_http_server`` does: the state is then read on the event loop in small
    slices, and the rest is computed in the thread. A scrape on the event loop itself blocks it for
    about a tenth of a second. The stream never waits for a scrape. After the end of the stream,
    scrapes give the final values.

    The first 50 templates have labels of their own; all others count as ``other``. Needs the extra
    ``prometheus``.
    """

    @without_removed("level")
    def __init__(
        self,
        stream: EvaluationStream,
        *,
        recent: RunningAggregates | None = None,
        source: Follower | None = None,
        alerts: Callable[[], Mapping[str, bool]] | None = None,
        reference: str | None = None,
        judge_model: str | None = None,
    ) -> None:
        """Make a collector; call this on the event loop that runs the stream.

        Args:
            stream: the stream.
            recent: aggregates with a window, for the mean of recent results.
            source: the follower that the stream reads, for its lag.
            alerts: returns the alerts by name, and whether each is active; called on the event
                loop.
            reference: name of the reference set, for `graphrag_eval_info`.
            judge_model: name of the judge's model, for `graphrag_eval_info`.

        Raises:
            UsageError: prometheus-client is not installed, or no event loop is running.
        """
        check_extra("PrometheusCollector", "prometheus", "prometheus_client")
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError(
                "PrometheusCollector: no event loop is running; make it in the coroutine that "
                "iterates over the stream"
            ) from None
        self._stream = stream
        self._recent = recent
        self._source = source
        self._alerts = alerts or dict
        self._about = (version(), reference, judge_model)
        # The label values of the templates that have one.
        self._labels: dict[str, str] = {}
        # The number of results at the last scrape, and the time at which the latest of them came,
        # as a sample.
        self._results = 0
        self._last_result = single(None)

    def describe(self) -> list[Metric]:
        """Return the metrics without values; for `prometheus_client`."""
        return [*families(Scrape(samples={}, histograms={}))]

    def collect(self) -> list[Metric]:
        """Return the metrics with their current values; for `prometheus_client`.

        Raises:
            TimeoutError: the event loop did not answer within 5 seconds.
        """
        return [*families(self._read_anywhere())]

    def _read_anywhere(self) -> Scrape:
        """Return the values at this moment; may be called in any thread.

        Raises:
            TimeoutError: the event loop did not answer within `SCRAPE_SECONDS`.
        """
        # The aggregates may only be read where the event loop of the stream does not change them:
        # on this loop, or anywhere while it does not run.
        try:
            is_on_loop_of_stream = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_on_loop_of_stream = False
        if is_on_loop_of_stream or not self._loop.is_running():
            return self._read()
        reading = asyncio.run_coroutine_threadsafe(self._read_in_slices(), self._loop)
        try:
            return reading.result(SCRAPE_SECONDS)
        finally:
            reading.cancel()

    async def _read_in_slices(self) -> Scrape:
        """Return the values at this moment.

        The slow part of the work is done before, in slices between which other tasks run.
        """
        self._choose_labels()
        slices = self._stream.aggregates.prepare(self._labels)
        if self._recent is not None:
            slices = chain(slices, self._recent.prepare(self._labels))
        await work_in_slices(slices)
        return self._read()

    def _read(self) -> Scrape:
        """Return the values at this moment."""
        aggregates = self._stream.aggregates
        overall = aggregates.overall()
        unlabelled = self._choose_labels()
        groups = self._by_label(aggregates, overall, unlabelled)
        recent: dict[str, Any] | None = None
        recent_groups: Groups = {}
        if self._recent is not None:
            recent = self._recent.overall()
            recent_groups = self._by_label(self._recent, recent, unlabelled)
        self._note_new_results(overall)

        samples = samples_of(self._stream, overall, groups, recent, recent_groups, self._about)
        samples["last_result_timestamp_seconds"] = self._last_result
        samples["alert_active"] = [
            Sample(int(is_active), labels=(alert,)) for alert, is_active in self._alerts().items()
        ]
        if self._source is not None:
            lag = self._source.lag
            samples["source_lag_bytes"] = single(lag.bytes)
            samples["source_lag_seconds"] = single(lag.seconds)
        return Scrape(samples, histograms_of(aggregates, overall))

    def _note_new_results(self, overall: Mapping[str, Any]) -> None:
        """Set the time of the last result to now, if there are more results than at the last call.

        Results that an earlier run left in the journal do not count.
        """
        journal = self._stream.journal
        restored = 0 if journal is None else journal.restored
        all_results, _ = counts_of(overall)
        new_results = all_results - restored
        if new_results > self._results:
            self._results = new_results
            self._last_result = single(time())

    def _choose_labels(self) -> int:
        """Give each new template a label value of its own, up to `MAX_TEMPLATES` templates.

        A template keeps its label value, so that its counters never fall.

        Returns:
            the number of templates without a label value.
        """
        templates = self._stream.aggregates.templates
        for template in templates:
            if len(self._labels) >= MAX_TEMPLATES:
                break
            if template in self._labels:
                continue
            label = label_of(template)
            is_taken = label == OTHER or label in self._labels.values()
            if not is_taken:
                self._labels[template] = label
        return len(templates) - len(self._labels)

    def _by_label(
        self, aggregates: RunningAggregates, overall: Mapping[str, Any], unlabelled: int
    ) -> Groups:
        """Return the aggregates of templates, by label value.

        Args:
            aggregates: the aggregates of all results, or of those in the window.
            overall: the statistics over all templates from these aggregates.
            unlabelled: number of templates without a label value, which count together.
        """
        groups = {}
        for template, group in aggregates.per_template(self._labels).items():
            groups[self._labels[template]] = group
        if unlabelled:
            groups[OTHER] = rest_of(overall, [*groups.values()])
        return groups


TEXT_HEADER = ("Content-Type", "text/plain; charset=utf-8")


class MetricsServer:
    """Serves the metrics of a collector; a context manager, which closes it."""

    def __init__(self, host: str, port: int) -> None:
        """Listen for requests. The page is empty until `run` is called.

        Raises:
            UsageError: prometheus-client is not installed, or the port cannot be opened.
        """
        check_extra("serving metrics", "prometheus", "prometheus_client")
        from prometheus_client import CollectorRegistry, make_wsgi_app

        from graphrag_eval_async.exporters.scrape_server import ScrapeServer

        check = HostCheck(host)
        try:
            self._server = ScrapeServer(host, port)
        except OSError as error:
            problem = error.strerror or error
            raise UsageError(
                f"cannot serve metrics on {check.name}:{port}: {problem}; choose another"
            ) from None
        self._registry = CollectorRegistry()
        self._server.set_app(_answering(make_wsgi_app(self._registry), check))
        self.address = f"http://{check.name}:{self._server.server_port}/metrics"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    async def run(
        self, work: Coroutine[Any, Any, None], collector: Callable[[], PrometheusCollector]
    ) -> None:
        """Await `work` while the metrics of `collector()` are served."""
        task = asyncio.ensure_future(work)
        try:
            self._registry.register(collector())
            await task
        finally:
            task.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _answering(app: Callable[..., Any], check: HostCheck) -> Callable[..., Any]:
    """Return a WSGI application that answers requests by means of `app`, with these exceptions.

    - It answers 403 to requests that `check` refuses.
    - It answers 503 if the metrics cannot be read.
    """

    def answer(environ: Any, start_response: Callable[..., Any]) -> Any:
        """Answer a request."""
        if check.refuses(environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN")):
            start_response("403 Forbidden", [TEXT_HEADER])
            return [REFUSAL.encode()]
        try:
            return app(environ, start_response)
        # Otherwise, any error would leave a traceback on stderr, in the middle of the view.
        except Exception as error:  # noqa: BLE001
            start_response("503 Service Unavailable", [TEXT_HEADER])
            return [f"metrics cannot be read: {type(error).__name__}\n".encode()]

    return answer
