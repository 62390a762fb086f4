"""Stored aggregates that another program has altered, so that their checksum is right."""

from __future__ import annotations

import copy
import zlib
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphrag_eval_async import AggregationError, RunningAggregates
from tests.support.cpu import affordable

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER_BYTES = 10
"""Magic, version and the checksum of the rest, which are the last four of these bytes."""


def aggregates() -> RunningAggregates:
    found = RunningAggregates()
    for index in range(12):
        result: dict[str, Any] = {
            "template_id": "ab"[index % 2],
            "question_id": f"q{index % 5}",
            "sample": index // 5 + 1,
            "status": "error" if index == 7 else "success",
            "tags": {"hops": index % 2},
        }
        if index != 7:
            result |= {
                "steps_score": index / 11,
                "answer_f1": [0.0, 1.0, 0.5][index % 3],
                "answer_f1_by": {"m": 0.5, "n": 0.25},
                "elapsed_sec": index * 1.5,
                "total_tokens": 2**64 - 1 if index == 3 else index,
                "actual_steps": [{"name": "sparql"}],
            }
        found.add(result)
    return found


DATA = aggregates().to_bytes()
BODY = msgspec.msgpack.decode(DATA[HEADER_BYTES:])


def places_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each number and each bytes in nested lists and dicts."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from places_in(item, (*place, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from places_in(item, (*place, key))
    else:
        yield place


PLACES = list(places_in(BODY))
NUMBERS = st.sampled_from([-1, 0, 1, 33, 2**31, 2**63 - 1, -(2**63), 1e308]) | st.integers(-99, 99)


def altered(place: tuple[Any, ...], number: Any, position: int) -> bytes:
    """Return stored aggregates with another number at a place, or other bytes in bytes there."""
    body = copy.deepcopy(BODY)
    parent = body
    for key in place[:-1]:
        parent = parent[key]
    old = parent[place[-1]]
    if isinstance(old, bytes):
        changed = bytearray(old or b"\0")
        changed[position % len(changed)] = int(number) % 256
        parent[place[-1]] = bytes(changed)
    else:
        parent[place[-1]] = number
    encoded = msgspec.msgpack.encode(body)
    return DATA[: HEADER_BYTES - 4] + zlib.crc32(encoded).to_bytes(4, "big") + encoded


@given(st.sampled_from(PLACES), NUMBERS, st.integers(0, 200))
@example((2, b"a", 8, b"steps_score", 2, 0, 0), -5, 0)
@settings(max_examples=400, deadline=None)
def test_altered_aggregates_are_refused_or_work(
    place: tuple[Any, ...], number: Any, position: int
) -> None:
    data = altered(place, number, position)
    with affordable(len(data)):
        try:
            read = RunningAggregates.from_bytes(data)
        except AggregationError:
            return
        read.snapshot(detail=True)
        aggregates().merge(read).snapshot(detail=True)
