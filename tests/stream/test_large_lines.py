"""Lines of 128 KiB or more are read in a thread, one at a time."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import Evaluator, Reject, RejectedResponse, evaluate_stream
from graphrag_eval_async import evaluator as evaluator_module
from graphrag_eval_async.records import read_record
from graphrag_eval_async.stream import intake
from tests.support.data import HEAVY_BYTES, answer, heavy, templates
from tests.support.deadlines import wait
from tests.support.loop import leaving_nothing, settle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from graphrag_eval_async.records import Record

BROKEN = b'{"question_id": "q0", "x": "' + b"x" * HEAVY_BYTES


class Gate:
    """Holds up the reading of large lines in whatever thread does it."""

    def __init__(self) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()
        self.readings = 0

    def read(self, record: Record, known: Any, *more: Any) -> Any:
        if len(getattr(record, "data", b"")) >= HEAVY_BYTES:
            assert threading.current_thread() is not threading.main_thread()
            self.readings += 1
            self.begun.set()
            wait(self.opened, "the gate to open")
        return read_record(record, known, *more)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(intake, "read_record", gate.read)
    monkeypatch.setattr(evaluator_module, "read_record", gate.read)
    yield gate
    gate.opened.set()


@pytest.mark.parametrize("line", [heavy(), BROKEN])
async def test_one_large_response(gate: Gate, line: Any) -> None:
    gate.opened.set()
    async with Evaluator(templates(1)) as evaluator:
        if isinstance(line, bytes):
            with pytest.raises(RejectedResponse, match="invalid_json"):
                await evaluator.evaluate(line)
        else:
            assert (await evaluator.evaluate(line))["steps_score"] == 1.0
    assert gate.readings == 1


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("end", ["", "until", "journal"])
async def test_samples_are_numbered_in_the_order_of_lines(tmp_path: Path, ordered: bool, end: str) -> None:
    lines: list[Any] = [(answer if i % 3 else heavy)(i % 2, id=str(i)) for i in range(30)]
    lines[10:10] = [BROKEN, b"{"]
    more: dict[str, Any] = {"until": {"until": "steps_score >= 0.999"}}.get(end, {})
    if end == "journal":
        more = {"journal": tmp_path / "journal.jsonl"}
    stream = evaluate_stream(templates(2), lines, ordered=ordered, **more)
    results = [result async for result in stream]
    assert {int(r["response_id"]): r["sample"] for r in results} == {i: i // 2 + 1 for i in range(30)}
    if ordered or end == "until":
        assert [int(result["response_id"]) for result in results] == [*range(30)]
    found = [(reject.line, reject.reason) for reject in stream.rejects]
    assert found == [(11, "invalid_json"), (12, "invalid_json")]
    if end == "journal":
        again = evaluate_stream(templates(2), lines, **more)
        assert [result async for result in again] == []
        assert (again.skipped, again.rejects.total) == (32, 2)


@pytest.mark.parametrize("end", ["stop", "aclose", "cancel"])
async def test_ending_while_a_large_line_is_read(gate: Gate, end: str) -> None:
    async with leaving_nothing():
        stream = evaluate_stream(templates(1), [answer(id="first"), heavy(), answer(id="last")])
        assert (await anext(stream))["response_id"] == "first"
        following = asyncio.ensure_future(anext(stream, None))
        await asyncio.to_thread(wait, gate.begun)
        if end == "stop":
            stream.stop()
        elif end == "cancel":
            following.cancel()
        closing = asyncio.ensure_future(stream.aclose()) if end != "stop" else None
        await settle()  # The event loop runs meanwhile.
        gate.opened.set()
        if closing is not None:
            await closing
        await asyncio.wait([following])
        assert gate.readings == 1


async def test_a_rejected_large_line_may_end_the_stream() -> None:
    seen: list[Reject] = []
    lines: list[Any] = [answer(), BROKEN, answer()]
    stream = evaluate_stream(templates(1), lines, on_reject=seen.append)
    assert len([result async for result in stream]) == 2
    assert [reject.content for reject in seen] == [BROKEN]
    stream = evaluate_stream(templates(1), lines, on_reject="raise")
    assert await anext(stream)
    with pytest.raises(RejectedResponse, match="line 2"):
        await anext(stream)
