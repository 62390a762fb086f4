"""The receiver takes what the exporter of OpenTelemetry sends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graphrag_eval_async import evaluate_stream, receive_otlp
from graphrag_eval_async.traces import TraceFormat
from tests.traces.scenario import RESULTS
from tests.traces.test_formats import REFERENCE

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra test-traces")

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

AGENT = {"gen_ai.operation.name": "invoke_agent", "eval.question": "q1"}
TOOL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "sparql_query",
    "gen_ai.tool.call.result": RESULTS,
}
COUNT = 30


def send(port: int, compression: Any) -> None:
    exporter = OTLPSpanExporter(f"http://127.0.0.1:{port}/v1/traces", compression=compression)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=20))
    tracer = provider.get_tracer("test")
    for _ in range(COUNT):
        with (
            tracer.start_as_current_span("invoke_agent", attributes=AGENT),
            tracer.start_as_current_span("execute_tool sparql_query", attributes=TOOL),
        ):
            pass
    provider.shutdown()


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
async def test_all_traces_come(compression: Any) -> None:
    receiver = receive_otlp(port=0)
    quick = TraceFormat(name="otlp", question_id="eval.question", grace=0.05)
    found = []
    async with asyncio.timeout(60), evaluate_stream(REFERENCE, receiver, format=quick) as stream:
        sending = asyncio.create_task(asyncio.to_thread(send, receiver.port, compression))
        async for result in stream:
            found.append(result["steps_score"])
            if len(found) == COUNT:
                break
        await sending
    assert found == [1] * COUNT
