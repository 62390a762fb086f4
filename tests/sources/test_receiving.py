"""Spans that are sent by OTLP over HTTP."""

from __future__ import annotations

import asyncio
import base64
import gzip
import http.client
import json
import re
import socket
import zlib
from typing import Any

import orjson
import pytest

from graphrag_eval_async import UsageError, evaluate_stream
from graphrag_eval_async.sources.receiving import receive_otlp
from graphrag_eval_async.traces import TraceFormat
from tests.support.deadlines import WAIT_SECONDS
from tests.support.virtual_time import now, without_waiting
from tests.traces.otlp import IDS, line, spans
from tests.traces.scenario import REFERENCE

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

QUICK = TraceFormat(name="otlp", grace=0.02)
JSON = {"Content-Type": "application/json"}
HALF = (
    b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "
    b"100\r\n\r\n{"
)
"""A request without the rest of its body."""


def post(
    port: int, body: bytes, headers: dict[str, str] = JSON, path: str = "/v1/traces"
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


async def sent(port: int, body: bytes, *more: Any) -> tuple[int, dict[str, str], bytes]:
    return await asyncio.wait_for(asyncio.to_thread(post, port, body, *more), WAIT_SECONDS)


def body_of(number: int) -> bytes:
    return orjson.dumps(line(*spans(number)), option=orjson.OPT_INDENT_2)


PACKED: dict[str, Any] = {"identity": bytes, "gzip": gzip.compress, "deflate": zlib.compress}


async def test_traces_are_evaluated_as_they_are_sent() -> None:
    receiver = receive_otlp(port=0)
    async with evaluate_stream(REFERENCE, receiver, format=QUICK) as stream:
        for number, (encoding, pack) in enumerate(PACKED.items(), 1):
            body = body_of(number)
            if encoding == "gzip":
                body = re.sub(
                    rb'"\w+":', lambda key: re.sub(rb"[A-Z]", rb"_\g<0>", key[0]).lower(), body
                )
                assert b'"resource_spans"' in body
            sending = sent(receiver.port, pack(body), JSON | {"Content-Encoding": encoding})
            result, (status, _, answer) = await asyncio.gather(anext(stream), sending)
            assert (status, answer) == (200, b"{}")
            assert (result["response_id"], result["steps_score"]) == (IDS[number - 1], 1)
    with pytest.raises(OSError):
        await sent(receiver.port, b"{}")


async def test_protobuf() -> None:
    proto = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    from google.protobuf.json_format import ParseDict

    given = json.loads(body_of(1))
    for span in given["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            span[key] = base64.b64encode(bytes.fromhex(span.get(key, ""))).decode()
    body = ParseDict(
        given, proto.ExportTraceServiceRequest(), ignore_unknown_fields=True
    ).SerializeToString()
    receiver = receive_otlp(port=0)
    async with evaluate_stream(REFERENCE, receiver, format=QUICK) as stream:
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        sending = sent(receiver.port, gzip.compress(body), headers)
        result, (status, _, answer) = await asyncio.gather(anext(stream), sending)
    assert (status, answer) == (200, b"")
    assert (result["response_id"], result["steps_score"]) == (IDS[0], 1)


GZIP = JSON | {"Content-Encoding": "gzip"}
REFUSED: list[tuple[bytes, dict[str, str], int, bytes]] = [
    (b"{", JSON, 400, b"not JSON"),
    *(
        (body, JSON, 400, b"an object with resourceSpans")
        for body in (b"[]", b'{"resource_spans": {}}')
    ),
    (b"{}", {"Content-Type": "text/plain"}, 415, b"content type 'text/plain'"),
    (b"{}", JSON | {"Content-Encoding": "br"}, 415, b"content encoding 'br'"),
    (b"{}", GZIP, 400, b"gzip"),
    (gzip.compress(b"{}", mtime=0)[:-4], GZIP, 400, b"cut off"),
    (b'"' + b"x" * 5000 + b'"', JSON, 413, b"more than 4096 bytes"),
    (gzip.compress(b"x" * 10**6), GZIP, 413, b"once decompressed"),
]


async def test_refused_requests() -> None:
    receiver = receive_otlp(port=0, max_request_bytes=4096)
    lines = aiter(receiver)
    coming = asyncio.ensure_future(anext(lines))
    for body, headers, status, words in REFUSED:
        found, _, answer = await sent(receiver.port, body, headers)
        assert (found, words in answer) == (status, True), answer
    last = asyncio.create_task(sent(receiver.port, b"{}"))
    assert await asyncio.wait_for(coming, WAIT_SECONDS) == b'{"resourceSpans":[]}'
    assert (await last)[0] == 200
    await lines.aclose()


async def test_too_many_requests_are_told_to_retry() -> None:
    receiver = receive_otlp(port=0, max_waiting=2)
    lines = aiter(receiver)
    coming = asyncio.ensure_future(anext(lines))
    first = asyncio.create_task(sent(receiver.port, b"{}"))
    await asyncio.wait_for(coming, WAIT_SECONDS)  # The consumer has it, and asks for no more.
    others = [asyncio.create_task(sent(receiver.port, b"{}")) for _ in range(4)]
    ended = asyncio.as_completed(others, timeout=WAIT_SECONDS)
    for refused in (next(ended), next(ended)):
        status, headers, _ = await refused
        assert (status, headers["retry-after"]) == (503, "1")
    assert [task.done() for task in others].count(True) == 2
    await lines.aclose()
    assert (await first)[0] == 200
    with pytest.raises(UsageError, match="the receiver is closed"):
        await anext(aiter(receiver))
    assert {(await task)[0] for task in others} == {503}, "what was not taken is not acknowledged"


def test_usage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}: "):
            receive_otlp(port=port)
    wrong: list[dict[str, Any]] = [
        {"max_waiting": 0},
        {"port": -1},
        {"port": "x"},
        {"port": 70_000},
    ]
    for options in wrong:
        with pytest.raises(UsageError):
            receive_otlp(**options)


@without_waiting
async def test_a_body_that_takes_too_long() -> None:
    receiver = receive_otlp(port=0)
    lines = aiter(receiver)
    coming = asyncio.ensure_future(anext(lines))
    reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
    start = now()
    writer.write(HALF)
    assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
    assert now() - start == pytest.approx(10, abs=1)
    writer.close()
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)
    await lines.aclose()
