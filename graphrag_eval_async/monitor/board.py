"""What the pages of a dashboard show: rendered at most twice a second, however many people look."""

from __future__ import annotations

import asyncio
import json
from time import monotonic
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.monitor.facts import Facts, complete
from graphrag_eval_async.monitor.history import History
from graphrag_eval_async.monitor.kept import KeptResults
from graphrag_eval_async.monitor.overview import LISTED, overview, result_metrics
from graphrag_eval_async.monitor.rendering import render
from graphrag_eval_async.monitor.wording import VALIDITY
from graphrag_eval_async.monitor.worst import WorstQuestion, questions_in_slices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.monitor.counting import Counting

UPDATE_SECONDS = 0.5
"""Least time between two updates of a page."""

RENDER_SHARE = 0.1
"""The share of the time that rendering may take: with thousands of templates, pages update less often."""

RESULT_METRICS = 4
"""How many metrics lists of results show."""


class Board:
    """What the pages show, rendered at most twice a second, however many people look."""

    def __init__(
        self,
        facts: Facts,
        counting: Counting,
        title: str,
        output: str | None = None,
        has_begun: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create a board.

        Args:
            facts: the state of the run.
            counting: counts its results.
            title: title of the page.
            output: the file that has all results, if there is one.
            has_begun: says whether the results of an earlier run are restored.
        """
        self._has_begun = has_begun
        self.title = title
        self.output = output
        self.kept = KeptResults()
        self._history = History(counting.window)
        counting.on_result = self._add
        self._alerts = counting.alerts
        self._facts = facts
        self._lock = asyncio.Lock()
        self._rendered: tuple[float, str] | None = None
        self.pause = UPDATE_SECONDS
        self._event: tuple[str, bytes] = ("", b"")

    def _add(self, result: Mapping[str, Any], short: Mapping[str, Any], restored: bool) -> None:
        self.kept.add(result, short)
        self._history.add(short, restored=restored)

    async def questions_of(self, template: str) -> Sequence[WorstQuestion]:
        """The questions of a template, the worst first."""
        return self.kept.reasons.rows(await questions_in_slices(self._facts.aggregates, template))

    async def overview(self, base: str) -> str:
        """The content of the first page, as it was at most `pause` seconds ago."""
        async with self._lock:
            if self._rendered is None or monotonic() - self._rendered[0] >= self.pause:
                start = monotonic()
                html = await self._render(base)
                self._rendered = monotonic(), html
                self.pause = max(UPDATE_SECONDS, (monotonic() - start) / RENDER_SHARE)
            return self._rendered[1]

    def event(self, content: str) -> bytes:
        """Content as one line of JSON, encoded once for all clients."""
        if self._event[0] is not content:
            self._event = content, json.dumps(content).encode()
        return self._event[1]

    async def _render(self, base: str) -> str:
        if not self._has_begun():
            return render("_restoring.html", count=self.kept.count)
        await self._facts.prepare()
        facts, reasons = self._facts.collect(), self.kept.reasons
        worst = reasons.rows(await questions_in_slices(self._facts.aggregates))
        latest, courses = self.kept.latest.facts(), self._history.courses()
        names = {
            "base": base,
            "results": latest[:LISTED],
            "results_title": "Latest results",
            "result_metrics": result_metrics(latest, RESULT_METRICS),
            "alert_log": [*self._alerts.log],
            "alert_states": self._alerts.states(),
            "validity": VALIDITY["anytime"],
        }

        def rendered() -> str:
            complete(facts)
            return render("_overview.html", **overview(facts, worst, courses, reasons.error), **names)

        return await asyncio.to_thread(rendered)
