"""Exports results and aggregates by OpenTelemetry's SDK, with providers of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from warnings import warn

from graphrag_eval_async.errors import GraphragEvalWarning, UsageError, check_extra
from graphrag_eval_async.monitor.otlp import (
    EVENT,
    INFO,
    SCHEMA,
    SCOPE,
    WARN,
    Recording,
    resource_from_environment,
)
from graphrag_eval_async.monitor.prometheus_metrics import MAX_TEMPLATES
from graphrag_eval_async.records.metrics import ERROR_RATE, counts_of, mean_of_questions, means_of
from graphrag_eval_async.threads import run_abandonable
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.monitor.dashboard import Dashboard
    from graphrag_eval_async.stream import EvaluationStream

CLOSING_SECONDS = 5.0  # that the end of a run waits for the last records to be delivered
READ_SECONDS = 2.0  # that an export of metrics waits for the event loop

GAUGES = {
    "mean": "Mean of a metric so far: over questions, each the mean of its samples.",
    "results": "Number of results, by status.",
    "error_rate": "Share of results that are errors, from 0 to 1: the mean over questions.",
}
"""Gauges after the prefix ``graphrag_eval.``."""

Gauge: TypeAlias = tuple[str, float, dict[str, str]]
"""The name of one of these, its value, and its attributes."""


class OtelExport:
    """Sends results as log records and, on request, aggregates as gauges, until it is closed."""

    def __init__(
        self,
        *,
        metrics: Collection[str] = (),
        logs: bool = True,
        aggregates: RunningAggregates | None = None,
    ) -> None:
        """Prepare the export of these metrics or all scores, if `logs`, and of `aggregates`, if given.

        Raises:
            UsageError: a package is missing, or the environment asks for a protocol that is not supported.
        """
        signals = check_export()
        from opentelemetry.sdk.resources import Resource

        self._added = self._delivered = 0
        self._records = Recording(metrics)
        self._closers: list[Callable[[], object]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        resource = Resource.create(resource_from_environment())
        self._logger = self._make_logger(resource) if logs and "LOGS" in signals else None
        if aggregates is not None and "METRICS" in signals:
            self._make_gauges(resource, aggregates)

    def _make_logger(self, resource: Any) -> Any:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExportResult

        class Exporter(OTLPLogExporter):
            def export(_, batch: Any) -> Any:  # noqa: N805  (`self` is that of the method around it)
                outcome = super().export(batch)
                self._delivered += len(batch) if outcome is LogRecordExportResult.SUCCESS else 0
                return outcome

        provider = LoggerProvider(resource, shutdown_on_exit=False)
        provider.add_log_record_processor(BatchLogRecordProcessor(Exporter()))
        self._closers.append(provider.shutdown)
        return provider.get_logger(SCOPE, version(), SCHEMA)

    def _make_gauges(self, resource: Any, aggregates: RunningAggregates) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.metrics import Observation
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        def observe(name: str, _: Any) -> list[Any]:
            return [
                Observation(value, about) for each, value, about in self._read(aggregates) if each == name
            ]

        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = provider.get_meter(SCOPE, version())
        for name, text in GAUGES.items():
            meter.create_observable_gauge(f"graphrag_eval.{name}", [partial(observe, name)], description=text)
        self._closers.append(provider.shutdown)

    def _read(self, aggregates: RunningAggregates) -> list[Gauge]:
        """The values of all gauges, read on the event loop of the run; none if it is busy for long."""

        async def read() -> list[Gauge]:
            return [*gauges(aggregates)]

        if self._loop is None:
            return []
        if not self._loop.is_running():
            return [*gauges(aggregates)]
        reading = asyncio.run_coroutine_threadsafe(read(), self._loop)
        try:
            return reading.result(READ_SECONDS)
        except TimeoutError:
            reading.cancel()
            return []

    def add(self, result: Mapping[str, Any]) -> None:
        """Queue the records of a result; pending results have none."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if self._logger is None:
            return
        from opentelemetry._logs import LogRecord, SeverityNumber

        records = self._records(result)
        context = _context(records.trace_id, records.span_id)
        self._added += len(records.attributes)
        for attributes in records.attributes:
            failed = "error.type" in attributes
            self._logger.emit(
                LogRecord(
                    context=context,
                    severity_number=SeverityNumber(WARN if failed else INFO),
                    severity_text="WARN" if failed else None,
                    attributes=attributes,
                    event_name=EVENT,
                )
            )

    def close(self) -> None:
        """Deliver what is queued, for at most `CLOSING_SECONDS`; warn of records that were not delivered."""
        closers, self._closers = self._closers, []
        threads = [threading.Thread(target=close, daemon=True) for close in closers]
        for thread in threads:
            thread.start()
        end = monotonic() + CLOSING_SECONDS
        for thread in threads:
            thread.join(max(0.0, end - monotonic()))
        if closers and (lost := self._added - self._delivered) > 0:
            warn(
                f"{lost} of {self._added} evaluation records were not delivered by OpenTelemetry; check the "
                "collector at OTEL_EXPORTER_OTLP_ENDPOINT",
                GraphragEvalWarning,
                stacklevel=2,
            )


