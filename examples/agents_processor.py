"""Evaluate each run of an agent of the OpenAI Agents SDK as it ends, by a trace processor.

pip install '.[examples]' && python examples/agents_processor.py
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    Usage,
    function_tool,
    generation_span,
)
from agents.tracing import Span, Trace, TracingProcessor, set_trace_processors
from anyio.streams.memory import MemoryObjectSendStream
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from graphrag_eval_async import evaluate_stream, load_reference
from graphrag_eval_async.traces import response_from_openai

REFERENCE = load_reference(Path(__file__).with_name("reference.yaml"))


class ResponseProcessor(TracingProcessor):
    """Calls `send` with a response for each trace that ends. A trace's metadata has its
    `question_id`.
    """

    def __init__(self, send: Callable[[dict[str, Any]], object]) -> None:
        self._send = send
        self._spans: dict[str, list[Any]] = {}

    def on_trace_start(self, trace: Trace) -> None:
        self._spans[trace.trace_id] = []

    def on_span_end(self, span: Span[Any]) -> None:
        exported: Any = span.export()
        data = span.span_data
        # Of the Responses API, which exports leave out.
        if getattr(data, "response", None) is not None:
            exported["span_data"] |= {"input": data.input, "output": data.response.output}
        self._spans.get(span.trace_id, []).append(exported)

    def on_trace_end(self, trace: Trace) -> None:
        spans, exported = self._spans.pop(trace.trace_id, []), trace.export() or {}
        question_id = (exported.get("metadata") or {}).get("question_id")
        self._send(response_from_openai([exported, *spans], question_id=question_id))

    def on_span_start(self, span: Span[Any]) -> None: ...

    def force_flush(self) -> None: ...

    def shutdown(self) -> None: ...


@function_tool
def operator_lookup(substation: str) -> str:
    """Say who operates a substation."""
    return {"Lindau": "Nordnett"}[substation]


class ToyModel(Model):
    """Stands for your model: always asks for one tool, then answers."""

    async def get_response(self, *_: Any, **request: Any) -> ModelResponse:
        given = request["input"]
        given = [{"role": "user", "content": given}] if isinstance(given, str) else given
        with generation_span(input=given) as span:
            output: Any
            if given[-1].get("type") == "function_call_output":
                text = f"It is operated by {given[-1]['output']}."
                part = ResponseOutputText(type="output_text", text=text, annotations=[])
                output = ResponseOutputMessage(
                    type="message", id="m1", role="assistant", status="completed", content=[part]
                )
            else:
                args = {"substation": "Lindau" if "Lindau" in str(given) else "Bergheim"}
                output = ResponseFunctionToolCall(
                    type="function_call",
                    call_id="call_1",
                    name="operator_lookup",
                    arguments=json.dumps(args),
                )
            span.span_data.output = [output.model_dump()]
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def run_agent(responses: MemoryObjectSendStream[dict[str, Any]]) -> None:
    set_trace_processors([ResponseProcessor(responses.send_nowait)])
    agent = Agent(name="grid", model=ToyModel(), tools=[operator_lookup])
    async with responses:
        for question in REFERENCE:
            config = RunConfig(trace_metadata={"question_id": question.id})
            await Runner.run(agent, question.text, run_config=config)


async def main() -> None:
    send, receive = anyio.create_memory_object_stream[dict[str, Any]](math.inf)
    async with anyio.create_task_group() as tasks, evaluate_stream(REFERENCE, receive) as stream:
        tasks.start_soon(run_agent, send)
        async for result in stream:
            print(f"{result['question_id']:24} {result['status']:8} {result.get('steps_score')}")


if __name__ == "__main__":
    anyio.run(main)
