from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.traces import (
    response_from_pydantic_ai,
    response_from_trace,
    responses_from_otlp,
)
from tests.traces.frameworks.support import check, exported
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS, STEPS

pytest.importorskip("pydantic_ai", reason="needs the extra test-traces")

from pydantic_ai import Agent, InstrumentationSettings, ModelRetry
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]


def speak(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse(
            [
                ToolCallPart("sparql_query", STEPS[0]["args"], "call_1"),
                ToolCallPart("retrieval_search", json.dumps(STEPS[1]["args"]), "call_2"),
            ]
        )
    return ModelResponse([TextPart(ANSWER)])


def agent(**options: Any) -> Agent[None, Any]:
    made: Agent[None, Any] = Agent(FunctionModel(speak), **options)

    @made.tool_plain
    def sparql_query(query: str) -> str:
        return RESULTS

    @made.tool_plain
    def retrieval_search(text: str, k: int) -> str:
        raise ModelRetry(PROBLEM)

    return made


@pytest.mark.parametrize("read", [response_from_pydantic_ai, response_from_trace])
async def test_messages(read: Any) -> None:
    run = await agent().run(QUESTION)
    dumped = run.all_messages_json()
    for form in (run.all_messages(), dumped, dumped.decode(), json.loads(dumped)):
        response = read(form)
        await check(response)
        assert response["total_tokens"] == response["input_tokens"] + response["output_tokens"] > 0
        assert response["elapsed_sec"] >= 0


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
@pytest.mark.filterwarnings("ignore:Instrumentation format versions")
async def test_its_spans(version: Any, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    with exported(path) as provider:
        settings = InstrumentationSettings(tracer_provider=provider, version=version)
        await agent(capabilities=[Instrumentation(settings)]).run(QUESTION)
    [response] = responses_from_otlp(path.read_text().splitlines())
    await check(response)
    assert response["total_tokens"] > 0
