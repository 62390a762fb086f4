"""What counts, what is refused, how a snapshot is laid out, and its serialised form."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import msgspec
import pytest

from graphrag_eval_async import RunningAggregates, compare, evaluate_file, scale
from graphrag_eval_async.errors import AggregationError, UsageError
from tests.aggregates.made import aggregated, result


def test_order_of_templates() -> None:
    aggregates = aggregated(map(result, "aybz"), templates=["z", "unused", "y", "z"])
    assert (
        list(aggregates.snapshot()["per_template"]) == aggregates.templates == ["z", "y", "a", "b"]
    )
    aggregates.order_templates(["b"])
    assert list(aggregates.snapshot()["per_template"]) == ["b", "z", "y", "a"]


def test_a_snapshot_belongs_to_the_caller() -> None:
    aggregates = aggregated([result(elapsed_sec=1, actual_steps=[{"name": "a"}])])
    expected = json.dumps(aggregates.snapshot())
    for _ in range(2):
        taken = aggregates.snapshot()
        for part in (taken["per_template"]["t"], taken["micro"]):
            part["steps"]["total"]["a"] = part["elapsed_sec"]["sum"] = None
        taken["macro"]["elapsed_sec"].clear()
    assert json.dumps(aggregates.snapshot()) == expected


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(float("nan"), id="not a number"),
        pytest.param(2**64, id="65 bits"),
        pytest.param(True, id="a boolean"),
        pytest.param("1", id="text"),
        pytest.param({}, id="an object"),
    ],
)
@pytest.mark.parametrize(
    "place", ["elapsed_sec", "my_cost", "retrieval_context_recall", "step_cost"]
)
def test_a_bad_number_is_refused_and_nothing_is_counted(place: str, value: Any) -> None:
    aggregates = aggregated([result(steps_score=1.0)])
    before = json.dumps(aggregates.snapshot())
    step = {"name": "retrieval", "status": "success"}
    bad = result("new", steps_score=0.5, actual_steps=[step])
    (step if "retrieval" in place or "step" in place else bad)[place] = value
    with pytest.raises(AggregationError, match=f"q1.*{place}"):
        aggregates.add(bad)
    assert json.dumps(aggregates.snapshot()) == before


def test_include_errors_says_what_to_use_instead() -> None:
    arguments: dict[str, Any] = {"include_errors": True}
    for function in (RunningAggregates, compare, evaluate_file, scale.evaluate_dataset):
        with pytest.raises(UsageError, match="include_errors= is gone; only compute_aggregates"):
            function(**arguments)


def test_questions_by_their_means_and_values_by_their_ranks() -> None:
    """An error counts as 0; equal means are ordered by samples, and then by name."""
    scores = {"d": [1.0, 0.5], "a": [0.25], "b": [0.0, 0.5], "c": [1.0]}
    some = [
        result(question_id=name, steps_score=score) for name, own in scores.items() for score in own
    ]
    some += [result(question_id="c", status="error"), result(question_id=None, steps_score=0.0)]
    some += [result("u", question_id="a", status="error")]
    aggregates = aggregated(some)
    shown = [
        (each.template, each.question, each.mean, each.errors)
        for each in aggregates.lowest("steps_score", 4)
    ]
    assert shown == [
        ("u", "a", 0.0, 1),
        ("t", "b", 0.25, 0),
        ("t", "a", 0.25, 0),
        ("t", "c", 0.5, 1),
    ]
    assert [each.question for each in aggregates.question_scores("steps_score", "u")] == ["a"]
    assert aggregates.lowest("answer_f1", 1) == []
    bounds = [-1.0, 0.0, 0.5, 0.9, float("inf")]
    assert aggregates.cumulative_counts("steps_score", bounds) == [0, 2, 5, 5, 7]
    assert aggregates.cumulative_counts("answer_f1", [1.0]) == [0]


# Serialised

HEADER = struct.Struct(">4sHI")


def example() -> RunningAggregates:
    some = [
        result(
            template,
            input_tokens=tokens,
            elapsed_sec=0.5,
            answer_eval_error="timeout: 60 s",
            failure="\udc80",
            judge={"outputs": ["tone"], "fractions": ["tone"]},
            tone=0.5,
            tone_by={"one": {"tone": 0.25}, "\udfff": {"tone": 0.75}},
            actual_steps=[
                {"name": "retrieval", "status": "success", "output": "[]"},
                {"name": "\ud800"},
            ],
        )
        for template, tokens in [("a", 2**53 + 1), ("a", 2), ("b", 3), ("\udfff", 4)]
    ]
    waiting = result("a", question_id="\udfff", sample=1, pending=["answer_correctness", "tone"])
    return aggregated([*some, waiting], templates=["b", "a"])


DATA = example().to_bytes()


def sealed(body: bytes, *, magic: bytes = b"GEAA", version: int = 9) -> bytes:
    return HEADER.pack(magic, version, zlib.crc32(body)) + body


def test_bytes_that_count_the_values_of_errors_can_be_read() -> None:
    """Earlier versions could write them, with a flag at the beginning."""
    _, *others = msgspec.msgpack.decode(DATA[HEADER.size :])
    data = sealed(msgspec.msgpack.encode([True, *others]))
    assert RunningAggregates.from_bytes(data).to_bytes() == DATA


def test_a_round_trip_keeps_everything() -> None:
    restored = RunningAggregates.from_bytes(DATA)
    assert restored.snapshot(detail=True) == example().snapshot(detail=True)
    assert list(restored.snapshot()["per_template"]) == ["b", "a", "\udfff"]
    assert restored.to_bytes() == DATA


def test_flipped_bits_are_found() -> None:
    for position in range(0, len(DATA) * 8, 5):
        damaged = bytearray(DATA)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(AggregationError):
            RunningAggregates.from_bytes(bytes(damaged))


def test_another_version_is_named_with_the_cure() -> None:
    with pytest.raises(
        AggregationError, match=r"\(format 2, this one reads 9\); .* `graphrag-eval-async agg"
    ):
        RunningAggregates.from_bytes(sealed(DATA[HEADER.size :], version=2))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("text", id="text"),
        pytest.param(sealed(DATA[HEADER.size :], magic=b"GEAB"), id="another magic"),
        pytest.param(sealed(b"\x91" * 100_000), id="deep"),
        pytest.param(sealed(msgspec.msgpack.encode([False, {}, {}, "more"])), id="another form"),
    ],
)
def test_what_is_no_state_is_refused(data: Any) -> None:
    with pytest.raises(AggregationError, match="serialised aggregates"):
        RunningAggregates.from_bytes(data)
