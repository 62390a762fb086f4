"""Streams that end by a decision, whatever the order in which their results are complete."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import (
    Decision,
    JudgeError,
    RunningAggregates,
    TokenUsage,
    Until,
    UsageError,
    compute_aggregates,
    evaluate_stream,
    follow_jsonl,
    load_reference,
    read_jsonl,
)
from graphrag_eval_async.inference.until import Deciding, Sample
from tests.support.deadlines import WAIT_SECONDS, in_time
from tests.support.journals import CONFIG, TEMPLATES, Gates, response, results_of
from tests.support.loop import leaving_nothing, settle
from tests.support.streams import collect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
    from pathlib import Path

    from graphrag_eval_async import EvaluationStream

REFERENCE = load_reference([*TEMPLATES, {"template_id": "other: one", "questions": []}])
CONDITION = "answer_recall >= 0.5"


class Judge:
    """Finds the recall of an answer in its text, "RECALL number", or fails; a test may have it
    wait.
    """

    model = "scripted"

    def __init__(self, gates: Gates | None = None) -> None:
        self.asked: list[int] = []
        self.cancelled: list[int] = []
        self._gates = gates

    async def complete(
        self, messages: Sequence[Mapping[str, str]], _: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage]:
        recall, number = messages[-1]["content"].rpartition("RECALL ")[2].split()[:2]
        self.asked.append(int(number))
        try:
            if self._gates is not None:
                await self._gates(number)
        except asyncio.CancelledError:
            self.cancelled.append(int(number))
            raise
        if recall == "none":
            raise JudgeError("invalid_request", "cannot be judged")
        found = [{"reference": 0, "actual": 0}] if recall == "1" else []
        reply = {"reference_claims": ["a"], "actual_claims": ["a"], "reason": "", "matches": found}
        return reply, TokenUsage(100, 20)

    async def embed(self, _: Any) -> Any:
        raise NotImplementedError


def response_with_recall(number: int, recall: int | str, **more: Any) -> dict[str, Any]:
    return response(number, actual_answer=f"RECALL {recall} {number}", **more)


def stream_of(source: Any, judge: Judge | None = None, **options: Any) -> EvaluationStream:
    judged: dict[str, Any] = {} if judge is None else {"judge": judge, "config": CONFIG}
    return evaluate_stream(REFERENCE, source, **{"until": CONDITION, **judged, **options})


async def collect_and_close(stream: EvaluationStream) -> list[dict[str, Any]]:
    async with leaving_nothing(), stream:
        return await collect(stream)


def decision_of(stream: EvaluationStream) -> Decision:
    assert stream.decision is not None
    return stream.decision


def oracle(recalls: Iterable[int | str | None]) -> tuple[bool | None, int, int]:
    """What is decided of results in this order, after how many, and how many of them failed."""
    deciding = Deciding(Until(CONDITION))
    for recall in recalls:
        if recall is not None:
            deciding.add(
                Sample("q", recall, recall) if isinstance(recall, int) else Sample("q", 0, 1)
            )
        if deciding.holds is not None:
            break
    return deciding.holds, deciding.results, deciding.failed


def outcome(stream: EvaluationStream) -> tuple[bool | None, int, int]:
    decision = decision_of(stream)
    return decision.holds, decision.responses, decision.failed


# The order


recalls = st.lists(st.sampled_from([0, 1, 1, 1, "none", "error", None]), min_size=1, max_size=40)


@settings(max_examples=60)
@given(
    recalls,
    st.randoms(use_true_random=False),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3, 100]),
)
def test_the_decision_does_not_depend_on_timing(
    given_: list[int | str | None], random: Any, ordered: bool, stages: bool, at_once: int
) -> None:
    """And what comes out is what was counted, though some of it is complete at once: "error" is a
    response of an agent that failed, None a line that is rejected.
    """
    special = {None: {"question_id": "unknown"}, "error": {"question_id": "q0", "error": "boom"}}

    async def run() -> None:
        gates = Gates()
        source = [
            special[recall] | {"id": f"r{i}"}
            if recall in special
            else response_with_recall(i, recall or 0)
            for i, recall in enumerate(given_)
        ]
        judge = Judge(gates)
        stream = stream_of(source, judge, ordered=ordered, stages=stages, max_in_flight=at_once)
        consumer = asyncio.ensure_future(collect_and_close(stream))
        while not consumer.done():
            await settle()
            waiting = sorted({*judge.asked} - {*opened})
            if waiting:
                opened.append(random.choice(waiting))
                gates.open(str(opened[-1]))
        results = [result for result in await consumer if "pending" not in result]
        assert stream.aggregates.snapshot() == compute_aggregates(results, reference=REFERENCE)
        expected = [recall for recall in given_ if recall is not None]
        assert outcome(stream) == oracle(expected)
        assert decision_of(stream).questions == len({result["question_id"] for result in results})
        numbers = [i for i, recall in enumerate(given_) if recall is not None]
        if decision_of(stream).holds is not None:
            numbers = numbers[: decision_of(stream).responses]
        assert [result["response_id"] for result in results] == [f"r{i}" for i in numbers]

    opened: list[int] = []
    asyncio.run(in_time(run)())


# The end


async def test_calls_in_flight_are_cancelled_and_no_more_is_read() -> None:
    gates = Gates()
    judge = Judge(gates)
    _, needed, _ = oracle(itertools.repeat(0))
    gates.open(*map(str, [*range(needed - 1), needed + 3]))
    read = 0

    async def source() -> AsyncGenerator[dict[str, Any]]:
        nonlocal read
        while True:
            yield response_with_recall(read, 0)
            read += 1

    stream = stream_of(source(), judge, max_in_flight=needed + 9)
    async with asyncio.timeout(WAIT_SECONDS):
        consumer = asyncio.ensure_future(collect_and_close(stream))
        while len(judge.asked) < needed + 9:
            await settle()
        await settle()
        gates.open(str(needed - 1))
        results = await consumer
    assert outcome(stream) == (False, needed, 0)
    assert decision_of(stream).remaining is None
    # What was complete behind it does not come out.
    numbers = [int(result["response_id"][1:]) for result in results]
    assert numbers == [*range(needed)]
    assert sorted([*numbers, needed + 3, *judge.cancelled]) == sorted(judge.asked)
    assert sorted(judge.asked) == list(range(read + 1))
    assert stream.in_flight == 0
    assert stream.aggregates.snapshot() == compute_aggregates(results, reference=REFERENCE)


# Files


def write(path: Path, recalls: Sequence[int | str]) -> list[bytes]:
    lines = [orjson.dumps(response_with_recall(i, recall)) for i, recall in enumerate(recalls)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return lines


# Journals


@pytest.mark.parametrize("stop_after", [1, 13])
async def test_a_run_that_was_interrupted_decides_as_one_that_was_not(
    tmp_path: Path, stop_after: int
) -> None:
    path, journal = tmp_path / "r.jsonl", tmp_path / "results.jsonl"
    # Files are shuffled, or the first lines would decide.
    lines = write(path, [1] * 105 + [0] * 195)
    path.write_bytes(b"\n".join([lines[0], lines[0], b"{", *lines[1:]]))
    whole = stream_of(path, Judge())
    results = await collect_and_close(whole)
    # One is rejected, maybe later.
    assert (decision_of(whole).remaining or 0) + len(results) in {
        301,
        302,
    }
    first = stream_of(path, Judge(), journal=journal, max_in_flight=7)
    async with leaving_nothing(), first:
        for _ in range(stop_after):
            await anext(first)
    assert outcome(first)[0] is None
    second = stream_of(path, Judge(), journal=journal)
    await collect_and_close(second)
    assert outcome(second) == outcome(whole)
    assert outcome(second)[0] is False
    again, judge = RunningAggregates(), Judge()
    third = stream_of(path, judge, journal=journal, aggregates=again)
    assert (await collect_and_close(third), judge.asked) == ([], [])
    assert decision_of(third) == decision_of(second)
    assert again.snapshot() == compute_aggregates(results_of(journal), reference=REFERENCE)


@pytest.mark.parametrize(("dedupe", "count"), [("position", 303), ("content", 302)])
async def test_journaled_lines_do_not_count_as_remaining(
    tmp_path: Path, dedupe: Any, count: int
) -> None:
    """Rejected lines and copies, too, in whatever order they come."""
    path, journal = tmp_path / "r.jsonl", tmp_path / "results.jsonl"
    lines = write(path, [1] * 300)
    path.write_bytes(b"\n".join([lines[0], lines[0], b"{", b"[" * 99, *lines[1:]]))
    whole = stream_of(
        path, Judge(), journal=journal, dedupe=dedupe, until=None, on_reject="collect"
    )
    await collect_and_close(whole)
    judge = Judge()
    for seed in (0, 1):
        source = read_jsonl(path, shuffle=seed)
        stream = stream_of(source, judge, journal=journal, dedupe=dedupe)
        assert await collect_and_close(stream) == []
        decision = decision_of(stream)
        assert (decision.holds, decision.remaining) == (True, 303 - count)


# What cannot be


@pytest.mark.parametrize(
    ("until", "told"),
    [
        pytest.param(
            "sum:steps_score > 0.5",
            "no template 'sum'; there are: sums, other: one",
            id="unknown template",
        ),
        pytest.param("answer_recall > 0.5", "answer_recall is not judged", id="not judged"),
        pytest.param("steps_score > 2", "steps_score is from 0 to 1, not 2", id="out of range"),
        pytest.param(0.5, "expected .TEMPLATE:.METRIC", id="number"),
    ],
)
def test_conditions_that_cannot_be_decided(tmp_path: Path, until: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        stream_of([], until=until)
    follower = follow_jsonl(tmp_path / "log.jsonl")
    with pytest.raises(UsageError, match="cannot be combined with a journal of followed files"):
        stream_of(follower, until="steps_score > 0.5", journal=tmp_path / "results.jsonl")
