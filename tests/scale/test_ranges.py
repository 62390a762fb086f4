from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates, SourceError
from graphrag_eval_async.batch import read_results
from graphrag_eval_async.scale import ranges
from graphrag_eval_async.scale.file_evaluation import FileEvaluation
from graphrag_eval_async.scale.merging import Merging
from graphrag_eval_async.scale.ranges import Cutter, RangeLines, range_bytes, unsplittable
from graphrag_eval_async.scale.work import Aggregating
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.sources.shards import Window
from tests.scale.support import FILES, evaluator, in_one_process, in_ranges, told, write

SIZES = st.sampled_from([1, 2, 7, 64, 300, 1000, 5000, 1 << 20])
REPLIES = st.sampled_from([1, 500, 3000, 1 << 20])
LIMITS = st.sampled_from([1, 5, 250, 600, 1 << 20])


async def evaluate(files: list[str], limit: int, *, include_errors: bool) -> tuple[Any, ...]:
    rejects: list[Any] = []
    evaluation = FileEvaluation(
        evaluator(),
        files,
        2,
        on_reject=lambda reject: rejects.append(told(reject)),
        max_line_bytes=limit,
        include_errors=include_errors,
    )
    sent: list[bytes] = []

    async def send(lines: bytes) -> None:
        assert lines.endswith(b"\n")
        sent.append(lines)

    await evaluation.run(send)
    assert evaluation.merging.consumed == evaluation.merging.size == sum(map(size_of, files))
    return b"".join(sent), evaluation.aggregates.to_bytes(), rejects, evaluation.missing


def size_of(path: str) -> int:
    return Path(path).stat().st_size


@given(FILES, SIZES, REPLIES, LIMITS, st.booleans())
@settings(deadline=None)
def test_any_ranges_give_what_one_process_gives(
    files: Any, size: int, reply_bytes: int, limit: int, include_errors: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, in_ranges(size, reply_bytes=reply_bytes):
        paths = write(Path(folder), files)
        assume(unsplittable(paths) is None)
        found = asyncio.run(evaluate(paths, limit, include_errors=include_errors))
        assert found == asyncio.run(in_one_process(paths, limit, include_errors=include_errors))


@pytest.mark.parametrize("length", [65_534, 65_535, 65_536, 65_537, 131_072, 200_000])
@pytest.mark.parametrize("before", [0, 1, 30_000, 65_535])
def test_long_lines_that_cross_the_pieces(tmp_path: Path, length: int, before: int) -> None:
    """What is at hand of a line over the limit depends on how it lies to the pieces that are read."""
    lines = [b"x" * before, b"y" * length, b"z" * 2000, b'{"question_id": "q0"}']
    paths = write(tmp_path, [(lines, b"\n", True)])
    for size in (1, 1000, 70_000):
        with in_ranges(size):
            found = asyncio.run(evaluate(paths, 100, include_errors=False))
        assert found == asyncio.run(in_one_process(paths, 100))


RESULTS = st.builds(
    lambda question, template, more: orjson.dumps(
        {"template_id": template, "question_id": question, "status": "success", "sample": 1} | more
    ),
    st.sampled_from(["q0", "q1"]),
    st.sampled_from(["t", "u"]),
    st.sampled_from(
        [
            {},
            {"steps_score": 0.25},
            {"pending": ["answer_correctness"]},
            {"pending": ["answer_relevance"], "actual_answer": "yes"},
            {"status": "error", "steps_score": 1},
            {"status": "nonsense"},
            {"elapsed_sec": 1e300},
            {"question_id": 5},
        ]
    ),
)
OTHER = st.sampled_from([b"", b"{", b"[1]", b"\xef\xbb\xbf", b"x" * 700, b'{"steps_score": 1}'])
RESULT_FILES = st.lists(
    st.tuples(st.lists(st.one_of(RESULTS, RESULTS, OTHER), max_size=25), st.just(b"\n"), st.booleans()),
    min_size=1,
    max_size=3,
)


async def aggregate(files: list[str], *, in_processes: bool) -> tuple[Any, ...]:
    aggregates = RunningAggregates()
    rejects: list[Any] = []
    answered: set[str] = set()

    def on_reject(reject: Any) -> None:
        rejects.append(told(reject))

    def add(result: dict[str, Any]) -> None:
        aggregates.add(result)
        if isinstance(question_id := result.get("question_id"), str):
            answered.add(question_id)

    async def take(_: object, reply: Any) -> None:
        answered.update(reply.questions)

    if in_processes:
        work = Aggregating(max_line_bytes=600, content=True)
        windows = [*map(Window, files)]
        merging = Merging(work, windows, 2, aggregates=aggregates, on_reject=on_reject)
        await merging.run(take)
    else:
        await read_results(read_jsonl(files), add, on_reject, max_line_bytes=600)
    return aggregates.to_bytes(), rejects, answered


@given(RESULT_FILES, SIZES, REPLIES)
@settings(deadline=None)
def test_aggregates_of_any_ranges(files: Any, size: int, reply_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder, in_ranges(size, reply_bytes=reply_bytes):
        paths = write(Path(folder), files)
        found = asyncio.run(aggregate(paths, in_processes=True))
        assert found == asyncio.run(aggregate(paths, in_processes=False))


async def ignore(*_: object) -> None:
    """Nothing is to be done with the parts."""


def test_ranges_end_with_lines(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"ab\n" * 5 + b"c" * 100_000 + b"\n" + b"d")
    cutter = Cutter([Window(str(path))], 4)
    found = []
    while (range_ := cutter.next()) is not None:
        found.append((range_.start, range_.end))
    assert found == [(0, 6), (6, 12), (12, 100_016), (100_016, 100_017)]
    assert str(range_bytes(1, 4)) == str(ranges.MIN_RANGE_BYTES)
    assert range_bytes(1 << 40, 4) == ranges.MAX_RANGE_BYTES


def test_a_file_that_changes_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"ab\n" * 5)
    range_ = Cutter([Window(str(path))], 100).next()
    assert range_ is not None
    path.write_bytes(b"ab\n")
    with pytest.raises(SourceError, match="was changed while it was read"):
        list(RangeLines(range_, 100))
    path.rename(tmp_path / "other")
    path.write_bytes(b"ab\n" * 5)
    with pytest.raises(SourceError, match="was changed while it was read"):
        list(RangeLines(range_, 100))


def test_unsplittable_files(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"")
    assert unsplittable([str(path)]) is None
    for other in ("-", f"{path}.gz", str(tmp_path), "/dev/null"):
        assert unsplittable([str(path), other]) is not None
