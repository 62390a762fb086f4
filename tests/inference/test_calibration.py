"""Labels of people compared with scores of a judge, and results drawn for people to label."""

from __future__ import annotations

from hashlib import sha256
from math import sqrt
from random import Random
from statistics import covariance, fmean, variance
from typing import Any

import orjson
import pytest
from scipy.stats import t as student

from graphrag_eval_async import UsageError, calibrate, compare
from graphrag_eval_async.inference.labels import LabelSample
from tests.inference.labelled import label, result

Items = list[dict[str, Any]]


def judged(count: int) -> tuple[Items, Items]:
    """Results of a strict judge, of two templates, and a label for each."""
    random = Random(1)
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
    assert (row["agreement"], row["sensitivity"], row["specificity"]) == (6 / 8, 3 / 4, 3 / 4)
    assert row["kappa"] == pytest.approx((0.75 - 0.5) / (1 - 0.5))
    assert row["bias"] == pytest.approx((4.0 - 4.25) / 8)
    assert row["mean_score"] == pytest.approx(4.8 / 9)
    assert row["mean_label"] == pytest.approx(4.25 / 8)


@pytest.mark.parametrize("labelled", [100, 250, 400])
def test_the_corrected_mean_is_that_of_the_formula(labelled: int) -> None:
    results, labels = judged(400)
    found = calibrate(results, labels[:labelled], chosen_at_random=True, level=0.9)["overall"][
        "corrected"
    ]
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
    alone, repeated = (
        calibrate(
            [{**each, "sample": sample} for each in results for sample in range(times)],
            [{**each, "sample": sample} for each in labels[:120] for sample in range(times)],
            chosen_at_random=True,
        )["overall"]["corrected"]
        for times in (1, 3)
    )
    assert repeated["se"] == pytest.approx(alone["se"], rel=0.02)


def test_when_the_mean_is_corrected() -> None:
    """With 100 labels or more that were chosen at random."""
    results, labels = judged(150)

    def corrected(labels: Items, group: str | None = None, **options: Any) -> dict[str, Any]:
        found = calibrate(results, labels, **options)
        shown: dict[str, Any] = found["per_template"][group] if group else found["overall"]
        return shown["corrected"]  # type: ignore[no-any-return]

    assert "mean" in corrected(labels[:101], chosen_at_random=True)
    short = "labels; an interval needs 100 or more, else it is too short"
    assert corrected(labels[:101], "a", chosen_at_random=True) == {"reason": f"51 {short}"}
    assert corrected(labels[:99], chosen_at_random=True) == {"reason": f"99 {short}"}
    drawn = [each | {"drawn": {"n": 150, "of": 150, "seed": 1}} for each in labels]
    assert "mean" in corrected([*drawn, label("elsewhere", 1)])
    for other in (labels, [*drawn[:149], labels[149]]):
        assert "--chosen-at-random" in corrected(other)["reason"]


def test_warnings_about_a_sample() -> None:
    results, labels = judged(150)
    drawn = [each | {"drawn": {"n": 120, "of": 149, "seed": 1}} for each in labels[:110]]
    told = calibrate(results, [*drawn, labels[111] | {"value": None}])["warnings"]
    assert told[0].startswith("10 of the drawn results have no label; ")
    assert told[1].startswith(
        "the labels were drawn from 149 results with a score, and these are 150; "
    )


def test_several_people_in_any_order() -> None:
    results = [result(i, 1.0) for i in range(3)]
    labels = [label(0, True), label(0, True), label(1, False), label(1, True), label(2, 1)]
    found = calibrate(results, labels)
    assert found["overall"]["labels"] == 3
    assert found["overall"]["mean_label"] == pytest.approx(2.5 / 3)
    assert found["people"] == {"items": 2, "alpha": pytest.approx(1 - 3 * 2 / 6)}
    assert calibrate(results[::-1], labels[::-1]) == found


