from __future__ import annotations

import tracemalloc
from collections import defaultdict
from hashlib import sha256
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.records import Position
from graphrag_eval_async.sinks.journal import Numbers
from graphrag_eval_async.sinks.journal.done import DIGEST_BYTES, Contents, Done

NUMBER = st.integers(1, 12)


@given(st.lists(NUMBER | st.none()))
def test_numbers_are_a_set(calls: list[int | None]) -> None:
    numbers, taken = Numbers(), set[int]()
    for number in calls:
        if number is None:
            lowest = min(set(range(1, len(taken) + 2)) - taken)
            assert numbers.take() == lowest
            taken.add(lowest)
        else:
            numbers.add(number)
            taken.add(number)
        assert {n for n in range(1, 12 + len(calls)) if n in numbers} == taken
        assert numbers.upto == next(n for n in range(12 + len(calls)) if n + 1 not in taken)


def test_memory_does_not_grow_with_what_is_taken() -> None:
    numbers, random = Numbers(), Random(0)
    tracemalloc.start()
    try:
        for start in range(1, 50_001, 100):
            for number in random.sample(range(start, start + 100), 100):
                numbers.add(number)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert numbers.upto == 50_000
    assert kept < 20_000


# Of two bytes, in one bucket: many are found where one ends and the next begins.
ALIKE = st.lists(st.sampled_from(b"\0\1"), min_size=DIGEST_BYTES - 2, max_size=DIGEST_BYTES - 2).map(
    lambda rest: b"\0\0" + bytes(rest)
)
DIGEST = ALIKE | st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES) | st.sampled_from([b"\0" * 16])


def digest(number: int) -> bytes:
    return sha256(b"%d" % number).digest()[:DIGEST_BYTES]


@given(st.lists(st.tuples(DIGEST, st.none() | st.integers(1, 4))), st.lists(DIGEST))
def test_contents_are_a_dict_of_sets(calls: list[tuple[bytes, int | None]], others: list[bytes]) -> None:
    contents, oracle = Contents(), defaultdict[bytes, set[int]](set)
    for some, number in calls:
        if number is None:
            lowest = min(set(range(1, len(oracle[some]) + 2)) - oracle[some])
            assert contents.take(some) == lowest
            oracle[some].add(lowest)
        else:
            if not contents.has(some, number):
                contents.add(some, number)
            oracle[some].add(number)
    for some in [*oracle, *others]:
        assert (some in contents) == bool(oracle[some])
        assert {n for n in range(1, len(calls) + 6) if contents.has(some, n)} == oracle[some]


def test_a_digest_that_straddles_two_others() -> None:
    contents = Contents()
    one, other = b"\0\0" + b"a" * 6, b"\0\0" + b"b" * 6
    contents.add(one + other, 1)
    contents.add(one * 2, 1)
    assert other + one not in contents
    assert contents.take(other + one) == 1
    assert all(some in contents for some in (one + other, one * 2, other + one))
    assert other * 2 not in contents


@pytest.mark.parametrize("lines", [100_000, pytest.param(3_000_000, marks=pytest.mark.soak)])
def test_a_line_takes_little_more_than_its_digest(lines: int) -> None:
    contents = Contents()
    digests = [digest(number) for number in range(1000)]
    contents.take(digests[0])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(lines):
            contents.take(digest(number))
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    empty = 16384 * 160  # What the buckets themselves take, however few lines there are.
    assert (kept - empty) / lines < 1.25 * DIGEST_BYTES
    assert all(some in contents for some in digests)
    assert digest(lines) not in contents


LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=12)


def position(file: str, offset: int, length: int) -> Position:
    return Position(f"/logs/{file}", file, offset, length, "0" * 64)


def lines_of(lengths: list[int]) -> list[tuple[int, int]]:
    """Offset and length of each line of a file."""
    return list(zip(accumulate(lengths, lambda at, n: at + n + 1, initial=0), lengths, strict=False))


@given(st.dictionaries(st.sampled_from("ab"), LENGTHS), st.data())
def test_positions_are_a_set(files: dict[str, list[int]], data: st.DataObject) -> None:
    done, oracle = Done(), set[Position]()
    lines = [position(name, *line) for name, lengths in files.items() for line in lines_of(lengths)]
    for line in data.draw(st.lists(st.sampled_from(lines)) if lines else st.just([])):
        assert (line in done) == (line in oracle)
        done.add(line)
        oracle.add(line)
    assert {line for line in lines if line in done} == oracle
    known = done.known()
    assert set(known) == {line.file for line in oracle}
    for name, there in known.items():
        mine = [line for line in lines if line.file == name]
        count = next((i for i, line in enumerate(mine) if line not in oracle), len(mine))
        assert there.number == 1 + count
        assert there.begin == (mine[count - 1].offset + mine[count - 1].length + 1 if count else 0)
        assert there.last == [line for line in mine if line in oracle][-1]


@given(LENGTHS, st.data())
def test_a_line_without_its_newline(lengths: list[int], data: st.DataObject) -> None:
    lines = [position("a", *line) for line in lines_of(lengths)]
    last = lines[-1]
    some = data.draw(st.lists(st.sampled_from(lines[:-1]), unique=True) if lines[:-1] else st.just([]))
    done = Done()
    for line in some:
        done.add(line)
    before = done.known().get("a")
    done.add(last, whole=False)
    assert last in done
    after = done.known()["a"]
    assert (after.begin, after.number) == ((before.begin, before.number) if before else (0, 1))
    assert after.last == last
    longer = last._replace(length=last.length + 3)
    done.add(longer)
    assert longer in done
    assert position("a", longer.offset + longer.length + 1, 1) not in done


@given(LENGTHS, st.integers(0, 12), st.data())
def test_what_is_passed_over(lengths: list[int], skipped: int, data: st.DataObject) -> None:
    lines = [position("a", *line) for line in lines_of(lengths)]
    ours = lines[skipped:]
    origin = ours[0].offset if ours else 100
    done = Done()
    for line in data.draw(st.permutations(ours)):
        done.add(line)
    done.pass_over({"a": origin, "b": 0, "c": 7})
    known = done.known()
    end = ours[-1].offset + ours[-1].length + 1 if ours else origin
    assert known["a"] == (end, 1 + len(ours), ours[-1] if ours else None)
    assert (known["b"].begin, known["c"].begin) == (0, 7)
    assert all(line in done for line in lines)


def test_memory_grows_with_the_gaps_and_not_the_lines() -> None:
    done, random = Done(), Random(0)
    tracemalloc.start()
    try:
        for start in range(0, 20_000, 100):
            for number in random.sample(range(start, start + 100), 100):
                done.add(position("a", number * 10, 9))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert done.known()["a"][:2] == (200_000, 20_001)
    assert kept < 10_000
