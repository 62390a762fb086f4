from __future__ import annotations

import tracemalloc
from collections import defaultdict
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.sinks.journal.contents import DIGEST_BYTES, Contents

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
