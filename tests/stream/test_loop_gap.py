"""No line of a size that is accepted keeps the event loop for long."""

from __future__ import annotations

import asyncio
import gc
from time import perf_counter
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.records.decoding import BYTES_PER_VALUE
from graphrag_eval_async.stream import MAX_LINE_BYTES

if TYPE_CHECKING:
    from pathlib import Path

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
    path = tmp_path / "responses.jsonl"
    path.write_bytes(SHAPES[shape] + b"\n")
    longest, count = await longest_gap(path, journal=tmp_path / "journal" if journal else None)
    assert count == 1
    assert longest < SLACK * LIMIT_SECONDS
