"""Inspect: a sample of a log."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import ToolCall, ToolError, tool

from tests.traces.frameworks.recorders.scenario import CALLS, USAGE, Recording, framework
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, RESULTS

LEFT_OUT = {"events", "events_data", "timelines", "model_usage", "role_usage", "store"}


@tool
def sparql_query() -> Any:
    async def execute(query: str) -> str:
        """Run a query.

        Args:
            query: a query
        """
        return RESULTS

    return execute


@tool
def retrieval_search() -> Any:
    async def execute(text: str, k: int) -> str:
        """Search texts.

        Args:
            text: a text
            k: a number
        """
        raise ToolError(PROBLEM)

    return execute


def output(message: ChatMessageAssistant, reason: Any) -> ModelOutput:
    found = ModelOutput.from_message(message, reason)
    found.usage = ModelUsage(**USAGE)  # Without it, the mock model downloads a tokenizer.
    return found


async def record() -> list[Recording]:
    """Return the recorded histories."""
    calls = [ToolCall(id=id_, function=name, arguments=args) for id_, name, args in CALLS]
    outputs = [
        output(ChatMessageAssistant(content="", tool_calls=calls), "tool_calls"),
        output(ChatMessageAssistant(content=ANSWER), "stop"),
    ]
    task = Task(
        dataset=[Sample(input=QUESTION, target=ANSWER, id="q1")],
        solver=[use_tools(sparql_query(), retrieval_search()), generate()],
    )
    model = get_model("mockllm/model", custom_outputs=outputs)
    with tempfile.TemporaryDirectory() as folder:
        [log] = await eval_async(task, model=model, log_dir=folder, log_format="json")
        whole = json.loads(Path(log.location.removeprefix("file://")).read_text())
    [sample] = whole["samples"]
    sample = {key: value for key, value in sample.items() if key not in LEFT_OUT}
    return [Recording(framework("inspect-ai"), "inspect", "sample of a log", sample)]
