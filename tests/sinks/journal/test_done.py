from __future__ import annotations

import tracemalloc
from itertools import accumulate
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.records import Position
from graphrag_eval_async.sinks.journal.done import Done

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
