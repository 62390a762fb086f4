"""What the pages of a running evaluation show."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import suppress
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import orjson

from graphrag_eval_async.errors import AggregationError
from graphrag_eval_async.monitor.facts import COURSES, Facts, complete
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.reports.kept import KEPT, entry_of
from graphrag_eval_async.reports.overview import LISTED, overview, result_metrics
from graphrag_eval_async.reports.rendering import render
from graphrag_eval_async.reports.wording import VALIDITY
from graphrag_eval_async.reports.worst import OF_TEMPLATE, explained, questions_in_slices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from graphrag_eval_async.monitor.counting import Counting
    from graphrag_eval_async.reports.kept import Entry
    from graphrag_eval_async.reports.worst import WorstQuestion

UPDATE_SECONDS = 0.5  # Least time between two updates of a page.

RENDER_SHARE = 0.1
"""The share of the time that rendering may take: with thousands of templates, pages update less
often.
"""

RESULT_METRICS = 4  # How many metrics lists of results show.

MAX_LINE_BYTES = 1 << 25


class Page:
    """What a page shows, rendered at most once every `pause` seconds, however many browsers are
    open.
    """

    def __init__(self, render: Callable[[], Awaitable[str]]) -> None:
        self._render = render
        self._lock = asyncio.Lock()
        self._rendered = (-inf, "", b"")
        self.pause = UPDATE_SECONDS

    async def content(self) -> tuple[str, bytes]:
        """The content as it was at most `pause` seconds ago, and the same as one line of JSON."""
        async with self._lock:
            if (start := monotonic()) - self._rendered[0] >= self.pause:
                html = await self._render()
                # A lone surrogate becomes an escape, which JSON allows.
                line = json.dumps(html, ensure_ascii=False).encode("utf-8", "backslashreplace")
                self._rendered = monotonic(), html, line
                self.pause = max(UPDATE_SECONDS, (monotonic() - start) / RENDER_SHARE)
            return self._rendered[1:]


class Board:
    """What the pages of a run show; `output` is the file that has all results, `base` begins
    addresses.
    """

    def __init__(
        self, facts: Facts, counting: Counting, title: str, output: str | None = None
    ) -> None:
        self.title, self.output, self.base = title, output, ""
        self.kept = kept = counting.kept
        worst = partial(
            self._results, "Errors first, then the lowest scores", partial(kept.worst, below=1)
        )
        latest = partial(self._results, "The latest first", lambda: kept.latest)
        self.pages = {"": Page(self._overview), "worst": Page(worst), "latest": Page(latest)}
        # Those that somebody looks at.
        self._templates: WeakValueDictionary[str, Page] = WeakValueDictionary()
        self._alerts = counting.alerts
        self._facts = facts

    def of_template(self, name: str) -> Page:
        """The page of the questions of a template."""
        return self._templates.setdefault(name, Page(partial(self._questions, name)))

    async def _questions(self, template: str) -> str:
        questions = explained(
            self.kept.reasons, await questions_in_slices(self._facts.stream.aggregates, template)
        )
        note = f"The worst first, at most {OF_TEMPLATE}; an error counts as 0."
        empty = f"No question of template {template} has a score or an error yet."
        return await asyncio.to_thread(
            list_of, note if questions else empty, (), questions, self.base
        )

    async def _results(self, order: str, of: Callable[[], Iterable[Entry]]) -> str:
        rows = [each.row for each in of()]
        note = f"{order}; at most {KEPT} results." if rows else "None yet."
        return await asyncio.to_thread(list_of, note, rows, (), self.base)

    async def _overview(self) -> str:
        if not self._facts.stream.is_restored:
            return render("_restoring.html", count=self.kept.count)
        await self._facts.prepare()
        facts, reasons = self._facts.collect(), self.kept.reasons
        worst = explained(reasons, await questions_in_slices(self._facts.stream.aggregates))
        latest, courses = [each.row for each in self.kept.latest], facts[COURSES]
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


def result_at(path: str, offset: int) -> dict[str, Any] | None:
    """The result in the line that begins at `offset` bytes; None if none does."""
    with suppress(OSError, OverflowError, ValueError), open(path, "rb") as file:
        file.seek(max(0, offset - 1))
        if not offset or file.read(1) == b"\n":
            return _read(file.readline(MAX_LINE_BYTES))
    return None


def results_of(path: str, question_id: str) -> list[dict[str, Any]]:
    """The latest `KEPT` results of a question in a file, the latest first; `number` leads to
    their page.
    """
    offset, found = 0, deque[dict[str, Any]](maxlen=KEPT)
    wanted = orjson.dumps(question_id)
    with suppress(OSError), open(path, "rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            result = _read(line) if wanted in line else None
            if result is not None and result.get("question_id") == question_id:
                with suppress(AggregationError):
                    entry = entry_of(0, observe(result, include_errors=True))
                    found.appendleft(entry.row | {"number": f"at/{offset}"})
            offset += len(line)
    return [*found]


def _read(line: bytes) -> dict[str, Any] | None:
    with suppress(orjson.JSONDecodeError):
        result = orjson.loads(line)
        return result if isinstance(result, dict) else None
    return None
