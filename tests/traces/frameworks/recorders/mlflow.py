"""MLflow: the spans that it exports through OpenTelemetry."""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import suppress
from typing import Any
from unittest.mock import patch

os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = "http://127.0.0.1:9/v1/traces"
os.environ["MLFLOW_TRACKING_URI"] = tempfile.mkdtemp()

import mlflow
from mlflow.tracing import provider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.traces.frameworks.recorders.scenario import CALLS, Recording, framework
from tests.traces.frameworks.recorders.spans import lines_of
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS

EXPORTED_AFTER_SECONDS = 7  # Its processor exports every five seconds.


@mlflow.trace(span_type="TOOL")
def sparql_query(query: str) -> str:
    return RESULTS


@mlflow.trace(span_type="TOOL")
def retrieval_search(text: str, k: int) -> str:
    raise ConnectionError(PROBLEM)


@mlflow.trace(span_type="CHAT_MODEL")
def chat(messages: list[dict[str, str]]) -> dict[str, str]:
    return {"role": "assistant", "content": ANSWER}


@mlflow.trace(span_type="AGENT")
def agent(question: str) -> str:
    (_, _, query), (_, _, search) = CALLS
    sparql_query(**query)
    with suppress(ConnectionError):
        retrieval_search(**search)
    return chat([{"role": "user", "content": question}])["content"]


async def record() -> list[Recording]:
    """Return the recorded histories."""
    exporter: Any = InMemorySpanExporter()
    with (
        patch.object(provider, "get_otlp_exporter", lambda *_, **__: exporter, create=True),
        patch("mlflow.tracing.utils.otlp.get_otlp_exporter", lambda *_, **__: exporter),
    ):
        agent(QUESTION)
        await asyncio.sleep(EXPORTED_AFTER_SECONDS)
        spans = exporter.get_finished_spans()
        mlflow.tracing.disable()
    return [Recording(framework("mlflow-tracing"), "otlp", "spans of MLflow", lines_of(spans))]
