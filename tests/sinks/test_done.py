"""Which lines are done, over any number of runs."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from hashlib import sha256
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from graphrag_eval_async.records import FileId, Line
from graphrag_eval_async.sinks.done import Done, DoneLine

if TYPE_CHECKING:
    from collections.abc import Iterable

TEXTS = st.lists(st.sampled_from([b"a", b"b", b"cc"]), max_size=12)
FOLLOWED = FileId("/logs/log", "key", followed=True)
READ = FileId("/logs/log", "key")


def lines_of(texts: Iterable[bytes], file: FileId | None = None) -> list[Line]:
    lines, offset = [], 0
    for number, text in enumerate(texts, 1):
        lines.append(Line(number, offset, text, file))
        offset += len(text) + 1
    return lines


def restored(sources: Iterable[dict[str, Any]], dedupe: Any = "position") -> Done:
    """As after a restart, with what these results say of their lines."""
    done = Done(dedupe)
    for source in sources:
        done.restore(convert(orjson.loads(orjson.dumps(source)), DoneLine))
    return done


def admitted(done: Done, lines: Iterable[Line]) -> list[dict[str, Any]]:
    return [source for line in lines if (source := done.admit(line)) is not None]


def names(sources: Iterable[dict[str, Any]]) -> Counter[tuple[str, int]]:
    return Counter((source["sha256"], source["occurrence"]) for source in sources)


@given(st.sampled_from([None, READ, FOLLOWED]), TEXTS, st.data())
def test_every_line_is_admitted_once_over_all_runs(
    file: FileId | None, texts: list[bytes], data: st.DataObject
) -> None:
    """Killed and started again any number of times, with any subset of the results on disk."""
    lines = lines_of(texts, file)
    quiet = admitted(Done("position"), lines)
    assert names(quiet) == Counter(
        (sha256(text).hexdigest(), texts[: i + 1].count(text)) for i, text in enumerate(texts)
    )
    kept: list[dict[str, Any]] = []
    for _ in range(data.draw(st.integers(0, 3))):
        run = admitted(restored(kept), lines)
        kept += data.draw(st.lists(st.sampled_from(run), unique_by=id) if run else st.just([]))
    done = restored(kept)
    assert not [
        source for source in quiet if (convert(source, DoneLine) in done) != (source in kept)
    ]
    skipped = len(kept)
    kept += admitted(done, lines)
    assert names(kept) == names(quiet)
    assert sorted(source["offset"] for source in kept) == [line.offset for line in lines]
    assert done.skipped == skipped
    assert admitted(restored(kept), lines) == []


@given(TEXTS, TEXTS, st.data())
def test_a_followed_line_is_known_by_place_and_content(
    texts: list[bytes], others: list[bytes], data: st.DataObject
) -> None:
    """What stands in a file where a line was done, but is another, is not done."""
    run = admitted(Done("position"), lines_of(texts, FOLLOWED))
    kept = data.draw(st.lists(st.sampled_from(run), unique_by=id) if run else st.just([]))
    places = {
        at
        for source in kept
        for at in range(source["offset"], source["offset"] + source["length"] + 1)
    }
    contents = {source["sha256"] for source in kept}
    lines = lines_of(others, FOLLOWED)
    new = [
        line.offset
        for line in lines
        if line.offset not in places or sha256(line.data).hexdigest() not in contents
    ]
    assert [source["offset"] for source in admitted(restored(kept), lines)] == new


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.integers(0, 9), st.data())
def test_the_beginning_that_need_not_be_read_again(
    lengths: list[int], first: int, data: st.DataObject
) -> None:
    """It ends at the first gap; lines before the one at which reading began are no gap."""
    starts = [*accumulate(lengths, lambda at, length: at + length + 1, initial=0)]
    first = min(first, len(lengths))
    lines = [
        DoneLine(sha256(b"%d" % start).hexdigest(), start, length, 1, "/logs/log", "a")
        for start, length in zip(starts, lengths, strict=False)
    ][first:]
    there = data.draw(st.lists(st.sampled_from(lines), unique_by=id) if lines else st.just([]))
    done = Done("position")
    for line in there:
        done.restore(line)
    known = done.files({"a": starts[first], "b": 7})
    count = next((number for number, line in enumerate(lines) if line not in there), len(lines))
    last = max(there, key=lambda line: line.offset, default=None)
    assert known["a"][:2] == (starts[first + count], 1 + count)
    assert (known["a"].last and known["a"].last.offset) == (last and last.offset)
    assert known["b"] == (7, 1, None)


@pytest.mark.soak
def test_a_line_of_an_earlier_run_takes_ten_bytes() -> None:
    """Places take memory for gaps only, even if results came out of order. Soak, half a minute."""
    lines, done, random = 300_000, Done("position"), Random(0)
    tracemalloc.start()
    try:
        for start in range(0, lines, 100):
            for number in random.sample(range(start, start + 100), 100):
                line = DoneLine(sha256(b"%d" % number).hexdigest(), number * 10, 9, 1, "a", "a")
                done.restore(line)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert done.files({})["a"][:2] == (lines * 10, lines + 1)
    empty = 16384 * 160  # What the buckets themselves take, however few lines there are.
    assert (size - empty) / lines < 10
    assert line in done
