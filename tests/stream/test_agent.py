"""Agents that are asked: whatever they do becomes a result or a reject, and nobody waits for
them in vain.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
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
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from graphrag_eval_async.stream.agent import MAX_ERROR_CHARACTERS
from tests.support import virtual_time
from tests.support.data import REFERENCE, answer, templates
from tests.support.deadlines import PROCESS_SECONDS, wait
from tests.support.journals import results_of
from tests.support.loop import leaving_nothing, settle
from tests.support.streams import collect
from tests.support.virtual_time import now

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = answer()["actual_steps"]


class Agent:
    """Answers rightly, and counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, question: Question) -> Any:
        self.asked.append(question.id)
        return {"actual_steps": STEPS, "actual_answer": f"to {question.id}"}


async def ask(
    agent: Callable[[Question], Any], **options: Any
) -> tuple[list[dict[str, Any]], EvaluationStream]:
    stream = evaluate_agent(REFERENCE, agent, **options)
    _ = stream.rejects  # So that none is logged.
    async with stream:
        return await collect(stream), stream


async def answering(_: Question) -> Any:
    return STEPS


# What an agent may return


async def test_a_response() -> None:
    async def agent(question: Question) -> dict[str, Any]:
        return {
            "actual_steps": STEPS,
            "actual_answer": question.text,
            "input_tokens": 7,
            "model": None,
        }

    results, stream = await ask(agent, ordered=True)
    assert [result["question_id"] for result in results] == ["q0", "q1", "q2"]
    first = results[0]
    assert (first["steps_score"], first["actual_answer"], first["input_tokens"]) == (1, "Sum 0?", 7)
    assert 0 <= first["elapsed_sec"] < 1000
    assert (first["status"], first["sample"], first["metadata"]) == ("success", 1, {"model": None})
    assert stream.missing == []


NO_RESPONSES: list[tuple[Any, str, str]] = [
    (
        None,
        "not_an_object",
        "the agent returned NoneType; expected a response as a dict, a list of steps",
    ),
    ({"question_id": "q0"}, "invalid_field", "question_id: the agent names 'q0'; leave it out"),
    ({"actual_steps": "none"}, "invalid_field", "actual_steps: expected an array, got 'none'"),
    ({"actual_answer": object()}, "invalid_field", "object"),
    ("x" * MAX_LINE_BYTES, "too_long", "more than 33554432; shorten the line, for example"),
]


async def test_invalid_responses_become_rejects_with_their_question() -> None:
    async def agent(question: Question) -> Any:
        number = int(question.id[1:])
        return NO_RESPONSES[number][0] if number < len(NO_RESPONSES) else STEPS

    reference = load_reference(templates(len(NO_RESPONSES) + 1))
    async with evaluate_agent(reference, agent, max_concurrency=1) as stream:
        rejects = stream.rejects
        (result,) = [result async for result in stream]
    assert result["question_id"] == f"q{len(NO_RESPONSES)}"
    for number, (reject, (_, reason, message)) in enumerate(
        zip(rejects, NO_RESPONSES, strict=True)
    ):
        assert (reject.reason, reject.line) == (reason, number + 1)
        assert reject.message.startswith(f"question 'q{number}': ")
        assert message in reject.message
    assert stream.missing == [f"q{number}" for number in range(len(NO_RESPONSES))]


# What may go wrong in it


ERRORS: list[tuple[Exception, str]] = [
    (ValueError("no such city"), "ValueError: no such city"),
    (TimeoutError("of the agent"), "TimeoutError: of the agent"),
    (
        ExceptionGroup("two", [ExceptionGroup("one", [KeyError("b")])]),
        "ExceptionGroup: two (1 sub-exception): KeyError: 'b'",
    ),
    (ValueError("x" * 100_000), f"ValueError: {'x' * MAX_ERROR_CHARACTERS}..."),
    (ValueError("\nno such city"), "ValueError: \nno such city"),
]


@pytest.mark.parametrize("blocking", [False, True])
async def test_an_exception_is_an_error(blocking: bool) -> None:
    def plain(question: Question) -> Any:
        raise ERRORS[int(question.id[1:])][0]

    async def agent(question: Question) -> Any:
        return plain(question)

    reference = load_reference(templates(len(ERRORS)))
    stream = evaluate_agent(reference, plain if blocking else agent, ordered=True, timeout=60)
    async with stream:
        results = await collect(stream)
    assert [(result["status"], result["error"]) for result in results] == [
        ("error", text) for _, text in ERRORS
    ]
    assert results[-1]["failure_detail"] == "ValueError: no such city"
    assert all("elapsed_sec" in result for result in results)
    assert stream.missing == []


async def test_a_plain_function_that_timed_out_keeps_its_slot(
    caplog: pytest.LogCaptureFixture,
) -> None:
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


def test_a_timeout_is_an_error_and_frees_the_slot_once_the_call_has_ended() -> None:
    """A call gets 10 seconds to clean up; then the stream goes on, or ends, without it."""

    async def main() -> None:
        ended = asyncio.Event()

        async def agent(question: Question) -> Any:
            if question.id == "q1":
                await ended.wait()
            while question.id == "q2" and not ended.is_set():
                with suppress(asyncio.CancelledError):
                    await ended.wait()
            return STEPS

        async with leaving_nothing():
            told = [None, *["TimeoutError: the agent gave no answer within 1 s"] * 2]
            async with evaluate_agent(REFERENCE, agent, timeout=1, max_concurrency=1) as stream:
                results = [await anext(stream) for _ in range(3)]
            assert [result.get("error") for result in results] == told
            assert [result["question_id"] for result in results] == ["q0", "q1", "q2"]
            assert now() == 1 + 1 + 10
            async with evaluate_agent(REFERENCE, agent) as stream:
                assert (await anext(stream))["question_id"] == "q0"
            assert [result async for result in stream] == []
            ended.set()

    virtual_time.run(main())


