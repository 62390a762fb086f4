from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("openinference.instrumentation.openai", reason="needs the extra test-tracing")

import openai
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from graphrag_eval_async import OpenAIJudge
from tests.judge.tracing.support import attributes_of, judged, judged_by_configured_model

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.tracing, pytest.mark.filterwarnings("default")]


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """Gets the spans of all clients."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield exporter
    instrumentor.uninstrument()


@pytest.mark.parametrize("is_given", [True, False], ids=["own client", "configured model"])
async def test_openinference_sees_messages_model_and_usage(
    is_given: bool, exporter: InMemorySpanExporter
) -> None:
    if is_given:
        result = await judged(lambda client: OpenAIJudge(client, "gpt-4o-mini"), openai.AsyncOpenAI)
    else:
        result = await judged_by_configured_model()
    assert "answer_f1" in result
    attributes = attributes_of(exporter.get_finished_spans())
    assert "known answer 0" in attributes, "the messages"
    assert "scripted" in attributes, "the model, as the server names it"
    assert '"llm.token_count.prompt": 100' in attributes
