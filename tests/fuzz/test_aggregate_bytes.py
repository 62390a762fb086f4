"""Any bytes are aggregates that can be shown, merged and stored again, or are refused."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import msgspec

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.errors import AggregationError
from tests.cpu import affordable
from tests.fuzz.seeds import repeat, sizes, spoil

if TYPE_CHECKING:
    import random

HEADER = struct.Struct(">4sHI")


def example(rng: random.Random) -> bytes:
    aggregates = RunningAggregates(include_errors=True, templates=["a", "b"], steps=["x"])
    for _ in range(rng.randint(1, 20)):
        steps = [{"name": rng.choice(["x", "y", "z" * 300]), "status": "success", "output": "[]"}]
        metrics = {"steps_score": rng.random(), "input_tokens": rng.randrange(2**64), "a_cost": 0.5}
        aggregates.add(
            {"template_id": rng.choice("ab"), "status": "success", "actual_steps": steps, **metrics}
        )
    return aggregates.to_bytes()


def check(rng: random.Random) -> None:
    data = bytearray(example(rng))
    body = msgspec.msgpack.decode(data[HEADER.size :], strict=False)
    if rng.random() < 0.7:
        try:
            changed = msgspec.msgpack.encode(spoil(body, rng, times=rng.randint(0, 3)))
        except (TypeError, OverflowError, UnicodeEncodeError):  # Junk that MessagePack cannot hold.
            return
    else:
        changed = bytes(data[HEADER.size :])
        at = rng.randrange(len(changed))
        changed = changed[:at] + rng.randbytes(rng.randint(0, 3)) + changed[at + rng.randint(0, 2) :]
    sealed = HEADER.pack(*HEADER.unpack_from(data)[:2], zlib.crc32(changed)) + changed
    with affordable(len(sealed)):
        try:
            loaded = RunningAggregates.from_bytes(sealed)
        except AggregationError:
            return
        again = RunningAggregates.from_bytes(loaded.to_bytes())
        assert again.snapshot(detail=True) == loaded.snapshot(detail=True)
        loaded.merge(again)
        loaded.snapshot(detail=True)


@sizes
def test_any_bytes_are_aggregates_or_refused(count: int) -> None:
    repeat(check, count)
