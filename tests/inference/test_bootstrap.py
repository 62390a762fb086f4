"""Intervals of agreement, against a bootstrap that draws whole tables of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphrag_eval_async import calibrate
from graphrag_eval_async.inference.bootstrap import intervals
from graphrag_eval_async.monitor.summary import Reading
from tests.aggregates.test_agreement import alpha, judged
from tests.inference.labelled import label, result
from tests.support.cases import each

Table = list[list[dict[str, float]]]


def table(random: Any, questions: int, judges: str = "ab") -> Table:
    """For each question, what judges who differ in one score of four say of one to three results."""
    truth = random.integers(0, 2, questions)
    return [
        [
            {judge: float(right if random.random() < 0.75 else random.random()) for judge in judges}
            for _ in range(random.integers(1, 4))
        ]
        for right in truth
    ]


def found_in(questions: Table, level: float = 0.95, order: int = 1) -> Any:
    votes = [(f"q{number}", own) for number, results in enumerate(questions) for own in results]
    return intervals(votes[::order], level)


def kappa(items: list[dict[str, float]]) -> float:
    """Cohen's kappa with squared weights, over the table of both judges."""
    a, b = np.array([[*item.values()] for item in items]).T
    return float(1 - np.mean((a - b) ** 2) / np.mean((a[:, None] - b[None, :]) ** 2))


@each(("judges", "statistic", "name"), [("abc", alpha, "alpha"), ("ab", kappa, "kappa")])
def test_the_ends_are_percentiles_of_draws(judges: str, statistic: Any, name: str) -> None:
    random = np.random.default_rng(4)
    questions = table(random, 30, judges)
    draws = [
        statistic([item for place in random.integers(0, 30, 30) for item in questions[place]])
        for _ in range(400)
    ]
    found = found_in(questions, 0.8)
    ends = (found[name]["low"], found[name]["high"])
    assert ends == pytest.approx(tuple(np.quantile(draws, [0.1, 0.9])), abs=0.03)
    assert found_in(questions, 0.8, -1) == found


def test_many_questions_are_drawn_in_groups() -> None:
    """The interval is as wide as that of the others: half as wide for four times as many."""
    random = np.random.default_rng(5)
    widths = [(found := found_in(table(random, n))["alpha"])["high"] - found["low"] for n in (350, 1400)]
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.15)


def test_when_there_is_none() -> None:
    assert found_in(table(np.random.default_rng(6), 9)) == {}
    assert found_in([[{"a": float(i % 2), "b": float(i % 2)}] for i in range(50)]) == {}
    assert found_in([[{"a": float(i < 1), "b": 1.0 - (i < 1)}] for i in range(1, 40)]) == {}


def test_calibrations_and_reports_have_them() -> None:
    """The interval of kappa follows the verdicts, that of people their labels."""
    random = np.random.default_rng(7)
    scores, people = random.random(80) < 0.5, random.random((80, 2)) < 0.6
    labels = [label(i, bool(own)) for i, both in enumerate(people) for own in both]
    found = calibrate([result(i, float(score)) for i, score in enumerate(scores)], labels, level=0.9)
    verdicts = [
        [{"a": float(score), "b": float(any(own))}] for score, own in zip(scores, people, strict=True)
    ]
    assert found["overall"]["kappa_interval"] == found_in(verdicts, 0.9)["kappa"]
    answers: Table = [[{"0": float(a), "1": float(b)}] for a, b in people]
    assert found["people"]["alpha_interval"] == found_in(answers, 0.9)["alpha"]
    reading, items = Reading(), table(random, 40, "abc")
    for number, own in enumerate(items):
        for each_ in judged(own):
            reading.add(each_ | {"question_id": f"q{number}"})
    shown = reading.summary(level=0.9).snapshot["agreement"]["faithfulness"]
    assert shown["krippendorff_alpha_interval"] == found_in(items, 0.9)["alpha"]
    assert "cohen_kappa_interval" not in shown
