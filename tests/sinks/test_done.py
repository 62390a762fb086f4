from __future__ import annotations

import tracemalloc
from collections import Counter, defaultdict
from hashlib import sha256
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from graphrag_eval_async.records import FileId, Line, LongLine, Position
from graphrag_eval_async.sinks.done import Contents, Done, DoneLine, Numbers
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterable

TEXTS = st.lists(st.sampled_from([b"a", b"b", b"cc"]), max_size=12)
FOLLOWED = FileId("/logs/log", "key", followed=True)
READ = FileId("/logs/log", "key")


@given(st.lists(st.integers(1, 12) | st.none()))
def test_numbers_are_a_set(calls: list[int | None]) -> None:
    numbers, oracle = Numbers(), set[int]()
    for number in calls:
        if number is None:
            lowest = min(set(range(1, len(oracle) + 2)) - oracle)
            assert numbers.add_next() == lowest
            oracle.add(lowest)
        else:
            numbers.add(number)
            oracle.add(number)
        assert {n for n in range(1, 12 + len(calls)) if n in numbers} == oracle
        assert numbers.upto == next(n for n in range(12 + len(calls)) if n + 1 not in oracle)


def digest(number: int) -> str:
    return sha256(b"%d" % number).hexdigest()


@given(st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(1, 4))))
def test_contents_are_a_dict_of_sets(calls: list[tuple[int, int | None]]) -> None:
    contents, oracle = Contents(), defaultdict[str, set[int]](set)
    for name, number in calls:
        some = digest(name)
        if number is None:
            lowest = min(set(range(1, len(oracle[some]) + 2)) - oracle[some])
            assert contents.add(some) == lowest
            oracle[some].add(lowest)
        elif not contents.has(some, number):
            assert contents.add(some, number) == number
            oracle[some].add(number)
    for some in map(digest, range(7)):
        assert (some in contents) == bool(oracle[some])
        assert {n for n in range(1, len(calls) + 6) if contents.has(some, n)} == oracle[some]


@pytest.mark.parametrize("lines", [300_000, pytest.param(3_000_000, marks=pytest.mark.soak)])
def test_a_line_takes_ten_bytes(lines: int) -> None:
    contents = Contents()
    tracemalloc.start()
    try:
        for number in range(lines):
            contents.add(digest(number))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    empty = 16384 * 160  # What the buckets themselves take, however few lines there are.
    assert (size - empty) / lines < 10
    assert all(digest(number) in contents for number in range(1000))
    assert digest(lines) not in contents


# Lines of files


def position(file: str, offset: int, length: int) -> Position:
    return Position(f"/logs/{file}", file, offset, length, digest(offset))


def done_line(line: Position) -> DoneLine:
    return DoneLine(line.sha256, line.offset, line.length, 1, line.path, line.file)


@given(
    st.dictionaries(st.sampled_from("ab"), st.lists(st.integers(0, 5), min_size=1, max_size=12)), st.data()
)
def test_positions_are_a_set(files: dict[str, list[int]], data: st.DataObject) -> None:
    lines = [
        position(name, offset, length)
        for name, lengths in files.items()
        for offset, length in zip(
            accumulate(lengths, lambda at, n: at + n + 1, initial=0), lengths, strict=False
        )
    ]
    done, oracle = Done("position"), set[Position]()
    for line in data.draw(st.lists(st.sampled_from(lines)) if lines else st.just([])):
        assert (done_line(line) in done) == (line in oracle)
        done.restore(done_line(line))
        oracle.add(line)
    known = done.files()
    assert set(known) == {line.file for line in oracle}
    for name, there in known.items():
        mine = [line for line in lines if line.file == name]
        count = next((i for i, line in enumerate(mine) if line not in oracle), len(mine))
        end = mine[count - 1].offset + mine[count - 1].length + 1 if count else 0
        assert there == (end, 1 + count, [line for line in mine if line in oracle][-1])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 9), st.integers(0, 9), st.data())
def test_skipped_beginnings(lengths: list[int], first: int, second: int, data: st.DataObject) -> None:
    """Lines before an offset count as done, until a lower offset takes its place."""
    starts = [*accumulate(lengths, lambda at, n: at + n + 1, initial=0)]
    lines = [position("a", *line) for line in zip(starts, lengths, strict=False)]
    first, second = min(first, len(lines)), min(second, len(lines))
    done = Done("position")
    for line in data.draw(st.permutations(lines[first:])):
        done.restore(done_line(line))
    done.skip({"a": starts[first], "b": 0, "c": 7})
    known = done.files()
    assert known["a"][:2] == (starts[-1], 1 + len(lines) - first)
    assert (known["b"].begin, known["c"].begin) == (0, 7)
    done.skip({"a": starts[second]})
    begin = starts[second] if second < first else starts[-1]
    assert done.files()["a"].begin == begin


