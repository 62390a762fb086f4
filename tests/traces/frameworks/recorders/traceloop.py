"""Traceloop's OpenLLMetry: the spans of a graph of LangGraph."""

from __future__ import annotations

import os

os.environ["TRACELOOP_TRACE_CONTENT"] = "true"

from opentelemetry.instrumentation.langchain import LangchainInstrumentor

from tests.traces.frameworks.recorders.langgraph import asked, graph
from tests.traces.frameworks.recorders.scenario import Recording, framework
from tests.traces.frameworks.recorders.spans import collect_spans, collected_lines


async def record() -> list[Recording]:
    """Return the recorded histories."""
    collect_spans()
    instrumentor = LangchainInstrumentor()
    instrumentor.instrument()
    await graph().ainvoke(asked())
    instrumentor.uninstrument()
    lines = collected_lines()
    for span in lines[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        # The same as `traceloop.entity.input` and `.output`, but for tools.
        span["attributes"] = [
            attribute
            for attribute in span["attributes"]
            if not attribute["key"].startswith(("gen_ai.task.", "traceloop.association."))
        ]
    name = framework("opentelemetry-instrumentation-langchain")
    return [Recording(name, "otlp", "spans of Traceloop", lines)]
