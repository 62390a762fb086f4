"""The counts of a run: the same numbers and words wherever they are said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.batch import compute_aggregates
from graphrag_eval_async.monitor.counting import Counting
from graphrag_eval_async.monitor.facts import Facts
from graphrag_eval_async.reports.counts import RunCounts, counts_from_facts, run_counts
from tests.cli.support import REFERENCE, failed, response
from tests.support.summaries import result

if TYPE_CHECKING:
    from collections.abc import Sequence


def not_run(question_id: str) -> dict[str, Any]:
    """A result whose queries could not be run."""
    return result(question_id, None, execution_error="connection refused")


def agent_error(question_id: str) -> dict[str, Any]:
    return result(question_id, None, status="error", error="no answer")


RIGHT = [result(f"q{place}") for place in range(48)]
RUNS: dict[str, tuple[Sequence[dict[str, Any]], dict[str, int], list[str], str]] = {
    "all is well": (RIGHT, {}, ["48 results, no error of the agent"], "over 48 questions"),
    "queries that could not be run": (
        [*RIGHT, not_run("a"), not_run("b")],
        {"questions": 50},
        [
            "50 results, no error of the agent",
            "2 results without a score: the queries could not be run",
        ],
        "over 48 of 50 questions",
    ),
    "an error and a missing response": (
        [*RIGHT, agent_error("a")],
        {"questions": 50, "missing": 1},
        ["49 results, 1 of them an error of the agent", "1 of 50 questions without a response"],
        "over 48 of 50 questions",
    ),
    "repeats": (
        [result(f"q{place}", sample=sample) for place in range(3) for sample in range(1, 1001)],
        {"questions": 3},
        ["3,000 results, no error of the agent"],
        "over 3 questions",
    ),
    "rejected lines": (
        [agent_error("a")],
        {"rejected": 2},
        ["1 result, an error of the agent", "2 rejected lines"],
        "",
    ),
    "nothing": ([], {}, ["0 results, no error of the agent"], ""),
    "a result without a question": (
        [*RIGHT, result("") | {"question_id": None}],
        {},
        ["49 results, no error of the agent"],
        "",
    ),
}


@pytest.mark.parametrize(("results", "given", "lines", "over"), RUNS.values(), ids=RUNS)
def test_counts_in_words(
    results: Sequence[dict[str, Any]], given: dict[str, int], lines: list[str], over: str
) -> None:
    counts = run_counts(compute_aggregates(results, detail=True)["micro"], **given)
    assert counts.lines == lines
    assert counts.over("steps_score") == over


async def test_the_counts_of_a_page_are_those_of_a_report() -> None:
    stream = evaluate_stream(
        REFERENCE, [response("q1"), response("q1", False), failed("q2"), b"{"], ordered=True
    )
    counting = Counting(Last(10), "last", [])
    facts = Facts(stream, counting)
    async for each in stream:
        counting.add(each)
    live = counts_from_facts(facts.collect())
    micro = stream.aggregates.snapshot(detail=True)["micro"]
    assert live == run_counts(micro, questions=3, missing=1, rejected=1)
    assert live.lines == [
        "3 results, 1 of them an error of the agent",
        "1 of 3 questions without a response",
        "1 rejected line",
    ]
    assert live.over("steps_score") == "over 1 of 3 questions"
    assert live.over("error_rate") == "over 2 of 3 questions"


def test_causes_that_others_name_are_told() -> None:
    counts = RunCounts(results=3, unscored={"budget": 1, "no_steps": 2})
    assert counts.unscored_in_words == (
        "2 results without a score: the response lists no steps; 1 result without a score: budget"
    )
