"""MLflow: the spans of a graph of LangGraph."""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import Any
from unittest.mock import patch

os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = "http://127.0.0.1:9/v1/traces"
os.environ["MLFLOW_TRACKING_URI"] = tempfile.mkdtemp()

import mlflow
from mlflow.tracing import provider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.traces.frameworks.recorders.langgraph import asked, graph
from tests.traces.frameworks.recorders.scenario import Recording, framework
from tests.traces.frameworks.recorders.spans import lines_of

EXPORTED_AFTER_SECONDS = 7  # Its processor exports every five seconds.


async def record() -> list[Recording]:
    """Return the recorded histories."""
    exporter: Any = InMemorySpanExporter()
    with (
        patch.object(provider, "get_otlp_exporter", lambda *_, **__: exporter, create=True),
        patch("mlflow.tracing.utils.otlp.get_otlp_exporter", lambda *_, **__: exporter),
    ):
        mlflow.langchain.autolog()
        await graph().ainvoke(asked())
        await asyncio.sleep(EXPORTED_AFTER_SECONDS)
        spans = exporter.get_finished_spans()
        mlflow.tracing.disable()
    name = framework("mlflow-tracing")
    return [Recording(name, "otlp", "spans of LangGraph by MLflow", lines_of(spans))]
