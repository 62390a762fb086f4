"""Two runs whose judge is corrected by labels, against plain arrays and simulated runs."""

from __future__ import annotations

from hashlib import sha256
from math import sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats

from graphrag_eval_async import AggregationError, UsageError, compare
from graphrag_eval_async.records.line import write_line
from tests.inference.labelled import label, result


def run_of(random: Any, truth: Any, labelled: int) -> tuple[Any, Any, Any]:
    """Scores of a judge that calls one in five wrong answers right, results, and labels of the first."""
    scores = np.where(random.random(len(truth)) < 0.8, truth, 1.0)
    results = [result(i, float(score), elapsed_sec=random.random()) for i, score in enumerate(scores)]
    digests = [sha256(write_line(each, 1, 0).data).hexdigest() for each in results]
    drawn = random.permutation(len(truth))[:labelled]
    more = {"drawn": {"n": labelled, "of": len(truth)}}
    return scores, [label(int(i), float(truth[i]), sha256=digests[i], **more) for i in drawn], results


def test_the_difference_is_clustered_by_question() -> None:
    """The formula of PPI++ on arrays; the questions of both runs are the same."""
    random, means, parts = np.random.default_rng(3), [], []
    runs = [run_of(random, (random.random(400) < share) * 1.0, 150) for share in (0.5, 0.6)]
    for scores, labels, _ in runs:
        at = np.array([int(each["question_id"][1:]) for each in labels])
        people = np.array([each["value"] for each in labels])
        rest = np.setdiff1d(np.arange(400), at)
        weight = np.cov(people, scores[at])[0, 1] / ((1 + 150 / 250) * np.var(scores, ddof=1))
        means.append(weight * scores[rest].mean() + (people - weight * scores[at]).mean())
        part = np.zeros(400)
        part[at] = (people - weight * scores[at] - (people - weight * scores[at]).mean()) / 150
        part[rest] = weight * (scores[rest] - scores[rest].mean()) / 250
        parts.append(part)
    se = sqrt(150 / 149 * np.sum((parts[1] - parts[0]) ** 2))
    found = compare(runs[0][2], runs[1][2], labels=[*runs[1][1], *runs[0][1]])["corrected"]["answer_f1"]
    assert found["labels"] == {"baseline": 150, "candidate": 150}
    assert [found[side]["mean"] for side in ("baseline", "candidate")] == pytest.approx(means)
    change, interval = found["difference"], found["difference"]["interval"]
    assert (change["mean"], change["se"]) == pytest.approx((means[1] - means[0], se))
    low, high = stats.t.interval(0.95, 149, change["mean"], se)
    assert (interval["low"], interval["high"]) == pytest.approx((low, high))


def test_when_there_is_none() -> None:
    random = np.random.default_rng(1)
    (_, few, before), (_, many, after) = (run_of(random, np.ones(200), n) for n in (20, 120))
    found = compare(before, after, labels=few + many[20:])["corrected"]["answer_f1"]
    assert found["labels"] == {"baseline": 20, "candidate": 100}
    assert found["reason"] == "baseline: 20 labels; an interval needs 100 or more, else it is too short"
    assert found["warnings"][0].startswith("candidate: 20 of the drawn results have no label")
    other = [*many, many[0] | {"sha256": "other"}]
    same = compare(after, after, labels=other)["corrected"]["answer_f1"]
    told = "no interval, since both runs have the same scores and labels"
    assert same["difference"] == {"mean": 0.0, "reason": told}
    assert same["warnings"] == ["1 label not used: neither run has a score in the line of `sha256`"]
    with pytest.raises(UsageError, match="answer_f2: no result has it; did you mean answer_f1"):
        compare(before, after, labels=[each | {"metric": "answer_f2"} for each in few])
    for missing in ({"sha256": None}, {"drawn": None}):
        with pytest.raises(
            AggregationError, match="needs `sha256` and `drawn`, which sample-for-labels adds"
        ):
            compare(before, after, labels=[few[0] | missing])
    with pytest.raises(UsageError, match="labels: none has a value"):
        compare(before, after, labels=[each | {"value": None} for each in few])
    with pytest.raises(UsageError, match="for answer_f1, faithfulness; give those of one"):
        compare(before, after, labels=[*few, many[0] | {"metric": "faithfulness"}])
