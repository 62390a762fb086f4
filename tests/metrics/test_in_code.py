"""Metrics in code: functions of a question, its response and its result."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import (
    AggregationError,
    ConfigError,
    Evaluator,
    JournalMismatch,
    JudgeError,
    UsageError,
    compute_aggregates,
    evaluate_agent,
    evaluate_file,
    evaluate_stream,
    metric,
    run_evaluation,
)
from tests.cli.support import REFERENCE, failed, response, to_jsonl
from tests.support.virtual_time import now, without_waiting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CODE = f"{__name__}:"


@metric(range=(0, 1))
def brevity(_question: Any, response: Any, _result: Any) -> float | None:
    return 1 / len(response["actual_answer"].split()) if "actual_answer" in response else None


@metric(keys=["steps", "right"], range=(0, 1))
async def counts(_question: Any, _response: Any, result: Any) -> Mapping[str, Any]:
    if result["question_id"] == "q2":
        raise KeyError("q2")
    return {"steps": len(result["actual_steps"]), "right": result["steps_score"] == 1}


def given(value: Any) -> Any:
    """A metric that returns a value, or raises it."""

    def returning(*_: Any) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    return returning


ANSWERED = [
    response("q1", actual_answer="red and blue", n=5),
    response("q2", actual_answer="blue"),
    response("q3"),
    failed("q3"),
]


@dataclass
class Judge:
    """Gives the output of a custom evaluation."""

    model = "mine"

    async def complete(self, *_: Any) -> Any:
        return {"tone": 0.5}, None

    async def embed(self, _: Any) -> Any:
        raise NotImplementedError


TONE = {
    "name": "t",
    "inputs": ["actual_answer"],
    "instructions": "?",
    "outputs": {"tone": "fraction 0-1"},
}


@pytest.mark.parametrize("judged", [False, True])
async def test_values_take_the_path_of_outputs(judged: bool) -> None:
    more: dict[str, Any] = (
        {"judge": Judge(), "config": {"custom_evaluations": [TONE]}} if judged else {}
    )
    metrics = {
        "brevity": brevity,
        "counts": counts,
        "n": metric(given({"a": 2, "b": None})),
        "none": given(None),
    }
    stream = evaluate_stream(
        REFERENCE, ANSWERED, metrics=metrics, ordered=True, stages=True, **more
    )
    async with stream:
        parts = [result async for result in stream]
    results = [result for result in parts if "pending" not in result]
    one, two, three, error = results
    assert (one["brevity"], one["counts_steps"], one["counts_right"], one["n_a"]) == (
        1 / 3,
        1,
        1,
        2,
    )
    assert not {"n_b", "none", "brevity_error"} & {*one}
    assert (two["counts_steps"], two["counts_right"]) == (None, None)
    assert two["counts_error"] == "KeyError: 'q2'"
    assert three["custom_metrics"]["names"] == [*metrics]
    assert three["custom_metrics"]["outputs"] == ["counts_steps", "counts_right", "n_a"]
    assert "custom_metrics" not in error  # As judges, metrics do not see failed responses.
    found = stream.aggregates.snapshot(detail=True)
    assert found == compute_aggregates(orjson.loads(orjson.dumps(results)), detail=True)
    covered = {
        name: stats["coverage"]
        for name, stats in found["micro"].items()
        if "coverage" in str(stats)
    }
    assert covered["brevity"]["failed"] == {"response_error": 1}
    assert covered["counts_right"]["failed"] == {"metric_error": 1, "response_error": 1}
    assert found["micro"]["counts_right"]["bounds"] == {"low": 0.5, "high": 1.0}
    if judged:
        assert covered["tone"] == {
            "applied": 4,
            "values": 2,
            "failed": {"no_answer": 1, "response_error": 1},
            "pending": 0,
        }
    pending = [result for result in parts if "pending" in result]
    assert pending[0]["pending"] == [*(["t"] if judged else []), *metrics]
    assert not any({"brevity", "custom_metrics", "judge"} & {*part} for part in pending[:2])
    alone = [
        await Evaluator(REFERENCE, metrics=metrics, **more).evaluate(each) for each in ANSWERED
    ]
    assert [result | {"sample": 1} for result in results] == alone


@pytest.mark.parametrize(
    ("value", "error"),
    [
        pytest.param(True, None, id="boolean"),
        pytest.param(2**64 - 1, None, id="64 bits"),
        pytest.param(math.nan, "ValueError: expected a finite number, not nan", id="not a number"),
        pytest.param(10**400, "OverflowError: ", id="too large"),
        pytest.param("0.5", "not '0.5'", id="text"),
        pytest.param(
            {"a b": 1},
            "ValueError: 'mine_a b' cannot be a key of the result: choose another name",
            id="key with a space",
        ),
        pytest.param({"of_others": 1}, "'mine_of_others' cannot be a key", id="name of a key"),
        pytest.param(TypeError("no\udcff"), r"TypeError: no\udcff", id="exception"),
        pytest.param(
            JudgeError("rate_limited", "slow down"), "rate_limited: slow down", id="judge error"
        ),
        pytest.param(asyncio.CancelledError(), "CancelledError", id="cancellation"),
        pytest.param(SystemExit(0), "SystemExit: 0", id="exit"),
    ],
)
async def test_what_a_metric_may_return(value: Any, error: str | None) -> None:
    async def later(*arguments: Any) -> Any:
        return given(value)(*arguments)

    others = dict.fromkeys(["mine_of_others", "later_of_others"], given(1))
    clash = {"twice": given({"a": 0}), "twice_a": given(1)}  # The first keeps its value.
    metrics = {**others, "mine": given(value), "later": later, **clash}
    [result] = await run_evaluation(REFERENCE, [response("q1")], missing="skip", metrics=metrics)
    assert result["mine_of_others"] == 1
    if error is None:
        assert result["mine"] == value
    else:
        assert result["mine"] is None
        assert error in result["mine_error"]
    assert (result["later"], "later_error" in result) == (result["mine"], error is not None)
    assert (result["twice_a"], "cannot be a key" in result["twice_a_error"]) == (0, True)
    orjson.dumps(result)
    assert compute_aggregates([result])["micro"]["mine_of_others"]["mean"] == 1


async def test_bounds_and_declared_keys_are_checked() -> None:
    metrics = {
        "a": metric(range=(-1, 0.5))(given(0.6)),
        "b": metric(keys=["x"])(given({"x": 1, "y": 1})),
        "c": metric(keys=["x"])(given(1)),
        "d": lambda *_: asyncio.sleep(0),
    }
    [result] = await run_evaluation(REFERENCE, [response("q1")], missing="skip", metrics=metrics)
    assert result["a_error"] == "ValueError: expected a finite number from -1 to 0.5, not 0.6"
    assert (result["b_x"], result["c_x"]) == (None, None)
    assert result["b_error"].endswith("expected a dict of the declared keys, not one with 'b_y'")
    assert result["c_error"].endswith("declared keys, not 1")
    assert result["d_error"].startswith("TypeError: got an awaitable: ")
    wrong_ranges: Any = (1, 0), (0, math.inf), 5, ("a", "b"), (0, 1, 2), (), (0, 10**400)
    wrong_keys: Any = "x", [1], 5
    wrong = [{"range": bounds} for bounds in wrong_ranges] + [{"keys": keys} for keys in wrong_keys]
    for declare in [partial(metric, **arguments) for arguments in wrong] + [
        partial(metric, (0, 1))
    ]:
        with pytest.raises(UsageError, match="metric: expected, for example,"):
            declare()


async def test_a_metric_sees_copies() -> None:
    def spoil(question: Any, response: Any, result: Any) -> float:
        assert (question.text, response["n"], result["metadata"]) == ("What of q1?", 5, {"n": 5})
        assert not {"sample", "source"} & {*result}
        response["actual_steps"][0]["output"] = result["actual_steps"][0]["name"] = "spoilt"
        result["reference_steps"][0][0]["args"]["spoilt"] = True
        result.clear()
        raise ValueError("spo\x1bilt")

    given_response = response("q1", n=5)
    [plain] = await run_evaluation(REFERENCE, [given_response], missing="skip")
    metrics = {"spoil": spoil, "after": lambda _q, _r, result: result["steps_score"]}
    results = await run_evaluation(REFERENCE, [given_response] * 2, missing="skip", metrics=metrics)
    own = {"spoil", "spoil_error", "after", "custom_metrics"}
    assert {key: value for key, value in results[0].items() if key not in own} == plain
    assert (results[0]["after"], results[0]["spoil_error"]) == (1, "ValueError: spo\x1bilt")


@without_waiting
async def test_async_metrics_have_the_limits_of_judges() -> None:
    running: list[float] = []

    async def slow(question: Any, _response: Any, _result: Any) -> float:
        running.append(1)
        try:
            await asyncio.sleep(5 if question.id == "q1" else 1)
        finally:
            running.append(-1)
        return max(sum(running[:i]) for i in range(len(running)))

    config = {"llm": {"limits": {"max_concurrency": 2, "result_timeout_sec": 3}}}
    given_responses = [response("q1"), *[response("q2") for _ in range(4)]]
    stream = evaluate_stream(
        REFERENCE, given_responses, metrics={"slow": slow}, config=config, ordered=True
    )
    late, *others = [result async for result in stream]
    assert late["slow_error"] == "timeout: not finished within 3 s"
    assert stream.aggregates.snapshot(detail=True)["micro"]["slow"]["coverage"]["failed"] == {
        "timeout": 1
    }
    assert max(result["slow"] for result in others) == 2
    assert now() == 4
    async with (
        asyncio.timeout(5),
        evaluate_stream(REFERENCE, [response("q1")], metrics={"slow": slow}) as stream,
    ):
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(1)
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await waiting
    assert sum(running) == 0


@pytest.mark.parametrize(
    ("name", "function", "error"),
    [
        pytest.param(
            "steps_score", brevity, "'steps_score' is already a key of results", id="key of results"
        ),
        pytest.param(
            "retrieval_answer",
            brevity,
            "'retrieval_answer' is already the name of a built-in metric",
            id="built-in metric",
        ),
        pytest.param(
            "tone",
            brevity,
            r"'tone' is already a key of custom_evaluations\[0\]",
            id="key of an evaluation",
        ),
        pytest.param(
            "answer", metric(keys=["f1"])(given({})), "'answer_f1' is already", id="key of its own"
        ),
        pytest.param(
            "my_cost",
            brevity,
            "'my_cost': expected letters, digits, _ and -, and no end in _cost",
            id="ending of costs",
        ),
        pytest.param(
            "x",
            lambda _: 1,
            r"function of \(question, response, result\): too many positional",
            id="too many arguments",
        ),
        pytest.param(
            "x",
            f"{CODE}nothing",
            "cannot import .*has no attribute 'nothing'; expected module:function",
            id="no such function",
        ),
        pytest.param("x", "orjson", "expected a function", id="module"),
    ],
)
def test_a_metric_that_cannot_be(name: str, function: Any, error: str) -> None:
    config: dict[str, Any] = {"custom_evaluations": [TONE]}
    with pytest.raises(UsageError, match=rf"^metrics\['{name}'\]: .*{error}"):
        Evaluator(REFERENCE, metrics={name: function}, config=config, judge=Judge())
    if isinstance(function, str):
        config["custom_metrics"] = {name: function}
        with pytest.raises(ConfigError, match=f"custom_metrics.{name}: .*{error}"):
            Evaluator(REFERENCE, config=config, judge=Judge())


async def test_other_processes_import_metrics_by_their_paths(tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_bytes(to_jsonl(ANSWERED * 40))
    texts = []
    for jobs in (1, 2):
        results = tmp_path / f"{jobs}.jsonl"
        metrics: Any = {"brevity": brevity, "path": f"{CODE}brevity"}
        found = await evaluate_file(REFERENCE, path, jobs=jobs, results=results, metrics=metrics)
        texts.append((results.read_bytes(), found.aggregates.snapshot(detail=True)))
    assert texts[0] == texts[1]
    assert b'"path":0.3333' in texts[0][0]
    for function in (lambda *_: 1, partial(brevity), given(1)):
        with pytest.raises(
            UsageError, match=r"imports it by its path, and .* has none; define it at the top"
        ):
            await evaluate_file(REFERENCE, path, jobs=2, metrics={"x": function})


async def test_a_journal_knows_the_source_of_metrics(tmp_path: Path) -> None:
    async def run(function: Any) -> list[dict[str, Any]]:
        journal = tmp_path / "journal.jsonl"
        stream = evaluate_agent(
            REFERENCE, lambda _: "red", journal=journal, metrics={"mine": function}
        )
        async with stream:
            results = [result async for result in stream]
        assert stream.aggregates.snapshot()["micro"]["mine"]["sum"] == 3
        return results

    def one(*_: Any) -> int:
        return 1

    assert len(await run(one)) == 3
    assert await run(one) == []
    for other in (lambda *_: 1, metric(range=(0, 1))(one)):
        with pytest.raises(JournalMismatch, match="configuration"):
            await run(other)


async def test_a_condition_decides_on_a_metric() -> None:
    skipped = [response("q1")] * 30  # The metric returns None.
    many = [*skipped, *[response("q1", actual_answer="red") for _ in range(200)]]
    stream = evaluate_stream(REFERENCE, many, metrics={"brevity": brevity}, until="brevity >= 0.8")
    async with stream:
        assert len([result async for result in stream]) < 100
    assert stream.decision is not None
    assert stream.decision.holds
    assert (stream.decision.failed, stream.decision.responses - stream.decision.samples) == (0, 30)
    with pytest.raises(UsageError, match=r"metrics declared range=\(0, 1\), not 'other'; known: "):
        evaluate_stream(REFERENCE, many, metrics={"brevity": brevity}, until="other >= 0.8")


def test_results_of_others_are_checked() -> None:
    result = {"template_id": "t", "question_id": "q", "custom_metrics": {"outputs": 5}}
    with pytest.raises(AggregationError, match=r"custom_metrics\.outputs: must be a list of names"):
        compute_aggregates([result])
