"""What several processes find is merged without holding up the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import orjson
import pytest

from graphrag_eval_async import RunningAggregates, evaluate_file
from graphrag_eval_async.scale import merging
from graphrag_eval_async.scale.ranges import Cutter
from graphrag_eval_async.scale.work import Evaluating
from graphrag_eval_async.sinks import LineFile, RejectWriter
from graphrag_eval_async.sources.shards import Window
from graphrag_eval_async.usual import LARGE_BYTES
from tests.conftest import answer
from tests.scale.support import REFERENCE, SECONDS, evaluator

if TYPE_CHECKING:
    from pathlib import Path

    from graphrag_eval_async import Reject

LARGE = b'{"question_id": "' + b"x" * LARGE_BYTES + b'"}'
"""It names no question."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "responses.jsonl"
    lines = [orjson.dumps(answer(0)), b"{", LARGE, b"{", orjson.dumps(answer(1)), b"{"]
    path.write_bytes(b"\n".join(lines))
    return path


async def test_aggregates_are_merged_in_a_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[int]()
    merge = RunningAggregates.merge

    def merge_and_tell(self: RunningAggregates, other: RunningAggregates) -> RunningAggregates:
        threads.add(threading.get_ident())
        return merge(self, other)

    monkeypatch.setattr(RunningAggregates, "merge", merge_and_tell)
    async with asyncio.timeout(SECONDS):
        found = await evaluate_file(REFERENCE, path, jobs=2)
    assert found.aggregates.snapshot()["micro"]["number_of_success_samples"] == 2
    assert threads
    assert threading.get_ident() not in threads


async def test_the_loop_turns_between_rejects(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "SLICE_SECONDS", -1.0)
    turn, turns = 0, list[int]()

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async with asyncio.timeout(SECONDS):
        await evaluate_file(REFERENCE, path, jobs=2, on_reject=lambda _: turns.append(turn))
    counting.cancel()
    assert len({*turns}) == 4


class Noting(RejectWriter):
    """Notes of which lines it writes on which thread."""

    def __init__(self, path: Path) -> None:
        super().__init__(LineFile(path))
        self.threads: list[tuple[int, int]] = []

    def __call__(self, reject: Reject) -> None:
        self.threads.append((reject.line, threading.get_ident()))
        super().__call__(reject)


async def test_large_rejects_are_written_in_a_thread(path: Path, tmp_path: Path) -> None:
    """In the order of the input, and whole."""
    writer = Noting(tmp_path / "rejects.jsonl")
    async with asyncio.timeout(SECONDS):
        await evaluate_file(REFERENCE, path, jobs=2, on_reject=writer, max_line_bytes=2 * LARGE_BYTES)
    here = threading.get_ident()
    assert [(line, thread == here) for line, thread in writer.threads] == [
        *((2, True), (3, False), (4, True), (6, True))
    ]
    lines = [*map(orjson.loads, (tmp_path / "rejects.jsonl").read_bytes().splitlines())]
    assert [line["line"] for line in lines] == [2, 3, 4, 6]
    assert lines[1]["content"].encode() == LARGE


async def test_a_callable_of_the_caller_is_called_on_the_loop(path: Path) -> None:
    threads = list[int]()
    async with asyncio.timeout(SECONDS):
        await evaluate_file(
            REFERENCE, path, jobs=2, on_reject=lambda _: threads.append(threading.get_ident())
        )
    assert threads == [threading.get_ident()] * 4


def test_a_reply_has_few_rejects(tmp_path: Path) -> None:
    """The parent unpickles all of them in one go, which holds up all of its threads."""
    path = tmp_path / "rejects.jsonl"
    path.write_bytes(b"{\n" * 5000)
    evaluating = Evaluating(evaluator=evaluator(), writes=False, max_line_bytes=100)
    cutter = Cutter([Window(str(path))], 10_000)
    whole = cutter.next()
    cutter.close()
    assert whole is not None
    reply = evaluating(whole, lambda _: None)
    assert 0 < len(reply.rejects) <= 2048
    assert reply.end == 2 * len(reply.rejects)
