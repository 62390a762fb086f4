"""Comparisons, against plain lists and fractions."""

from __future__ import annotations

import copy
from collections import defaultdict
from fractions import Fraction
from math import isclose
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from graphrag_eval_async import AggregationError, compare
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.confidence import confidence_sequence
from graphrag_eval_async.inference.pairs import SideCounts
from tests.support.comparisons import Results, compared, result
from tests.support.histograms import weights_of
from tests.support.sign_flips import plain_p

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    Value = tuple[float, int]
    """The mean of a question, and of how many values."""

    Pairs = dict[tuple[str | None, str], list[tuple[Value, Value]]]
    """By template, None for all, and metric."""

SCORES = ("error_rate", "steps_score", "answer_f1", "answer_relevance", "retrieval_answer_recall")
RESOURCES = ("total_tokens", "elapsed_sec", "x_cost")
METRICS = ("error_rate", "steps_score", *RESOURCES[:2], *SCORES[2:], RESOURCES[2])
PRIMARY = {"error_rate", "steps_score", "answer_f1", "answer_relevance"}
BOUNDED = {*SCORES} - {"answer_relevance"}


# A plain oracle


def values_of(results: Results) -> dict[str, dict[str, tuple[float, int]]]:
    """By question and metric, the mean, rounded once, and of how many values."""
    lists: dict[str, dict[str, list[Fraction]]] = {}
    for one in results:
        own = lists.setdefault(one["question_id"], defaultdict(list))
        own["error_rate"].append(Fraction(one["status"] == "error"))
        if one["status"] == "error":
            continue
        for place in [one, *one.get("actual_steps", ())]:
            for metric in METRICS[1:]:
                if place.get(metric) is not None:
                    own[metric].append(Fraction(place[metric]))
    return {
        question: {
            metric: (float(sum(values, Fraction()) / len(values)), len(values))
            for metric, values in own.items()
        }
        for question, own in lists.items()
    }


def row_of(metric: str, both: Sequence[tuple[Value, Value]]) -> dict[str, Any]:
    pairs = [(a, b) for (a, _), (b, _) in both]
    changes = [0.0 if isclose(a, b) else b - a for a, b in pairs]
    n = len(pairs)
    lower = metric == "error_rate" or metric in RESOURCES
    ups, downs = sum(c > 0 for c in changes), sum(c < 0 for c in changes)
    wins, losses = (downs, ups) if lower else (ups, downs)
    row: dict[str, Any] = {
        "direction": "lower is better" if lower else "higher is better",
        "pairs": n,
        "baseline": float(sum((Fraction(a) for a, _ in pairs), Fraction()) / n),
        "candidate": float(sum((Fraction(b) for _, b in pairs), Fraction()) / n),
        "difference": float(sum(map(Fraction, changes), Fraction()) / n),
        "wins": wins,
        "losses": losses,
        "ties": n - wins - losses,
    }
    if metric in BOUNDED:
        low, high = confidence_sequence(weights_of((1 + c) / 2 for c in changes), level=0.95)
        row["confidence"] = {"level": 0.95, "low": 2 * low - 1, "high": 2 * high - 1}
    if metric in PRIMARY:
        row["p"] = pytest.approx(plain_p(changes))
    return row


def rows_of(pairs: Pairs) -> dict[str, Any]:
    """The rows overall and of templates."""
    rows: dict[str | None, dict[str, Any]] = {None: {}}
    for template, metric in sorted(pairs, key=lambda each: METRICS.index(each[1])):
        rows.setdefault(template, {})[metric] = row_of(metric, pairs[template, metric])
    return {"overall": rows.pop(None), "per_template": rows}


def pairs_of(baseline: Results, candidate: Results) -> Pairs:
    sides = [values_of(run) for run in (baseline, candidate)]
    pairs: Pairs = defaultdict(list)
    for question in sorted({*sides[0]} & {*sides[1]}):
        template = min(each["template_id"] for each in baseline if each["question_id"] == question)
        for metric in METRICS:
            if all(metric in side[question] for side in sides):
                both = sides[0][question][metric], sides[1][question][metric]
                pairs[None, metric].append(both)
                pairs[template, metric].append(both)
    return pairs


def became_wrong(question: str, first: Results, second: Results) -> bool:
    """Whether the first samples of a question are all right in the first run, and not in the
    second.
    """
    least = {"steps_score": 1.0, "answer_f1": 0.5}
    both = [[each for each in run if each["question_id"] == question] for run in (first, second)]
    both = [sorted(own, key=lambda each: each["sample"])[: min(map(len, both))] for own in both]
    fine = [[each for each in own if each["status"] != "error"] for own in both]
    asked = [
        metric
        for metric in least
        if fine[0] and all(each.get(metric) is not None for own in fine for each in own)
    ]

    def is_right(side: int) -> bool:
        enough = [each[metric] >= least[metric] for each in fine[side] for metric in asked]
        return len(fine[side]) == len(both[side]) and all(enough)

    return asked != [] and is_right(0) and not is_right(1)


