"""Score answers by metrics of your own: functions of a question, its response and its result.

python examples/own_metric.py

On the command line, a configuration names them, in the directory of this file:

    custom_metrics: {brevity: "own_metric:brevity", calls: "own_metric:calls"}
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from graphrag_eval_async import Question, evaluate_stream, metric

EXAMPLES = Path(__file__).parent


@metric(range=(0, 1))
def brevity(_question: Question, response: dict[str, Any], _result: dict[str, Any]) -> float | None:
    """1 for an answer of up to ten words, less for a longer one; none without an answer."""
    words = len(response.get("actual_answer", "").split())
    return min(1, 10 / words) if words else None


@metric(keys=["total", "repeated"])
def calls(
    _question: Question, response: dict[str, Any], _result: dict[str, Any]
) -> dict[str, float]:
    """How many tools the agent called, and how many of these calls repeat an earlier one."""
    asked = Counter(f"{step['name']} {step.get('args')}" for step in response["actual_steps"])
    return {"total": asked.total(), "repeated": asked.total() - len(asked)}


async def main() -> None:
    stream = evaluate_stream(
        EXAMPLES / "reference.yaml",
        EXAMPLES / "responses.jsonl",
        metrics={"brevity": brevity, "calls": calls},
    )
    async with stream:
        async for result in stream:
            print(result["question_id"], result.get("brevity"), result.get("calls_total"))
    for name in ("brevity", "calls_total", "calls_repeated"):
        print(name, round(stream.aggregates.snapshot()["micro"][name]["mean_of_questions"], 3))


if __name__ == "__main__":
    asyncio.run(main())
