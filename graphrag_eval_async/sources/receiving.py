"""Receives OpenTelemetry spans by OTLP over HTTP, from any instrumented agent."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import zlib
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import orjson

from graphrag_eval_async.errors import UsageError, check_extra, check_integer, needs
from graphrag_eval_async.helpers.threads import CLOSING_SECONDS, outlast, run_in_thread
from graphrag_eval_async.records.line import MAX_LINE_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request
    from starlette.responses import Response

MAX_WAITING = 64
"""Maximum number of requests in progress or waiting; more are answered 503."""

RETRY = {"Retry-After": "1"}
"""Header of an answer 503, in seconds."""

JSON = "application/json"
PROTOBUF = "application/x-protobuf"

ID_KEYS = ("traceId", "spanId", "parentSpanId")
"""Keys of the ids of a span: in base64 where protobuf is converted to JSON, in hex in OTLP."""

MAX_PORT = (1 << 16) - 1

ANY_HEADER = zlib.MAX_WBITS | 32
"""For zlib: the largest window, with the header of gzip or of zlib, whichever it is."""

SHOWN_CHARACTERS = 50
"""Maximum length of what answers quote of a header."""


class _RefusedRequest(Exception):  # noqa: N818
    """A request that is refused, with the status and the text of the answer."""

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
    if type(port) is not int or not 0 <= port <= MAX_PORT:
        raise UsageError(f"port: expected an integer from 0 to {MAX_PORT}, got {port!r}")
    return OtlpReceiver(listen(host, port), max_waiting, max_request_bytes)


class OtlpReceiver:
    """An HTTP server that yields the spans of each request as a line of OTLP in JSON.

    Made by `receive_otlp`. It can be iterated over once.

    Attributes:
        host: the address that it listens on.
        port: the port that it listens on.
    """

    def __init__(self, listening: socket.socket, max_waiting: int, max_bytes: int) -> None:
        """Create a receiver.

        Args:
            listening: a socket that listens; closed at the end.
            max_waiting: maximum number of requests in progress or waiting.
            max_bytes: maximum size of a request body in bytes.
        """
        self.host, self.port = listening.getsockname()[:2]
        self._listening = listening
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._requests_in_progress = 0
        # Without a buffer, so that sending a line waits until it is taken.
        self._send, self._lines = anyio.create_memory_object_stream[bytes](0)

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        """Serve requests, and yield a line for each one.

        A request is answered once its line is taken.
        """
        from starlette.applications import Starlette
        from starlette.routing import Route

        from graphrag_eval_async.helpers.web_server import WebServer

        is_closed = self._listening.fileno() < 0
        if is_closed:
            raise UsageError("the receiver is closed; make another with receive_otlp")
        route = Route("/v1/traces", self._answer, methods=["POST"])
        server = WebServer(Starlette(routes=[route]), self._listening, "OTLP receiver")
        serving = asyncio.create_task(server.serve())
        # If the server ends by itself, end the loop below instead of waiting for ever.
        serving.add_done_callback(lambda _: self._send.close())
        try:
            async for line in self._lines:
                yield line
            raise UsageError("the receiver has stopped listening")
        finally:
            self._lines.close()
            server.should_exit = True
            server.force_exit = True
            with suppress(Exception):
                await outlast(serving, CLOSING_SECONDS)
            self.close()

    def close(self) -> None:
        """Stop listening. Requests that wait, or that still come, are answered 503."""
        self._lines.close()
        self._send.close()
        self._listening.close()

    async def _answer(self, request: Request) -> Response:
        """Answer a request: 200 once its spans are taken, or an error."""
        from starlette.requests import ClientDisconnect
        from starlette.responses import JSONResponse, Response

        content_type = request.headers.get("content-type", "")
        media_type = content_type.partition(";")[0].strip().lower()
        self._requests_in_progress += 1
        try:
            await self._accept(request, media_type)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return JSONResponse({"message": "the receiver is closed"}, 503, RETRY)
        except _RefusedRequest as error:
            headers = None
            if error.status == 503:
                headers = RETRY
            return JSONResponse({"message": str(error)}, error.status, headers)
        except ClientDisconnect:
            # The client is gone, so nobody reads this answer.
            return Response(status_code=400)
        finally:
            self._requests_in_progress -= 1

        # OTLP answers with an empty object of the media type of the request. In protobuf, an empty
        # object has no bytes.
        body = b""
        if media_type == JSON:
            body = b"{}"
        return Response(body, media_type=media_type)

    async def _accept(self, request: Request, media_type: str) -> None:
        """Read a request, convert it to a line, and wait until the line is taken.

        Raises:
            _RefusedRequest: too many requests wait, or this one is invalid.
        """
        if self._requests_in_progress > self._max_waiting:
            raise _RefusedRequest(503, "too many requests wait; try again")
        body = await self._read_body(request)
        line = await run_in_thread(partial(_line_of_json, media_type, body))
        await self._send.send(line)

    async def _read_body(self, request: Request) -> bytes:
        """Return the body of a request, decompressed.

        Raises:
            _RefusedRequest: the body is too large, damaged, or compressed in another way.
        """
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > self._max_bytes:
                raise _RefusedRequest(413, f"more than {self._max_bytes} bytes")

        encoding = request.headers.get("content-encoding", "identity").lower()
        if encoding == "identity":
            return bytes(body)
        if encoding not in ("gzip", "deflate"):
            name = encoding[:SHOWN_CHARACTERS]
            raise _RefusedRequest(
                415, f"content encoding {name!r}; gzip, deflate and none are known"
            )
        return await run_in_thread(partial(_decompress, bytes(body), self._max_bytes))


def _decompress(data: bytes, max_bytes: int) -> bytes:
    """Return the text of gzip or deflate data.

    Raises:
        _RefusedRequest: the data are damaged, or the text has more than `max_bytes`.
    """
    decompressor = zlib.decompressobj(ANY_HEADER)
    try:
        # Decompress at most one byte over the limit, which shows that there is too much.
        text = decompressor.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise _RefusedRequest(400, f"neither gzip nor deflate: {error}") from None
    if len(text) > max_bytes:
        raise _RefusedRequest(413, f"more than {max_bytes} bytes once decompressed")
    is_cut_off = not decompressor.eof
    if is_cut_off or decompressor.unused_data:
        raise _RefusedRequest(400, "compressed data that are cut off, or have more after their end")
    return text


def _line_of_json(media_type: str, body: bytes) -> bytes:
    """Convert the body of a request to a line of OTLP in JSON.

    Args:
        media_type: the type of the body, without parameters.
        body: the body, decompressed.

    Raises:
        _RefusedRequest: the body is not a request of OTLP, or the media type is unknown.
    """
    if media_type == JSON:
        try:
            request = orjson.loads(body)
        except ValueError as error:
            raise _RefusedRequest(400, f"not JSON: {error}") from None
    elif media_type == PROTOBUF:
        request = _read_protobuf(body)
    else:
        name = media_type[:SHOWN_CHARACTERS]
        raise _RefusedRequest(415, f"content type {name!r}; {JSON} and {PROTOBUF} are known")

    spans = _resource_spans(request)
    if not isinstance(spans, list):
        raise _RefusedRequest(
            400, "not a request of OTLP: an object with resourceSpans was expected"
        )
    return orjson.dumps({"resourceSpans": spans})


def _resource_spans(request: Any) -> Any:
    """Return the ``resourceSpans`` of a request of OTLP; None if it has none.

    Older exporters name this key ``resource_spans``.
    """
    if not isinstance(request, dict):
        return None
    if not request:
        # In the JSON of protobuf, a request without spans is an empty object.
        return []
    return request.get("resourceSpans", request.get("resource_spans"))


def _read_protobuf(body: bytes) -> Any:
    """Convert a request of OTLP in protobuf to its JSON object.

    Raises:
        _RefusedRequest: the body is not such a request, or packages are missing.
    """
    try:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )
    except ImportError:
        raise _RefusedRequest(415, f"protobuf {needs('otel')}; or send JSON") from None
    try:
        request = MessageToDict(ExportTraceServiceRequest.FromString(body))
    except (DecodeError, ValueError) as error:
        raise _RefusedRequest(400, f"not a request of OTLP: {error}") from None

    # OTLP in JSON has ids in hex, unlike other protobuf in JSON.
    for resource in request.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                for key in ID_KEYS:
                    if key in span:
                        span[key] = base64.b64decode(span[key]).hex()
    return request


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address and a port.

    Raises:
        UsageError: the address or the port cannot be used.
    """
    family = socket.AF_INET
    if ":" in host:
        family = socket.AF_INET6
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason: object = error
        number = getattr(error, "errno", None)
        # Errors of name resolution have negative numbers, which `strerror` does not know.
        is_system_error = number is not None and number > 0
        if number is not None and is_system_error:
            # The text of the error itself would repeat the address.
            reason = os.strerror(number)
        raise UsageError(f"cannot listen on {host}:{port}: {reason}") from None
