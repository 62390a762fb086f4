"""Work on pieces done in this process, and files of all kinds of lines."""

from __future__ import annotations

import pickle
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import orjson
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates, evaluate_stream, load_reference, read_jsonl
from graphrag_eval_async.scale import merging, pieces
from tests.support.data import answer, templates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async import Reject

REFERENCE = load_reference([{**each, "tags": {"hops": 2}} for each in templates()])


class Here:
    """In the place of `ProcessPoolExecutor`: does the work at once, in this process."""

    _processes = None

    def __init__(self, *given: Any) -> None:
        *_, (self._work, self._folder) = given

    def submit(self, _: Any, piece: Any) -> Future[Any]:
        done: Future[Any] = Future()
        path = Path(self._folder, token_hex())
        path.write_bytes(pickle.dumps(pickle.loads(self._work)(piece)))  # noqa: S301
        done.set_result(str(path))
        return done

    def shutdown(self, **_: Any) -> None:
        pass


@contextmanager
def in_ranges(size: int, *, reply_bytes: int = 1 << 20) -> Iterator[None]:
    """Within it, files are cut into pieces of about this size, and the work is done in this process.

    These patches of internals are needed: random files of the size of real pieces, each evaluated by new
    processes, would take a second each.
    """
    with (
        patch.object(merging, "ProcessPoolExecutor", Here),
        patch.multiple(
            pieces, MAX_PIECE_BYTES=size, MIN_PIECE_BYTES=size, CHUNK_BYTES=64, REPLY_BYTES=reply_bytes
        ),
    ):
        yield


def told(reject: Reject) -> tuple[Any, ...]:
    """All of a reject."""
    return (str(reject), reject.head, reject.length, reject.sha256, reject.path, reject.content)


async def in_one_process(
    files: list[str], max_line_bytes: int, *, shard: str | None = None, include_errors: bool = False
) -> tuple[bytes, bytes, list[Any], list[str]]:
    """The results, the aggregates, the rejects and what is missing, as one process finds them."""
    rejects: list[Any] = []
    stream = evaluate_stream(
        REFERENCE,
        read_jsonl(files, shard=shard),
        ordered=True,
        max_line_bytes=max_line_bytes,
        on_reject=lambda reject: rejects.append(told(reject)),
        aggregates=RunningAggregates(include_errors=include_errors),
    )
    async with stream:
        lines = [orjson.dumps(result) + b"\n" async for result in stream]
    return b"".join(lines), stream.aggregates.to_bytes(), rejects, stream.missing


_GOOD = st.builds(
    lambda question, more: orjson.dumps(answer(question, **more)),
    st.integers(0, 2),
    st.sampled_from(
        [
            {},
            {"error": "no answer", "actual_steps": []},
            {"actual_answer": '"sample":1, 1000000000000000000'},
            {"elapsed_sec": 0.1},
            {"input_tokens": 2**64 - 1},
            {"sample": 7, "metadata": {"sample": [1]}},
            {"note": "x" * 300, "actual_steps": None},
        ]
    ),
)
_BAD = st.sampled_from(
    [
        b"",
        b"\xef\xbb\xbf" + orjson.dumps(answer()),
        b"{",
        b"[1]",
        b"\xff\xfe",
        b'{"question_id": "nobody"}',
        b"[" * 300,
        b'{"actual_answer": "a"}',
    ]
)
LINES = st.lists(st.one_of(_GOOD, _GOOD, _BAD), max_size=25)
FILES = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n"]), st.booleans()), min_size=1, max_size=3)


def write(folder: Path, files: Any) -> list[str]:
    """The paths of files with such lines."""
    paths = []
    for index, (lines, newline, ends) in enumerate(files):
        path = folder / f"{index}.jsonl"
        path.write_bytes(newline.join(lines) + (newline if ends else b""))
        paths.append(str(path))
    return paths
