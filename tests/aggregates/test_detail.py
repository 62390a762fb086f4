"""What a snapshot has beside each mean."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.inference.confidence import confidence_sequence, show_confidence
from tests.aggregates.made import aggregated
from tests.aggregates.strategies import scored
from tests.inference.test_confidence import weights_of


def quantile(values: list[float], percent: int) -> float:
    ascending = sorted(map(Fraction, values))
    place = Fraction(percent * (len(values) - 1), 100)
    low, high = ascending[math.floor(place)], ascending[math.ceil(place)]
    return float(low + (high - low) * (place - math.floor(place)))


@given(st.lists(scored(), min_size=1, max_size=40), st.sampled_from([0.5, 0.95]))
def test_what_a_detailed_snapshot_adds(results: list[dict[str, Any]], level: float) -> None:
    aggregates = aggregated(results)
    plain, detailed = aggregates.snapshot(), aggregates.snapshot(detail=True, level=level)
    for place in ("micro", *plain["per_template"]):
        own = [result for result in results if place in ("micro", result["template_id"])]
        before = plain["micro"] if place == "micro" else plain["per_template"][place]
        after = detailed["micro"] if place == "micro" else detailed["per_template"][place]
        for metric in ("steps_score", "input_tokens"):
            values = [result[metric] for result in own]
            extra = {key: after[metric].pop(key) for key in [*after[metric]] if key not in before[metric]}
            assert extra.pop("quantiles") == {f"p{p}": quantile(values, p) for p in (50, 90, 95, 99)}
            coverage = {"applied": len(own), "values": len(own), "failed": {}, "pending": 0}
            assert extra.pop("coverage") == coverage
            if metric == "steps_score":
                assert extra.pop("bounds") == dict.fromkeys(("low", "high"), before[metric]["mean"])
                firsts = [result[metric] for result in own if result["sample"] in (1, None)]
                check_questions(own, extra, before[metric])
                asked = {(result["template_id"], result["question_id"]) for result in own}
                is_known = None not in (question for _, question in asked)
                if not firsts or (is_known and len(firsts) > len(asked)):
                    assert extra == {}
                    continue
                low, high = confidence_sequence(weights_of(firsts), level=level)
                confidence = extra.pop("confidence")
                about = pytest.approx(statistics.fmean(firsts))
                assert confidence == {"level": level, "low": low, "high": high, "mean": about}
                if len(firsts) > 1:
                    interval = {**confidence, "kind": "anytime", "questions": len(firsts)}
                    assert extra.pop("interval") == interval
                assert low <= statistics.fmean(firsts) <= high
            assert extra == {}
    assert detailed["macro"]["steps_score"].pop("bounds") == dict.fromkeys(
        ("low", "high"), plain["macro"]["steps_score"]["mean"]
    )
    assert detailed == plain
    assert aggregates.snapshot() == plain


@given(st.lists(scored(), min_size=1, max_size=40))
def test_rows_have_numbers_only(results: list[dict[str, Any]]) -> None:
    rows = aggregated(results).to_rows(detail=True, interval="one_look")
    assert {type(row["value"]) for row in rows} <= {int, float}
    statistics_ = {row["statistic"] for row in rows if row["metric"] == "steps_score"}
    assert "interval.kind" not in statistics_
    assert "quantiles.p95" in statistics_


def check_questions(results: list[Any], extra: dict[str, Any], shown: dict[str, Any]) -> None:
    """Take what is clustered by question out of a snapshot, and compare it with numpy's arithmetic."""
    by_question: dict[Any, list[float]] = {}
    for result in results:
        key = result["template_id"], result["question_id"]
        by_question.setdefault(key, []).append(result["steps_score"])
    if any(question is None for _, question in by_question):
        assert "se" not in extra
        assert "mean_of_questions" not in shown
        return
    means = [statistics.fmean(values) for values in by_question.values()]
    assert shown["mean_of_questions"] == pytest.approx(statistics.fmean(means))
    if (k := len(means)) == 1:
        assert "se" not in extra
        return
    assert extra.pop("se") == pytest.approx(np.std(means, ddof=1) / np.sqrt(k), abs=1e-12)


@given(st.lists(scored(), min_size=1, max_size=40), st.data())
def test_details_of_each_template_while_results_come(
    results: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Looked at now and then, they are those of a snapshot, whatever was prepared between results."""
    aggregates = RunningAggregates()
    steps = aggregates.prepare()
    for result in results:
        more: dict[str, Any] = {}
        if data.draw(st.booleans()):
            more["tone"] = 0.5
            fractions = data.draw(st.sampled_from([[], ["tone"]]))
            more["judge"] = {"outputs": ["tone"], "fractions": fractions}
        if data.draw(st.booleans()):
            more["pending"] = ["answer_correctness"]
        aggregates.add({**result, **more})
        for _ in range(data.draw(st.integers(0, 2))):
            steps = steps if next(steps, "end") is None else aggregates.prepare()
        if data.draw(st.booleans()):
            assert intervals_made(aggregates.per_template()) == with_detail(aggregates)["per_template"]
            assert intervals_made({"": aggregates.overall()}) == {"": with_detail(aggregates)["micro"]}


def with_detail(aggregates: RunningAggregates) -> dict[str, Any]:
    """A snapshot without what only finished runs show."""
    snapshot = aggregates.snapshot(detail=True)
    for group in (snapshot["micro"], *snapshot["per_template"].values()):
        for stats in group.values():
            for key in ("interval", "se"):
                if isinstance(stats, dict):
                    stats.pop(key, None)
    return snapshot


def intervals_made(groups: dict[str, Any]) -> dict[str, Any]:
    made = {}
    for name, shown in groups.items():
        made[name] = dict(shown)
        for metric, stats in shown.items():
            if isinstance(stats, dict) and "weights" in stats:
                made[name][metric] = {key: stats[key] for key in stats if key != "weights"}
                if stats["weights"] is not None:
                    made[name][metric]["confidence"] = show_confidence(stats["weights"], 0.95)
    return made


def test_which_metrics_are_bounded() -> None:
    """A cosine is not, nor what is made of one; a number of tokens is not, even if it is 1."""
    names = ["answer_recall", "answer_relevance", "ragas_answer_correctness", "input_tokens", "x_cost"]
    step = {"name": "retrieval", "retrieval_context_f1": 1.0}
    result = {"template_id": "a", **dict.fromkeys(names, 1.0), "actual_steps": [step]}
    micro = aggregated([result]).snapshot(detail=True)["micro"]
    bounded = {metric for metric, stats in micro.items() if isinstance(stats, dict) and "confidence" in stats}
    assert bounded == {"answer_recall", "retrieval_context_f1"}


def test_outputs_near_the_largest_double() -> None:
    """Their sums and squares are larger; what cannot be told is left out."""
    judge = {"outputs": ["size"]}
    steps = [{"name": "retrieval", "x_cost": 1.7e308}] * 3
    some = [
        {"template_id": "a", "question_id": f"q{i // 2}", "judge": judge, "size": size, "actual_steps": steps}
        for i, size in enumerate([1.7e308, 1.6e308, -1.7e308, 1.7e308, 1.7e308])
    ]
    size = aggregated(some).snapshot(detail=True, interval="one_look")["micro"]["size"]
    assert {"se", "interval"} & {*size} == set()
    assert math.isfinite(size["mean_of_questions"])
