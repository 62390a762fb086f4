"""Google's ADK: sessions, events, Gemini contents, and spans in both schemas."""

from __future__ import annotations

import json
import os
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from tests.traces.frameworks.recorders.scenario import CALLS, Recording, framework
from tests.traces.frameworks.recorders.spans import collect_spans, collected_lines
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS

SETTINGS = {
    "spans of ADK": {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"},
    "spans of ADK, first schema": {"ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN": "1"},
}
"""The environment in which ADK writes arguments and results of tools to spans."""


class Scripted(BaseLlm):
    """Calls both tools, then answers."""

    turn: int = 0
    contents: Any = None

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        self.turn += 1
        self.contents = llm_request.contents
        parts = [types.Part(text=ANSWER)]
        if self.turn == 1:
            calls = [types.FunctionCall(id=id_, name=name, args=args) for id_, name, args in CALLS]
            parts = [types.Part(function_call=call) for call in calls]
        yield LlmResponse(
            content=types.Content(role="model", parts=parts),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=20, candidates_token_count=5, total_token_count=25
            ),
        )


def sparql_query(query: str) -> str:
    """Run a query."""
    return RESULTS


def retrieval_search(text: str, k: int) -> dict[str, str]:
    """Search texts."""
    return {"error": PROBLEM}


async def run() -> tuple[Any, Scripted]:
    """Run the agent; return its session and its model."""
    model = Scripted(model="scripted")
    agent = LlmAgent(name="grid", model=model, tools=[sparql_query, retrieval_search])
    runner = InMemoryRunner(agent=agent, app_name="app")
    sessions = runner.session_service
    session = await sessions.create_session(app_name="app", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text=QUESTION)])
    async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        pass
    session = await sessions.get_session(app_name="app", user_id="u", session_id=session.id)
    return session, model


async def record() -> list[Recording]:
    """Return the recorded histories."""
    name = framework("google-adk")
    recordings = []
    for form, environment in SETTINGS.items():
        os.environ.update(environment)
        collect_spans()
        session, model = await run()
        recordings.append(Recording(name, "otlp", form, collected_lines()))
        for key in environment:
            del os.environ[key]

    events = [
        json.loads(event.model_dump_json(by_alias=True, exclude_none=True))
        for event in session.events
    ]
    contents = [content.model_dump(mode="json", exclude_none=True) for content in model.contents]
    contents.append({"role": "model", "parts": [{"text": ANSWER}]})
    whole = session.model_dump(mode="json", exclude_none=True)
    # What the SDK of Gemini returns if it calls the functions itself.
    response = types.GenerateContentResponse(
        candidates=[
            types.Candidate(content=types.Content(role="model", parts=[types.Part(text=ANSWER)]))
        ],
        automatic_function_calling_history=model.contents,
    )
    called_by_sdk = json.loads(response.model_dump_json(by_alias=True, exclude_none=True))
    return [
        *recordings,
        Recording(name, "gemini", "session of ADK", whole),
        Recording(name, "gemini", "events of ADK", events),
        Recording(name, "gemini", "contents of Gemini", contents),
        Recording(name, "gemini", "response with called functions", called_by_sdk),
    ]
