"""Servers and models that want requests in their own way, or do not work at all."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import GraphragEvalWarning, JudgeUnavailable, evaluate_stream
from tests.judged.support import (
    METRICS,
    REPLIES,
    Call,
    aimed,
    call_of,
    collect,
    config,
    requests_of,
    response,
    sensible,
    serving,
    templates,
    title_of,
)
from tests.support.judge_server import FAULTS, JudgeServer, completion, error, json_reply
from tests.support.judge_server.dialects import (
    AMBIGUOUS,
    REFUSALS,
    WRAPPINGS,
    capped_at,
    format_of,
    knowing,
    limited_to,
    without,
)
from tests.support.virtual_time import now, without_waiting

if TYPE_CHECKING:
    from pathlib import Path

    from graphrag_eval_async import EvaluationStream
    from tests.support.judge_server import Request

FORMATS = ["json_schema", "json_schema_loose", "tool_call", "json_object", "text"]


CLAIMS = {"answer_correctness": METRICS["answer_correctness"]}
BOTH = CLAIMS | {"custom_evaluations": METRICS["custom_evaluations"]}


def judged(server: JudgeServer, records: int = 12, metrics: Any = BOTH, **limits: Any) -> EvaluationStream:
    """Answer correctness and a custom evaluation of so many records, or other metrics."""
    settings = config(server, limits={"max_failed_calls": 10} | limits, **metrics)
    return evaluate_stream(templates(records), map(response, range(records)), config=settings)


def prompts_of(results: dict[str, dict[str, Any]]) -> set[str]:
    return {result["judge"]["prompts"] for result in results.values()}


@pytest.mark.parametrize(
    ("steps", "refusal"), [(1, "by name"), (2, "400"), (3, "by name"), *product([4], REFUSALS)]
)
@without_waiting
async def test_a_format_that_the_server_accepts_is_found(steps: int, refusal: str) -> None:
    formats = FORMATS[steps:]
    async with serving(knowing(formats, REFUSALS[refusal], sensible)) as server:
        words = r"^judge gpt-4o-mini at http.*: replies of the form .* \(HTTP \d+: (?!.*check)"
        with pytest.warns(GraphragEvalWarning, match=words):
            async with judged(server) as stream:
                results = await collect(stream)
        assert stream.usage.outcomes == {"ok": 24, "skipped": 0}
        wasted = stream.usage.attempts - 24
        # Chance decides how many calls see each step of a server that fails.
        most = 24 * (steps + 1) if refusal == "500" else 10 * (steps + 2)
        assert wasted == sum(stream.usage.retries.values()) <= most
        assert format_of(server.requests[-1].body) == formats[0]
        async with serving() as other:
            expected = await collect(judged(other))
        assert prompts_of(results).isdisjoint(prompts_of(expected))


@without_waiting
async def test_parameters_that_a_server_refuses_are_renamed_or_left_out() -> None:
    async with serving(without(["max_tokens", "temperature"], sensible)) as server:
        with pytest.warns(GraphragEvalWarning) as told:
            async with judged(server) as stream:
                await collect(stream)
        words = sorted(str(warning.message).partition(": ")[2].partition(" (")[0] for warning in told)
        assert words == ["max_tokens is sent as max_completion_tokens", "temperature is left out"]
        assert stream.usage.outcomes == {"ok": 24, "skipped": 0}
        assert stream.usage.attempts <= 24 + 2 * 10
        last = server.requests[-1].body
        assert (last["max_completion_tokens"], "temperature" in last) == (4096, False)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@without_waiting
async def test_a_reply_that_is_cut_off_names_the_key_of_its_own_judge(name: str) -> None:
    async with serving(FAULTS["length"]) as server:
        settings = config(server, answer_correctness={"judges": ["other"]})
        settings["llm"]["judges"] = {"other": {"provider": "openai", "model": "other", name: 10}}
        results = await collect(evaluate_stream(templates(1), [response(0)], config=settings))
    assert results["q0"]["answer_eval_error"].endswith(f"cut off; raise llm.judges.other.{name}")


@without_waiting
async def test_a_request_that_is_too_long_does_not_change_the_others() -> None:
    async with serving(limited_to(20_000, sensible)) as server:
        settings = config(server, answer_correctness={}, limits={"max_concurrency": 1})
        long = response(0) | {"actual_answer": "word " * 15_000}
        responses = [long, *map(response, range(1, 4)), response(4) | {"actual_answer": "word " * 20_000}]
        async with evaluate_stream(templates(5), responses, config=settings) as stream:
            results = await collect(stream)
    assert stream.usage.outcomes == {"ok": 4, "invalid_request": 1, "skipped": 0}
    assert [request.body.get("max_tokens") for request in server.requests].count(None) == 2
    assert len(server.requests) == 7
    assert len(prompts_of(results)) == 1


@without_waiting
async def test_the_prompts_are_those_that_the_replies_of_the_result_answered(tmp_path: Path) -> None:
    """An accident moves one request to another format; neither others nor the cache take part in that."""

    def script(request: Request) -> Any:
        return REFUSALS["400"] if request.number == 0 else sensible(request)

    async with serving(script) as server:
        settings = config(server, limits={"max_concurrency": 1}, cache=str(tmp_path / "calls"), **CLAIMS)
        found = [
            await collect(evaluate_stream(templates(40), map(response, range(40)), config=settings))
            for _ in range(2)
        ]
        answered = {f"q{call_of(each).record}": format_of(each.body) for each in server.requests}
        assert Counter(answered.values()) == {"json_schema": 39, "json_schema_loose": 1}
        async with serving() as other:
            plain = prompts_of(await collect(judged(other, 2, CLAIMS)))
    for results in found:
        for name, result in results.items():
            assert (result["judge"]["prompts"] in plain) == (answered[name] == "json_schema")
        assert len(prompts_of(results)) == 2
    assert len(server.requests) == 41


def wrapped(wrap: Any) -> Any:
    return lambda request: wrap(json.dumps(REPLIES[title_of(request)]))


def at_first(body: Any) -> Any:
    """Sends an error with status 200 before each reply."""
    return lambda request: json_reply(body) if request.attempt == 0 else sensible(request)


def without_formats(request: Request) -> Any:
    is_told = "JSON Schema" in json.dumps(request.body["messages"])
    return sensible(request) if is_told else completion("The answer seems right to me.")


OK: dict[str, Any] = {"ok": 24, "skipped": 0}
MODERATED = {"error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["violence", "hate"]}}}
FAILED = {"message": {"content": ""}, "finish_reason": "error", "error": {"message": "no", "code": 502}}
UNCLEAR = {"invalid_reply": 24, "skipped": 0}
FLAGGED = {"refused": 24, "skipped": 0}
LASTING: dict[str, tuple[Any, dict[str, int], int, dict[str, int]]] = {
    **{name: (wrapped(wrap), OK, 24 * (name[:9] != "tool call"), {}) for name, wrap in WRAPPINGS.items()},
    **{name: (wrapped(wrap), UNCLEAR, 0, {"invalid_reply": 24}) for name, wrap in AMBIGUOUS.items()},
    "number": (at_first({"error": {"message": "no", "code": 429}}), OK, 0, {"rate_limited": 24}),
    "words": (at_first({"error": {"type": "rate_limit_error"}}), OK, 0, {"rate_limited": 24}),
    "text": (at_first({"error": "upstream failed"}), OK, 0, {"unavailable": 24}),
    "choice": (at_first({"choices": [FAILED]}), OK, 0, {"unavailable": 24}),
    "moderated": (lambda _: json_reply(MODERATED, status=403), FLAGGED, 0, {}),
}
"""Servers of which no run ends: outcomes of 24 metrics, replies that were repaired, and retries."""


@pytest.mark.parametrize("name", LASTING)
@without_waiting
async def test_what_a_run_makes_of_a_server(name: str) -> None:
    script, *expected = LASTING[name]
    async with serving(script) as server, judged(server, max_failed_calls=None) as stream:
        results = await collect(stream)
    usage = stream.usage
    assert [usage.outcomes, usage.repaired, usage.retries] == expected
    if name == "moderated":
        assert results["q0"]["answer_eval_error"] == "refused: HTTP 403: flagged (violence, hate)"


@without_waiting
async def test_a_server_that_ignores_formats_is_told_the_layout_in_words() -> None:
    async with serving(without_formats) as server:
        with pytest.warns(GraphragEvalWarning, match="with the layout in words"):
            async with judged(server) as stream:
                await collect(stream)
        assert stream.usage.outcomes == OK


def after(good: int, name: str) -> Any:
    return lambda request: sensible(request) if request.number < good else FAULTS[name](request)


CHECK = r"gpt-4o-mini at http://127\.0\.0\.1:\d+/v1: .*; check "
CHANGE = r"; change or remove llm\.generation\."
OUTAGE = {"max_outage_sec": 100, "max_concurrency": 2, "call_timeout_sec": 10}
LATE = r"no call succeeded for 1\d\d s; the last failure: "
ENDING: dict[str, tuple[Any, str, int, dict[str, Any], dict[str, Any]]] = {
    **{
        name: (FAULTS[name], CHECK, 90, {}, {})
        for name in ("500", "503", "429", "400", "html", "wrong schema", "never")
    },
    "unknown path": (lambda _: error(404, "Not Found"), CHECK, 90, {}, {}),
    "no format": (lambda _: error(400, "response_format is not supported"), CHECK, 90, {}, {}),
    "long pause": (FAULTS["429 long"], "300 s, longer than the 299 s", 90, {"max_pause_sec": 299}, {}),
    "temperature": (without(["temperature"], sensible), f"{CHANGE}temperature", 10, {}, {"temperature": 0.5}),
    **{
        name: (capped_at(2048, sensible), f"{CHANGE}{name}", 20, {}, {name: 9000})
        for name in ("max_tokens", "max_completion_tokens")
    },
    **{f"{name} later": (after(20, name), LATE, 999, OUTAGE, {}) for name in ("500", "429", "never")},
}
"""Servers that end the run: with these words, after so many requests at most; limits and parameters."""


@pytest.mark.parametrize("name", ENDING)
@without_waiting
async def test_a_judge_that_does_not_work_ends_the_run(name: str) -> None:
    script, words, most, limits, parameters = ENDING[name]
    async with serving(script) as server:
        settings = config(server, answer_correctness={}, limits={"max_failed_calls": 10} | limits)
        settings["llm"]["generation"] |= parameters
        stream = evaluate_stream(templates(200), map(response, range(200)), config=settings)
        start = now()
        with pytest.raises(JudgeUnavailable, match=words):
            await collect(stream)
        assert stream.usage.attempts == len(server.requests) <= most
        assert limits != OUTAGE or 100 <= now() - start < 200
        for value in parameters.values():  # Never left out, but perhaps renamed.
            assert all(value in request.body.values() for request in server.requests)


@pytest.mark.ragas
@pytest.mark.parametrize("fault", ["404", "500"])
@without_waiting
async def test_embeddings_that_do_not_work_end_the_run(fault: str) -> None:
    def script(request: Request) -> Any:
        return sensible(request) if request.is_chat else FAULTS[fault](request)

    async with serving(script, latency=1.0) as server:
        settings = config(server, limits={"max_failed_calls": 10, "max_concurrency": 8})
        stream = evaluate_stream(templates(200), map(response, range(200)), config=settings)
        with pytest.raises(JudgeUnavailable, match=r"text-embedding-3-small at .*check llm\.embedding"):
            await collect(stream)
        embeddings = [request for request in server.requests if not request.is_chat]
        assert len(embeddings) <= 10 * (5 if fault == "500" else 1) + 8
        # While ten calls fail, no completion begins; after that, none, either.
        assert len(server.requests) <= 100
        last = max(request.number for request in embeddings)
        assert sum(request.number > last for request in server.requests) <= 2 * 8


@pytest.mark.ragas
@without_waiting
async def test_one_judge_that_does_not_work_ends_the_run() -> None:
    def script(request: Request) -> Any:
        return FAULTS["401"](request) if request.body["model"] == "other" else sensible(request)

    async with serving(script) as server:
        judges = {"judges": ["generation", "other"]}
        more: Any = {"answer_correctness": judges, "answer_relevance": {}}
        settings = config(server, limits={"max_concurrency": 4}, **more)
        settings["llm"]["judges"] = {"other": {"provider": "openai", "model": "other"}}
        stream = evaluate_stream(templates(200), map(response, range(200)), config=settings)
        with pytest.raises(JudgeUnavailable, match=r"other at .*check llm\.judges\.other\.api_key"):
            await collect(stream)
        denied = [request for request in server.requests if request.body.get("model") == "other"]
        assert len(denied) <= 10 + 4
        assert len(server.requests) <= 4 * 10


@pytest.mark.parametrize(
    ("name", "place", "most"), [("401", 0, 1), ("401", 6, 1), ("403", 0, 8), ("404", 6, 8)]
)
@without_waiting
async def test_a_request_that_is_denied_is_the_error_of_its_metric(name: str, place: int, most: int) -> None:
    """Also that of the first record, at which each `--resume` may begin."""
    bad = Call("answer_correctness", place)
    async with serving(aimed(FAULTS[name], bad)) as server:
        async with judged(server, max_concurrency=most) as stream:
            results = await collect(stream)
        assert requests_of(server, bad) == 1
    assert stream.usage.outcomes == {"ok": 23, "invalid_request": 1, "skipped": 0}
    problem = rf"invalid_request: gpt-4o-mini at http://127\.0\.0\.1:.*HTTP {name}: "
    assert re.match(problem, results[f"q{place}"]["answer_eval_error"])


@pytest.mark.parametrize(("good", "max_concurrency"), [(0, 1), (0, 4), (20, 4)])
@without_waiting
async def test_ten_denials_in_a_row_end_the_run(good: int, max_concurrency: int) -> None:
    async with serving(after(good, "401")) as server:
        stream, results = judged(server, 100, max_concurrency=max_concurrency), []
        with pytest.raises(JudgeUnavailable, match=r"HTTP 401: .*; check llm\.generation\.api_key"):  # noqa: PT012
            async for result in stream:
                results.append(result)  # noqa: PERF401  (those before the error count)
        assert good + 10 <= len(server.requests) <= good + 10 + max_concurrency
        assert len(results) <= good // 2
        assert not [key for result in results for key in result if key.endswith("_error")]


@without_waiting
async def test_a_short_outage_fails_few_metrics() -> None:
    outage: list[float] = []

    def script(request: Request) -> Any:
        if request.number == 50:
            outage.append(request.time)
        is_down = outage and request.time - outage[0] < 12
        return error(503, "down") if is_down else sensible(request)

    async with serving(script, latency=0.02) as server:
        async with judged(server, 200, max_concurrency=8) as stream:
            await collect(stream)
        assert stream.usage.outcomes["unavailable"] <= 10 + 8 + 8
        assert sum(stream.usage.outcomes.values()) == 400
