"""Serialised aggregates: what is damaged is refused, and nothing else is."""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.aggregates.exact import to_units
from graphrag_eval_async.errors import AggregationError
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = struct.Struct(">4sHI")


def example() -> RunningAggregates:
    aggregates = RunningAggregates(include_errors=True, templates=["b", "a"])
    steps = [{"name": "retrieval", "status": "success", "output": "[]"}, {"name": "\ud800"}]
    for template, tokens in [("a", 2**53 + 1), ("a", 2), ("b", 3), ("\udfff", 4)]:
        aggregates.add(
            {
                "template_id": template,
                "status": "success",
                "input_tokens": tokens,
                "elapsed_sec": 0.5,
                "answer_eval_error": "timeout: 60 s",
                "failure": "\udc80",
                "judge": {"outputs": ["tone"], "fractions": ["tone"]},
                "tone": 0.5,
                "tone_by": {"one": {"tone": 0.25}, "\udfff": {"tone": 0.75}},
                "actual_steps": steps,
            }
        )
    waiting = {"question_id": "\udfff", "sample": 1, "pending": ["answer_correctness", "tone"]}
    aggregates.add({"template_id": "a", "status": "success", **waiting})
    return aggregates


DATA = example().to_bytes()


def sealed(body: bytes, *, magic: bytes = b"GEAA", version: int = 7) -> bytes:
    return HEADER.pack(magic, version, zlib.crc32(body)) + body


def with_series(
    series: Any,
    *,
    metric: bytes = b"elapsed_sec",
    steps: Any = None,
    other: Any = None,
    outcomes: Any = (),
    pending: Any = (),
    bins: Any = None,
    questions: Any = None,
    errors: Any = None,
    agreement: Any = None,
) -> bytes:
    values = array("d", series[1]) if isinstance(series[1], bytes) and not len(series[1]) % 8 else series[1]
    numbers = [value for value in values if isinstance(value, int | float) and isfinite(value)]
    several = [dumped(sum(map(to_units, numbers))), len(numbers)]
    one = len(numbers) == 1
    questions = questions or [doubles(*numbers if one else [nan]), {} if one else {0: several}]
    series = [*series, bins or {}, 0, questions]
    errors = [doubles(0.0), {}] if errors is None else errors
    group = [0, errors, 1, steps or {}, other, outcomes, [b"q"], {metric: series}]
    return sealed(msgspec.msgpack.encode([False, {}, {b"t": group}, pending, [], [], agreement or {}]))


