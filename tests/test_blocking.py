from __future__ import annotations

import inspect

import pytest

from graphrag_eval_async import MissingResponses, UsageError, run_evaluation, run_evaluation_sync
from tests.support.data import answer, templates


def test_returns_and_raises_like_the_coroutine() -> None:
    results = run_evaluation_sync(templates(2), [answer(1), answer(0)])
    assert [(result["question_id"], result["steps_score"]) for result in results] == [("q0", 1), ("q1", 1)]
    with pytest.raises(MissingResponses):
        run_evaluation_sync(templates(2), [answer(0)])
    assert len(run_evaluation_sync(templates(2), [answer(0)], missing="skip")) == 1


async def test_error_inside_an_event_loop_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"use `await run_evaluation\(\.\.\.\)` there"):
        run_evaluation_sync(templates(2), [])


def test_help_shows_the_arguments() -> None:
    assert inspect.signature(run_evaluation_sync) == inspect.signature(run_evaluation)
    assert run_evaluation_sync.__name__ == "run_evaluation_sync"
