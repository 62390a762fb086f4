"""Serialised aggregates: what is damaged is refused, and nothing else is."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import msgspec
import pytest

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.errors import AggregationError

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


def test_round_trip_keeps_everything() -> None:
    restored = RunningAggregates.from_bytes(DATA)
    assert restored.snapshot(detail=True) == example().snapshot(detail=True)
    assert list(restored.snapshot()["per_template"]) == ["b", "a", "\udfff"]
    restored.merge(example())
    assert restored.snapshot()["micro"]["number_of_success_samples"] == 8


def test_every_truncation_and_every_flipped_bit_is_found() -> None:
    for length in range(len(DATA)):
        with pytest.raises(AggregationError):
            RunningAggregates.from_bytes(DATA[:length])
    for position in range(len(DATA) * 8):
        damaged = bytearray(DATA)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(AggregationError):
            RunningAggregates.from_bytes(bytes(damaged))


def test_another_version_is_named_with_the_cure() -> None:
    with pytest.raises(
        AggregationError, match=r"\(format 2, this one reads 7\); .* `graphrag-eval-async agg"
    ):
        RunningAggregates.from_bytes(sealed(DATA[HEADER.size :], version=2))


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        DATA + b"\0",
        sealed(DATA[HEADER.size :], magic=b"GEAB"),
        sealed(b""),
        sealed(b"\x91" * 100_000),
        sealed(msgspec.msgpack.encode([False, {b"\xff": 1}, {}])),
        sealed(msgspec.msgpack.encode([False, {}, {}, "more"])),
    ],
)
def test_what_is_no_state_is_refused(data: Any) -> None:
    with pytest.raises(AggregationError, match="serialised aggregates"):
        RunningAggregates.from_bytes(data)
