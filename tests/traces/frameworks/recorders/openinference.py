"""OpenInference: the spans of a graph of LangGraph."""

from __future__ import annotations

from openinference.instrumentation.langchain import LangChainInstrumentor

from tests.traces.frameworks.recorders.langgraph import asked, graph
from tests.traces.frameworks.recorders.scenario import Recording, framework
from tests.traces.frameworks.recorders.spans import collect_spans, collected_lines


async def record() -> list[Recording]:
    """Return the recorded histories."""
    collect_spans()
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument()
    await graph().ainvoke(asked())
    instrumentor.uninstrument()
    name = framework("openinference-instrumentation-langchain")
    return [Recording(name, "otlp", "spans of LangGraph by OpenInference", collected_lines())]
