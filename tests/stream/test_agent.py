"""Agents that are asked: whatever they do becomes a result or a reject, and nobody waits for them in vain."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import (
    EvaluationStream,
    Question,
    UsageError,
    evaluate_agent,
    load_reference,
)
from graphrag_eval_async.stream.agent import MAX_ERROR_CHARACTERS
from graphrag_eval_async.threads import CLOSING_SECONDS
from tests.support.data import answer, templates
from tests.support.deadlines import PROCESS_SECONDS, wait
from tests.support.journals import names_of, results_of
from tests.support.loop import leaving_nothing, settle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REFERENCE = load_reference(templates(3))
STEPS = answer()["actual_steps"]


class Agent:
    """Answers rightly once its gate for the question is open; it counts what it was asked."""

    def __init__(self, *, opened: bool = True, pause: float = 0) -> None:
        self.asked: list[str] = []
        self.running = self.most = 0
        self.cancelled: list[str] = []
        self._opened = opened
        self._pause = pause
        self._gates: dict[str, asyncio.Event] = {}

    def gate(self, question_id: str) -> asyncio.Event:
        return self._gates.setdefault(question_id, asyncio.Event())

    async def __call__(self, question: Question) -> Any:
        self.asked.append(question.id)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if not self._opened:
                await self.gate(question.id).wait()
            if self._pause:  # Else an answer is there before any timeout.
                await asyncio.sleep(self._pause)
            return self.answer(question)
        except asyncio.CancelledError:
            self.cancelled.append(question.id)
            raise
        finally:
            self.running -= 1

    def answer(self, question: Question) -> Any:
        return {"actual_steps": STEPS, "actual_answer": f"to {question.id}"}


async def collect(stream: EvaluationStream) -> list[dict[str, Any]]:
    async with stream:
        return [result async for result in stream]


async def ask(
    agent: Callable[[Question], Any], **options: Any
) -> tuple[list[dict[str, Any]], EvaluationStream]:
    stream = evaluate_agent(REFERENCE, agent, **options)
    _ = stream.rejects  # So that none is logged.
    return await collect(stream), stream


async def answering(_: Question) -> Any:
    return STEPS


# What an agent may return


async def test_a_response() -> None:
    async def agent(question: Question) -> dict[str, Any]:
        return {"actual_steps": STEPS, "actual_answer": question.text, "input_tokens": 7, "model": None}

    results, stream = await ask(agent, ordered=True)
    assert [result["question_id"] for result in results] == ["q0", "q1", "q2"]
    first = results[0]
    assert (first["steps_score"], first["actual_answer"], first["input_tokens"]) == (1, "Sum 0?", 7)
    assert 0 <= first["elapsed_sec"] < 1000
    assert (first["status"], first["sample"], first["metadata"]) == ("success", 1, {"model": None})
    assert stream.missing == []


NO_RESPONSES: list[tuple[Any, str, str]] = [
    (None, "not_an_object", "the agent returned NoneType; expected a response as a dict, a list of steps"),
    (3, "not_an_object", "the agent returned int"),
    ({"question_id": "q2"}, "invalid_field", "question_id: the agent names 'q2'; leave it out"),
    ({"question_id": 0}, "invalid_field", "question_id: the agent names 0; leave it out"),
    ({"actual_steps": "none"}, "invalid_field", "actual_steps: expected an array, got 'none'"),
    ({"actual_answer": object()}, "invalid_field", "object"),
    ([1], "invalid_field", "actual_steps[0]: expected an object, got 1"),
    ("x" * 3000, "too_long", "more than max_line_bytes=2000"),
]


@pytest.mark.parametrize(("value", "reason", "message"), NO_RESPONSES, ids=range(len(NO_RESPONSES)))
async def test_invalid_responses_become_rejects_with_their_question(
    value: Any, reason: str, message: str
) -> None:
    async def agent(question: Question) -> Any:
        return value if question.id == "q1" else STEPS

    results, stream = await ask(agent, max_line_bytes=2000)
    assert {result["question_id"] for result in results} == {"q0", "q2"}
    (reject,) = stream.rejects
    assert reject.reason == reason
    assert reject.message.startswith("question 'q1': ")
    assert message in reject.message
    assert reject.line == 2
    assert stream.missing == ["q1"]


# What may go wrong in it


class OddError(Exception):
    def __str__(self) -> str:
        raise ValueError


ERRORS: list[tuple[BaseException, str]] = [
    (ValueError("no such city"), "ValueError: no such city"),
    (TimeoutError("of the agent"), "TimeoutError: of the agent"),
    (OddError(), "OddError"),
    (ExceptionGroup("two", [ExceptionGroup("one", [KeyError("b")])]), "KeyError: 'b'"),
    (ValueError("x" * 100_000), f"ValueError: {'x' * MAX_ERROR_CHARACTERS}..."),
]


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=range(len(ERRORS)))
@pytest.mark.parametrize("blocking", [False, True])
async def test_an_exception_is_an_error(error: Exception, text: str, blocking: bool) -> None:
    def plain(question: Question) -> Any:
        if question.id == "q1":
            raise error
        return STEPS

    async def agent(question: Question) -> Any:
        return plain(question)

    results, stream = await ask(plain if blocking else agent, ordered=True, timeout=60)
    assert [result["status"] for result in results] == ["success", "error", "success"]
    if isinstance(error, ExceptionGroup):
        text = f"ExceptionGroup: two (1 sub-exception): {text}"
    assert results[1]["error"] == text
    assert "elapsed_sec" in results[1]
    assert stream.missing == []


async def test_a_timeout_is_an_error_and_frees_the_slot() -> None:
    agent = Agent(opened=False)
    agent.gate("q0").set()
    agent.gate("q2").set()
    results, _ = await ask(agent, max_concurrency=1, timeout=0.05)
    assert [result["question_id"] for result in results] == ["q0", "q1", "q2"]
    assert results[1]["error"] == "TimeoutError: the agent gave no answer within 0.05 s"
    assert 0.05 <= results[1]["elapsed_sec"] < 1000
    assert agent.cancelled == ["q1"]


async def test_a_plain_function_that_timed_out_keeps_its_slot(caplog: pytest.LogCaptureFixture) -> None:
    begun, release, asked = threading.Event(), threading.Event(), []

    def agent(question: Question) -> Any:
        asked.append(question.id)
        begun.set()
        if question.id == "q0":
            wait(release)
        return STEPS

    with caplog.at_level(logging.WARNING, "graphrag_eval_async.agent"):
        stream = evaluate_agent(REFERENCE, agent, max_concurrency=1, timeout=0.05, journal=None)
        first = await anext(stream)
        assert first["error"] == "TimeoutError: the agent gave no answer within 0.05 s"
        await asyncio.to_thread(wait, begun)
        await settle()
        assert asked == ["q0"]
        assert "takes one of 1 slots" in caplog.text
        release.set()
        assert [result["question_id"] async for result in stream] == ["q1", "q2"]


async def test_an_agent_that_swallows_its_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets 10 seconds to clean up, here less; then the stream goes on, or ends, without it."""
    assert CLOSING_SECONDS == 10
    for module in ("agent", "bounded_map"):
        monkeypatch.setattr(f"graphrag_eval_async.stream.{module}.CLOSING_SECONDS", 0.05)
    release = asyncio.Event()

    async def agent(question: Question) -> Any:
        while question.id != "q0" and not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()
        return STEPS

    async with leaving_nothing():
        stream = evaluate_agent(REFERENCE, agent, timeout=0.05, ordered=True, max_concurrency=2)
        async with stream:
            assert [(await anext(stream)).get("error", "")[:12] for _ in range(2)] == ["", "TimeoutError"]
            # Its call still takes up one of the slots.
            assert (await anext(stream))["error"].startswith("TimeoutError")
        assert [result async for result in stream] == []
        async with evaluate_agent(REFERENCE, agent) as stream:
            assert (await anext(stream))["question_id"] == "q0"
        assert [result async for result in stream] == []
        release.set()


