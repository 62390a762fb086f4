"""Which samples of repeated questions are right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import compute_aggregates
from tests.aggregates.made import aggregated, result
from tests.aggregates.oracle import repeats_of
from tests.aggregates.strategies import judged, results
from tests.support.summaries import summary_of

SCORED = {"reference_steps": [[]], "actual_steps": [{"name": "x"}], "reference_answer": "a"}
RIGHT = SCORED | {"actual_answer": "a", "steps_score": 1.0, "answer_f1": 0.5}
UNANSWERED = SCORED | {"steps_score": 1.0}
ERROR = SCORED | {"status": "error"}
JUDGE_FAILED = UNANSWERED | {"actual_answer": "a", "answer_eval_error": "timeout: so it was"}


@given(st.lists(results(), max_size=25) | st.lists(judged(), max_size=12), st.booleans())
def test_rates_are_those_of_all_ways_to_take_samples(
    some: list[dict[str, Any]], include_errors: bool
) -> None:
    shown = compute_aggregates(some, include_errors=include_errors, detail=True)
    groups = [(shown["micro"], some)]
    for name, group in shown["per_template"].items():
        groups.append((group, [one for one in some if one["template_id"] == name]))
    for key, values in shown.get("per_tag", {}).items():
        for value, group in values.items():  # Questions of different templates count as one.
            own = [
                {**one, "template_id": ""} for one in some if one.get("tags", {}).get(key) == value
            ]
            groups.append((group, own))
    for group, own in groups:
        assert group.get("repeats", {}) == repeats_of(own, include_errors=include_errors)


@pytest.mark.parametrize(
    ("samples", "right", "counted"),
    [
        pytest.param([RIGHT, ERROR], 0.5, 2, id="an error"),
        pytest.param([RIGHT, UNANSWERED], 0.5, 2, id="no answer"),
        pytest.param(
            [UNANSWERED, UNANSWERED], 1.0, 2, id="no answer at all"
        ),  # Nothing judges answers.
        pytest.param([RIGHT, RIGHT | {"answer_f1": 0.4}], 0.5, 2, id="a wrong answer"),
        pytest.param([RIGHT, RIGHT | {"steps_score": 0.9}], 0.5, 2, id="wrong steps"),
        pytest.param([RIGHT, RIGHT, JUDGE_FAILED], 1.0, 2, id="a judge that failed"),
        pytest.param(
            [RIGHT, RIGHT, SCORED | {"actual_answer": "a", "execution_error": "no"}],
            1.0,
            2,
            id="an execution that failed",
        ),
        pytest.param([RIGHT, SCORED | {"actual_steps": None}], 0.5, 2, id="no steps"),
        pytest.param([ERROR, ERROR], None, 0, id="only errors"),  # Nothing scores them.
        pytest.param([SCORED, SCORED], None, 0, id="only scores"),
    ],
)
def test_right_samples(samples: list[dict[str, Any]], right: float | None, counted: int) -> None:
    results = [result(**each, sample=i) for i, each in enumerate(samples, 1)]
    for some in (results, results[::-1]):
        repeats = aggregated(some).snapshot(detail=True)["micro"].get("repeats", {})
        assert repeats.get("pass@1") == right
        assert repeats.get(f"questions@{counted}", 0) == bool(counted)
        assert f"pass@{counted + 1}" not in repeats


def test_conditions_of_a_report() -> None:
    samples: list[dict[str, Any]] = [
        {"status": "error"},
        *({"steps_score": own} for own in (0.4, 0.5, 1)),
    ]
    results = [result(template, **each) for template in "tu" for each in samples]
    for pass_if, right in (([], [0.25, 0.25]), (["u:steps_score >= 0.5"], [None, 0.5])):
        groups = summary_of(results, pass_if=pass_if).snapshot["per_template"].values()
        assert [group.get("repeats", {}).get("pass@1") for group in groups] == right
