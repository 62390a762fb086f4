"""What the installed versions of frameworks record is read like what is recorded already."""

from __future__ import annotations

import json

import pytest

from graphrag_eval_async.traces import response_from_trace, responses_from_otlp
from tests.traces.scenario import PROBLEM, STEPS

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

RECORDERS = ("adk", "haystack", "inspect_log", "langgraph", "mcp_log", "smolagents", "strands")


@pytest.mark.parametrize("name", RECORDERS)
async def test_what_the_installed_version_records_is_read(name: str) -> None:
    recorder = pytest.importorskip(
        f"tests.traces.frameworks.recorders.{name}", exc_type=ImportError
    )
    recordings = await recorder.record()
    assert recordings
    for recording in recordings:
        history = json.loads(json.dumps(recording.history))
        if recording.format == "otlp":
            [response] = responses_from_otlp(history, failed=[PROBLEM])
        else:
            response = response_from_trace(history, failed=[PROBLEM])
            assert response["trace_format"] == recording.format
        steps = response["actual_steps"]
        keys = ("name", "args", "status")
        assert [[step[key] for key in keys] for step in steps] == [
            [step[key] for key in keys] for step in STEPS
        ], recording.form
        assert steps[0]["output"] == STEPS[0]["output"]
