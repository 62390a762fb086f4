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

from pydantic import BaseModel
from pydantic_ai import Agent, InstrumentationSettings, ModelRetry
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]


class Told(BaseModel):
    text: str


def speak(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        return ModelResponse(
            [
                ToolCallPart("sparql_query", STEPS[0]["args"], "call_1"),
                ToolCallPart("retrieval_search", json.dumps(STEPS[1]["args"]), "call_2"),
            ]
        )
    if info.output_tools:
        return ModelResponse([ToolCallPart(info.output_tools[0].name, {"text": ANSWER}, "call_3")])
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


FORMS = {
    "objects": lambda run: run.all_messages(),
    "json": lambda run: run.all_messages_json(),
    "parsed": lambda run: json.loads(run.all_messages_json()),
    "text": lambda run: run.all_messages_json().decode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("read", [response_from_pydantic_ai, response_from_trace])
async def test_messages(form: str, read: Any) -> None:
    response = read(FORMS[form](await agent().run(QUESTION)))
    await check(response)
    assert response["total_tokens"] == response["input_tokens"] + response["output_tokens"] > 0
    assert response["elapsed_sec"] >= 0


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("output_type", [str, Told])
@pytest.mark.filterwarnings("ignore:Instrumentation format versions")
async def test_its_spans(version: Any, output_type: Any, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    with exported(path) as provider:
        settings = InstrumentationSettings(tracer_provider=provider, version=version)
        await agent(output_type=output_type, capabilities=[Instrumentation(settings)]).run(QUESTION)
    [response] = responses_from_otlp(path.read_text().splitlines())
    answer = ANSWER if output_type is str else json.dumps({"text": ANSWER}, separators=(",", ":"))
    await check(response, answer=answer)
    assert response["total_tokens"] > 0
