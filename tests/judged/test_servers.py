"""Servers and models that want requests in their own way, or do not work at all."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import GraphragEvalWarning, JudgeUnavailable, evaluate_stream
from tests.judged.support import (
    METRICS,
    REPLIES,
    Call,
    aimed,
    call_of,
    collect_by_question,
    config,
    requests_of,
    response,
    sensible,
    serving,
    templates,
    title_of,
)
from tests.support.judge_server import FAULTS, JudgeServer, Reply, completion, error, json_reply
from tests.support.judge_server.dialects import (
    AMBIGUOUS,
    REFUSALS,
    WRAPPINGS,
    format_of,
    knowing,
    limited_to,
    without,
)
from tests.support.virtual_time import now, without_waiting

if TYPE_CHECKING:
    from graphrag_eval_async import EvaluationStream
    from tests.support.judge_server import Request

FORMATS = ["json_schema", "json_schema_loose", "tool_call", "json_object", "text"]
OK: dict[str, Any] = {"ok": 24, "skipped": 0}
CLAIMS = {"answer_correctness": METRICS["answer_correctness"]}
BOTH = CLAIMS | {"custom_evaluations": METRICS["custom_evaluations"]}


def judged(
    server: JudgeServer,
    records: int = 12,
    metrics: Any = BOTH,
    *,
    generation: Any = None,
    **limits: Any,
) -> EvaluationStream:
    """Answer correctness and a custom evaluation of so many records, or other metrics."""
    settings = config(server, limits={"max_failed_calls": 10} | limits, **metrics)
    settings["llm"]["generation"] |= generation or {}
    return evaluate_stream(templates(records), map(response, range(records)), config=settings)


def prompts_of(results: dict[str, dict[str, Any]]) -> set[str]:
    return {result["judge"]["prompts"] for result in results.values()}


@without_waiting
async def test_a_format_that_the_server_accepts_is_found() -> None:
    async with serving() as server:
        expected = prompts_of(await collect_by_question(judged(server)))
    words = r"^judge gpt-4o-mini at http.*: replies are requested as .* \(HTTP \d+: (?!.*check)"
    for steps, refusal in [
        (1, "by name"),
        (2, "400"),
        (3, "by name"),
        *((4, name) for name in REFUSALS),
    ]:
        async with serving(knowing(FORMATS[steps:], REFUSALS[refusal], sensible)) as server:
            with pytest.warns(GraphragEvalWarning, match=words):
                async with judged(server) as stream:
                    results = await collect_by_question(stream)
            assert stream.usage.outcomes == OK
            # At most ten calls are in progress before one succeeds, and each sees each step once.
            assert stream.usage.attempts - 24 == stream.usage.retries.total() <= 10 * steps
            assert format_of(server.requests[-1].body) == FORMATS[steps]
            assert prompts_of(results).isdisjoint(expected)


@without_waiting
async def test_a_server_that_ignores_formats_is_told_the_layout_in_words() -> None:
    def script(request: Request) -> Reply:
        is_told = "JSON Schema" in json.dumps(request.body["messages"])
        return sensible(request) if is_told else completion("The answer seems right to me.")

    async with serving(script) as server:
        with pytest.warns(GraphragEvalWarning, match="with the layout in words"):
            async with judged(server) as stream:
                await collect_by_question(stream)
        assert stream.usage.outcomes == OK


@without_waiting
async def test_parameters_that_a_server_refuses_are_renamed_or_left_out() -> None:
    async with serving(without(["max_tokens", "temperature"], sensible)) as server:
        with pytest.warns(GraphragEvalWarning) as told:
            async with judged(server) as stream:
                await collect_by_question(stream)
        words = sorted(
            str(warning.message).partition(": ")[2].partition(" (")[0] for warning in told
        )
        assert words == ["max_tokens is sent as max_completion_tokens", "temperature is left out"]
        assert stream.usage.outcomes == OK
        assert stream.usage.attempts <= 24 + 2 * 10
        last = server.requests[-1].body
        assert (last["max_completion_tokens"], "temperature" in last) == (4096, False)


@without_waiting
async def test_a_reply_that_is_cut_off_names_the_key_of_its_own_judge() -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        async with serving(FAULTS["length"]) as server:
            settings = config(server, answer_correctness={"judges": ["other"]})
            settings["llm"]["judges"] = {
                "other": {"provider": "openai", "model": "other", name: 10}
            }
            results = await collect_by_question(
                evaluate_stream(templates(1), [response(0)], config=settings)
            )
        assert results["q0"]["answer_eval_error"].endswith(
            f"cut off; raise llm.judges.other.{name}"
        )


@without_waiting
async def test_a_request_that_is_too_long_does_not_change_the_others() -> None:
    async with serving(limited_to(20_000, sensible)) as server:
        settings = config(server, answer_correctness={}, limits={"max_concurrency": 1})
        long = response(0) | {"actual_answer": "word " * 15_000}
        responses = [
            long,
            *map(response, range(1, 4)),
            response(4) | {"actual_answer": "word " * 20_000},
        ]
        async with evaluate_stream(templates(5), responses, config=settings) as stream:
            results = await collect_by_question(stream)
    assert stream.usage.outcomes == {"ok": 4, "invalid_request": 1, "skipped": 0}
    assert [request.body.get("max_tokens") for request in server.requests].count(None) == 2
    # The last is sent without `max_tokens` at once: it is longer than the first.
    assert len(server.requests) == 6
    assert len(prompts_of(results)) == 1


@without_waiting
async def test_an_unclear_refusal_after_a_reply_changes_no_format() -> None:
    def script(request: Request) -> Reply:
        return REFUSALS["400"] if request.number == 1 else sensible(request)

    async with serving(script) as server:
        stream = judged(server, 12, CLAIMS, max_concurrency=1)
        await collect_by_question(stream)
        formats = Counter(format_of(request.body) for request in server.requests)
    assert formats == {"json_schema": 12}
    assert stream.usage.outcomes == {"ok": 11, "invalid_request": 1, "skipped": 0}


@without_waiting
async def test_a_server_that_refuses_something_else_gets_the_best_format_afterwards() -> None:
    """Its first refusals could have been about the format, but it refused every format."""

    def script(request: Request) -> Reply:
        return REFUSALS["400"] if request.number < len(FORMATS) else sensible(request)

    async with serving(script) as server:
        stream = judged(server, 4, CLAIMS, max_concurrency=1)
        await collect_by_question(stream)
        formats = [format_of(request.body) for request in server.requests]
    assert formats == [*FORMATS, *["json_schema"] * 3]
    assert stream.usage.outcomes == {"ok": 3, "invalid_request": 1, "skipped": 0}


@without_waiting
async def test_how_models_wrap_a_reply() -> None:
    """Each record's reply in another wrapping: what it can only mean is used, and nothing is
    guessed.
    """
    wraps = [*WRAPPINGS.items(), *AMBIGUOUS.items(), ("none", completion)]

    def script(request: Request) -> Any:
        return wraps[call_of(request).record][1](json.dumps(REPLIES[title_of(request)]))

    async with serving(script) as server:
        # One that is accepted as it is comes first.
        responses = map(response, reversed(range(len(wraps))))
        settings = config(server, limits={"max_concurrency": 1}, **CLAIMS)
        async with evaluate_stream(templates(len(wraps)), responses, config=settings) as stream:
            results = await collect_by_question(stream)
    for record, (name, _) in enumerate(wraps):
        result = results[f"q{record}"]
        assert (result.get("answer_recall") == 0.5) == (name not in AMBIGUOUS), name
        assert result.get("answer_eval_error", "").startswith("invalid_reply: ") == (
            name in AMBIGUOUS
        ), name
    assert stream.usage.repaired == sum(not name.startswith("tool call") for name in WRAPPINGS)
    assert stream.usage.retries == {"invalid_reply": len(AMBIGUOUS)}


MODERATED = {
    "error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["violence", "hate"]}}
}
FAILED = {
    "message": {"content": ""},
    "finish_reason": "error",
    "error": {"message": "no", "code": 502},
}


@without_waiting
async def test_errors_that_come_with_a_status_of_success() -> None:
    bodies: list[Any] = [
        {"error": {"type": "rate_limit_error"}},
        {"error": "no"},
        {"choices": [FAILED]},
    ]
    for body, kind in zip(bodies, ["rate_limited", "unavailable", "unavailable"], strict=True):
        fault = json_reply(body)
        script = aimed(lambda _, reply=fault: reply, Call("custom", 0), Call("custom", 1), times=1)  # type: ignore[misc]
        async with serving(script) as server, judged(server) as stream:
            await collect_by_question(stream)
        assert (stream.usage.outcomes, stream.usage.retries) == (OK, {kind: 2})


@without_waiting
async def test_moderation_refuses_an_answer() -> None:
    async with (
        serving(lambda _: json_reply(MODERATED, status=403)) as server,
        judged(server) as stream,
    ):
        results = await collect_by_question(stream)
    assert stream.usage.outcomes == {"refused": 24, "skipped": 0}
    assert results["q0"]["answer_eval_error"] == "refused: HTTP 403: flagged (violence, hate)"


def after(good: int, name: str) -> Any:
    return lambda request: sensible(request) if request.number < good else FAULTS[name](request)


CHECK = r"gpt-4o-mini at http://127\.0\.0\.1:\d+/v1: .*; check "
CHANGE = r"; change or remove llm\.generation\."
ENDING: list[tuple[Any, str, dict[str, Any], dict[str, Any]]] = [
    *(
        (FAULTS[name], CHECK, {}, {})
        for name in ("500", "429", "400", "html", "wrong schema", "never")
    ),
    (lambda _: error(404, "Not Found"), CHECK, {}, {}),
    (FAULTS["429 long"], "300 s, longer than the 299 s", {"max_pause_sec": 299}, {}),
    (without(["temperature"], sensible), f"{CHANGE}temperature", {}, {"temperature": 0.5}),
]
"""Servers that end the run: with these words, under these limits; and parameters."""


@without_waiting
async def test_a_judge_that_does_not_work_ends_the_run() -> None:
    for script, words, limits, parameters in ENDING:
        async with serving(script) as server:
            stream = judged(server, 40, CLAIMS, generation=parameters, **limits)
            with pytest.raises(JudgeUnavailable, match=words):
                await collect_by_question(stream)
            assert stream.usage.attempts == len(server.requests) <= (20 if parameters else 90)
            for value in parameters.values():  # Never left out, but perhaps renamed.
                assert all(value in request.body.values() for request in server.requests)


@without_waiting
async def test_a_judge_that_ceases_to_work_ends_the_run() -> None:
    limits = {"max_outage_sec": 30, "max_concurrency": 2, "call_timeout_sec": 10}
    for name in ("500", "never"):
        async with serving(after(20, name)) as server:
            start = now()
            with pytest.raises(
                JudgeUnavailable, match=r"no call succeeded for [34]\d s; the last failure: "
            ):
                await collect_by_question(judged(server, 100, CLAIMS, **limits))
            assert 30 <= now() - start < 60


@pytest.mark.ragas
@without_waiting
async def test_embeddings_that_do_not_work_end_the_run() -> None:
    for fault, attempts in (("404", 1), ("500", 5)):

        def script(request: Request, fault: str = fault) -> Any:
            return sensible(request) if request.is_chat else FAULTS[fault](request)

        async with serving(script, latency=1.0) as server:
            metrics = CLAIMS | {"answer_relevance": {"strictness": 1}}
            stream = judged(server, 40, metrics, max_concurrency=8)
            with pytest.raises(
                JudgeUnavailable, match=r"text-embedding-3-small at .*check llm\.embedding"
            ):
                await collect_by_question(stream)
            assert sum(not request.is_chat for request in server.requests) <= 10 * attempts + 8
            # While ten calls fail, no completion begins; after that, none, either.
            assert len(server.requests) <= 100


@without_waiting
async def test_a_request_that_is_denied_is_the_error_of_its_metric() -> None:
    """Also that of the first record, at which each `--resume` may begin."""
    for name, place, most in [("401", 0, 1), ("403", 0, 8), ("404", 6, 8)]:
        bad = Call("answer_correctness", place)
        async with serving(aimed(FAULTS[name], bad)) as server:
            async with judged(server, max_concurrency=most) as stream:
                results = await collect_by_question(stream)
            assert requests_of(server, bad) == 1
        assert stream.usage.outcomes == {"ok": 23, "invalid_request": 1, "skipped": 0}
        problem = rf"invalid_request: gpt-4o-mini at http://127\.0\.0\.1:.*HTTP {name}: "
        assert re.match(problem, results[f"q{place}"]["answer_eval_error"])


@without_waiting
async def test_ten_denials_in_a_row_end_the_run() -> None:
    for good, most in [(0, 1), (0, 4), (20, 4)]:
        async with serving(after(good, "401")) as server:
            stream, results = judged(server, 40, max_concurrency=most), []
            denied = r"HTTP 401: .*; check llm\.generation\.api_key"
            with pytest.raises(JudgeUnavailable, match=denied):  # noqa: PT012
                async for result in stream:
                    results.append(result)  # noqa: PERF401  (those before the error count)
            assert good + 10 <= len(server.requests) <= good + 10 + most
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
        async with judged(server, 60, max_concurrency=8) as stream:
            await collect_by_question(stream)
        assert stream.usage.outcomes["unavailable"] <= 10 + 8 + 8
        assert sum(stream.usage.outcomes.values()) == 120
