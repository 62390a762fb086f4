"""Comparisons, against plain lists and fractions."""

from __future__ import annotations

import copy
from collections import defaultdict
from fractions import Fraction
from itertools import chain, product
from math import comb, isclose
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import compare
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.confidence import confidence_sequence
from tests.inference.test_confidence import weights_of

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

SCORES = ("error_rate", "steps_score", "answer_f1", "answer_relevance", "retrieval_answer_recall")
RESOURCES = ("total_tokens", "elapsed_sec", "x_cost")
METRICS = ("error_rate", "steps_score", *RESOURCES[:2], *SCORES[2:], RESOURCES[2])
PRIMARY = {"error_rate", "steps_score", "answer_f1", "answer_relevance"}
BOUNDED = {*SCORES} - {"answer_relevance"}

Results = list[dict[str, Any]]


def result(question: str, template: str = "t", **more: Any) -> dict[str, Any]:
    return {"template_id": template, "question_id": question, "status": "success", **more}


def compared(baseline: Iterable[Any], candidate: Iterable[Any], **options: Any) -> dict[str, Any]:
    comparison = RunningComparison(**options)
    for each in baseline:
        comparison.add_baseline(each)
    for each in candidate:
        comparison.add(each)
    return comparison.snapshot()


# A plain oracle


def values_of(results: Results, *, include_errors: bool) -> dict[str, dict[str, tuple[float, int]]]:
    """By question and metric, the mean, rounded once, and of how many values."""
    lists: dict[str, dict[str, list[Fraction]]] = {}
    for each in results:
        own = lists.setdefault(each["question_id"], defaultdict(list))
        own["error_rate"].append(Fraction(each["status"] == "error"))
        if each["status"] == "error" and not include_errors:
            continue
        for place in [each, *each.get("actual_steps", ())]:
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


def sign_p(wins: int, losses: int) -> float:
    tail = 2 * sum(comb(wins + losses, i) for i in range(min(wins, losses) + 1))
    return float(min(Fraction(1), Fraction(tail, 2 ** (wins + losses))))


def row_of(metric: str, both: Sequence[tuple[tuple[float, int], tuple[float, int]]]) -> dict[str, Any]:
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
    if metric in PRIMARY:
        row["p"] = pytest.approx(flip_p(changes))
    if metric in BOUNDED:
        low, high = confidence_sequence(weights_of((1 + c) / 2 for c in changes), level=0.95)
        row["confidence"] = {"level": 0.95, "low": 2 * low - 1, "high": 2 * high - 1}
    return row


def became_wrong(question: str, first: Results, second: Results) -> bool:
    """Whether the first samples of a question are all right in the first run, and not in the second."""
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


def flip_p(changes: Sequence[float]) -> float:
    """All ways to flip signs, one by one."""
    size = max(map(abs, changes)) or 1.0
    exact = [Fraction(round(change / size, 12)) for change in changes]
    sums = [
        sum(sign * c for sign, c in zip(signs, exact, strict=True))
        for signs in product((1, -1), repeat=len(exact))
    ]
    found = sum(exact)
    tolerance = Fraction(1, 10**11)
    extreme = min(sum(s >= found - tolerance for s in sums), sum(s <= found + tolerance for s in sums))
    return min(1.0, 2 * extreme / len(sums))


