"""Lines of 128 KiB or more are read in a thread, one at a time; none keeps the event loop for long."""

from __future__ import annotations

import asyncio
import gc
from time import perf_counter
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import Evaluator, Reject, RejectedResponse, evaluate_stream
from graphrag_eval_async.records.decoding import BYTES_PER_VALUE
from graphrag_eval_async.stream import MAX_LINE_BYTES
from tests.support.data import HEAVY_BYTES, answer, heavy, templates
from tests.support.loop import leaving_nothing, settle

if TYPE_CHECKING:
    from pathlib import Path

BROKEN = b'{"question_id": "q0", "x": "' + b"x" * HEAVY_BYTES


async def test_one_large_response() -> None:
    async with Evaluator(templates(1)) as evaluator:
        with pytest.raises(RejectedResponse, match="invalid_json"):
            await evaluator.evaluate(BROKEN)
        assert (await evaluator.evaluate(heavy()))["steps_score"] == 1.0


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
    assert {int(r["response_id"]): r["sample"] for r in results} == {i: i // 2 + 1 for i in range(30)}
    if end in {"ordered", "until"}:
        assert [int(result["response_id"]) for result in results] == [*range(30)]
    found = [(reject.line, reject.reason) for reject in stream.rejects]
    assert found == [(11, "invalid_json"), (12, "invalid_json")]
    if end == "journal":
        again = evaluate_stream(templates(2), lines, **options)
        assert [result async for result in again] == []
        assert (again.skipped, again.rejects.total) == (32, 2)


@pytest.mark.parametrize("end", ["stop", "aclose", "cancel"])
async def test_ending_while_a_large_line_is_read(end: str) -> None:
    lines = [answer(id="first"), answer(id="large", padding="x" * 20_000_000), answer(id="last")]
    async with leaving_nothing():
        stream = evaluate_stream(templates(1), lines)
        assert (await anext(stream))["response_id"] == "first"
        following = asyncio.ensure_future(anext(stream, None))
        await settle()
        if end == "stop":
            stream.stop()
            found = await following
            assert found is None or found["response_id"] == "large"
        elif end == "cancel":
            following.cancel()
            await asyncio.wait([following])
            assert following.cancelled()
        else:
            await stream.aclose()
            assert await following is None
        await stream.aclose()


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


# Hostile lines


LIMIT_SECONDS = 0.05
SLACK = 10
ROOM = MAX_LINE_BYTES - 2**20
VALUES = MAX_LINE_BYTES // BYTES_PER_VALUE - 50

ROWS = {
    "head": {"vars": ["s"]},
    "results": {"bindings": [{"s": {"type": "uri", "value": f"http://example.org/{i}"}} for i in range(50)]},
}
TABLE = {"output": orjson.dumps(ROWS).decode(), "output_media_type": "application/sparql-results+json"}
ARRAY = {"output": '[{"a": 1}]', "output_media_type": "application/json"}
STEPS = [[{"name": "sparql", **TABLE}, {"name": "json", **ARRAY}]]
QUESTION = {"id": "q", "question_text": "?", "reference_answer": "a", "reference_steps": STEPS}
REFERENCE = [{"template_id": "t", "questions": [QUESTION]}]


def many(member: bytes) -> bytes:
    """As many members as a line may have; those with %d in them all differ."""
    values = sum(member.count(each) for each in (b"[", b"{", b","))
    count = min(ROOM // (len(member) + 5), VALUES // max(1, values))
    return b"".join(member % i for i in range(count)) if b"%d" in member else member * count


def output(text: bytes, name: bytes = b"sparql") -> bytes:
    step = b'{"name":"' + name + b'","status":"success","output":' + text + b"}"
    return b'{"question_id":"q","actual_steps":[' + step + b"]}"


row = b'{"s":{"type":"uri","value":"http://example.org/%d"}},'
table = b'{"head":{"vars":["s"]},"results":{"bindings":[' + many(row)[:-1] + b"]}}"

SHAPES = {
    "text": output(b'"' + many(b"x") + b'"'),
    "escapes": output(b'"' + many(rb"\u00e9\n") + b'"'),
    "lists": output(b"[" + many(b"[],") + b"1]"),
    "keys": output(b"{" + many(b'"%d":1,') + b'"a":1}'),
    "steps": b'{"question_id":"q","actual_steps":[' + many(b'{"name":"n%d"},') + b"{}]}",
    "SPARQL": output(table),
    "JSON as text": output(orjson.dumps("[" + many(b'{"a":%d},').decode() + "1]"), b"json"),
    "broken": b'{"question_id":"q","a":[' + many(b"[],"),
}


async def longest_gap(source: Any, **options: Any) -> tuple[float, int]:
    """The longest gap of the loop while a source is evaluated, and how many results and rejects came."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        before = perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = perf_counter()
            longest, before = max(longest, now - before), now

    gc.collect()
    watching = asyncio.create_task(watch())
    async with evaluate_stream(REFERENCE, source, **options) as stream:
        count = 0
        async for _ in stream:
            count += 1
        count += stream.rejects.total
    watching.cancel()
    return longest, count


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("journal", [False, True])
async def test_the_loop_goes_on_during_a_large_line(tmp_path: Path, shape: str, journal: bool) -> None:
    """No shape of a line that is accepted blocks the loop for a twentieth of a second. Soak, a minute."""
    path = tmp_path / "responses.jsonl"
    path.write_bytes(SHAPES[shape] + b"\n")
    longest, count = await longest_gap(path, journal=tmp_path / "journal" if journal else None)
    assert count == 1
    assert longest < SLACK * LIMIT_SECONDS