def oracle(baseline: Results, candidate: Results) -> dict[str, Any]:
    """What can be said of two runs, but for verdicts and Holm's correction."""
    asked = [{each["question_id"] for each in results} for results in (baseline, candidate)]
    baseline, candidate = (
        [each for each in results if "pending" not in each] for results in (baseline, candidate)
    )
    one, other = (values_of(run) for run in (baseline, candidate))
    shared = sorted({*one} & {*other})
    lone: dict[str, dict[str, Any]] = {}
    worse: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for question in shared:
        for metric in METRICS:
            if metric in one[question] and metric in other[question]:
                a, b = one[question][metric][0], other[question][metric][0]
                loss = (b - a) * (1 if metric == "error_rate" else -1)
                if loss > 0 and metric in SCORES and not isclose(a, b):
                    worse[metric].append((-loss, question))
            elif metric in one[question] or metric in other[question]:
                empty: dict[str, list[str]] = {"baseline": [], "candidate": []}
                side = "baseline" if metric in one[question] else "candidate"
                lone.setdefault(metric, empty)[side].append(question)
    had = [{metric for question in side.values() for metric in question} for side in (one, other)]
    for metric, sides in lone.items():
        if metric in had[0] & had[1] & PRIMARY:
            lost, gained = (
                sum(one[q]["error_rate"][1] == other[q]["error_rate"][1] for q in ids)
                for ids in [*sides.values()]
            )
            sides["p"] = stats.binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
            sides["p"] = pytest.approx(sides["p"])
    return {
        "missing": sorted({*one} - {*other}),
        "results": {"baseline": len(baseline), "candidate": len(candidate)},
        "questions": len(shared),
        "regressions": [q for q in shared if became_wrong(q, baseline, candidate)],
        "improvements": [q for q in shared if became_wrong(q, candidate, baseline)],
        **rows_of(pairs_of(baseline, candidate)),
        "worse": {
            metric: [question for _, question in sorted(worse[metric])]
            for metric in METRICS
            if worse[metric]
        },
        "only_in_baseline": sorted({*one} - asked[1]),
        "only_in_candidate": sorted({*other} - asked[0]),
        "pending": {
            "baseline": sorted(asked[0] - {*one}),
            "candidate": sorted(asked[1] - {*other}),
        },
        "without_pair": lone,
    }


def stripped(snapshot: dict[str, Any]) -> dict[str, Any]:
    """What the oracle says."""
    snapshot = copy.deepcopy(snapshot)
    for group in (snapshot["overall"], *snapshot["per_template"].values()):
        for row in group.values():
            for key in ("verdict", "p_adjusted", "decidable", "interval", "detectable"):
                row.pop(key, None)
    for sides in snapshot["without_pair"].values():
        sides.pop("verdict", None)
    snapshot["worse"] = {
        metric: [each["question_id"] for each in found]
        for metric, found in snapshot["worse"].items()
    }
    for key in ("level", "warnings", "notes"):
        snapshot.pop(key)
    return snapshot


scores = st.floats(0, 1) | st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 1.0])
numbers = scores | st.integers(-(2**63), 2**64 - 1) | st.floats(-1e300, 1e300)


@st.composite
def runs(draw: st.DrawFn) -> Results:
    optional = {
        "steps_score": scores,
        "answer_f1": st.none() | scores,
        "answer_relevance": numbers,
        "total_tokens": st.integers(0, 2**64 - 1),
        "elapsed_sec": st.floats(0, 100),
        "x_cost": numbers,
        "actual_steps": st.lists(
            st.fixed_dictionaries(
                {"name": st.just("retrieval")}, optional={"retrieval_answer_recall": scores}
            ),
            max_size=3,
        ),
    }
    each = st.fixed_dictionaries(
        {
            "template_id": st.sampled_from("ab"),
            "question_id": st.sampled_from("qrstu"),
            "status": st.sampled_from(["success", "success", "error"]),
            "actual_answer": st.just("so"),
        },
        optional=optional,
    )
    part = st.fixed_dictionaries(
        {
            "template_id": st.sampled_from("ab"),
            "question_id": st.sampled_from("qrstuv"),
            "steps_score": scores,
            "pending": st.just(["answer_f1"]),
        }
    )
    whole = draw(st.lists(each, max_size=8))
    order = draw(st.permutations(range(1, len(whole) + 1)))
    numbered = [own | {"sample": number} for own, number in zip(whole, order, strict=True)]
    return numbered + draw(st.lists(part, max_size=2))


@given(runs(), runs())
@settings(max_examples=80, deadline=None)
def test_it_is_what_plain_lists_say(baseline: Results, candidate: Results) -> None:
    snapshot = stripped(compared(baseline, candidate))
    assert snapshot == oracle(baseline, candidate)
    assert list(snapshot["overall"]) == [
        metric for metric in METRICS if metric in snapshot["overall"]
    ]


