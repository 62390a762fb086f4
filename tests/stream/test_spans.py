"""Spans of OpenTelemetry as a source: a response comes once its trace is complete."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import evaluate_file, evaluate_stream, follow_jsonl, load_reference
from graphrag_eval_async.traces import TraceFormat, responses_from_otlp
from tests.support.deadlines import WAIT_SECONDS
from tests.traces.otlp import IDS, line, spans
from tests.traces.otlp import span as span_of
from tests.traces.scenario import ANSWER, REFERENCE

if TYPE_CHECKING:
    from pathlib import Path

QUICK = TraceFormat(name="otlp", grace=0.02)


def lines(*numbers: int) -> list[bytes]:
    """A line for each span; the traces are interleaved."""
    return [
        orjson.dumps(line(span)) for each in zip(*map(spans, numbers), strict=True) for span in each
    ]


async def evaluate(source: Any, **options: Any) -> tuple[list[str], dict[Any, int]]:
    async with evaluate_stream(REFERENCE, source, format=QUICK, **options) as stream:
        found = []
        async for result in stream:
            assert result["steps_score"] == 1
            assert result["actual_answer"] == ANSWER
            assert result["metadata"]["trace_id"] == result["response_id"]
            found.append(result["response_id"])
        return found, dict(stream.rejects.counts)


async def test_a_file_of_spans(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b"\n".join([*lines(1, 2, 3), b"{broken", b'{"resourceLogs": []}']))
    assert await evaluate(path) == (IDS, {"invalid_json": 1})
    found = await evaluate_file(REFERENCE, path, format=QUICK, jobs=2)
    assert found.aggregates.snapshot()["micro"]["steps_score"]["mean"] == 1


async def test_a_trace_that_is_open_at_the_stop_is_left_to_the_next_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A late span of a trace that an earlier run evaluated gives no second result."""
    path = tmp_path / "spans.jsonl"
    stop = asyncio.Event()
    kept: dict[str, Any] = {"journal": tmp_path / "results.jsonl"}
    half, whole = lines(2), lines(1)
    path.write_bytes(b"\n".join([half[0], *whole[:-1], b""]))
    source = follow_jsonl(path, poll_interval=0.005, stop=stop)
    async with evaluate_stream(REFERENCE, source, format=QUICK, **kept) as stream:
        coming = asyncio.ensure_future(anext(stream))
        with path.open("ab") as file:
            file.write(whole[-1] + b"\n")
        assert (await coming)["response_id"] == IDS[0]
        stop.set()
        assert await anext(stream, None) is None
    assert "1 traces that were open at the stop" in caplog.text
    assert await evaluate(follow_jsonl(path, idle_timeout=0.1), **kept) == ([], {})
    late = copy.deepcopy(spans(1)[0]) | {"spanId": "00000000000000ff"}
    with path.open("ab") as file:
        file.write(b"\n".join([*half[1:], orjson.dumps(line(late)), *lines(3), b""]))
    assert await evaluate(follow_jsonl(path, idle_timeout=0.1), **kept) == (IDS[1:], {})
    assert await evaluate(follow_jsonl(path, idle_timeout=0.1), **kept) == ([], {})


