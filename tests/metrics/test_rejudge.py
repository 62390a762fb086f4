"""Answers that are judged twice, to see how far a judge agrees with itself."""

from __future__ import annotations

import random
from collections import Counter
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphrag_eval_async import UsageError, evaluate_stream
from tests.metrics.support import read_blocks

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS = [{"id": f"q{i}", "question_text": f"Question {i}?", "reference_answer": "x"} for i in range(40)]
REFERENCE = [{"template_id": "t", "questions": QUESTIONS}]
RESPONSES = [{"question_id": each["id"], "actual_answer": each["id"]} for each in QUESTIONS]
OUTPUTS = {"rating": "fraction 0-1", "word": {"type": "string", "description": "a word"}}
CUSTOM = {"name": "own", "inputs": ["actual_answer"], "instructions": "Rate it.", "outputs": OUTPUTS}


class Judge:
    """Gives each answer other replies each time, and no reply where `fails` says so."""

    def __init__(self, fails: Any = lambda _answer, _time: False) -> None:
        self.said: dict[str, list[dict[str, Any]]] = {}
        self._times, self._fails = Counter[str](), fails

    async def complete(self, messages: Any, _: Any) -> Any:
        answer = read_blocks(messages[-1]["content"])["actual_answer"]
        self._times[answer] += 1
        if self._fails(answer, self._times[answer]):
            raise RuntimeError("no")
        noise = random.Random(f"{answer} {self._times[answer]}")
        reply = {"rating": noise.choice([0, 0.4, 0.5, 1]), "word": noise.choice("ab")}
        self.said.setdefault(answer, []).append(reply)
        return reply, (1000, 100)

    async def embed(self, _: Any) -> Any:
        raise NotImplementedError


def stream_of(judge: Any, *, llm: Any = None, responses: Any = RESPONSES, **more: Any) -> Any:
    pricing = {"input_usd_per_million": 1, "output_usd_per_million": 1}
    config = {"llm": {"pricing": pricing, **(llm or {})}, "custom_evaluations": [CUSTOM]}
    return evaluate_stream(REFERENCE, responses, config=config, judge=judge, on_fatal="continue", **more)


async def all_of(stream: Any) -> Any:
    return sorted([result async for result in stream], key=lambda each: str(each["question_id"]))


def noise_of(said: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    pairs = [own for own in said.values() if len(own) == 2]
    one, other = np.array([[reply["rating"] for reply in own] for own in pairs], dtype=float).T
    same = np.mean((one >= 0.5) == (other >= 0.5))
    spread = pytest.approx(sqrt(np.mean((one - other) ** 2) / 2))
    words = np.mean([first["word"] == second["word"] for first, second in pairs])
    return {
        "rating": {"pairs": len(pairs), "agreement": pytest.approx(same), "spread": spread},
        "word": {"pairs": len(pairs), "agreement": pytest.approx(words)},
    }


async def test_some_answers_are_judged_twice(tmp_path: Path) -> None:
    """Without the cache, in any order; nothing else changes but the usage."""
    plain = stream_of(Judge())
    results, counted = await all_of(plain), plain.aggregates.snapshot(detail=True)
    ratings = [each["rating"] for each in results]
    again = set()
    for responses in (RESPONSES, RESPONSES[::-1]):
        judge, cache = Judge(), str(tmp_path / responses[0]["question_id"])
        stream = stream_of(judge, rejudge=12, responses=responses, llm={"cache": cache})
        assert await all_of(stream) == results
        assert stream.aggregates.snapshot(detail=True) == counted
        again.add(tuple(sorted(answer for answer, own in judge.said.items() if len(own) == 2)))
        assert stream.judge_noise == {"answers": 12, "failed": 0, "metrics": noise_of(judge.said)}
        assert stream.usage.dollars == pytest.approx(52 * 1100 / 1e6)
    assert len(again) == 1
    late = Judge()  # The cache keeps the first verdicts.
    assert [each["rating"] for each in await all_of(stream_of(late, llm={"cache": cache}))] == ratings
    assert not late.said


async def test_what_fails_has_no_pair() -> None:
    """Neither the first time nor the second; nor what the budget no longer pays."""
    judge = Judge(lambda answer, time: answer in ("q4", "q8") or (time == 2 and answer in ("q1", "q2", "q3")))
    stream = stream_of(judge, rejudge=99, llm={"limits": {"max_attempts": 1}})
    await all_of(stream)
    assert stream.judge_noise == {"answers": 38, "failed": 6, "metrics": noise_of(judge.said)}
    limits = {"budget_usd": 0.0500, "max_concurrency": 1}
    stream = stream_of(Judge(), rejudge=12, llm={"limits": limits})
    assert len(await all_of(stream)) == 40
    assert stream.judge_noise["failed"] == 2 * (12 - 6)
    assert stream.judge_noise["metrics"]["rating"]["pairs"] == 6


async def test_only_at_the_end_of_a_whole_run() -> None:
    async with stream_of(Judge(), rejudge=5, max_in_flight=4) as stream:
        async for _ in stream:
            stream.stop()
    assert stream.judge_noise["answers"] == 0


def test_there_must_be_a_judge() -> None:
    with pytest.raises(UsageError, match="rejudge: nothing is judged"):
        evaluate_stream(REFERENCE, RESPONSES, rejudge=3)
