"""Errors with texts that UTF-8 cannot hold, or with none at all, end neither a stream nor its journal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import evaluate_stream

if TYPE_CHECKING:
    from pathlib import Path

BAD = "\udcff"
SHOWN = "\\udcff"
QUESTION = {"question_text": "?", "reference_answer": "a"}
REFERENCE_STEPS = {"reference_steps": [[{"name": "own", "output": "1"}]]}
TEMPLATES = [
    {"template_id": "t", "questions": [{"id": name, **QUESTION, **REFERENCE_STEPS} for name in ("1", "2")]}
]
STEP = {"name": "own", "id": "x", "status": "success", "output": "2"}
RESPONSES = [{"question_id": name, "actual_answer": "b", "actual_steps": [STEP]} for name in ("1", "2")]


class Judge:
    """Raises or returns always the same."""

    def __init__(self, outcome: Any, model: str = "m") -> None:
        self.model = model
        self._outcome = outcome

    async def complete(self, _messages: Any, _schema: Any) -> tuple[Any, None]:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome, None

    async def embed(self, _texts: Any) -> Any:
        raise NotImplementedError


async def journaled(tmp_path: Path, **how: Any) -> list[Any]:
    """The results of a run and of its continuation, which has nothing left to do."""
    lines, journal = tmp_path / "responses.jsonl", tmp_path / "results.jsonl"
    lines.write_text("".join(f"{json.dumps(response)}\n" for response in RESPONSES))
    results = []
    for _ in range(2):
        async with evaluate_stream(TEMPLATES, str(lines), journal=str(journal), **how) as stream:
            results += [result async for result in stream]
    assert [result["question_id"] for result in results] == ["1", "2"]
    return results


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError(BAD), f"ValueError: {SHOWN}"),
        (OSError(2, "gone", f"/data/{BAD}"), "FileNotFoundError: [Errno 2] gone: '/data/\\udcff'"),
    ],
)
async def test_a_comparator_that_raises(tmp_path: Path, error: Exception, shown: str) -> None:
    def own(_reference: object, _actual: object) -> float:
        raise error

    for result in await journaled(tmp_path, comparators={"own": own}):
        assert result["steps_score"] == 0
        assert result["steps_score_error"].endswith(f"against actual_steps[0]: {shown}")


CLAIMS = {"reference_claims": ["a"], "actual_claims": [], "reason": "", "matches": []}


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        (ValueError(BAD), f"unavailable: ValueError: {SHOWN}"),
        (TimeoutError(BAD), f"timeout: {SHOWN}"),
        (CLAIMS | {"reason": BAD}, "invalid_reply: the reply is not JSON: "),
        ({BAD: 1}, "invalid_reply: the reply is not JSON: "),
    ],
)
async def test_a_judge_that_raises_or_replies(tmp_path: Path, outcome: Any, shown: str) -> None:
    config = {"llm": {"limits": {"max_attempts": 1}}}
    for result in await journaled(tmp_path, config=config, judge=Judge(outcome)):
        assert result["answer_eval_error"].startswith(shown)
