"""Serves the pages of a dashboard over HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from contextlib import suppress
from datetime import UTC, datetime
from secrets import token_urlsafe
from time import monotonic
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

from graphrag_eval_async.errors import UsageError, check_extra
from graphrag_eval_async.helpers.connections import connection_limit
from graphrag_eval_async.helpers.threads import outlast
from graphrag_eval_async.monitor.board import RESULT_METRICS, list_of, result_at, results_of
from graphrag_eval_async.monitor.hosts import REFUSAL, HostCheck
from graphrag_eval_async.reports.evidence import outcome_of, result_names
from graphrag_eval_async.reports.kept import KEPT, KEPT_OF_REASON
from graphrag_eval_async.reports.overview import result_metrics
from graphrag_eval_async.reports.rendering import STATIC, render, static
from graphrag_eval_async.sources.receiving import listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from graphrag_eval_async.monitor.board import Board, Page

TOKEN = "GRAPHRAG_EVAL_WEB_TOKEN"  # noqa: S105
"""The environment variable with the secret in addresses that other machines can reach."""

PING_SECONDS = 15.0
"""Time without news after which a comment keeps the connection open."""

CLOSING_SECONDS = 0.5
"""How long connections may take to end by themselves, and then how long after being told to."""

MAX_CLIENTS = 200
"""Maximum number of browsers that get updates."""

CLIENTS_SHARE = 0.75
"""Share of the connections that updates may take; the others are for loading pages."""

MAX_DIGITS = 18
"""Maximum digits of a number in an address: it fits into 64 bits."""

MAX_OTHERS = 20
"""Maximum number of other results of a question that the page of a result lists."""

TITLES = {"templates": "Templates", "worst": "Worst results", "latest": "Latest results"}
"""Titles of the pages that have a name in their address."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class DashboardServer:
    """Serves the pages of a board on the event loop of the run, read-only.

    Attributes:
        url: the address to open. It has a secret token unless only this machine can reach it.
    """

    def __init__(self, host: str, port: int) -> None:
        """Listen on a host and a port from now on; pages are answered from `start` on."""
        check_extra("a dashboard", "web", "jinja2", "starlette", "uvicorn")
        self._check = HostCheck(host)
        self._base = "" if self._check.is_local else f"/{_secret_token()}"
        self._listening = listen(host, port)
        shown_host = self._check.name
        if host in {"0.0.0.0", "::"}:  # noqa: S104  (compared only)
            # All addresses of this machine: nobody can open such an address.
            shown_host = socket.gethostname()
        bound_port = self._listening.getsockname()[1]
        self.url = f"http://{shown_host}:{bound_port}{self._base}/"
        self._clients = 0
        self._max_clients = min(MAX_CLIENTS, int(connection_limit() * CLIENTS_SHARE))
        self._board: Board
        self._scanning = asyncio.Lock()
        self._closing = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._listening.close()

    async def run(self, work: Coroutine[Any, Any, None], board: Board) -> None:
        """Await `work` while the pages of `board` are served; then close."""
        self.start(board)
        try:
            await work
        finally:
            await self.aclose()

    def start(self, board: Board) -> None:
        """Answer requests with the pages of `board` from now on; needs a running event loop."""
        from starlette.applications import Starlette
        from starlette.routing import Mount, Route

        from graphrag_eval_async.helpers.web_server import WebServer

        self._board = board
        board.base = self._base
        routes: list[Route | Mount] = [
            Route("/", self._named),
            Route("/events", self._events),
            Route("/results/at/{number}", self._stored),
            Route("/results/{number}", self._result),
            Route("/question", self._question),
            Route("/template", self._template),
            Route("/failures", self._failures),
            Route("/{name:str}", self._named),
        ]
        if self._base:
            routes = [Mount(self._base, routes=routes)]
        app = Starlette(routes=routes)
        self._server = WebServer(_guarded(app, self._check), self._listening, "live page")
        self._serving = asyncio.create_task(self._server.serve())

    async def aclose(self) -> None:
        """End all connections and stop listening."""
        self._closing.set()
        if self._serving is not None:
            # Browsers get the final numbers, if they take them at once.
            self._server.should_exit = True
            with suppress(Exception):
                await outlast(self._serving, CLOSING_SECONDS)
            self._server.force_exit = True
            with suppress(Exception):
                await outlast(self._serving, CLOSING_SECONDS)
        self._listening.close()

    def _page(
        self, title: str, content: str, events: str | None = None, status: int = 200
    ) -> Response:
        """Return the response with a whole page.

        Args:
            title: its title.
            content: HTML that templates have rendered.
            events: the address of its updates; None if it has none.
            status: the HTTP status.
        """
        from markupsafe import Markup
        from starlette.responses import HTMLResponse

        html = render(
            "page.html",
            title=title,
            content=Markup(content),  # noqa: S704  (rendered by templates)
            base=self._base,
            events=events,
            has_ended=self._board.has_ended,
        )
        # A lone surrogate of a result has no UTF-8.
        return HTMLResponse(html.encode("utf-8", "backslashreplace"), status)

    def _not_found(self, text: str) -> Response:
        """Return the response to a request for a page that does not exist, with the reason."""
        return self._page("Not found", list_of(text, (), (), self._base), status=404)

    async def _live(self, page: Page, title: str, /, **query: str) -> Response:
        """Return the response with a page that updates itself.

        Args:
            page: the page.
            title: its title.
            query: what the events of the page are asked for with; nothing for the first page.
        """
        events = f"{self._base}/events"
        if query:
            events += f"?{urlencode(query, errors='surrogatepass')}"
        content, _ = await page.content()
        return self._page(title, content, events)

    async def _named(self, request: Request) -> Response:
        """Return the first page, another page with a fixed address, or a file that pages load."""
        from starlette.responses import Response

        name = request.path_params.get("name", "")
        if name in STATIC:
            return Response(static(name), media_type=STATIC[name])
        if not name:
            return await self._live(self._board.pages[""], self._board.title)
        if name in self._board.pages:
            return await self._live(self._board.pages[name], TITLES[name], page=name)
        return self._not_found("There is no such page.")

    async def _template(self, request: Request) -> Response:
        """Return the page of the questions of a template."""
        template = request.query_params.get("id", "")
        page = self._board.of_template(template)
        return await self._live(page, f"Questions of {template}", template=template)

    async def _failures(self, request: Request) -> Response:
        """Return the page of the results that failed for a reason."""
        reason = request.query_params.get("reason", "")
        page = self._board.of_reason(reason)
        return await self._live(page, f"Failures: {reason}", reason=reason)

    async def _events(self, request: Request) -> Any:
        """Return the stream of updates of a page, as server-sent events."""
        from starlette.responses import PlainTextResponse, StreamingResponse

        query = request.query_params
        page = self._board.pages.get(query.get("page", ""))
        if "template" in query:
            page = self._board.of_template(query["template"])
        elif "reason" in query:
            page = self._board.of_reason(query["reason"])
        if page is None:
            return self._not_found("There is no such page.")
        if self._clients >= self._max_clients:
            return PlainTextResponse("too many clients", 503, {"Retry-After": "10"})
        # Counted here, not when the stream begins: many may ask at once.
        self._clients += 1
        response = StreamingResponse(self._snapshots(page), media_type="text/event-stream")

        async def counted_response(scope: Any, receive: Any, send: Any) -> None:
            try:
                await response(scope, receive, send)
            finally:
                self._clients -= 1

        return counted_response

    async def _snapshots(self, page: Page) -> AsyncIterator[bytes]:
        """Yield events for a browser: whole snapshots of a page, and whether the run has ended.

        A snapshot that a slow client did not fetch in time is left out; the next one has it all.
        """
        sent = b""
        sent_at = monotonic()
        told_end = False
        while True:
            is_closing = self._closing.is_set()
            if is_closing:
                # What came since the last snapshot would otherwise never be seen.
                page.expire()
            if self._board.has_ended and not told_end:
                told_end = True
                yield b"event: ended\ndata: Ended\n\n"
            _, line = await page.content()
            if line != sent:
                sent = line
                sent_at = monotonic()
                yield b"data: %b\n\n" % line
            elif monotonic() - sent_at > PING_SECONDS:
                sent_at = monotonic()
                yield b": nothing new\n\n"
            if is_closing:
                if not told_end:
                    yield b"event: ended\ndata: Stopped\n\n"
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(page.pause):
                    await self._closing.wait()

    async def _result(self, request: Request) -> Response:
        """Return the page of a result that is kept, by its number in the run."""
        entry = self._board.kept.find(_number(request))
        if entry is None:
            text = (
                f"This result has no page any more: only the latest {KEPT}, the worst {KEPT} and "
                f"the latest {KEPT_OF_REASON} of each reason of failure have one."
            )
            if self._board.output:
                text += " The page of its question lists all of its results."
            return self._not_found(text)
        if entry.evaluation is None:
            return self._not_found(
                "The result is too large to be kept. It is in the file of results."
            )
        result = entry.evaluation.as_dict()
        others = [row for row in self._rows_of_question(result) if row["number"] != entry.number]
        return await asyncio.to_thread(self._one_result, result, others)

    async def _stored(self, request: Request) -> Response:
        """Return the page of a result in the file of results, by its place in bytes."""
        result = None
        if self._board.output is not None:
            result = await asyncio.to_thread(result_at, self._board.output, _number(request))
        if result is None:
            return self._not_found(
                "The file of results (-o), if the run writes one, has no result here."
            )
        return await asyncio.to_thread(self._one_result, result, self._rows_of_question(result))

    def _rows_of_question(self, result: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the rows of the kept results of the same question, the latest first."""
        question = result.get("question_id")
        if not isinstance(question, str):
            return []
        return [entry.row for entry in self._board.kept.of_question(question)]

    def _one_result(
        self, result: Mapping[str, Any], others: Sequence[Mapping[str, Any]]
    ) -> Response:
        """Render the page of a result; `others` are rows of the same question."""
        content = render(
            "_one_result.html",
            **result_names(result),
            outcome=outcome_of(result),
            others=others[:MAX_OTHERS],
            other_metrics=result_metrics(others, RESULT_METRICS),
            base=self._base,
        )
        return self._page(str(result.get("question_id")), content)

    async def _question(self, request: Request) -> Response:
        """Return the page of the results of a question: those in the file or, without one, those
        that are kept.
        """
        question = request.query_params.get("id", "")
        output = self._board.output
        if output is None:
            place = f"among those kept, the latest {KEPT} and the worst {KEPT}"
            rows = [entry.row for entry in self._board.kept.of_question(question)]
        else:
            place = f"in {os.path.basename(output)}"
            # A scan of a large file takes a thread for seconds, so there is one at a time.
            async with self._scanning:
                rows = await asyncio.to_thread(results_of, output, question)
        if not rows:
            return self._not_found(f"There is no result of question {question} {place}.")

        sentence = place[0].upper() + place[1:]
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        note = f"{sentence}. As of {now} UTC; reload the page for later results."
        content = await asyncio.to_thread(list_of, note, rows, (), self._base)
        return self._page(f"Results of {question}", content)


def _guarded(app: Any, check: HostCheck) -> Any:
    """Return an ASGI application that serves `app` to permitted requests only.

    Requests under another host name or from pages of other sites are refused. All responses get
    `HEADERS`.
    """
    from starlette.responses import PlainTextResponse

    extra_headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *extra_headers]}
            await send(message)

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        responder = app
        if check.refuses(headers.get(b"host", ""), headers.get(b"origin")):
            responder = PlainTextResponse(REFUSAL, 403)
        await responder(scope, receive, send_with_headers)

    return guarded


def _number(request: Request) -> int:
    """Return the number in the address of a result; -1 if it is none, or has too many digits."""
    text = request.path_params["number"]
    if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS:
        return int(text)
    return -1


def _secret_token() -> str:
    """Return the secret of the address: that in the environment, which outlasts a restart, or a
    random one.

    Raises:
        UsageError: the one in the environment is easy to guess, or cannot be part of an address.
    """
    token = os.environ.get(TOKEN)
    if token is None:
        return token_urlsafe(18)
    if not re.fullmatch(r"[A-Za-z0-9_-]{16,200}", token):
        raise UsageError(
            f"the environment variable {TOKEN} needs 16 to 200 letters, digits, - and _, such as "
            "`openssl rand -hex 16` prints"
        )
    return token
