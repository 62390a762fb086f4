"""Whether a candidate is shown to be worse by less than a margin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import UsageError, compare
from graphrag_eval_async.inference.one_look import change_interval
from tests.support.comparisons import result, scored

if TYPE_CHECKING:
    from tests.support.comparisons import Results


def shown(baseline: Results, candidate: Results, margin: float, metric: str = "steps_score") -> Any:
    return compare(baseline, candidate, non_inferior={metric: margin})["non_inferior"][metric]


@given(
    st.lists(st.sampled_from([-1.0, -0.4, 0.0, 0.2, 1.0]), min_size=2, max_size=60),
    st.floats(0.01, 1),
)
def test_the_interval_decides(changes: list[float], margin: float) -> None:
    """It is over the changes, and three more."""
    row = shown(scored([0.0] * len(changes)), scored(changes), margin)
    low, high = change_interval([*changes, -1.0, -1.0, 1.0], 0.95, bounded=False) or (0, 0)
    assert [row["interval"]["low"], row["interval"]["high"]] == pytest.approx([low, high])
    verdict = "non_inferior" if low > -margin else "undecided"
    assert (row["verdict"], row["pairs"]) == (verdict, len(changes))


def test_a_metric_of_which_less_is_better() -> None:
    random = np.random.default_rng(1)
    before = [
        result(f"q{i}", elapsed_sec=float(value)) for i, value in enumerate(random.normal(9, 1, 50))
    ]
    slower = [each | {"elapsed_sec": each["elapsed_sec"] + random.random()} for each in before]
    assert shown(before, slower, 0.5, "elapsed_sec")["verdict"] == "undecided"
    assert shown(slower, before, 0.1, "elapsed_sec")["verdict"] == "non_inferior"
    assert "all changes agree" in shown(before, before, 0.1, "elapsed_sec")["reason"]


def test_what_has_no_value_does_not_flatter() -> None:
    """An error counts as 0; a value that the judge failed to give decides nothing."""
    good = scored([1.0] * 400, answer_f1=1.0)
    failing = [result(f"t{i}", "t", status="error", error="no") for i in range(100)] + good[100:]
    assert shown(good, failing, 0.1)["difference"] == -0.25
    unjudged = [*good[1:], good[0] | {"answer_f1": None, "answer_eval_error": "timeout: x"}]
    row = shown(good, unjudged, 0.1, "answer_f1")
    assert row["verdict"] == "undecided"
    assert "1 of 400 results lack answer_f1" in row["reason"]


@pytest.mark.parametrize(
    ("margins", "told"),
    [
        pytest.param(
            {"steps_score": 0}, "steps_score: expected a margin above 0, got 0", id="zero"
        ),
        pytest.param(
            {"steps_score": 2},
            "a change of steps_score is from 0 to 1, not 2; for 2%, write 0.02",
            id="percent",
        ),
        pytest.param(
            {"step_score": 0.1},
            "no result has the metric 'step_score'; did you mean steps_score",
            id="misspelt metric",
        ),
        pytest.param(
            0.1, "non_inferior: expected a dict of margins by metric, got 0.1", id="no dict"
        ),
    ],
)
def test_margins_that_are_none(margins: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        compare(scored([1.0]), scored([1.0]), non_inferior=margins)


def test_an_interval_that_is_not_that_of_the_change_says_why() -> None:
    """A metric from 0 to 1 has added questions; a primary metric of several shares its error."""
    random = np.random.default_rng(2)
    scores = [float(value) for value in random.integers(0, 2, 40)]
    seconds = [float(value) for value in random.normal(9, 1, 40)]
    before = [
        result(f"q{i}", steps_score=score, elapsed_sec=second)
        for i, (score, second) in enumerate(zip(scores, seconds, strict=True))
    ]
    after = [
        each
        | {
            "steps_score": float(random.random() < 0.5),
            "elapsed_sec": each["elapsed_sec"] + random.normal(0, 1),
        }
        for each in before
    ]
    margins = {"steps_score": 0.3, "elapsed_sec": 1.0}
    alone = compare(before, after, non_inferior=margins)
    row = alone["non_inferior"]["elapsed_sec"]
    assert row["interval"] == alone["overall"]["elapsed_sec"]["interval"]
    assert "interval_note" not in row
    row = alone["non_inferior"]["steps_score"]
    assert row["interval"] != alone["overall"]["steps_score"]["interval"]
    assert "two lose 1 and one gains 1" in row["interval_note"]

    both = compare(before, after, non_inferior=margins, primary=["steps_score", "elapsed_sec"])
    row = both["non_inferior"]["elapsed_sec"]
    assert row["interval"] == alone["non_inferior"]["elapsed_sec"]["interval"]
    assert "shares its error with other metrics" in row["interval_note"]
    note = both["non_inferior"]["steps_score"]["interval_note"]
    assert "two lose 1 and one gains 1; that of the change shares its error with" in note
    one = compare(before, after, non_inferior=margins, primary=["elapsed_sec"])
    row = one["non_inferior"]["elapsed_sec"]
    assert row["interval"] == one["overall"]["elapsed_sec"]["interval"]