def line_of(item: dict[str, Any]) -> str:
    return sha256(orjson.dumps(item)).hexdigest()


RESULTS = [result(1, 1.0, sample=1), result(1, 0.0, sample=2), result(2), result(3, 1.0, sample=1)]


@pytest.mark.parametrize(
    ("question", "more", "reason"),
    [
        pytest.param(1, {"sample": 2}, None, id="sample"),
        pytest.param(1, {"sha256": line_of(RESULTS[1])}, None, id="hash"),
        pytest.param(1, {}, "several_results", id="several results"),
        pytest.param(3, {"sample": 2}, "no_such_sample", id="unknown sample"),
        pytest.param(3, {"sha256": line_of(RESULTS[1])}, "other_sha256", id="another hash"),
        pytest.param(2, {}, "no_score", id="no score"),
        pytest.param(4, {}, "unknown_question_id", id="unknown question"),
    ],
)
def test_which_labels_are_used(question: int, more: dict[str, Any], reason: str | None) -> None:
    labels = [label(3, 1), label(question, 0, **more), label(4, 1, metric="other")]
    found = calibrate(RESULTS, labels, metric="answer_f1")
    assert found["unused_labels"] == ({} if reason is None else {reason: 1})


# Drawing results to label

DRAWN_FROM = [
    result(i, i / 100, question_text="Why?", answer_correctness_reason="no") for i in range(100)
]


def draw(results: Items, n: int, seed: int = 1, metric: str = "answer_f1") -> Items:
    sample = LabelSample(n, metric=metric, seed=seed)
    for one in results:
        sample.add(one)
    return sample.labels()


def test_people_do_not_see_what_the_judge_says() -> None:
    drawn = draw(DRAWN_FROM, 1)[0]
    assert drawn == {
        "question_id": drawn["question_id"],
        "template_id": "t",
        "question_text": "Why?",
        "sha256": line_of(DRAWN_FROM[int(drawn["question_id"].strip("q"))]),
        "metric": "answer_f1",
        "value": None,
        "drawn": {"n": 1, "of": 100, "seed": 1},
    }


def test_people_see_what_the_answer_should_rest_on() -> None:
    steps = [
        {"name": "retrieval", "status": "success", "output": "texts"},
        {"name": "retrieval", "status": "error", "output": "none"},
        {
            "name": "sparql_query",
            "status": "success",
            "output": "rows",
            "executed_output": "new rows",
        },
        {
            "name": "sparql_query",
            "status": "success",
            "output": None,
            "executed_output": "more rows",
        },
    ]
    for metric, evidence in (
        ("faithfulness", ["texts"]),
        ("sparql_groundedness", ["rows", "more rows"]),
    ):
        drawn = draw([result(0, actual_steps=steps, **{metric: 0.5})], 1, metric=metric)
        assert drawn[0]["evidence"] == evidence


def test_a_draw_depends_on_the_seed_and_not_on_the_order() -> None:
    assert draw(Random(1).sample(DRAWN_FROM, 100), 20) == draw(DRAWN_FROM, 20)
    ids = [each["question_id"] for each in draw(DRAWN_FROM, 50)]
    assert ids[:20] == [each["question_id"] for each in draw(DRAWN_FROM, 20)]
    assert ids != [each["question_id"] for each in draw(DRAWN_FROM, 50, seed=2)]


def test_only_results_with_a_score_are_drawn() -> None:
    drawn = draw([*DRAWN_FROM[:3], result(200), result(201, 1.0, status="error")], 10)
    assert {each["question_id"] for each in drawn} == {"q0", "q1", "q2"}
    assert drawn[0]["drawn"] == {"n": 3, "of": 3, "seed": 1}


def test_labels_of_compare_say_what_to_use_instead() -> None:
    with pytest.raises(UsageError, match="labels= is gone; call `calibrate` with each run"):
        compare(RESULTS, RESULTS, labels=[label(3, 1)])  # type: ignore[call-arg]
