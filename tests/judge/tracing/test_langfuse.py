from __future__ import annotations

import pytest

pytest.importorskip("langfuse", reason="needs the extra test-tracing")

from langfuse import Langfuse
from langfuse.openai import AsyncOpenAI
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from graphrag_eval_async import OpenAIJudge
from tests.judge.tracing.support import attributes_of, judged

pytestmark = [pytest.mark.tracing, pytest.mark.filterwarnings("default")]


async def test_langfuse_sees_messages_model_and_usage() -> None:
    exporter = InMemorySpanExporter()
    langfuse = Langfuse(
        public_key="pk-lf-test",
        secret_key="sk-lf-test",  # noqa: S106
        base_url="http://127.0.0.1:1",
        span_exporter=exporter,
        tracer_provider=TracerProvider(),
    )
    result = await judged(lambda client: OpenAIJudge(client, "gpt-4o-mini"), AsyncOpenAI)
    langfuse.flush()
    assert "answer_f1" in result
    attributes = attributes_of(exporter.get_finished_spans())
    assert "known answer 0" in attributes, "the messages"
    assert "scripted" in attributes, "the model, as the server names it"
    assert '\\"prompt_tokens\\": 100' in attributes or '\\"input\\": 100' in attributes
    langfuse.shutdown()