def oracle(baseline: Results, candidate: Results, *, include_errors: bool) -> dict[str, Any]:
    """What can be said of two runs, but for verdicts and Holm's correction."""
    asked = [{each["question_id"] for each in results} for results in (baseline, candidate)]
    baseline, candidate = (
        [each for each in results if "pending" not in each] for results in (baseline, candidate)
    )
    sides = {
        side: values_of(results, include_errors=include_errors)
        for side, results in (("baseline", baseline), ("candidate", candidate))
    }
    shared = sorted({*sides["baseline"]} & {*sides["candidate"]})
    templates = {
        question: min(each["template_id"] for each in baseline if each["question_id"] == question)
        for question in shared
    }
    pairs: dict[tuple[str | None, str], list[Any]] = defaultdict(list)
    lone: dict[str, dict[str, Any]] = {}
    worse: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for question in shared:
        one, other = (sides[side][question] for side in ("baseline", "candidate"))
        for metric in METRICS:
            if metric in one and metric in other:
                pairs[None, metric].append((one[metric], other[metric]))
                pairs[templates[question], metric].append((one[metric], other[metric]))
                a, b = one[metric][0], other[metric][0]
                loss = (b - a) * (1 if metric == "error_rate" else -1)
                if loss > 0 and metric in SCORES and not isclose(a, b):
                    worse[metric].append((-loss, question))
            elif metric in one or metric in other:
                empty: dict[str, list[str]] = {"baseline": [], "candidate": []}
                lone.setdefault(metric, empty)["baseline" if metric in one else "candidate"].append(question)
    had = [{metric for question in side.values() for metric in question} for side in sides.values()]
    for metric, each in lone.items():
        if metric in had[0] & had[1] & PRIMARY:
            lost, gained = (
                sum(
                    sides["baseline"][q]["error_rate"][1] == sides["candidate"][q]["error_rate"][1]
                    for q in ids
                )
                for ids in [*each.values()]
            )
            each["p"] = sign_p(lost, gained)
    return {
        "missing": sorted({*sides["baseline"]} - {*sides["candidate"]}),
        "results": {"baseline": len(baseline), "candidate": len(candidate)},
        "questions": len(shared),
        "regressions": [q for q in shared if became_wrong(q, baseline, candidate)],
        "improvements": [q for q in shared if became_wrong(q, candidate, baseline)],
        "overall": {
            metric: row_of(metric, pairs[None, metric]) for metric in METRICS if pairs[None, metric]
        },
        "per_template": {
            template: {
                metric: row_of(metric, found) for metric in METRICS if (found := pairs[template, metric])
            }
            for template in sorted({*templates.values()})
        },
        "worse": {
            metric: [question for _, question in sorted(worse[metric])] for metric in METRICS if worse[metric]
        },
        "only_in_baseline": sorted({*sides["baseline"]} - asked[1]),
        "only_in_candidate": sorted({*sides["candidate"]} - asked[0]),
        "pending": {
            "baseline": sorted(asked[0] - {*sides["baseline"]}),
            "candidate": sorted(asked[1] - {*sides["candidate"]}),
        },
        "without_pair": lone,
    }  # fmt: skip


def stripped(snapshot: dict[str, Any]) -> dict[str, Any]:
    """What the oracle says."""
    snapshot = copy.deepcopy(snapshot)
    for group in (snapshot["overall"], *snapshot["per_template"].values()):
        for row in group.values():
            for key in ("verdict", "p_adjusted", "interval"):
                row.pop(key, None)
    for sides in snapshot["without_pair"].values():
        sides.pop("verdict", None)
    snapshot["worse"] = {
        metric: [each["question_id"] for each in found] for metric, found in snapshot["worse"].items()
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
    )  # fmt: skip
    part = st.fixed_dictionaries(
        {
            "template_id": st.sampled_from("ab"),
            "question_id": st.sampled_from("qrstuv"),
            "steps_score": scores,
            "pending": st.just(["answer_f1"]),
        }
    )  # fmt: skip
    whole = draw(st.lists(each, max_size=8))
    order = draw(st.permutations(range(1, len(whole) + 1)))
    numbered = [own | {"sample": number} for own, number in zip(whole, order, strict=True)]
    return numbered + draw(st.lists(part, max_size=2))


@st.composite
def judged_runs(draw: st.DrawFn) -> Results:
    """Results with errors, and with values that a judge failed to give."""
    kinds = st.sampled_from([0.0, 0.25, 1.0, "error", "unjudged"])
    samples = st.dictionaries(st.sampled_from("abcd"), st.lists(kinds, min_size=1, max_size=3))
    made = []
    for question, own in draw(samples).items():
        for kind in own:
            reference = {"reference_answer": "yes", "actual_answer": "yes"}
            values: dict[str, Any] = {"answer_f1": kind}
            if kind == "error":
                values = {"status": "error", "error": "no"}
            elif kind == "unjudged":
                values = {"answer_f1": None, "answer_eval_error": "timeout: no reply"}
            made.append(result(question, **reference, **values))
    return made


