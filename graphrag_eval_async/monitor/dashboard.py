"""A page in the browser that shows a run live."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn, Self

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.confidence import check_level
from graphrag_eval_async.monitor.alerts import NO_LINES, check_known, parse_alert
from graphrag_eval_async.monitor.board import Board
from graphrag_eval_async.monitor.counting import LOOK_SECONDS, Counting
from graphrag_eval_async.monitor.dashboard_server import DashboardServer
from graphrag_eval_async.monitor.facts import Facts
from graphrag_eval_async.removed import without_removed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from graphrag_eval_async.aggregates import Seconds
    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.stream import EvaluationStream


class Dashboard:
    """A stream of results that are also shown in the browser, while the context is open.

    An asynchronous context manager and iterator, in place of the stream::

        async with Dashboard(evaluate_stream(reference, responses)) as dashboard:
            print(dashboard.url)
            async for result in dashboard:
                ...

    Needs the extra ``web``. The pages are served on the event loop of the run; the stream never
    waits for a browser. If other machines can reach the port, the address has a random token, and
    anyone with the address can read the results. Nothing is encrypted unless a proxy does it.

    Attributes:
        url: the address to open, such as ``http://127.0.0.1:8080/``.
    """

    @without_removed("baseline")
    def __init__(
        self,
        stream: EvaluationStream,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        window: Last | Seconds | None = None,
        alerts: Iterable[str] = (),
        level: float = 0.95,
        title: str = "Evaluation",
        output: str | None = None,
    ) -> None:
        """Listen from now on.

        Args:
            stream: the stream; no result has been taken of it yet.
            host: host name or address to listen on.
            port: port to listen on; 0 selects a free one.
            window: which results count as recent. Default: the last 200.
            alerts: conditions such as ``steps_score < 0.8 over 200``, as in ``watch --alert``.
            level: confidence level of the intervals, which are valid at any time.
            title: title of the page.
            output: file in which you keep the results, JSONL, to list all results of a question.

        Raises:
            UsageError: a package is missing, an argument has an invalid value, an alert is on a
                template or a metric that does not exist, or the port cannot be opened.
        """
        try:
            parsed = [parse_alert(text) for text in alerts]
        except ValueError as error:
            raise UsageError(f"alerts: {error}") from None
        check_level(level)
        for alert in parsed:
            metric = None if alert.metric == NO_LINES else alert.metric
            check_known("alerts", alert.template, metric, stream.reference.templates)
        self._stream = stream
        self._counting = Counting(window or Last(200), "last", parsed)
        stream.tell_restored(self._counting.restore)
        stream._observe(self._counting.add)
        self._board = Board(
            Facts(stream, self._counting, level=level), self._counting, title, output
        )
        self._looking: asyncio.Task[NoReturn] | None = None
        self._server = DashboardServer(host, port)
        self.url = self._server.url

    @property
    def aggregates(self) -> RunningAggregates:
        """Running aggregates of the stream."""
        return self._stream.aggregates

    async def __aenter__(self) -> Self:
        """Serve the page, watch the alerts, and enter the stream."""
        self._server.start(self._board)
        if self._counting.alerts.states():
            self._looking = asyncio.create_task(self._look())
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        """Stop the server, and close the stream."""
        if self._looking is not None:
            self._looking.cancel()
        try:
            await self._server.aclose()
        finally:
            await self._stream.__aexit__(*exc_info)

    async def _look(self) -> NoReturn:
        """Start and end, once a second, the alerts that change with time alone."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._stream.is_restored:
                self._counting.look(self._stream)

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        return self._stream

    async def __anext__(self) -> dict[str, Any]:
        return await anext(self._stream)
