"""The order in which metrics are shown, and which of them measure quality."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import compute_aggregates
from graphrag_eval_async.catalogue.metrics import (
    RESULT_METRICS,
    RETRIEVAL_METRICS,
    is_counted_cost,
    is_primary,
    is_score,
    section_of,
)

OUTPUTS = ("tone", "clarity")


@given(st.permutations([*RESULT_METRICS, *OUTPUTS]), st.permutations(RETRIEVAL_METRICS))
def test_metrics_are_shown_in_one_order(keys: list[str], keys_of_step: list[str]) -> None:
    result: dict[str, Any] = {
        "template_id": "t",
        "question_id": "q",
        **dict.fromkeys(keys, 1),
        "actual_steps": [{"name": "retrieval", **dict.fromkeys(keys_of_step, 1)}],
        "judge": {"outputs": [*OUTPUTS]},
    }
    shown = list(compute_aggregates([result])["micro"])
    expected = [*RESULT_METRICS, *RETRIEVAL_METRICS, *sorted(OUTPUTS)]
    assert [key for key in shown if key in expected] == expected


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        pytest.param("steps_score", True, id="a score"),
        pytest.param("tone", True, id="the output of a custom evaluation"),
        pytest.param("total_tokens", False, id="a resource"),
        pytest.param("faithfulness_cost", False, id="a cost"),
    ],
)
def test_scores(metric: str, *, expected: bool) -> None:
    assert is_score(metric) is expected


@pytest.mark.parametrize(
    ("metric", "chosen", "expected"),
    [
        pytest.param("steps_score", None, True, id="by default"),
        pytest.param("steps_score", ["tone"], False, id="others are chosen"),
        pytest.param("length", ["length"], True, id="chosen"),
        pytest.param("tone", None, True, id="an output from 0 to 1"),
        pytest.param("length", None, False, id="another output"),
        pytest.param("elapsed_sec", None, False, id="a resource"),
    ],
)
def test_primary_metrics(metric: str, chosen: list[str] | None, *, expected: bool) -> None:
    assert is_primary(metric, chosen, fractions=["tone"]) is expected


def test_costs_of_f1_scores_are_not_counted_twice() -> None:
    assert is_counted_cost("retrieval_answer_recall_cost")
    assert not is_counted_cost("retrieval_answer_f1_cost")
    assert not is_counted_cost("total_tokens")


@pytest.mark.parametrize(
    ("metric", "section"),
    [
        pytest.param("answer_f1", "answer_correctness", id="a value of a metric"),
        pytest.param("answer_relevance_cost", "answer_relevance", id="a cost"),
        pytest.param("steps_score", None, id="a metric without a judge"),
        pytest.param("tone", None, id="the output of a custom evaluation"),
    ],
)
def test_sections_that_enable_metrics(metric: str, section: str | None) -> None:
    assert section_of(metric) == section