def test_the_process_does_not_wait_for_a_plain_function() -> None:
    script = """
import asyncio, threading
from graphrag_eval_async import evaluate_agent
from tests.stream.test_agent import REFERENCE

async def main():
    stream = evaluate_agent(REFERENCE, lambda question: threading.Event().wait(), timeout=0.01)
    async with stream:
        print([result["error"] async for result in stream])

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False
    )
    assert (done.returncode, done.stderr.count("takes one of 8 slots")) == (0, 3)
    assert done.stdout.count("TimeoutError: the agent gave no answer within 0.01 s") == 3


# Pace, and leaving


@pytest.mark.parametrize("concurrency", [1, 2, 8])
async def test_so_many_calls_at_a_time(concurrency: int) -> None:
    """The first calls wait for each other; later ones pause, so that they overlap."""
    together = asyncio.Event()

    class Meeting(Agent):
        async def __call__(self, question: Question) -> Any:
            if self.running == concurrency - 1:
                together.set()
            return await super().__call__(question)

        def gate(self, _: str) -> asyncio.Event:
            return together

    agent = Meeting(opened=False, pause=0.005)
    results, _ = await ask(agent, max_concurrency=concurrency, repeats=10)
    assert agent.most == concurrency
    assert Counter(agent.asked) == dict.fromkeys(["q0", "q1", "q2"], 10)
    assert sorted((r["question_id"], r["sample"]) for r in results) == [
        (f"q{i}", repeat) for i in range(3) for repeat in range(1, 11)
    ]


async def test_a_slow_consumer_stops_the_asking() -> None:
    agent = Agent()
    stream = evaluate_agent(REFERENCE, agent, repeats=100, max_in_flight=5, max_concurrency=3)
    await anext(stream)
    await settle()
    assert len(agent.asked) <= 1 + 5
    for taken in range(2, 60):
        await anext(stream)
        await settle()
        assert len(agent.asked) <= taken + 5
    await stream.aclose()
    assert len(agent.asked) <= 59 + 5


async def test_stopping_delivers_answers_in_flight() -> None:
    agent = Agent(opened=False)
    agent.gate("q0").set()
    stream = evaluate_agent(REFERENCE, agent, max_concurrency=2, repeats=10)
    assert (await anext(stream))["question_id"] == "q0"
    await settle()
    asked = list(agent.asked)
    stream.stop()
    for name in ("q1", "q2"):
        agent.gate(name).set()
    rest = [result["question_id"] async for result in stream]
    assert sorted(["q0", *rest]) == sorted(asked)
    assert len(asked) < 30


# Deciding


async def test_a_decision_cancels_the_calls() -> None:
    agent = Agent()
    stuck = asyncio.Event()

    async def sometimes(question: Question) -> Any:
        if len(agent.asked) > 300:  # Far behind the result that decides.
            agent.asked.append(question.id)
            try:
                await stuck.wait()
            except asyncio.CancelledError:
                agent.cancelled.append(question.id)
                raise
        return await agent(question)

    async with leaving_nothing():
        stream = evaluate_agent(REFERENCE, sometimes, repeats=1000, until="steps_score >= 0.5")
        results = await collect(stream)
    decision = stream.decision
    assert decision is not None
    assert decision.holds
    assert decision.responses == len(results) < 300
    assert decision.remaining == 3000 - len(results)
    assert len(agent.asked) < 600


async def test_questions_that_decide_are_asked_in_random_order() -> None:
    async def order(**options: Any) -> list[tuple[str, int]]:
        results, _ = await ask(answering, repeats=30, **options)
        return [(result["question_id"], result["sample"]) for result in results]

    until = {"until": "steps_score <= 0.01"}
    shuffled = await order(**until, max_concurrency=3)
    assert shuffled == (await order(ordered=True, max_concurrency=1, **until))
    plain = await order(ordered=True)
    assert plain == [(f"q{i}", repeat) for repeat in range(1, 31) for i in range(3)]
    assert shuffled != plain[: len(shuffled)]


# Journals


async def test_a_journal_asks_only_what_was_not_answered(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    agent = Agent()
    stream = evaluate_agent(REFERENCE, agent, repeats=2, journal=path)
    async with stream:
        await anext(stream)
    begun = {(result["question_id"], result["sample"]) for result in results_of(path)}
    again = Agent()
    results, resumed = await ask(again, repeats=2, journal=path)
    new = {(result["question_id"], result["sample"]) for result in results}
    assert begun | new == {(f"q{i}", repeat) for i in range(3) for repeat in (1, 2)}
    assert not begun & new
    assert len(again.asked) == len(new)
    assert resumed.aggregates.snapshot()["micro"]["number_of_success_samples"] == 6
    assert resumed.missing == []
    assert len(names_of(path)) == 6

    third = Agent()
    results, _ = await ask(third, repeats=3, journal=path)
    assert [result["sample"] for result in results] == [3, 3, 3]
    assert len(third.asked) == 3


@pytest.mark.parametrize("retry", [False, True])
async def test_errors_are_answers_unless_they_are_retried(
    tmp_path: Path, retry: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "results.jsonl"

    async def failing(question: Question) -> Any:
        if question.id == "q0":
            raise ValueError("boom")
        return None if question.id == "q1" else STEPS

    _, stream = await ask(failing, journal=path)
    assert stream.rejects.counts == {"not_an_object": 1}
    agent = Agent()
    results, stream = await ask(agent, journal=path, retry_errors=retry)
    assert sorted(agent.asked) == (["q0", "q1"] if retry else [])
    assert len(results) == 2 * retry
    micro = stream.aggregates.snapshot()["micro"]
    assert micro["number_of_error_samples"] == (not retry)
    assert stream.rejects.counts == ({} if retry else {"not_an_object": 1})
    assert stream.missing == ([] if retry else ["q1"])
    assert stream.journal is not None
    assert stream.journal.damaged == 0
    aside = tmp_path / "results.jsonl.damaged"
    assert aside.exists() == retry
    if retry:
        assert len(results_of(aside)) == 2
        assert [result["status"] for result in results_of(path)] == ["success"] * 3
    assert not caplog.records
    results, _ = await ask(agent, journal=path, retry_errors=retry)
    assert results == []


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"agent": 3}, "agent: expected a function of a question, got 3"),
        ({"max_concurrency": 0}, "max_concurrency: expected an integer of 1 or more, got 0"),
        ({"timeout": 0}, "timeout: expected seconds, more than 0, or None, got 0"),
        ({"retry_errors": 1}, "retry_errors: expected a boolean, got 1"),
    ],
)
def test_options(option: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate_agent(REFERENCE, **{"agent": answering, **option})