@given(judged_runs(), judged_runs(), st.booleans())
def test_drops_are_what_plain_lists_say(baseline: Results, candidate: Results, include_errors: bool) -> None:
    comparison = RunningComparison(include_errors=include_errors)
    sides: list[defaultdict[str, list[float | str | None]]] = [defaultdict(list), defaultdict(list)]
    for results, add, side in zip(
        (baseline, candidate), (comparison.add_baseline, comparison.add), sides, strict=True
    ):
        for each in results:
            add(each)
            side[each["question_id"]].append("error" if each["status"] == "error" else each["answer_f1"])
    applies = [
        [side[question] for side in sides]
        for question in sorted({*sides[0]} & {*sides[1]})
        if any(isinstance(value, float) for side in sides for value in side[question])
        or all("error" in side[question] for side in sides)
    ]
    filled = [
        [[0.0 if isinstance(v, str) else v for v in own if v is not None] for own in pair] for pair in applies
    ]
    pairs = [[fmean(own) for own in pair] for pair in filled if all(pair)]
    means, zeros, missing, results_of, _ = comparison.drop("answer_f1")
    assert (means is None) == (not pairs)
    if means is not None:
        assert means["baseline"] == pytest.approx(fmean(one for one, _ in pairs))
        assert means["difference"] == pytest.approx(fmean(other - one for one, other in pairs))
    for place in range(2):
        values = [value for pair in applies for value in pair[place]]
        counts = (zeros[place], missing[place], results_of[place])
        assert counts == (values.count("error"), values.count(None), len(values))


