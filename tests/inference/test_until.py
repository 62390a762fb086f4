"""Deciding after each result, against confidence sequences of all results so far."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import Until
from graphrag_eval_async.inference.confidence import TOLERANCE, confidence_sequence
from graphrag_eval_async.inference.until import Deciding, Sample
from tests.support.histograms import weights_of

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED = Sample("q", 0, 1)


def result(score: float | None = None, **more: Any) -> dict[str, Any]:
    scored = {} if score is None else {"steps_score": score}
    return {"template_id": "t", "question_id": "q", "status": "success", **scored, **more}


def retrieval(**more: Any) -> dict[str, Any]:
    return {"name": "retrieval", "id": "a", "status": "success", "output": "[]", **more}


def read(condition: str, of: dict[str, Any]) -> Sample | None:
    return Deciding(Until(condition)).read(of)


def test_what_counts_of_a_result() -> None:
    score = "steps_score > 0.5"
    assert read(score, result(0.25)) == Sample("q", 0.25, 0.25)
    assert read(score, result()) == Sample("q")
    assert read("t:" + score, result(1.0)) == Sample("q", 1.0, 1.0)
    assert read("u:" + score, result(1.0)) is None
    assert read(score, result(7.0)) == FAILED
    assert (
        read("answer_f1 > 0.5", result(1.0, answer_eval_error="timeout: late", answer_f1=None))
        == FAILED
    )
    failed = result(0.25, status="error", reference_steps=[[{"name": "s"}]])
    assert read(score, failed) == FAILED
    assert read("u:" + score, failed) is None


@given(st.lists(st.none() | st.floats(0, 1) | st.sampled_from([0, 1]), min_size=1, max_size=9))
def test_the_retrieval_steps_of_a_response_are_one_sample(values: list[float | None]) -> None:
    """None is a step that failed. The means are those of fractions, rounded once."""
    key = "retrieval_context_recall"
    steps = [
        retrieval(**{key + "_error": "timeout: late"} if v is None else {key: v}) for v in values
    ]
    total = sum(Fraction(value) for value in values if value is not None)
    low = float(total / len(values))
    high = float((total + values.count(None)) / len(values))
    whole = result(actual_steps=[retrieval(), *steps, {"name": "other", key: 0.5}])
    assert read(key + " > 0.5", whole) == Sample("q", low, high)
    assert read(key + " > 0.5", result(actual_steps=[retrieval()])) == Sample("q")


@st.composite
def streams(draw: st.DrawFn) -> list[Sample]:
    """Of values near a mean or of coins, with few failures or many."""
    mean, failing = draw(st.floats(0.02, 0.98)), draw(st.sampled_from([0.0, 0.02, 0.3]))
    coins, seed = draw(st.booleans()), draw(st.integers(0, 2**32))
    random = np.random.default_rng(seed)
    samples = []
    for i in range(draw(st.integers(1, 150))):
        size = 1 if random.random() < 0.9 else int(random.integers(0, 4))
        values = (
            random.random(size) < mean if coins else random.beta(20 * mean, 20 * (1 - mean), size)
        )
        failed = int((random.random(size) < failing).sum())
        total = float(sum(values[failed:]))
        means = (total / size, (total + failed) / size) if size else (None, None)
        samples.append(Sample(f"q{i}", *means))
    return samples


def values_of(samples: Sequence[Sample], worth: int) -> list[float]:
    means = [each.high if worth else each.low for each in samples]
    return [mean for mean in means if mean is not None]


@settings(max_examples=60, deadline=None)
@given(
    streams(),
    st.floats(0.01, 0.99),
    st.sampled_from([0.5, 0.8, 0.95, 0.99]),
    st.sampled_from([">=", "<"]),
)
def test_it_is_decided_when_the_bound_leaves_the_sequence(
    stream: list[Sample], bound: float, level: float, operator: str
) -> None:
    deciding = Deciding(Until(f"steps_score {operator} {bound!r}", level))
    for n, samples in enumerate(stream, 1):
        deciding.add(samples)
        if not (lowest := values_of(stream[:n], 0)):
            continue
        low, _ = confidence_sequence(weights_of(lowest), level=level)
        _, high = confidence_sequence(weights_of(values_of(stream[:n], 1)), level=level)
        if min(abs(low - bound), abs(high - bound)) < 4 * TOLERANCE:
            return
        holds = None if low <= bound <= high else (bound < low) == (operator == ">=")
        assert deciding.holds is holds
        assert deciding.interval == pytest.approx((low, high), abs=4 * TOLERANCE)
        failed = sum(each.low != each.high for each in stream[:n])
        assert (deciding.results, deciding.samples, deciding.failed) == (n, len(lowest), failed)
        if holds is not None:
            deciding.add(Sample("more", 0.5, 1.0))
            assert deciding.results == n
            return