def test_memory_grows_with_the_gaps_and_not_the_lines() -> None:
    done, random = Done("content"), Random(0)
    tracemalloc.start()
    try:
        for start in range(0, 20_000, 100):
            for number in random.sample(range(start, start + 100), 100):
                done.restore(DoneLine("", number * 10, 9, number + 1, "a", "a"))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert done.files()["a"][:2] == (200_000, 20_001)
    assert size < 20_000


# Admitting


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


@pytest.mark.parametrize("file", [None, READ, FOLLOWED], ids=["iterable", "read", "followed"])
@given(TEXTS, st.data())
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
    skipped = len(kept)
    kept += admitted(done, lines)
    assert names(kept) == names(quiet)
    assert done.skipped == skipped
    assert admitted(restored(kept), lines) == []


@given(TEXTS, TEXTS, st.data())
def test_by_content_each_content_is_admitted_once(
    texts: list[bytes], more: list[bytes], data: st.DataObject
) -> None:
    files = [None, READ, FOLLOWED]
    first = admitted(Done("content"), lines_of(texts, data.draw(st.sampled_from(files))))
    assert [source["sha256"] for source in first] == [
        sha256(text).hexdigest() for text in dict.fromkeys(texts)
    ]
    kept = data.draw(st.lists(st.sampled_from(first), unique_by=id) if first else st.just([]))
    again = admitted(restored(kept, "content"), lines_of(texts + more, data.draw(st.sampled_from(files))))
    assert len(kept) + len(again) == len(names(kept + again)) == len({*texts, *more})


@given(TEXTS, TEXTS)
def test_a_followed_line_is_known_by_place_and_content(texts: list[bytes], others: list[bytes]) -> None:
    """What stands in a file where a line was done, but is another, is not done."""
    kept = admitted(Done("position"), lines_of(texts, FOLLOWED))
    end, contents = sum(len(text) + 1 for text in texts), set(texts)
    new = []
    for line in lines_of(others, FOLLOWED):
        if line.offset >= end or line.data not in contents:
            new.append(line.offset)
            contents.add(line.data)
            end = max(end, line.offset + len(line.data) + 1)
    assert [source["offset"] for source in admitted(restored(kept), lines_of(others, FOLLOWED))] == new


@pytest.mark.parametrize(("before", "after"), [(READ, FOLLOWED), (FOLLOWED, READ), (FOLLOWED, None)])
def test_what_was_read_in_one_way_is_not_new_in_another(before: FileId, after: FileId | None) -> None:
    kept = admitted(Done("position"), lines_of([b"a", b"b"], before))
    (source,) = admitted(restored(kept), lines_of([b"a", b"b", b"b"], after))
    assert (source["line"], source["occurrence"]) == (3, 2)


def test_what_a_result_says_of_its_line() -> None:
    done = Done("position")
    sha = sha256(b"text").hexdigest()
    plain = {"line": 3, "offset": 20, "length": 4, "sha256": sha}
    file = {"path": "/logs/log", "file": "key"}
    assert done.admit(Line(3, 20, b"text")) == {**plain, "occurrence": 1}
    assert done.admit(Line(3, 20, b"text", READ)) == {**file, **plain, "occurrence": 2}
    source = done.admit(Line(3, 20, b"text", FOLLOWED, whole=False))
    assert source == {**file, **plain, "occurrence": 3, "whole": False}
    assert convert(source, DoneLine) == DoneLine(sha, 20, 4, 3, "/logs/log", "key", whole=False)
    assert done.admit(LongLine(3, 20, b"te", 4, 1, sha, READ)) == {**file, **plain, "occurrence": 4}


def test_a_last_line_whose_newline_comes_later() -> None:
    last = Line(1, 0, b'{"a": 1}', FOLLOWED, whole=False)
    kept = admitted(Done("position"), [last])
    assert restored(kept).files()["key"][:2] == (0, 1)
    assert admitted(restored(kept), [last._replace(whole=True)]) == []
    assert admitted(restored(kept), [Line(1, 0, b'{"a": 1} \r', FOLLOWED)]) == []
    done = restored(kept)
    assert len(admitted(done, [Line(1, 0, b'{"a": 1}}', FOLLOWED)])) == 1
    assert done.files()["key"][:2] == (10, 2)


SOURCE = {"path": "p", "file": "f", "line": 1, "offset": 0, "length": 1, "sha256": "ab" * 32, "occurrence": 1}


@each(
    "changes",
    [
        {"sha256": None},
        {"sha256": "ab" * 31},
        {"occurrence": 0},
        {"occurrence": True},
        {"file": 1},
        {"offset": -1},
        {"offset": 2**63},
        {"length": 1.5},
    ],
)
def test_what_says_nothing_of_a_line(changes: dict[str, Any]) -> None:
    assert convert(SOURCE, DoneLine).occurrence == 1
    with pytest.raises(ValueError):
        convert(SOURCE | changes, DoneLine)
