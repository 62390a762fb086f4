"""What the pages of a dashboard show: rendered at most twice a second, however many people look."""

from __future__ import annotations

import asyncio
import json
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from graphrag_eval_async.monitor.counting import is_wrong
from graphrag_eval_async.monitor.facts import Facts, complete
from graphrag_eval_async.monitor.history import History
from graphrag_eval_async.monitor.kept import KEPT, KeptResults
from graphrag_eval_async.monitor.overview import LISTED, overview, result_metrics
from graphrag_eval_async.monitor.rendering import render
from graphrag_eval_async.monitor.wording import VALIDITY
from graphrag_eval_async.monitor.worst import OF_TEMPLATE, questions_in_slices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from graphrag_eval_async.monitor.counting import Counting
    from graphrag_eval_async.monitor.worst import WorstQuestion

UPDATE_SECONDS = 0.5
"""Least time between two updates of a page."""

RENDER_SHARE = 0.1
"""The share of the time that rendering may take: with thousands of templates, pages update less often."""

RESULT_METRICS = 4
"""How many metrics lists of results show."""

MAX_LIST_BYTES = 85_000
"""Maximum size of a list that updates itself: it is sent to each browser at each update."""


class Page:
    """What a page shows, rendered at most twice a second, however many people look.

    Attributes:
        pause: the least time between two updates in seconds.
    """

    def __init__(self, render: Callable[[], Awaitable[str]]) -> None:
        self._render = render
        self._lock = asyncio.Lock()
        self._rendered = (-inf, "")
        self._event: tuple[str, bytes] = ("", b"")
        self.pause = UPDATE_SECONDS

    async def content(self) -> str:
        """The content as it was at most `pause` seconds ago."""
        async with self._lock:
            if monotonic() - self._rendered[0] >= self.pause:
                start = monotonic()
                html = await self._render()
                self._rendered = monotonic(), html
                self.pause = max(UPDATE_SECONDS, (monotonic() - start) / RENDER_SHARE)
            return self._rendered[1]

    def event(self, content: str) -> bytes:
        """Content as one line of JSON, encoded once for all clients."""
        if self._event[0] is not content:
            self._event = content, _encoded(content)
        return self._event[1]


class Board:
    """What the pages of a run show.

    Attributes:
        base: what the addresses of pages begin with.
        pages: the overview, with an empty name, and the lists of results.
    """

    def __init__(
        self,
        facts: Facts,
        counting: Counting,
        title: str,
        output: str | None = None,
    ) -> None:
        """Create a board."""
        self.title = title
        self.output = output
        self.base = ""
        self.pages = {"": Page(self._overview), "worst": Page(self._worst), "latest": Page(self._latest)}
        # Those that somebody looks at.
        self._templates: WeakValueDictionary[str, Page] = WeakValueDictionary()
        self.kept = KeptResults()
        self._history = History(counting.window)
        counting.on_result = self._add
        self._alerts = counting.alerts
        self._facts = facts

    def _add(self, result: Mapping[str, Any], short: Mapping[str, Any], restored: bool) -> None:
        self.kept.add(result, short)
        self._history.add(short, restored=restored)

    def of_template(self, name: str) -> Page:
        """The page of the questions of a template."""

        async def render() -> str:
            scores = await questions_in_slices(self._facts.aggregates, name)
            questions = self.kept.reasons.rows(scores)
            note = f"The worst first, at most {OF_TEMPLATE}; an error counts as 0."
            empty = f"No question of template {name} has a score or an error yet."
            return await self._listed(note if questions else empty, questions=questions)

        return self._templates.setdefault(name, Page(render))

    async def _worst(self) -> str:
        wrong = [*filter(is_wrong, self.kept.worst.facts())]
        note = f"Errors first, then the lowest scores; at most {KEPT} results."
        return await self._listed(note if wrong else "None yet.", wrong)

    async def _latest(self) -> str:
        latest = self.kept.latest.facts()
        note = f"The latest first, at most {KEPT} results."
        return await self._listed(note if latest else "None yet.", latest)

    async def _listed(
        self, note: str, results: Sequence[Mapping[str, Any]] = (), questions: Sequence[WorstQuestion] = ()
    ) -> str:
        """A list, or the first rows of it if all of them were too large to be sent."""

        def rendered() -> str:
            shown = max(len(results), len(questions))
            html = list_of(note, results, questions, self.base)
            while (size := len(_encoded(html))) > MAX_LIST_BYTES and shown:
                shown = shown * MAX_LIST_BYTES // size
                more = f"{note} The first {shown} fit on this page."
                html = list_of(more, results[:shown], questions[:shown], self.base)
            return html

        return await asyncio.to_thread(rendered)

    async def _overview(self) -> str:
        if not self._facts.is_restored:
            return render("_restoring.html", count=self.kept.count)
        await self._facts.prepare()
        facts, reasons = self._facts.collect(), self.kept.reasons
        worst = reasons.rows(await questions_in_slices(self._facts.aggregates))
        latest, courses = self.kept.latest.facts(), self._history.courses()
        names = {
            "base": self.base,
            "results": latest[:LISTED],
            "results_title": "Latest results",
            "result_metrics": result_metrics(latest, RESULT_METRICS),
            "alert_log": [*self._alerts.log],
            "alert_states": self._alerts.states(),
            "validity": VALIDITY["anytime"],
        }

        def rendered() -> str:
            complete(facts)
            return render("_overview.html", **overview(facts, worst, reasons, courses), **names)

        return await asyncio.to_thread(rendered)


def list_of(
    note: str, results: Sequence[Mapping[str, Any]], questions: Sequence[WorstQuestion], base: str
) -> str:
    """The content of a page with a table of results or questions."""
    metrics = result_metrics(results, RESULT_METRICS)
    names = {"results": results, "result_metrics": metrics, "questions": questions, "base": base}
    return render("_list.html", note=note, **names)


def _encoded(content: str) -> bytes:
    # A lone surrogate becomes an escape, which JSON allows.
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace")
