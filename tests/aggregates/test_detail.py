"""What a snapshot has beside each mean."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.inference.confidence import confidence_sequence
from tests.aggregates.made import aggregated, result
from tests.aggregates.strategies import scored
from tests.support.histograms import weights_of


def quantile(values: list[float], percent: int) -> float:
    ascending = sorted(map(Fraction, values))
    place = Fraction(percent * (len(values) - 1), 100)
    low, high = ascending[math.floor(place)], ascending[math.ceil(place)]
    return float(low + (high - low) * (place - math.floor(place)))


@given(st.lists(scored(), min_size=1, max_size=40), st.sampled_from([0.5, 0.95]))
def test_what_a_detailed_snapshot_adds(results: list[dict[str, Any]], level: float) -> None:
    aggregates = aggregated(results)
    plain, detailed = aggregates.snapshot(), aggregates.snapshot(detail=True, level=level)
    groups = [(results, plain["micro"], detailed["micro"])]
    for name, before in plain["per_template"].items():
        own = [one for one in results if one["template_id"] == name]
        groups.append((own, before, detailed["per_template"][name]))
    for key, values in plain.get("per_tag", {}).items():
        for value, before in values.items():  # Questions of different templates count as one.
            own = [{**one, "template_id": ""} for one in results if one["tags"].get(key) == value]
            groups.append((own, before, detailed["per_tag"][key][value]))
    for own, before, after in groups:
        after.pop("repeats", None)
        questions = {(one["template_id"], one["question_id"]) for one in own}
        if all(question is not None for _, question in questions):
            assert after.pop("number_of_questions") == len(questions)
            for metric in ("steps_score", "input_tokens"):
                assert after[metric].pop("questions") == len(questions)
        for metric in ("steps_score", "input_tokens"):
            values = [one[metric] for one in own]
            extra = {
                key: after[metric].pop(key) for key in [*after[metric]] if key not in before[metric]
            }
            if "median" in before[metric]:  # Not that of a tag.
                assert extra.pop("quantiles") == {
                    f"p{p}": quantile(values, p) for p in (50, 90, 95, 99)
                }
            coverage = {"applied": len(own), "values": len(own), "failed": {}, "pending": 0}
            assert extra.pop("coverage") == coverage
            if metric == "steps_score":
                assert extra.pop("bounds") == dict.fromkeys(("low", "high"), before[metric]["mean"])
                check_questions(own, extra, before[metric])
                check_confidence(own, extra, level)
            assert extra == {}
    assert detailed["macro"]["steps_score"].pop("bounds") == dict.fromkeys(
        ("low", "high"), plain["macro"]["steps_score"]["mean"]
    )
    assert detailed == plain
    assert aggregates.snapshot() == plain


def check_questions(results: list[Any], extra: dict[str, Any], shown: dict[str, Any]) -> None:
    """Take what is clustered by question out of a snapshot, and compare it with numpy's
    arithmetic.
    """
    by_question: dict[Any, list[float]] = {}
    for one in results:
        by_question.setdefault((one["template_id"], one["question_id"]), []).append(
            one["steps_score"]
        )
    if any(question is None for _, question in by_question):
        assert "se" not in extra
        assert "mean_of_questions" not in shown
        return
    means = [statistics.fmean(values) for values in by_question.values()]
    assert shown["mean_of_questions"] == pytest.approx(statistics.fmean(means))
    if len(means) > 1:
        se = extra.pop("se")
        assert se == pytest.approx(np.std(means, ddof=1) / np.sqrt(len(means)), abs=1e-12)
    groups = [np.array(values) for values in by_question.values()]
    n, k, every = len(results), len(groups), np.concatenate(groups)
    if n > k and "median" in shown:  # Not that of a tag.
        within = sum(np.sum((own - own.mean()) ** 2) for own in groups) / (n - k)
        expected = {"within": pytest.approx(within, abs=1e-12)}
        if k > 1:
            among = sum(len(own) * (own.mean() - every.mean()) ** 2 for own in groups) / (k - 1)
            size = (n - sum(len(own) ** 2 for own in groups) / n) / (k - 1)
            expected["between"] = pytest.approx((among - within) / size, abs=1e-12)
        assert extra.pop("variance") == expected


def check_confidence(results: list[Any], extra: dict[str, Any], level: float) -> None:
    """Take the intervals out of it, which are over first samples unless they are more than
    questions.
    """
    firsts = [one["steps_score"] for one in results if one["sample"] in (1, None)]
    asked = {(one["template_id"], one["question_id"]) for one in results}
    is_known = None not in (question for _, question in asked)
    if not firsts or (is_known and len(firsts) > len(asked)):
        return
    low, high = confidence_sequence(weights_of(firsts), level=level)
    confidence = extra.pop("confidence")
    about = pytest.approx(statistics.fmean(firsts))
    assert confidence == {"level": level, "low": low, "high": high, "mean": about}
    if len(firsts) > 1:
        assert extra.pop("interval") == {**confidence, "kind": "anytime", "questions": len(firsts)}


def test_rows_have_numbers_only() -> None:
    some = [
        result(question_id=f"q{i}", steps_score=i / 4, error_rate=0, x_cost=i) for i in range(5)
    ]
    aggregates = aggregated([*some, result(status="error")])
    rows = aggregates.to_rows(detail=True, interval="one_look")
    assert {type(row["value"]) for row in rows} <= {int, float}
    statistics_ = {row["statistic"] for row in rows if row["metric"] == "steps_score"}
    assert "interval.kind" not in statistics_
    assert {
        "mean",
        "quantiles.p95",
        "interval.low",
        "confidence.high",
        "coverage.applied",
    } <= statistics_


@settings(max_examples=50)
@given(st.lists(scored(), min_size=1, max_size=20), st.data())
def test_details_of_each_template_while_results_come(
    results: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Looked at now and then, they are as if made at once, whatever was prepared between
    results.
    """
    aggregates = RunningAggregates()
    steps = aggregates.prepare()
    for count, one in enumerate(results, 1):
        fractions = data.draw(st.sampled_from([None, [], ["tone"]]))
        if fractions is not None:
            one |= {"tone": 0.5, "judge": {"outputs": ["tone"], "fractions": fractions}}
        if data.draw(st.booleans()):
            one["pending"] = ["answer_correctness"]
        aggregates.add(one)
        for _ in range(data.draw(st.integers(0, 2))):
            steps = steps if next(steps, "end") is None else aggregates.prepare()
        if data.draw(st.booleans()):
            whole = aggregated(results[:count])
            assert aggregates.per_template() == whole.per_template()
            assert aggregates.overall() == whole.overall()


def test_which_metrics_are_bounded() -> None:
    """A cosine is not, nor what is made of one; a number of tokens is not, even if it is 1."""
    names = [
        "answer_recall",
        "answer_relevance",
        "ragas_answer_correctness",
        "input_tokens",
        "x_cost",
    ]
    values: dict[str, Any] = dict.fromkeys(names, 1.0)
    steps = [{"name": "retrieval", "retrieval_context_f1": 1.0}]
    micro = aggregated([result(**values, actual_steps=steps)]).snapshot(detail=True)["micro"]
    bounded = {
        metric
        for metric, stats in micro.items()
        if isinstance(stats, dict) and "confidence" in stats
    }
    assert bounded == {"answer_recall", "retrieval_context_f1"}
