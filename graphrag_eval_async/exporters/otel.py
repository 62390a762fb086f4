"""Exports results by OpenTelemetry's SDK, with a provider of its own."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Self
from warnings import warn

from graphrag_eval_async.errors import GraphragEvalWarning, UsageError, check_extra
from graphrag_eval_async.exporters.otel_records import captures_content, records_of, span_of
from graphrag_eval_async.helpers.threads import run_abandonable
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.unicode import in_utf8
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.monitor.dashboard import Dashboard
    from graphrag_eval_async.stream import EvaluationStream

EVENT = "gen_ai.evaluation.result"
"""The name of the event of a score, by the GenAI conventions."""

SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
"""The version of the conventions."""

SCOPE = "graphrag_eval_async"
"""The name of the instrumentation scope of all records."""

CLOSING_SECONDS = 5.0
"""Seconds that the end of a run waits for the last records to be delivered."""


class OtelExport:
    """Sends results as log records, until it is closed."""

    def __init__(self) -> None:
        """Prepare the export.

        Raises:
            UsageError: a package is missing, or the environment asks for a protocol that is not
                supported.
        """
        self._added = 0
        self._delivered = 0
        self._with_content = captures_content()
        self._provider: Any = None
        self._logger: Any = None
        if check_export():
            self._provider = self._make_provider()
            self._logger = self._provider.get_logger(SCOPE, version(), SCHEMA)

    def _make_provider(self) -> Any:
        """Return a provider of loggers that counts the records that it delivers."""
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExportResult
        from opentelemetry.sdk.resources import Resource

        class Exporter(OTLPLogExporter):
            """An exporter that adds the records that it delivers to `self._delivered`."""

            def export(_, batch: Any) -> Any:  # noqa: N805  (`self` is that of the method around it)
                outcome = super().export(batch)
                if outcome is LogRecordExportResult.SUCCESS:
                    self._delivered += len(batch)
                return outcome

        provider = LoggerProvider(
            Resource.create(_resource_from_environment()), shutdown_on_exit=False
        )
        provider.add_log_record_processor(BatchLogRecordProcessor(Exporter()))
        return provider

    def add(self, result: Mapping[str, Any]) -> None:
        """Queue the records of a result for delivery; a pending result has none."""
        if self._provider is None:
            return
        from opentelemetry._logs import LogRecord, SeverityNumber

        records = records_of(result, with_content=self._with_content)
        context = _context(span_of(result))
        self._added += len(records)
        for attributes in records:
            severity = SeverityNumber.INFO
            severity_text = None
            if "error.type" in attributes:
                severity = SeverityNumber.WARN
                severity_text = "WARN"
            record = LogRecord(
                context=context,
                severity_number=severity,
                severity_text=severity_text,
                attributes=attributes,
                event_name=EVENT,
            )
            self._logger.emit(record)

    def close(self) -> None:
        """Wait at most `CLOSING_SECONDS` for the delivery of the records that are queued.

        Warn of records that are not delivered by then.
        """
        if self._provider is None:
            return
        # The shutdown of a provider has no time limit. In a daemon thread, it does not keep the
        # process from ending.
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        self._provider = None
        closing.start()
        closing.join(CLOSING_SECONDS)
        lost = self._added - self._delivered
        if lost > 0:
            warn(
                f"{lost} of {self._added} evaluation records were not delivered by OpenTelemetry; "
                "check the collector at OTEL_EXPORTER_OTLP_ENDPOINT",
                GraphragEvalWarning,
                stacklevel=2,
            )


def _context(ids: tuple[int, int] | None) -> Any:
    """Return a context for records that belong to the span of another process.

    Args:
        ids: the ids of the trace and of the span; None for an empty context.
    """
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    if ids is None:
        return Context()
    trace_id, span_id = ids
    flags = TraceFlags(TraceFlags.SAMPLED)
    span = SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(span), Context())


def check_export() -> bool:
    """Return whether the environment variables of OpenTelemetry allow log records to be sent.

    Raises:
        UsageError: a package is missing, or the environment asks for a protocol that is not
            supported.
    """
    check_extra(
        "OpenTelemetry", "otel", "opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk"
    )
    if _setting("OTEL_SDK_DISABLED") == "true":
        return False
    # The variable for logs takes precedence over the one for all signals.
    protocol = "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL"
    if not _setting(protocol):
        protocol = "OTEL_EXPORTER_OTLP_PROTOCOL"
    if _setting(protocol) not in ("", "http/protobuf"):
        raise UsageError(f"{protocol}={_setting(protocol)}: only http/protobuf is supported")
    exporter = _setting("OTEL_LOGS_EXPORTER")
    if exporter not in ("", "otlp", "none"):
        raise UsageError(f"OTEL_LOGS_EXPORTER={exporter}: only otlp and none are supported")
    return exporter != "none"


def _setting(name: str) -> str:
    """Return an environment variable in lower case, without blanks; empty if it is not set."""
    return os.environ.get(name, "").strip().lower()


def _resource_from_environment() -> dict[str, str]:
    """Return the attributes of the process that sends records.

    They are those of ``OTEL_RESOURCE_ATTRIBUTES`` and ``OTEL_SERVICE_NAME``, made valid UTF-8.
    """
    from opentelemetry.sdk.resources import OTELResourceDetector

    attributes = {"service.name": "graphrag-eval-async"}
    for name, value in OTELResourceDetector().detect().attributes.items():
        attributes[in_utf8(name)] = in_utf8(str(value))
    return attributes


class OtelSink:
    """A stream whose results are also sent to an OpenTelemetry collector, while the context is
    open.

    An asynchronous context manager and iterator, in place of the stream::

        async with OtelSink(evaluate_stream(reference, responses)) as results:
            async for result in results:
                ...

    Each metric of a result is a log record with the event name ``gen_ai.evaluation.result``, and
    these attributes:

    - ``gen_ai.evaluation.name``: the metric, such as ``steps_score``
    - ``gen_ai.evaluation.score.value``: its value
    - ``gen_ai.evaluation.score.label``, for metrics from 0 to 1: ``pass`` for 1, ``fail`` for 0,
      else ``partial``
    - ``gen_ai.evaluation.explanation``: why the response is wrong. What a judge said is sent only
      if ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` is ``true``.
    - ``error.type``, in place of a value: why there is none, such as ``timeout``
    - ``gen_ai.response.id``: the ``id`` of the response
    - ``graphrag_eval.template_id``, ``.question_id``, ``.sample`` and ``.status``, which identify
      the result

    If a response has the ids of the agent's span in its keys ``trace_id`` and ``span_id``, as
    responses from OpenTelemetry traces do, that span is the parent. Results of an earlier run are
    not sent again. The environment configures the export (``OTEL_EXPORTER_OTLP_ENDPOINT`` and so
    on); global providers are never used. The stream never waits for the collector: at the end, a
    `GraphragEvalWarning` counts the records that were not delivered. Needs the extra ``otel``.
    """

    @without_removed("metrics", "aggregates")
    def __init__(self, stream: EvaluationStream | Dashboard) -> None:
        """Prepare the export of the results of a stream, or of its dashboard.

        Raises:
            UsageError: a package is missing, or the environment asks for what is not supported.
        """
        self._stream = stream
        self._export = OtelExport()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        """Deliver the records that are queued, and close the stream."""
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
