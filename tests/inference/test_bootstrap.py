"""Intervals of agreement, against a bootstrap that draws whole tables of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphrag_eval_async import calibrate
from graphrag_eval_async.aggregates.agreement import Agreement
from graphrag_eval_async.inference.bootstrap import intervals
from graphrag_eval_async.monitor.summary import Reading
from tests.aggregates.test_agreement import judged
from tests.inference.labelled import label, result
from tests.support.cases import each

Votes = list[tuple[str, dict[str, float]]]


def votes_of(random: Any, questions: int, judges: str = "ab") -> Votes:
    """What judges who differ in one score of four say of one to three results of each question."""

    def score(right: float) -> float:
        return right if random.random() < 0.75 else random.random()

    rights = random.random(questions) < 0.5
    return [
        (f"q{number}", {judge: score(float(right)) for judge in judges})
        for number, right in enumerate(rights)
        for _ in range(random.integers(1, 4))
    ]


@each(("judges", "name"), [("abc", "alpha"), ("ab", "kappa")])
def test_the_ends_are_percentiles_of_draws(judges: str, name: str) -> None:
    random, draws = np.random.default_rng(4), []
    votes = votes_of(random, 30, judges)
    for _ in range(400):
        drawn = Agreement()
        for place in random.integers(0, 30, 30):
            for question, own in votes:
                if question == f"q{place}":
                    drawn.add(own)
        draws.append(getattr(drawn, name))
    found = intervals(votes, 0.8)
    ends = (found[name]["low"], found[name]["high"])
    assert ends == pytest.approx(tuple(np.quantile(draws, [0.1, 0.9])), abs=0.03)
    assert intervals(votes[::-1], 0.8) == found


def test_many_questions_are_drawn_in_groups() -> None:
    """The interval is half as wide for four times as many."""
    random = np.random.default_rng(5)
    found = [intervals(votes_of(random, n), 0.95)["alpha"] for n in (350, 1400)]
    one, other = (own["high"] - own["low"] for own in found)
    assert one / other == pytest.approx(2, rel=0.15)


def test_when_there_is_none() -> None:
    assert intervals(votes_of(np.random.default_rng(6), 9), 0.95) == {}
    assert intervals([(f"q{i}", {"a": i % 2, "b": i % 2}) for i in range(50)], 0.95) == {}
    assert intervals([(f"q{i}", {"a": 0.0, "b": 1.0}) for i in range(50)], 0.95) == {}


def test_calibrations_and_reports_have_them() -> None:
    """The interval of kappa follows the verdicts, that of people their labels."""
    random = np.random.default_rng(7)
    scores, people = (random.random(80) < 0.5) * 1.0, (random.random((80, 2)) < 0.6) * 1.0
    labels = [label(i, value) for i, own in enumerate(people) for value in own]
    found = calibrate([result(i, score) for i, score in enumerate(scores)], labels, level=0.9)
    verdicts = [(f"q{i}", {"a": score, "b": max(people[i])}) for i, score in enumerate(scores)]
    assert found["overall"]["kappa_interval"] == intervals(verdicts, 0.9)["kappa"]
    answers = [(f"q{i}", {"a": one, "b": other}) for i, (one, other) in enumerate(people)]
    assert found["people"]["alpha_interval"] == intervals(answers, 0.9)["alpha"]
    reading, votes = Reading(), votes_of(random, 40, "abc")
    for (question, _), read in zip(votes, judged([own for _, own in votes]), strict=True):
        reading.add(read | {"question_id": question})
    shown = reading.summary(level=0.9).snapshot["agreement"]["faithfulness"]
    assert shown["krippendorff_alpha_interval"] == intervals(votes, 0.9)["alpha"]
    assert "cohen_kappa_interval" not in shown
