"""Lines of 128 KiB or more are read in a thread, one at a time; none keeps the event loop for
long.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from time import thread_time
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import RejectedResponse, evaluate_stream
from graphrag_eval_async.records.decoding import BYTES_PER_VALUE
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from tests.support.data import HEAVY_BYTES, answer, heavy, question, template, templates

if TYPE_CHECKING:
    from pathlib import Path

BROKEN = b'{"question_id": "q0", "x": "' + b"x" * HEAVY_BYTES


@pytest.mark.parametrize("end", ["", "ordered", "until", "journal"])
async def test_samples_are_numbered_in_the_order_of_lines(tmp_path: Path, end: str) -> None:
    lines: list[Any] = [(answer if i % 3 else heavy)(i % 2, id=str(i)) for i in range(30)]
    lines[10:10] = [BROKEN, b"{"]
    every: dict[str, dict[str, Any]] = {
        "ordered": {"ordered": True},
        "until": {"until": "steps_score >= 0.999"},
        "journal": {"journal": tmp_path / "journal.jsonl"},
    }
    options = every.get(end, {})
    stream = evaluate_stream(templates(2), lines, **options)
    results = [result async for result in stream]
    assert {int(r["response_id"]): r["sample"] for r in results} == {
        i: i // 2 + 1 for i in range(30)
    }
    if end in {"ordered", "until"}:
        assert [int(result["response_id"]) for result in results] == [*range(30)]
    found = [(reject.line, reject.reason) for reject in stream.rejects]
    assert found == [(11, "invalid_json"), (12, "invalid_json")]
    if end == "journal":
        again = evaluate_stream(templates(2), lines, **options)
        assert [result async for result in again] == []
        assert (again.skipped, again.rejects.total) == (32, 2)


async def test_a_rejected_large_line_may_end_the_stream() -> None:
    lines: list[Any] = [answer(), BROKEN, answer()]
    stream = evaluate_stream(templates(1), lines, on_reject="raise")
    assert await anext(stream)
    with pytest.raises(RejectedResponse, match="line 2"):
        await anext(stream)


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(HEAVY_BYTES, id="of a large question"),
        pytest.param(100_000, id="whose comparison is not quick"),
    ],
)
async def test_a_short_line_is_scored_in_a_thread_while_nobody_asks(size: int) -> None:
    is_compared = threading.Event()

    def compare(_expected: object, _actual: object) -> float:
        is_compared.set()
        return 1.0

    slow = {"name": "slow", "output": "x" * size}
    reference = [*templates(1), *template(question(slow, question_id="slow"))]
    lines = [answer(), {"question_id": "slow", "actual_steps": [{**slow, "output": "x"}]}]
    stream = evaluate_stream(reference, lines, comparators={"slow": compare})
    async with stream:
        assert (await anext(stream))["question_id"] == "q0"
        assert await asyncio.to_thread(is_compared.wait, 10)
        assert (await anext(stream))["question_id"] == "slow"


# Hostile lines


def output(text: bytes) -> bytes:
    step = b'{"name":"sparql","status":"success","output":%b}' % text
    return b'{"question_id":"q","actual_steps":[' + step + b"]}"


def many(member: bytes, values: int = 1) -> bytes:
    """As many different members, of so many values each, as a line may have."""
    return b",".join(member % i for i in range((MAX_LINE_BYTES // BYTES_PER_VALUE - 50) // values))


def table(rows: bytes) -> bytes:
    return b'{"head":{"vars":["s"]},"results":{"bindings":[' + rows + b"]}}"


ROW = b'{"s":{"type":"uri","value":"http://example.org/%d"}}'
SHAPES = {
    "escapes": output(b'"' + rb"\u00e9\n" * (MAX_LINE_BYTES // 9) + b'"'),
    "keys": output(b"{" + many(b'"%d":1') + b"}"),
    "steps": b'{"question_id":"q","actual_steps":[' + many(b'{"name":"n%d"}', 2) + b"]}",
    "SPARQL": output(table(many(ROW, 4))),
    "broken": b'{"question_id":"q","a":[' + many(b"[%d]", 2),
}
STEP = {
    "name": "sparql",
    "output": table(b",".join(ROW % i for i in range(50))).decode(),
    "output_media_type": "application/sparql-results+json",
}


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES)
async def test_the_loop_goes_on_during_a_large_line(tmp_path: Path, shape: str) -> None:
    """No shape of a line of 32 MiB keeps the loop's thread for half a second of CPU. Soak, half
    a minute.
    """
    path = tmp_path / "responses.jsonl"
    path.write_bytes(SHAPES[shape] + b"\n")
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        before = thread_time()
        while True:
            await asyncio.sleep(0.001)
            longest, before = max(longest, thread_time() - before), thread_time()

    gc.collect()
    watching = asyncio.create_task(watch())
    reference = template(question(STEP))
    async with evaluate_stream(reference, path, journal=tmp_path / "journal") as stream:
        results = [result async for result in stream]
        assert len(results) + stream.rejects.total == 1
    watching.cancel()
    assert longest < 0.5
