"""How often intervals and plans are right, in many simulated runs: a soak test of 30 seconds.

Each promise of a probability is simulated with a fixed seed, so that the tests are reproducible.
"""

from __future__ import annotations

from collections import Counter
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphrag_eval_async import plan_questions
from graphrag_eval_async.aggregates.questions import clusters
from graphrag_eval_async.inference.calibration import Pair, corrected_mean, estimate
from graphrag_eval_async.inference.labels import Score
from graphrag_eval_async.inference.one_look import change_interval, one_look
from graphrag_eval_async.inference.pairs import Drop, SideCounts
from graphrag_eval_async.inference.systems import RunningSystems
from graphrag_eval_async.inference.verdicts import non_inferiority
from tests.support.comparisons import compared, result

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.support.comparisons import Results

    Floats = NDArray[Any]

pytestmark = pytest.mark.soak


def test_intervals_for_one_look_cover_the_mean() -> None:
    """Of questions with 1 to 9 samples, the more the better; of changes that go one way; a
    second.
    """
    random, covered = np.random.default_rng(5), 0
    for _ in range(1000):
        sizes = random.integers(1, 10, 30)
        means = [float((random.random(size) < 0.4 + 0.05 * size).mean()) for size in sizes]
        ends = one_look(clusters(means, fmean(means)), 0.95, bounded=True)
        covered += ends is not None and ends[0] <= 0.65 <= ends[1]
    assert 0.92 <= covered / 1000 <= 0.98
    for n in (20, 30, 50):
        covered = 0
        for _ in range(1000):
            changes = random.choice([-1.0, 0.0], n, p=[0.1, 0.9]).tolist()
            ends = change_interval(changes, 0.95, bounded=True)
            covered += ends is not None and ends[0] <= -0.1 <= ends[1]
        assert covered / 1000 >= 0.94


def test_a_worse_candidate_is_seldom_called_non_inferior() -> None:
    """Worse by just the margin, in few large losses or many small ones."""
    random, margin = np.random.default_rng(7), 0.05
    for n in (30, 100, 300):
        called = Counter[str]()
        for _ in range(600):
            few = random.random(n) < margin
            changes = {
                "losses": np.where(few, -1.0, 0.0),
                "half, with noise": np.where(
                    random.random(n) < 2 * margin, -0.5, random.normal(0, 0.01, n)
                ),
                "normal": random.normal(-margin, 0.2, n),
                "both ways": random.choice([-1.0, 0.0, 1.0], n, p=[0.125, 0.8, 0.075]),
            }
            counts = SideCounts(results=n, errors=0, missing=0)
            for name, own in changes.items():
                drop = Drop(None, own.tolist(), counts, counts, errors_are_zeros=True)
                found = non_inferiority(drop, "steps_score", margin, 0.95, bounded=True)
                called[name] += found["verdict"] == "non_inferior"
        assert max(called.values()) / 600 <= 0.035


def test_verdicts_on_systems_are_seldom_wrong_together() -> None:
    """All systems are equal, so each verdict is wrong; of all of a comparison, few are."""
    random = np.random.default_rng(9)
    wrong = 0
    for _ in range(200):
        systems = RunningSystems(["a", "b", "c", "d"])
        for name in "abcd":
            right = random.random(30) < 0.6
            quality = random.random(30)
            for i in range(30):
                systems.add(
                    name,
                    result(f"q{i}", steps_score=float(right[i]), answer_f1=float(quality[i])),
                )
        rows = [
            stats["change"]
            for facts in systems.snapshot()["systems"].values()
            for stats in facts["metrics"].values()
            if "change" in stats
        ]
        wrong += any(row["verdict"] in {"better", "worse"} for row in rows)
    assert wrong / 200 <= 0.08


def run_of(scores: Floats, **more: Any) -> Results:
    return [result(f"q{i}", steps_score=float(score), **more) for i, score in enumerate(scores)]


def test_a_plan_keeps_its_promise() -> None:
    """A fall of 0.15 is noticed in 4 of 5 comparisons with the planned number of questions."""
    random = np.random.default_rng(5)

    def pair(n: int) -> tuple[Results, Results]:
        base = random.random(n)
        one, other = ((random.random(n) < 0.2 + 0.6 * base - by) * 1.0 for by in (0.0, 0.15))
        return run_of(one, total_tokens=1), run_of(other, total_tokens=1)

    planned = plan_questions(0.15, *pair(4000))
    assert planned["power"] == 0.8
    verdicts = [
        compared(*pair(planned["paired"]))["overall"]["steps_score"]["verdict"] for _ in range(300)
    ]
    assert verdicts.count("worse") / 300 == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize(("labels", "results"), [(100, 150), (100, 1000), (300, 5000)])
def test_the_interval_of_a_corrected_mean_covers_that_of_people(labels: int, results: int) -> None:
    """Of 1,000 draws of results by a judge that is wrong in one way; with 100 labels a bit less."""
    random, covered, errors = np.random.default_rng(labels + results), 0, []
    for _ in range(1000):
        truth = (random.random(results) < 0.7).astype(float)
        judge = np.where(random.random(results) < 0.85, truth, 1.0)
        scores = [Score(str(i), 1, "t", "", float(score)) for i, score in enumerate(judge)]
        pairs = [
            Pair(score, float(right)) for score, right in zip(scores[:labels], truth, strict=False)
        ]
        found = corrected_mean(estimate(pairs, scores), 0.95)
        covered += found["interval"]["low"] <= 0.7 <= found["interval"]["high"]
        errors.append(found["mean"] - 0.7)
    assert covered / 1000 >= (0.91 if labels == 100 else 0.93)
    assert abs(fmean(errors)) < 0.005 + 3 * stdev(errors) / 1000**0.5
