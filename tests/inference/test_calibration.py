from __future__ import annotations

from hashlib import sha256
from math import sqrt
from random import Random
from statistics import covariance, fmean, variance
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from scipy.stats import t as student

from graphrag_eval_async import calibrate
from tests.cli.support import to_jsonl
from tests.inference.labelled import label, result

if TYPE_CHECKING:
    from pathlib import Path


def judged(count: int, seed: int = 1) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Results of a strict judge, of two templates, and a label for each."""
    random = Random(seed)
    truth = [float(random.random() < 0.8) for _ in range(count)]
    scores = [value * random.choice([0.3, 0.8, 1.0]) for value in truth]
    results = [result(i, score, template_id="ab"[i % 2]) for i, score in enumerate(scores)]
    return results, [label(i, value) for i, value in enumerate(truth)]


def test_a_worked_example() -> None:
    scores = [1.0, 0.9, 0.5, 0.0, 0.4, 1.0, 0.2, 0.0]
    labels = [True, True, True, False, True, False, False, 0.25]
    results = [result(i, score) for i, score in enumerate([*scores, 0.8])]
    found = calibrate(results, [label(i, value) for i, value in enumerate(labels)])
    row = found["overall"]
    assert found["metric"] == "answer_f1"
    assert (row["results"], row["labels"]) == (9, 8)
    assert row["agreement"] == 6 / 8
    assert row["sensitivity"] == 3 / 4
    assert row["specificity"] == 3 / 4
    assert row["kappa"] == pytest.approx((0.75 - 0.5) / (1 - 0.5))
    assert row["bias"] == pytest.approx((4.0 - 4.25) / 8)
    assert row["mean_score"] == pytest.approx(4.8 / 9)
    assert row["mean_label"] == pytest.approx(4.25 / 8)


@pytest.mark.parametrize("labelled", [100, 250, 400])
def test_the_corrected_mean_is_that_of_the_formula(labelled: int) -> None:
    results, labels = judged(400)
    found = calibrate(results, labels[:labelled], chosen_at_random=True, level=0.9)["overall"]["corrected"]
    f = [each["answer_f1"] for each in results]
    y = [each["value"] for each in labels[:labelled]]
    n, rest = labelled, f[labelled:]
    weight = covariance(y, f[:n]) / ((1 + n / len(rest)) * variance(f)) if rest else 0.0
    rectifier = [label - weight * score for label, score in zip(y, f, strict=False)]
    mean = fmean(rectifier) + (weight * fmean(rest) if rest else 0.0)
    se = sqrt(variance(rectifier) / n + (weight**2 * variance(rest) / len(rest) if rest else 0.0))
    assert found["weight"] == pytest.approx(weight)
    assert found["mean"] == pytest.approx(mean)
    assert found["se"] == pytest.approx(se, rel=0.01)
    margin = student.ppf(0.95, n - 1) * found["se"]
    ends = (found["interval"]["low"], found["interval"]["high"])
    assert ends == pytest.approx((mean - margin, mean + margin))
    assert found["interval"]["kind"] == "one_look"


def test_samples_of_one_question_count_once() -> None:
    results, labels = judged(300)
    alone = calibrate(results, labels[:120], chosen_at_random=True)["overall"]["corrected"]
    repeated = calibrate(
        [{**each, "sample": sample} for each in results for sample in range(3)],
        [{**each, "sample": sample} for each in labels[:120] for sample in range(3)],
        chosen_at_random=True,
    )["overall"]["corrected"]
    assert repeated["se"] == pytest.approx(alone["se"], rel=0.02)


def test_too_few_labels() -> None:
    results, labels = judged(150)
    found = calibrate(results, labels[:101], chosen_at_random=True)
    assert "mean" in found["overall"]["corrected"]
    assert found["per_template"]["a"]["corrected"]["reason"].startswith("51 labels; an interval needs 100")
    few = calibrate(results, labels[:99], chosen_at_random=True)["overall"]
    assert few["corrected"] == {"reason": "99 labels; an interval needs 100 or more, else it is too short"}
    assert few["agreement"] is not None


def test_only_a_random_sample_is_corrected() -> None:
    results, labels = judged(150)
    drawn = [each | {"drawn": {"n": 150, "of": 150, "seed": 1}} for each in labels]
    assert "mean" in calibrate(results, drawn)["overall"]["corrected"]
    assert "--chosen-at-random" in calibrate(results, labels)["overall"]["corrected"]["reason"]
    mixed = calibrate(results, [*drawn[:149], labels[149]])
    assert "--chosen-at-random" in mixed["overall"]["corrected"]["reason"]
    unknown = calibrate(results, [*drawn, label("elsewhere", 1)])
    assert "mean" in unknown["overall"]["corrected"]


def test_warnings_about_a_sample() -> None:
    results, labels = judged(150)
    drawn = [each | {"drawn": {"n": 120, "of": 149, "seed": 1}} for each in labels[:110]]
    told = calibrate(results, [*drawn, labels[111] | {"value": None}])["warnings"]
    assert told[0].startswith("10 of the drawn results have no label; ")
    assert told[1].startswith("the labels were drawn from 149 results with a score, and these are 150; ")


def test_several_people() -> None:
    results = [result(i, 1.0) for i in range(3)]
    labels = [label(0, True), label(0, True), label(1, False), label(1, True), label(2, 1)]
    found = calibrate(results, labels)
    assert found["overall"]["labels"] == 3
    assert found["overall"]["mean_label"] == pytest.approx(2.5 / 3)
    assert found["people"] == {"items": 2, "alpha": pytest.approx(1 - 3 * 2 / 6)}


def line_of(item: dict[str, Any]) -> str:
    return sha256(orjson.dumps(item)).hexdigest()


RESULTS = [result(1, 1.0, sample=1), result(1, 0.0, sample=2), result(2), result(3, 1.0, sample=1)]


@pytest.mark.parametrize(
    ("question", "more", "reason"),
    [
        (1, {"sample": 2}, None),
        (1, {"sha256": line_of(RESULTS[1])}, None),
        (1, {}, "several_results"),
        (3, {"sample": 2}, "no_such_sample"),
        (3, {"sha256": line_of(RESULTS[1])}, "other_sha256"),
        (2, {}, "no_score"),
        (4, {}, "unknown_question_id"),
    ],
)
def test_which_labels_are_used(question: int, more: dict[str, Any], reason: str | None) -> None:
    found = calibrate(
        RESULTS, [label(3, 1), label(question, 0, **more), label(4, 1, metric="other")], metric="answer_f1"
    )
    assert found["unused_labels"] == ({} if reason is None else {reason: 1})


def test_broken_lines_do_not_end_it(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_bytes(to_jsonl([label(3, 1), label(1, 7), b"{"]))
    found = calibrate(RESULTS, path)
    assert found["overall"]["labels"] == 1
    assert f"{path}: line 2 (byte " in found["rejected"][0]
    assert "value: must be" in found["rejected"][0]
    assert "line 3" in found["rejected"][1]


def test_the_order_does_not_matter() -> None:
    random = Random(3)
    results, labels = judged(300)
    found = calibrate(results, labels[:150], chosen_at_random=True)
    mixed = random.sample(results, 300), random.sample(labels[:150], 150)
    assert calibrate(*mixed, chosen_at_random=True) == found
