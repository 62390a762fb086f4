"""What judges see of steps whose queries are run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import Evaluator
from tests.execution.support import RIGHT, graph, ran, templates

if TYPE_CHECKING:
    from pathlib import Path

RECORDED = '{"head": {"vars": ["n"]}, "results": {"bindings": [{"n": {"type": "literal", "value": "T7"}}]}}'


class Listener:
    """A judge that keeps what it is asked.

    Attributes:
        asked: the message of each call.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def complete(self, messages: Any, schema: Any) -> tuple[Any, None]:
        self.asked.append(messages[-1]["content"])
        return {name: "yes" if name == "seen" else [] for name in schema["properties"]}, None

    async def embed(self, texts: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(("keys", "seen", "unseen"), [({"output": RECORDED}, "T7", "T1"), ({}, "T1", "T7")])
async def test_judges_see_what_the_agent_saw(
    tmp_path: Path, keys: dict[str, Any], seen: str, unseen: str
) -> None:
    judge = Listener()
    config = graph(tmp_path) | {"sparql_groundedness": {}}
    async with Evaluator(templates(), config=config, judge=judge) as evaluator:
        result = await evaluator.evaluate(ran(RIGHT, **keys) | {"actual_answer": "It is T1 or T7."})
    assert result["steps_score"] == 1
    [asked] = judge.asked
    rows = asked.partition("<rows ")[2].partition("</rows ")[0]
    assert seen in rows
    assert unseen not in rows


async def test_judges_see_what_the_reference_queries_returned(tmp_path: Path) -> None:
    judge = Listener()
    own = {
        "name": "own",
        "inputs": ["question", "reference_steps"],
        "instructions": "Look.",
        "outputs": {"seen": {"type": "string", "description": "what"}},
    }
    config = graph(tmp_path) | {"custom_evaluations": [own]}
    async with Evaluator(templates(), config=config, judge=judge) as evaluator:
        await evaluator.evaluate(ran(RIGHT))
    [asked] = judge.asked
    assert '"value":"T1"' in asked