@given(runs(), runs(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_it_is_what_plain_lists_say(baseline: Results, candidate: Results, include_errors: bool) -> None:
    snapshot = stripped(compared(baseline, candidate, include_errors=include_errors))
    assert snapshot == oracle(baseline, candidate, include_errors=include_errors)
    assert list(snapshot["overall"]) == [metric for metric in METRICS if metric in snapshot["overall"]]


@given(runs(), runs(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_order_does_not_matter(baseline: Results, candidate: Results, shuffled: random.Random) -> None:
    """Neither that of each side, nor which side comes first, nor who looked in between."""
    expected = compared(baseline, candidate)
    mixed = [("add_baseline", each) for each in baseline] + [("add", each) for each in candidate]
    shuffled.shuffle(mixed)
    comparison = RunningComparison()
    for method, each in mixed:
        getattr(comparison, method)(each)
        if shuffled.random() < 0.3:
            comparison.live_rows()
            found, standing = comparison.facts_of_questions(), comparison.live_facts()
            for side in ("only_in_baseline", "only_in_candidate"):
                assert standing[side] == len(found[side])
    assert comparison.snapshot() == expected
    assert compare(iter(baseline), iter(candidate)) == expected


# What is said


def scored(values: Iterable[float], template: str = "t", **more: Any) -> Results:
    return [
        result(f"{template}{i}", template, steps_score=value, **more) for i, value in enumerate(values)
    ]  # fmt: skip


def test_verdicts() -> None:
    baseline = scored([0.5] * 80, "a", elapsed_sec=2.0) + scored([0.5] * 12, "b", elapsed_sec=2.0)
    candidate = scored([1.0] * 80, "a", elapsed_sec=1.0) + scored([0.0] * 12, "b", elapsed_sec=4.0)
    snapshot = compared(baseline, candidate)
    overall = snapshot["overall"]
    a, b = snapshot["per_template"].values()
    assert overall["steps_score"]["verdict"] == "better"
    assert overall["steps_score"]["confidence"]["low"] > 0
    assert (a["steps_score"]["verdict"], b["steps_score"]["verdict"]) == ("better", "worse")
    assert b["steps_score"]["p"] == 2 * 0.5**12
    assert b["steps_score"]["p_adjusted"] == 8 * 0.5**12  # Two templates and two primary metrics.
    assert a["steps_score"]["p_adjusted"] == pytest.approx(8 * 0.5**80)
    seconds = overall["elapsed_sec"]
    assert (seconds["wins"], seconds["losses"]) == (80, 12)
    assert not {"confidence", "verdict", "p"} & seconds.keys()
    unchanged = compared(baseline, baseline)["overall"].values()
    assert {row.get("verdict") for row in unchanged} == {"undecided", None}


def test_values_that_are_not_from_0_to_1_have_no_confidence() -> None:
    row = compared(scored([0.5, 2.0]), scored([0.5, 0.5]))["overall"]["steps_score"]
    assert "confidence" not in row
    assert row["verdict"] == "undecided"


# Warnings


def judged(**judge: str) -> Results:
    return [result("q", answer_f1=1.0, judge=judge)]


def test_runs_by_different_judges() -> None:
    same = {"model": "m", "prompts": "p", "embedding": "e"}
    assert compared(judged(**same), judged(**same))["warnings"] == []
    assert compared(judged(**same), judged(**same | {"model": "n", "embedding": "f"}))["warnings"] == [
        "the two were judged by different models: baseline: m; candidate: n",
        "the two were judged by different embedding models: baseline: e; candidate: f",
    ]
    both = judged(model="m") + judged(model="n")
    assert compared(both, both)["warnings"][0] == "the baseline was judged by several models: m, n"


REFERENCE: dict[str, Any] = {
    "question_text": "What?",
    "reference_answer": "That",
    "reference_steps": [[{"name": "look_up", "output": "red"}]],
}
ODD_STEPS = [[{"name": "look_up", "output": "\ud800", "big": 2**70}], 7, [8]]


@pytest.mark.parametrize(
    ("change", "differ"),
    [
        ({"reference_steps": [[{"output": "red", "name": "look_up", "matches": "c"}]]}, 0),
        ({"reference_steps": [[{"name": "look_up", "output": "blue"}]]}, 1),
        ({"reference_steps": ODD_STEPS}, 1),
    ],
)
def test_different_reference_data(change: dict[str, Any], differ: int) -> None:
    changed = result("q", **REFERENCE | change)
    warnings = compared([result("q", **REFERENCE)], [changed])["warnings"]
    assert warnings == [f"the reference sets differ in {differ} question"] * differ
    assert compared([changed], [copy.deepcopy(changed)])["warnings"] == []


def test_what_reference_queries_return_is_no_reference_data() -> None:
    step = {"name": "look_up", "reference_query": "SELECT * { ?s ?p ?o }"}
    runs = [
        [result("q", reference_steps=[[step | {"output": hour, "executed_at": hour}]])] for hour in ("1", "2")
    ]
    assert compared(*runs)["warnings"] == []


def live_of(baseline: Results, comparison: RunningComparison) -> dict[str, Any]:
    """What `look` should give: rows of `snapshot`, those of templates at a level for as many as there are."""
    having: dict[str, set[str]] = defaultdict(set)
    for each in baseline:
        for metric in chain.from_iterable(values_of([each], include_errors=False).values()):
            having[metric].add(each["template_id"])
    primary = [metric for metric in having if metric in PRIMARY]
    shares = {metric: 2 * len(primary) if metric in primary else 1 for metric in having}
    levels = {k * share for k in (1, 2) for share in {1, *shares.values()}}
    snapshots = {k: stripped(comparison.snapshot(level=1 - (1 - 0.95) / k)) for k in levels}
    live = {
        "overall": {
            metric: snapshots[shares[metric]]["overall"][metric] for metric in snapshots[1]["overall"]
        },
        "per_template": {
            template: {
                metric: snapshots[shares[metric] * len(having[metric])]["per_template"][template][metric]
                for metric in rows
            }
            for template, rows in snapshots[1]["per_template"].items()
        },
    }
    for metric, row in [
        each for rows in (live["overall"], *live["per_template"].values()) for each in rows.items()
    ]:
        row.pop("p", None)
        if "confidence" in row and metric in PRIMARY:
            worse, better = row["confidence"]["high"] < 0, row["confidence"]["low"] > 0
            if row["direction"].startswith("lower"):
                worse, better = better, worse
            row["verdict"] = "worse" if worse else "better" if better else "undecided"
    return live


@given(runs(), runs(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_live_rows_are_those_of_a_snapshot_without_tests(
    baseline: Results, candidate: Results, shuffled: random.Random
) -> None:
    comparison = RunningComparison()
    mixed = [("add_baseline", each) for each in baseline] + [("add", each) for each in candidate]
    shuffled.shuffle(mixed)
    steps = comparison.prepare()
    for method, each in mixed:
        getattr(comparison, method)(each)
        if shuffled.random() < 0.3:
            comparison.live_rows()
        if shuffled.random() < 0.3:
            steps = steps if next(steps, "end") is None else comparison.prepare()
    whole = [each for each in baseline if "pending" not in each]
    assert comparison.live_rows() == live_of(whole, comparison)


def test_outputs_that_turn_out_to_be_fractions_have_confidence_at_once() -> None:
    """Also in templates whose own results did not say so."""
    comparison = RunningComparison()
    outputs = {"outputs": ["tone"]}
    for template in "ab":
        odd = result(template, template, tone=0.5, judge=outputs)
        comparison.add_baseline(odd)
        comparison.add(odd)
    assert "confidence" not in comparison.live_rows()["per_template"]["a"]["tone"]
    comparison.add(result("b", "b", tone=0.5, judge={**outputs, "fractions": ["tone"]}))
    live = comparison.live_rows()
    assert "confidence" in live["per_template"]["a"]["tone"]
    assert live["overall"]["tone"]["verdict"] == "undecided"