@pytest.mark.parametrize("ends", [False, True])
async def test_late_spans_change_no_result_and_their_responses_are_whole_in_a_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ends: bool
) -> None:
    """As of two services: that of the tools exports its spans after that of the agent."""
    late = TraceFormat(name="otlp", grace=0.02, late=str(tmp_path / "late.jsonl"))
    handed_out, seen = asyncio.Event(), asyncio.Event()

    async def services() -> Any:
        yield line(*(span for span in spans(1) if "execute_tool" not in span["name"]))
        yield line(*spans(2))
        await handed_out.wait()
        for span in spans(1):
            if "execute_tool" in span["name"]:
                yield line(span)
        seen.set()
        if not ends:
            await asyncio.Event().wait()

    async with evaluate_stream(REFERENCE, services(), format=late) as stream:
        results = [await anext(stream), await anext(stream)]
        assert stream.late.facts() is None
        coming = asyncio.ensure_future(anext(stream, None))
        handed_out.set()
        await asyncio.wait_for(seen.wait(), WAIT_SECONDS)
        if ends:
            assert await coming is None
    if not ends:
        await asyncio.gather(coming, return_exceptions=True)
    assert stream.aggregates.snapshot()["micro"]["number_of_success_samples"] == len(results) == 2
    assert (stream.late.spans, stream.late.traces, stream.late.trace_ids) == (2, 1, IDS[:1])
    assert f"2 spans of 1 trace came after the trace was evaluated: {IDS[0]}" in caplog.text
    assert caplog.text.count("late.jsonl") == 1
    [response] = [json.loads(row) for row in (tmp_path / "late.jsonl").read_bytes().splitlines()]
    [whole] = responses_from_otlp([line(*spans(1))], questions=load_reference(REFERENCE))
    assert response == whole
    assert (await evaluate_file(REFERENCE, late.late or "")).aggregates.snapshot()["micro"][
        "steps_score"
    ]["mean"] == 1


def without_agent(number: int) -> list[dict[str, Any]]:
    return [span_of(number, "GET /", {"http.method": "GET"}, parent=None, trace=f"{number:032x}")]


async def test_traces_without_an_agent_are_rejects_that_name_the_attributes(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(
        b"\n".join([orjson.dumps(line(*without_agent(7))), *lines(1), b'{"messages": []}'])
    )
    async with evaluate_stream(REFERENCE, path, format=QUICK) as stream:
        results = [result["response_id"] async for result in stream]
    assert results == IDS[:1]
    assert stream.rejects.counts == {"not_a_trace": 2}
    messages = {reject.line: reject.message for reject in stream.rejects}
    assert messages[1].startswith(f"no span of an agent in the trace {7:032x}: looked for ")
    assert "gen_ai.operation.name" in messages[1]
    assert messages[1].endswith("its spans have http.method")
    assert messages[len(lines(1)) + 2] == "not a line of OTLP: it has no resourceSpans"


async def test_a_span_of_an_agent_that_comes_later_makes_a_result_and_no_reject() -> None:
    handed_out = asyncio.Event()

    async def services() -> Any:
        server = span_of("b0", "POST /ask", {"http.method": "POST"}, parent=None, trace=IDS[0])
        yield line(server)
        yield line(*spans(2))
        await handed_out.wait()
        yield line(*(each | {"parentSpanId": "b0"} for each in spans(1)))

    async with evaluate_stream(REFERENCE, services(), format=QUICK) as stream:
        first = await anext(stream)
        handed_out.set()
        second = await asyncio.wait_for(anext(stream), WAIT_SECONDS)
        assert await anext(stream, None) is None
    assert [first["response_id"], second["response_id"]] == [IDS[1], IDS[0]]
    assert stream.rejects.total == 0


async def test_a_file_with_an_empty_list_of_spans_is_a_reject(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(b'{"resourceSpans": []}\n\n')
    async with evaluate_stream(REFERENCE, path, format=QUICK) as stream:
        assert [result async for result in stream] == []
    [reject] = stream.rejects
    assert (reject.reason, reject.line) == ("not_a_trace", 1)
    assert reject.message == "no line has spans (resourceSpans); in this one, they are empty"


@pytest.mark.parametrize("kind", ["resourceLogs", "resourceMetrics"])
async def test_a_file_without_any_span_is_a_reject(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_bytes(orjson.dumps({kind: []}) + b"\n" + orjson.dumps({kind: []}))
    async with evaluate_stream(REFERENCE, path, format=QUICK) as stream:
        assert [result async for result in stream] == []
    [reject] = stream.rejects
    assert (reject.reason, reject.line) == ("not_a_trace", 1)
    assert (
        reject.message == f"no line has spans (resourceSpans); this is one of the lines of {kind}"
    )