@given(runs(), runs(), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_the_order_does_not_matter(
    baseline: Results, candidate: Results, shuffled: random.Random
) -> None:
    """Neither that of each side, nor which side comes first, nor who looked in between."""
    expected = compared(baseline, candidate)
    mixed = [("add_baseline", each) for each in baseline] + [("add", each) for each in candidate]
    comparison, in_order = RunningComparison(), RunningComparison()
    for method, each_ in mixed:
        getattr(in_order, method)(each_)
    shuffled.shuffle(mixed)
    for method, each_ in mixed:
        getattr(comparison, method)(each_)
        if shuffled.random() < 0.3:
            comparison.snapshot()
    assert comparison.snapshot() == in_order.snapshot() == expected
    assert compare(iter(baseline), iter(candidate)) == expected


def test_drops_of_a_metric_count_errors_as_0() -> None:
    """Also of a question that is an error on both sides."""
    judged: dict[str, Any] = {"reference_answer": "yes", "actual_answer": "yes"}
    error = {"status": "error", "error": "no", **judged}
    comparison = RunningComparison()
    for own in (
        *(result("a", answer_f1=value, **judged) for value in (1.0, 0.5)),
        result("d", **error),
    ):
        comparison.add_baseline(own)
    comparison.add_baseline(result("b", answer_f1=1.0, **judged))
    comparison.add_baseline(result("b", **error))
    for own in (result("a", answer_f1=0.25, **judged), result("b", **error), result("d", **error)):
        comparison.add(own)
    drop = comparison.drop("answer_f1")
    assert drop.means == pytest.approx(
        {"baseline": 1.25 / 3, "candidate": 0.25 / 3, "difference": -1 / 3}
    )
    assert drop.baseline == SideCounts(results=5, errors=2, missing=0)
    assert drop.candidate == SideCounts(results=3, errors=2, missing=0)


# Warnings


def judged(**judge: str) -> Results:
    return [result("q", answer_f1=1.0, judge=judge)]


def test_runs_by_different_judges() -> None:
    same = {"model": "m", "prompts": "p", "embedding": "e"}
    assert compared(judged(**same), judged(**same))["warnings"] == []
    told = compared(judged(**same), judged(**same | {"embedding": "f"}))["warnings"]
    assert told == ["the two were judged by different embedding models: baseline: e; candidate: f"]
    both = judged(model="m") + judged(model="n")
    assert compared(both, both)["warnings"][0] == "the baseline was judged by several models: m, n"


def test_different_reference_data() -> None:
    """The order of keys and what reference queries returned now are no difference."""
    steps = [
        {"name": "look_up", "output": "red", "reference_query": "Q", "executed_at": "1"},
        {"reference_query": "Q", "executed_at": "2", "output": "blue", "name": "look_up"},
        {"name": "look_up", "output": "red"},
        {"output": "blue", "name": "look_up"},
    ]
    runs = [[result("q", reference_answer="so", reference_steps=[[step]])] for step in steps]
    assert compared(runs[0], runs[1])["warnings"] == []
    assert compared(runs[2], runs[3])["warnings"] == ["the reference sets differ in 1 question"]


def test_outputs_that_turn_out_to_be_fractions_have_confidence_at_once() -> None:
    """Also in templates whose own results did not say so."""
    comparison = RunningComparison()
    outputs = {"outputs": ["tone"]}
    for template in "ab":
        odd = result(template, template, tone=0.5, judge=outputs)
        comparison.add_baseline(odd)
        comparison.add(odd)
    assert "confidence" not in comparison.snapshot()["per_template"]["a"]["tone"]
    comparison.add(result("b", "b", tone=0.5, judge={**outputs, "fractions": ["tone"]}))
    snapshot = comparison.snapshot()
    assert "confidence" in snapshot["per_template"]["a"]["tone"]
    assert snapshot["overall"]["tone"]["verdict"] == "no_change"


def with_noise(values: Sequence[float]) -> Results:
    judge = {"outputs": ["noise"], "lower_is_better": ["noise"]}
    return [result(f"q{place}", noise=value, judge=judge) for place, value in enumerate(values)]


@pytest.mark.parametrize(
    ("candidate", "verdict", "wins", "margin_verdict"),
    [(0.1, "better", 40, "non_inferior"), (0.9, "worse", 0, "undecided")],
)
def test_of_some_outputs_lower_values_are_better(
    candidate: float, verdict: str, wins: int, margin_verdict: str
) -> None:
    before = [0.5 + place / 1000 for place in range(40)]
    after = [candidate + place / 500 for place in range(40)]
    snapshot = compared(
        with_noise(before),
        with_noise(after),
        primary=["noise"],
        non_inferior={"noise": 0.05},
    )
    row = snapshot["overall"]["noise"]
    assert row["direction"] == "lower is better"
    assert (row["verdict"], row["wins"], row["losses"]) == (verdict, wins, 40 - wins)
    assert len(snapshot["worse"].get("noise", [])) == 40 - wins
    assert snapshot["non_inferior"]["noise"]["verdict"] == margin_verdict


def test_directions_that_are_no_names_are_refused() -> None:
    comparison = RunningComparison()
    wrong = result("q", noise=0.5, judge={"outputs": ["noise"], "lower_is_better": "noise"})
    with pytest.raises(AggregationError, match=r"judge\.lower_is_better: .* a list of names"):
        comparison.add(wrong)
    assert comparison.snapshot()["results"] == {"baseline": 0, "candidate": 0}
