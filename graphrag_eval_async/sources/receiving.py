"""Receiving of OpenTelemetry spans by OTLP over HTTP, from any instrumented agent."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import zlib
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import orjson

from graphrag_eval_async.errors import UsageError, check_extra, check_integer, needs
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from graphrag_eval_async.threads import CLOSING_SECONDS, outlast, run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from starlette.requests import Request
    from starlette.responses import Response

MAX_WAITING = 64
"""Maximum number of requests in progress or waiting; more are answered 503."""

BODY_SECONDS = 30.0
"""Timeout for receiving the body of a request, in seconds."""

RETRY = {"Retry-After": "1"}
"""Header of an answer 503, in seconds."""

JSON, PROTOBUF = "application/json", "application/x-protobuf"
_IDS = ("traceId", "spanId", "parentSpanId")


class _Refused(Exception):  # noqa: N818
    """A request that is refused."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def receive_otlp(
    host: str = "127.0.0.1",
    port: int = 4318,
    *,
    max_waiting: int = MAX_WAITING,
    max_request_bytes: int = MAX_LINE_BYTES,
) -> OtlpReceiver:
    """Receive spans by OTLP over HTTP, for ``evaluate_stream(reference, receive_otlp(),
    format="otlp")``.

    Exporters send to ``http://HOST:PORT/v1/traces``, as JSON or, with the extra ``otel``, as
    protobuf. A request is answered 200 once its spans are accepted. Anyone who can reach the port
    can send spans: on a network, listen only behind a proxy that authenticates senders. Needs the
    extra ``web``.

    Args:
        host: host name or address to listen on.
        port: port to listen on. 0 selects a free port, which is in `OtlpReceiver.port`.
        max_waiting: maximum number of requests in progress or waiting; more are answered 503 with
            ``Retry-After``.
        max_request_bytes: maximum size of a request body in bytes, as sent and decompressed. Larger
            requests are answered 413.

    Returns:
        an asynchronous iterable that listens from now on until it is closed.

    Raises:
        UsageError: a package is missing, an argument has an invalid value, or the port cannot be
            opened.
    """
    check_extra("receive_otlp", "web", "starlette", "uvicorn")
    check_integer("max_waiting", max_waiting)
    if type(port) is not int or not 0 <= port < 1 << 16:
        raise UsageError(f"port: expected an integer from 0 to 65535, got {port!r}")
    return OtlpReceiver(listen(host, port), max_waiting, max_request_bytes)


class OtlpReceiver:
    """Lines of OTLP in JSON, one per request, to be iterated over once; made by `receive_otlp`."""

    def __init__(self, listening: socket.socket, max_waiting: int, max_bytes: int) -> None:
        self.host, self.port = listening.getsockname()[:2]
        self._listening = listening
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._under_way = 0
        self._send, self._lines = anyio.create_memory_object_stream[bytes](0)

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """The lines. A request is accepted when its line is taken."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        if self._listening.fileno() < 0:
            raise UsageError("the receiver is closed; make another with receive_otlp")
        server = server_of(Starlette(routes=[Route("/v1/traces", self._take, methods=["POST"])]))
        serving = asyncio.create_task(server.serve(sockets=[self._listening]))
        serving.add_done_callback(lambda _: self._send.close())
        try:
            async for line in self._lines:
                yield line
            raise UsageError("the receiver has stopped listening")
        finally:
            self._lines.close()
            server.should_exit = server.force_exit = True
            with suppress(Exception):
                await outlast(serving, CLOSING_SECONDS)
            self.close()

    def close(self) -> None:
        """Stop listening; waiting and later requests are answered 503."""
        self._lines.close()
        self._send.close()
        self._listening.close()

    async def _take(self, request: Request) -> Response:
        from starlette.requests import ClientDisconnect
        from starlette.responses import JSONResponse, Response

        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._under_way += 1
        try:
            if self._under_way > self._max_waiting:
                raise _Refused(503, "too many requests wait; try again")
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._body(request)
            await self._send.send(await run_in_thread(partial(_line, kind, body)))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return JSONResponse({"message": "the receiver is closed"}, 503, RETRY)
        except _Refused as error:
            return JSONResponse(
                {"message": str(error)}, error.status, RETRY if error.status == 503 else None
            )
        except ClientDisconnect:
            return Response(status_code=400)  # Nobody reads it.
        except TimeoutError:
            return JSONResponse({"message": f"the body took more than {BODY_SECONDS:g} s"}, 408)
        finally:
            self._under_way -= 1
        return Response(b"{}" if kind == JSON else b"", media_type=kind)

    async def _body(self, request: Request) -> bytes:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self._max_bytes:
                raise _Refused(413, f"more than {self._max_bytes} bytes")
        encoding = request.headers.get("content-encoding", "identity").lower()
        if encoding == "identity":
            return bytes(body)
        if encoding not in ("gzip", "deflate"):
            raise _Refused(
                415, f"content encoding {encoding[:50]!r}; gzip, deflate and none are known"
            )
        return await run_in_thread(partial(_inflate, bytes(body), self._max_bytes))


def _inflate(data: bytes, limit: int) -> bytes:
    inflating = zlib.decompressobj(zlib.MAX_WBITS | 32)  # Of gzip and deflate, whichever it is.
    try:
        text = inflating.decompress(data, limit + 1)
    except zlib.error as error:
        raise _Refused(400, f"neither gzip nor deflate: {error}") from None
    if len(text) > limit:
        raise _Refused(413, f"more than {limit} bytes once decompressed")
    if not inflating.eof or inflating.unused_data:
        raise _Refused(400, "compressed data that are cut off, or have more after their end")
    return text


def _line(kind: str, body: bytes) -> bytes:
    """A request as a line of OTLP in JSON."""
    if kind == JSON:
        try:
            request = orjson.loads(body)
        except ValueError as error:
            raise _Refused(400, f"not JSON: {error}") from None
    elif kind == PROTOBUF:
        request = _from_protobuf(body)
    else:
        raise _Refused(415, f"content type {kind[:50]!r}; {JSON} and {PROTOBUF} are known")
    spans = None
    if isinstance(request, dict):
        spans = request.get("resourceSpans", request.get("resource_spans", None if request else []))
    if not isinstance(spans, list):
        raise _Refused(400, "not a request of OTLP: an object with resourceSpans was expected")
    return orjson.dumps({"resourceSpans": spans})


def _from_protobuf(body: bytes) -> Any:
    try:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )
    except ImportError:
        raise _Refused(415, f"protobuf {needs('otel')}; or send JSON") from None
    try:
        request = MessageToDict(ExportTraceServiceRequest.FromString(body))
    except (DecodeError, ValueError) as error:
        raise _Refused(400, f"not a request of OTLP: {error}") from None
    for resource in request.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                span.update({key: base64.b64decode(span[key]).hex() for key in _IDS if key in span})
    return request


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None) or -1
        # `create_server` adds the address once more.
        why = os.strerror(number) if number > 0 else error
        raise UsageError(f"cannot listen on {host}:{port}: {why}") from None


def server_of(app: Any) -> Any:
    """A server that does not handle signals."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    options: Any = {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "lifespan": "off",
    }
    return Server(uvicorn.Config(app, timeout_graceful_shutdown=1, **options))
