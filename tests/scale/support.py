"""Files of all kinds of lines, and what one process finds in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates, evaluate_stream, load_reference, read_jsonl
from tests.support.data import answer, templates

if TYPE_CHECKING:
    from pathlib import Path

    from graphrag_eval_async import Reject

REFERENCE = load_reference([{**each, "tags": {"hops": 2}} for each in templates()])


def told(reject: Reject) -> tuple[Any, ...]:
    """All of a reject."""
    return (str(reject), reject.head, reject.length, reject.sha256, reject.path, reject.content)


async def in_one_process(
    files: list[str], *, shard: str | None = None
) -> tuple[bytes, bytes, list[Any], list[str]]:
    """The results, the aggregates, the rejects and what is missing, as one process finds them."""
    rejects: list[Any] = []
    stream = evaluate_stream(
        REFERENCE,
        read_jsonl(files, shard=shard),
        ordered=True,
        on_reject=lambda reject: rejects.append(told(reject)),
        aggregates=RunningAggregates(),
    )
    async with stream:
        lines = [orjson.dumps(result) + b"\n" async for result in stream]
    return b"".join(lines), stream.aggregates.to_bytes(), rejects, stream.missing


GOOD = [
    orjson.dumps(answer(question, **more))
    for question in range(3)
    for more in (
        {},
        {"error": "no answer", "actual_steps": []},
        {"actual_answer": '"sample":1, 1000000000000000000'},
        {"elapsed_sec": 0.1},
        {"input_tokens": 2**64 - 1},
        {"sample": 7, "metadata": {"sample": [1]}},
        {"note": "x" * 300, "actual_steps": None},
    )
]
BAD = [
    b"",
    b"\xef\xbb\xbf" + orjson.dumps(answer()),
    b"{",
    b"[1]",
    b"\xff\xfe",
    b'{"question_id": "nobody"}',
    b"[" * 300,
    b'{"actual_answer": "a"}',
]
LINES = st.lists(
    st.one_of(st.sampled_from(GOOD), st.sampled_from(GOOD), st.sampled_from(BAD)), max_size=25
)
FILES = st.lists(
    st.tuples(LINES, st.sampled_from([b"\n", b"\r\n"]), st.booleans()), min_size=1, max_size=3
)


def write(folder: Path, files: Any) -> list[str]:
    """The paths of files with such lines."""
    paths = []
    for index, (lines, newline, ends) in enumerate(files):
        path = folder / f"{index}.jsonl"
        path.write_bytes(newline.join(lines) + (newline if ends else b""))
        paths.append(str(path))
    return paths