def gauges(aggregates: RunningAggregates) -> Iterator[Gauge]:
    """The values of the gauges; those without a template are of all results."""
    snapshot = aggregates.snapshot()
    templates = [*snapshot["per_template"].items()][:MAX_TEMPLATES]
    groups: list[tuple[dict[str, str], Any]] = [({}, snapshot["micro"])]
    groups += [({"graphrag_eval.template_id": name}, group) for name, group in templates]
    for about, group in groups:
        samples, errors = counts_of(group)
        yield "results", samples - errors, about | {"graphrag_eval.status": "success"}
        yield "results", errors, about | {"graphrag_eval.status": "error"}
        if samples:
            yield "error_rate", group[ERROR_RATE], about
        for metric, stats in means_of(group).items():
            yield "mean", mean_of_questions(stats), about | {"gen_ai.evaluation.name": metric}


def _context(trace_id: str, span_id: str) -> Any:
    """The context of a span of which only the ids are known; an empty one without them."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if not trace_id:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED)
    span = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(span), Context())


def check_export() -> set[str]:
    """Return the signals that the environment lets us send: "LOGS", "METRICS"."""
    check_extra("OpenTelemetry", "otel", "opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk")
    if _setting("OTEL_SDK_DISABLED") == "true":
        return set()
    found = set()
    for signal in ("LOGS", "METRICS"):
        own, all_signals = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
        protocol = own if _setting(own) else all_signals
        if _setting(protocol) not in ("", "http/protobuf"):
            raise UsageError(f"{protocol}={_setting(protocol)}: only http/protobuf is supported")
        exporter = _setting(name := f"OTEL_{signal}_EXPORTER")
        if exporter not in ("", "otlp", "none"):
            raise UsageError(f"{name}={exporter}: only otlp and none are supported")
        if exporter != "none":
            found.add(signal)
    return found


def _setting(name: str) -> str:
    return os.environ.get(name, "").strip().lower()


class OtelSink:
    """A stream whose results are also sent to an OpenTelemetry collector, while the context is open.

    An asynchronous context manager and iterator, in place of the stream::

        async with OtelSink(evaluate_stream(reference, responses)) as results:
            async for result in results:
                ...

    Each metric of a result is a log record with the event name ``gen_ai.evaluation.result``, and these
    attributes:

    - ``gen_ai.evaluation.name``: the metric, such as ``steps_score``
    - ``gen_ai.evaluation.score.value``: its value
    - ``gen_ai.evaluation.score.label``, for metrics from 0 to 1: ``pass`` for 1, ``fail`` for 0, else
      ``partial``
    - ``gen_ai.evaluation.explanation``: why the response is wrong. What a judge said is sent only if
      ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` is ``true``.
    - ``error.type``, in place of a value: why there is none, such as ``timeout``
    - ``gen_ai.response.id``: the ``id`` of the response
    - ``graphrag_eval.template_id``, ``.question_id``, ``.sample`` and ``.status``, which identify the result

    If a response has the ids of the agent's span in its keys ``trace_id`` and ``span_id``, as responses from
    OpenTelemetry traces do, that span is the parent. Results of an earlier run are not sent again. The
    environment configures the export (``OTEL_EXPORTER_OTLP_ENDPOINT`` and so on); global providers are never
    used. The stream never waits for the collector: at the end, a `GraphragEvalWarning` counts the records
    that were not delivered. Needs the extra ``otel``.
    """

    def __init__(
        self,
        stream: EvaluationStream | Dashboard,
        *,
        metrics: Collection[str] = (),
        aggregates: bool = False,
    ) -> None:
        """Prepare the export.

        Args:
            stream: the stream, or its dashboard.
            metrics: names of the metrics to send; empty for all except tokens, seconds and costs.
            aggregates: whether to send means and counts as gauges, too.

        Raises:
            UsageError: a package is missing, or the environment asks for what is not supported.
        """
        self._stream = stream
        self._export = OtelExport(metrics=metrics, aggregates=stream.aggregates if aggregates else None)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        try:
            await run_abandonable(self._export.close)
        finally:
            await self._stream.__aexit__(*exc_info)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        result: dict[str, Any] = await anext(self._stream)
        self._export.add(result)
        return result