def test_the_process_does_not_wait_for_a_plain_function() -> None:
    script = """
import asyncio, threading
from graphrag_eval_async import evaluate_agent
from tests.support.data import REFERENCE

async def main():
    stream = evaluate_agent(REFERENCE, lambda question: threading.Event().wait(), timeout=0.01)
    async with stream:
        print([result["error"] async for result in stream])

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr.count("takes one of 8 slots")) == (0, 3)
    assert done.stdout.count("TimeoutError: the agent gave no answer within 0.01 s") == 3


# Pace, and leaving


async def test_so_many_calls_at_a_time() -> None:
    calls, peak = 0, 0

    async def agent(_: Question) -> Any:
        nonlocal calls, peak
        calls += 1
        peak = max(peak, calls)
        await settle()
        calls -= 1
        return STEPS

    results, _ = await ask(agent, max_concurrency=2, repeats=10)
    assert peak == 2
    samples = sorted((result["question_id"], result["sample"]) for result in results)
    assert samples == [(f"q{i}", repeat) for i in range(3) for repeat in range(1, 11)]


async def test_an_agent_is_asked_a_few_questions_ahead() -> None:
    cases: list[tuple[int, dict[str, Any]]] = [
        (8, {"max_concurrency": 1}),
        (12, {"max_concurrency": 3}),
        (5, {"max_in_flight": 5}),
    ]
    for most, options in cases:
        async with evaluate_agent(REFERENCE, agent := Agent(), repeats=100, **options) as stream:
            await anext(stream)
            for _ in range(300):
                await asyncio.sleep(0)
            assert len(agent.asked) == most + 1


# Deciding


async def test_a_decision_cancels_the_calls_and_needs_a_random_order() -> None:
    async def agent(question: Question) -> Any:
        if len(asked) > 300:  # Far behind the result that decides.
            await asyncio.Event().wait()
        asked.append(question.id)
        return STEPS

    runs = []
    for concurrency in (1, 3):
        asked: list[str] = []
        options: dict[str, Any] = {"repeats": 1000, "until": "steps_score >= 0.5"}
        async with leaving_nothing():
            results, stream = await ask(agent, max_concurrency=concurrency, **options)
        decision = stream.decision
        assert decision is not None
        assert decision.holds
        assert decision.responses == len(results) < 300
        assert decision.remaining == 3000 - len(results)
        runs.append([(result["question_id"], result["sample"]) for result in results])
    assert runs[0] == runs[1]
    results, _ = await ask(answering, repeats=100, ordered=True)
    plain = [(result["question_id"], result["sample"]) for result in results]
    assert plain == [(f"q{i}", repeat) for repeat in range(1, 101) for i in range(3)]
    assert runs[0] != plain[: len(runs[0])]


# Journals


async def test_a_journal_asks_only_what_was_not_answered(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"

    def named(results: list[dict[str, Any]]) -> set[tuple[str, int]]:
        return {(result["question_id"], result["sample"]) for result in results}

    async with evaluate_agent(REFERENCE, Agent(), repeats=2, journal=path) as stream:
        await anext(stream)
    begun = named(results_of(path))
    for repeats, there in (
        (2, begun),
        (3, {(f"q{i}", repeat) for i in range(3) for repeat in (1, 2)}),
    ):
        agent = Agent()
        results, resumed = await ask(agent, repeats=repeats, journal=path)
        assert named(results) | there == {
            (f"q{i}", j + 1) for i in range(3) for j in range(repeats)
        }
        assert len(agent.asked) == len(results) == 3 * repeats - len(there)
        assert resumed.aggregates.snapshot()["micro"]["number_of_success_samples"] == 3 * repeats
        assert resumed.missing == []


@pytest.mark.parametrize("retry", [False, True])
async def test_errors_are_answers_unless_they_are_retried(tmp_path: Path, retry: bool) -> None:
    path, aside = tmp_path / "results.jsonl", tmp_path / "results.jsonl.replaced"

    async def failing(question: Question) -> Any:
        if question.id == "q0":
            raise ValueError("boom")
        return None if question.id == "q1" else STEPS

    _, stream = await ask(failing, journal=path)
    assert stream.rejects.counts == {"not_an_object": 1}
    agent = Agent()
    results, stream = await ask(agent, journal=path, retry_errors=retry)
    assert len(results) == 2 * retry
    assert sorted(agent.asked) == (["q0", "q1"] if retry else [])
    assert stream.aggregates.snapshot()["micro"]["number_of_error_samples"] == (not retry)
    assert stream.rejects.counts == ({} if retry else {"not_an_object": 1})
    assert stream.missing == ([] if retry else ["q1"])
    assert stream.journal is not None
    assert stream.journal.damaged == 0
    assert len(results_of(aside) if aside.exists() else []) == 2 * retry
    assert (await ask(agent, journal=path, retry_errors=retry))[0] == []


def test_options() -> None:
    for name, wrong in (("agent", 3), ("max_concurrency", 0), ("timeout", 0), ("retry_errors", 1)):
        with pytest.raises(UsageError, match=f"{name}: expected .*, got {wrong}"):
            evaluate_agent(REFERENCE, **dict[str, Any]({"agent": answering, name: wrong}))
