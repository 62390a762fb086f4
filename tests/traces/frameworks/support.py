"""What a framework's history of the scenario must become."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from graphrag_eval_async import Evaluator, load_reference
from tests.traces.scenario import ANSWER, PROBLEM, QUESTION, REFERENCE, STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVALUATOR = Evaluator(load_reference(REFERENCE))


async def check(
    response: dict[str, Any],
    *,
    ids: bool = True,
    why: str = PROBLEM,
    question: bool = True,
    answer: str | None = ANSWER,
    problems: tuple[str, ...] = (),
) -> None:
    """Check the response that the adapter made, and its score."""
    found = [(step["name"], step["args"], step["status"]) for step in response["actual_steps"]]
    assert found == [(step["name"], step["args"], step["status"]) for step in STEPS]
    if ids:
        assert [step["id"] for step in response["actual_steps"]] == [step["id"] for step in STEPS]
    right, wrong = (step["output"] for step in response["actual_steps"])
    assert (right, why in wrong) == (STEPS[0]["output"], True), wrong
    assert response.get("actual_answer") == answer
    assert response.get("trace_problems", []) == list(problems)
    if question:
        assert response["question"] == QUESTION
    result = await EVALUATOR.evaluate(response | {"question_id": "q1"})
    assert result["steps_score"] == 1


@contextmanager
def exported(path: Path) -> Iterator[Any]:
    """A provider of OpenTelemetry whose spans are in the file at the end."""
    from opentelemetry.exporter.otlp.json.file import FileSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(path)))
    yield provider
    provider.shutdown()