def dumped(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def doubles(*values: float) -> bytes:
    return array("d", values).tobytes()


def test_round_trip_keeps_everything() -> None:
    restored = RunningAggregates.from_bytes(DATA)
    assert restored.snapshot(detail=True) == example().snapshot(detail=True)
    assert list(restored.snapshot()["per_template"]) == ["b", "a", "\udfff"]
    restored.merge(example())
    assert restored.snapshot()["micro"]["number_of_success_samples"] == 8


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_kind_of_bytes(kind: Any) -> None:
    assert RunningAggregates.from_bytes(kind(DATA)).snapshot() == example().snapshot()


def test_every_truncation_and_every_flipped_bit_is_found() -> None:
    for length in range(len(DATA)):
        with pytest.raises(AggregationError):
            RunningAggregates.from_bytes(DATA[:length])
    for position in range(len(DATA) * 8):
        damaged = bytearray(DATA)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(AggregationError):
            RunningAggregates.from_bytes(bytes(damaged))


def test_the_hand_made_state_is_sound() -> None:
    good = RunningAggregates.from_bytes(with_series([True, doubles(3.0, 1.0)])).snapshot()
    expected = {"sum": 4, "mean": 2, "median": 2.0, "min": 1, "max": 3, "mean_of_questions": 2.0}
    assert good["micro"]["elapsed_sec"] == expected
    wide = RunningAggregates.from_bytes(with_series([False, [2**53 + 1, 1, 0.5]])).snapshot()
    assert str(wide["micro"]["elapsed_sec"]["max"]) == str(2**53 + 1)
    assert str(wide["micro"]["elapsed_sec"]["median"]) == "1.0"


def test_another_version_is_named_with_the_cure() -> None:
    with pytest.raises(
        AggregationError, match=r"\(format 2, this one reads 7\); .* `graphrag-eval-async agg"
    ):
        RunningAggregates.from_bytes(sealed(DATA[HEADER.size :], version=2))


@each(
    "data",
    [
        None,
        "text",
        7,
        DATA + b"\0",
        sealed(DATA[HEADER.size :], version=2),
        sealed(DATA[HEADER.size :], magic=b"GEAB"),
        sealed(b""),
        sealed(b"\xc1"),
        sealed(b"\x91" * 100_000),
        sealed(b"\xdd\xff\xff\xff\xff"),
        sealed(msgspec.msgpack.encode([False, {b"\xff": 1}, {}])),
        sealed(msgspec.msgpack.encode([False, {b"t": -1}, {}])),
        sealed(msgspec.msgpack.encode([False, {}, {b"t": [0, {}, 0, {}, {}]}])),
        sealed(msgspec.msgpack.encode([False, {}, {b"t": [-1, {}, 2, {}, {}]}])),
        sealed(msgspec.msgpack.encode([False, {}, {}, "more"])),
        with_series([True, doubles()]),
        with_series([True, doubles(1.0)], agreement={b"tone": [{b"one": [1, b"", b""]}, {}]}),
        with_series(
            [True, doubles(1.0)], agreement={b"tone": [{b"a": [1, b"", b""]} | {b"b": [0, b"", b""]}, {}]}
        ),
        with_series([True, doubles(1.0)], agreement={b"tone": [{b"a": [1, b"", b""]}, {1: b""}]}),
        with_series([True, []]),
        with_series([True, doubles(1.0)[:-1]]),
        with_series([True, doubles(1.5)]),
        with_series([True, doubles(2.0**64)]),
        with_series([True, [2**53 + 1, 0.5]]),
        with_series([False, doubles(float("nan"))]),
        with_series([False, doubles(1.0, -float("inf"))]),
        with_series([False, [float("inf")]]),
        with_series([False, [True]]),
        with_series([False, ["1"]]),
        with_series([False, doubles(1.0)], metric=b"steps"),
        with_series([False, doubles(1.0)], steps={b"a": [1, 1, 0]}),
        with_series([False, doubles(1.0)], steps={b"a": [1, 1, 0, -1]}),
        with_series([False, doubles(1.0)], other=[1, 1, 0]),
        with_series([False, doubles(1.0)], other={b"a": [1, 1, 0, 0]}),
        with_series([False, doubles(1.0)], outcomes=[[b"steps_score", b"no_steps", 0]]),
        with_series([False, doubles(1.0)], outcomes=[[b"steps_score", b"no_steps"]]),
        with_series([False, doubles(1.0)], metric=b"x", bins={32: [1, b"1"]}),
        with_series([False, doubles(1.0)], metric=b"x", bins={1: [0, b"1"]}),
        with_series([False, doubles(1.0)], metric=b"x", bins={1: [1, 1]}),
        with_series([False, doubles(1.0)], metric=b"x", bins={1: [1, dumped(to_units(0.5))]}),
        with_series([False, doubles(0.5)], metric=b"x", bins={16: [2, dumped(to_units(1.0))]}),
        with_series([False, doubles(1.0)], questions=[doubles(1.0, 1.0), {}]),
        with_series([False, doubles(1.0)], questions=[doubles(0.5), {}]),
        with_series([False, doubles(1.0)], questions=[doubles(nan), {}]),
        with_series([False, doubles(1.0)], questions=[doubles(inf), {}]),
        with_series([False, doubles(1.0)], questions=[doubles(1.0)[:-1], {}]),
        with_series([False, doubles(1.0)], questions=[doubles(nan), {0: [dumped(to_units(1.0)), 1]}]),
        with_series([False, doubles(1.0)], questions=[doubles(nan), {0: [dumped(to_units(1.0)), 2]}]),
        with_series([False, doubles(1.0, 2.0)], questions=[doubles(nan), {1: [dumped(to_units(3.0)), 2]}]),
        with_series([False, doubles(1.0, 2.0)], questions=[doubles(nan), {0: [dumped(1 << 9999), 2]}]),
        with_series([False, doubles(1.0)], errors=[doubles(1.0), {}]),
        with_series(
            [False, doubles(1.0)],
            agreement={b"x": [{b"a": [1, b"", b""], b"b": [1, dumped(1 << 9999), b""]}, {}]},
        ),
        with_series([False, doubles(1.0)], pending=[[[b"t", b"q"], [[b"steps_score"]]]]),
        with_series([False, doubles(1.0)], pending=[[[b"t", b"q", b"1"], [b"steps_score"]]]),
    ],
)
def test_what_cannot_be_right_is_refused(data: Any) -> None:
    with pytest.raises(AggregationError, match="serialised aggregates"):
        RunningAggregates.from_bytes(data)


def leaves(state: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all numbers and bytes in a state."""
    keys = state if isinstance(state, dict) else range(len(state)) if isinstance(state, list) else ()
    for key in keys:
        yield from leaves(state[key], (*path, key))
    if not isinstance(state, dict | list):
        yield path


PATHS = [*leaves(msgspec.msgpack.decode(DATA[HEADER.size :]))]
VALUES = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(0, 3),
    st.floats(),
    st.binary(max_size=40),
    st.lists(st.floats(), max_size=4).map(lambda values: doubles(*values)),
    st.integers(-(2**1100), 2**1100).map(dumped),
)


@settings(max_examples=400)
@given(st.sampled_from(PATHS), VALUES)
def test_a_crafted_state_is_refused_or_sound(path: tuple[Any, ...], value: Any) -> None:
    state = place = msgspec.msgpack.decode(DATA[HEADER.size :])
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    try:
        aggregates = RunningAggregates.from_bytes(sealed(msgspec.msgpack.encode(state)))
    except AggregationError:
        return
    for kind in ("anytime", "one_look"):
        json.dumps(aggregates.snapshot(detail=True, interval=kind), allow_nan=False)
    aggregates.lowest("tone", 1)
