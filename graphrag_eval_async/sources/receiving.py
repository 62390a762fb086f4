"""Receiving of OpenTelemetry spans by OTLP over HTTP, from any instrumented agent."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import socket
import zlib
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.errors import UsageError, check_extra
from graphrag_eval_async.sources.lines import MAX_LINE_BYTES
from graphrag_eval_async.threads import CLOSING_SECONDS, outlast, run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from starlette.requests import Request
    from starlette.responses import Response

LOGGER = logging.getLogger("graphrag_eval_async.traces")

MAX_WAITING = 64
"""Maximum number of requests in progress or waiting; more are answered 503."""

BODY_SECONDS = 30.0
"""Timeout for receiving the body of a request, in seconds."""

RETRY_AFTER = "1"
"""In seconds, for a request that is answered 503."""

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
    """Receive spans by OTLP over HTTP, for ``evaluate_stream(reference, receive_otlp(), format="otlp")``.

    Exporters send to ``http://HOST:PORT/v1/traces``, as JSON or, with the extra ``otel``, as protobuf. A
    request is answered 200 once its spans are accepted. Anyone who can reach the port can send spans: on a
    network, listen only behind a proxy that authenticates senders. Needs the extra ``web``.

    Args:
        host: host name or address to listen on.
        port: port to listen on. 0 selects a free port, which is in `OtlpReceiver.port`.
        max_waiting: maximum number of requests in progress or waiting; more are answered 503 with
            ``Retry-After``.
        max_request_bytes: maximum size of a request body in bytes, as sent and decompressed. Larger requests
            are answered 413.

    Returns:
        an asynchronous iterable that listens from now on until it is closed.

    Raises:
        UsageError: a package is missing, an argument has an invalid value, or the port cannot be opened.
    """
    check_extra("receive_otlp", "web", "starlette", "uvicorn")
    if type(max_waiting) is not int or max_waiting < 1:
        raise UsageError(f"max_waiting: expected an integer of 1 or more, got {max_waiting!r}")
    if type(port) is not int or not 0 <= port < 1 << 16:
        raise UsageError(f"port: expected an integer from 0 to 65535, got {port!r}")
    return OtlpReceiver(listen(host, port), max_waiting, max_request_bytes)


class OtlpReceiver:
    """Lines of OTLP in JSON, one per request, to be iterated over once; made by `receive_otlp`.

    Attributes:
        host: host that it listens on.
        port: port that it listens on.
        dropped: number of requests with logs or metrics, which are not evaluated.
    """

    def __init__(self, listening: socket.socket, max_waiting: int, max_bytes: int) -> None:
        self.host, self.port = listening.getsockname()[:2]
        self.dropped = 0
        self._listening = listening
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._waiting: deque[tuple[bytes, asyncio.Future[bool]]] = deque()
        self._came = asyncio.Event()
        self._is_closed = False
        self._under_way = 0

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """The lines. A request is accepted when the next line is requested."""
        if self._is_closed:
            raise UsageError("the receiver is closed; make another with receive_otlp")
        server = server_of(self._app())
        serving = asyncio.create_task(server.serve(sockets=[self._listening]))
        try:
            while True:
                await self._wait(serving)
                while self._waiting:
                    line, taken = self._waiting.popleft()
                    try:
                        yield line
                    except BaseException:
                        _answer(taken, well=False)
                        raise
                    _answer(taken, well=True)
        finally:
            self._refuse()
            server.should_exit = server.force_exit = True
            with suppress(Exception):
                await outlast(serving, CLOSING_SECONDS)
            self._listening.close()

    async def _wait(self, serving: asyncio.Task[None]) -> None:
        """Wait for a request. Raises an error of the server."""
        self._came.clear()
        if not self._waiting:
            coming = asyncio.ensure_future(self._came.wait())
            try:
                await asyncio.wait([coming, serving], return_when=asyncio.FIRST_COMPLETED)
            finally:
                coming.cancel()
            if serving.done():
                serving.result()
                raise UsageError("the receiver has stopped listening")

    def close(self) -> None:
        """Stop listening, if nothing iterates over the receiver."""
        self._refuse()
        self._listening.close()

    def _refuse(self) -> None:
        """Answer waiting and all later requests with 503."""
        self._is_closed = True
        while self._waiting:
            _answer(self._waiting.popleft()[1], well=False)

    def _app(self) -> Any:
        from starlette.applications import Starlette
        from starlette.routing import Route

        routes = [Route("/v1/traces", self._take, methods=["POST"])]
        routes += [Route(f"/v1/{kind}", self._drop, methods=["POST"]) for kind in ("logs", "metrics")]
        return Starlette(routes=routes)

    async def _drop(self, request: Request) -> Response:
        from starlette.responses import Response

        self.dropped += 1
        if self.dropped == 1:
            LOGGER.warning(
                "%s of OpenTelemetry are accepted and dropped; only spans are evaluated", request.url.path
            )
        kind = request.headers.get("content-type", JSON)
        return Response(b"{}" if kind.startswith(JSON) else b"", media_type=kind)

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
            line = await run_in_thread(lambda: _line(kind, body))
            if self._is_closed:
                raise _Refused(503, "the receiver is closed")
            taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._waiting.append((line, taken))
            self._came.set()
            if not await taken:
                raise _Refused(503, "the receiver is closed")
        except _Refused as error:
            headers = {"Retry-After": RETRY_AFTER} if error.status == 503 else None
            return JSONResponse({"message": str(error)}, error.status, headers)
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
            raise _Refused(415, f"content encoding {encoding[:50]!r}; gzip, deflate and none are known")
        return await run_in_thread(lambda: _inflate(bytes(body), self._max_bytes))


def _answer(taken: asyncio.Future[bool], *, well: bool) -> None:
    if not taken.done():
        taken.set_result(well)


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
        except orjson.JSONDecodeError as error:
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
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        text = "protobuf needs the extra otel: pip install 'graphrag-eval-async[otel]'; or send JSON"
        raise _Refused(415, text) from None
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
        # Without the address once more, which `create_server` adds.
        number = error.errno if isinstance(error, OSError) else None
        why = error if number is None or number < 0 else os.strerror(number)
        raise UsageError(f"cannot listen on {host}:{port}: {why}") from None


def server_of(app: Any) -> Any:
    """A server that does not handle signals."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    return Server(config)
