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
from graphrag_eval_async.reports.group_tables import template_table
from graphrag_eval_async.reports.kept import KEPT, KEPT_OF_REASON, entry_of
from graphrag_eval_async.reports.overview import (
    PageSource,
    page_view,
    result_metrics,
)
from graphrag_eval_async.reports.rendering import render
from graphrag_eval_async.reports.wording import reason_in_words
from graphrag_eval_async.reports.worst import OF_TEMPLATE, explained, questions_in_slices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from graphrag_eval_async.monitor.counting import Counting
    from graphrag_eval_async.reports.kept import Entry
    from graphrag_eval_async.reports.worst import WorstQuestion

UPDATE_SECONDS = 0.5
"""Least time between two updates of a page."""

LEAST_SECONDS = 0.05
"""Least time between two updates of a page when the run ends, with many browsers open."""

RENDER_SHARE = 0.1
"""The share of the time that rendering may take: with thousands of templates, pages update less
often.
"""

RESULT_METRICS = 4
"""Maximum number of metrics that a list of results shows."""

NO_RESULTS = "None yet."

MAX_LINE_BYTES = 1 << 25
"""Maximum length of a line in a file of results, 32 MiB; the rest of a longer one is ignored."""


class Page:
    """What a page shows, rendered at most once every `pause` seconds, however many browsers are
    open.
    """

    def __init__(self, render: Callable[[], Awaitable[str]]) -> None:
        """Create a page whose HTML `render` returns; it is not rendered yet."""
        self._render = render
        self._lock = asyncio.Lock()
        self._rendered_at = -inf
        self._html = ""
        self._line = b""
        self.pause = UPDATE_SECONDS

    async def content(self) -> tuple[str, bytes]:
        """Return the HTML of the page, and the same as a line of JSON.

        The page is rendered again if it is older than `pause` seconds. The longer that takes, the
        longer is the next pause.
        """
        async with self._lock:
            start = monotonic()
            if start - self._rendered_at >= self.pause:
                self._html = await self._render()
                # A lone surrogate becomes an escape, which JSON allows.
                text = json.dumps(self._html, ensure_ascii=False)
                self._line = text.encode("utf-8", "backslashreplace")
                self._rendered_at = monotonic()
                seconds = self._rendered_at - start
                self.pause = max(UPDATE_SECONDS, seconds / RENDER_SHARE)
            return self._html, self._line

    def expire(self) -> None:
        """Render again at the next `content`, unless that was done a moment ago."""
        if monotonic() - self._rendered_at > LEAST_SECONDS:
            self._rendered_at = -inf


class Board:
    """What the pages of a run show.

    Attributes:
        title: title of the first page.
        output: the file that has all results; None if there is none.
        base: what addresses of pages begin with: empty, or a slash and the secret token.
        kept: the results that have a page.
        pages: the pages with a fixed address, by name; that of the first page is empty.
    """

    def __init__(
        self, facts: Facts, counting: Counting, title: str, output: str | None = None
    ) -> None:
        """Prepare the pages of a run.

        Args:
            facts: collects the facts of the run.
            counting: counts its results.
            title: title of the first page.
            output: the file that has all results; None if there is none.
        """
        self.title = title
        self.output = output
        self.base = ""
        self.kept = counting.kept
        self.pages = {
            "": Page(self._overview),
            "templates": Page(self._templates),
            "worst": Page(self._worst),
            "latest": Page(self._latest),
        }
        # Pages of one template or reason, as long as somebody looks at them.
        self._pages_of_templates: WeakValueDictionary[str, Page] = WeakValueDictionary()
        self._pages_of_reasons: WeakValueDictionary[str, Page] = WeakValueDictionary()
        self._counting = counting
        self._facts = facts

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended, so that pages no longer change."""
        return self._facts.stream._has_ended

    def of_template(self, name: str) -> Page:
        """Return the page of the questions of a template."""
        return self._pages_of_templates.setdefault(name, Page(partial(self._questions, name)))

    def of_reason(self, reason: str) -> Page:
        """Return the page of the results that failed for a reason."""
        return self._pages_of_reasons.setdefault(reason, Page(partial(self._failed, reason)))

    async def _overview(self) -> str:
        """Render the first page; while the journal is read, a page that says so."""
        if not self._facts.stream.is_restored:
            return render("_restoring.html", count=self.kept.count)
        await self._facts.prepare()
        facts = self._facts.collect()
        reasons = self.kept.reasons
        worst = await questions_in_slices(self._facts.stream.aggregates)
        # New results arrive while the thread renders, so it gets copies of what they change.
        source = PageSource(
            latest=[entry.row for entry in self.kept.latest],
            worst=explained(reasons, worst),
            not_run=reasons.not_run,
            reason_summaries=self.kept.failures.summaries(),
            recent_failures=[*self.kept.failures.recent],
            courses=facts[COURSES],
            timeline=self._counting.timeline.timeline(),
            alert_states=self._counting.alerts.states(),
            alert_log=[*self._counting.alerts.log],
        )

        def render_page() -> str:
            complete(facts)
            return render("_overview.html", page=page_view(facts, source), base=self.base)

        return await asyncio.to_thread(render_page)

    async def _templates(self) -> str:
        """Render the page of all templates; while the journal is read, a page that says so."""
        if not self._facts.stream.is_restored:
            return render("_restoring.html", count=self.kept.count)
        await self._facts.prepare()
        facts = self._facts.collect()
        courses = facts[COURSES]

        def render_page() -> str:
            complete(facts)
            table = template_table(facts, courses)
            return render("_templates.html", table=table, base=self.base)

        return await asyncio.to_thread(render_page)

    async def _questions(self, template: str) -> str:
        """Render the page of the questions of a template."""
        questions = explained(
            self.kept.reasons, await questions_in_slices(self._facts.stream.aggregates, template)
        )
        note = f"The worst first, at most {OF_TEMPLATE}; an error counts as 0."
        if not questions:
            note = f"No question of template {template} has a score or an error yet."
        return await asyncio.to_thread(list_of, note, (), questions, self.base)

    async def _failed(self, reason: str) -> str:
        """Render the page of the results that failed for a reason."""
        entries = self.kept.of_reason(reason)
        note = (
            f"{reason_in_words(reason)}. The latest first. Kept are the latest {KEPT_OF_REASON} of "
            f"each reason, and those among the latest {KEPT} and the worst {KEPT} results."
        )
        if not entries:
            note = f"No result failed for the reason {reason} so far."
        return await self._list_results(note, entries)

    async def _worst(self) -> str:
        """Render the page of the worst results."""
        entries = self.kept.worst(below=1)
        note = f"Errors first, then the lowest scores; at most {KEPT} results."
        return await self._list_results(note if entries else NO_RESULTS, entries)

    async def _latest(self) -> str:
        """Render the page of the latest results."""
        entries = [*self.kept.latest]
        note = f"The latest first; at most {KEPT} results."
        return await self._list_results(note if entries else NO_RESULTS, entries)

    async def _list_results(self, note: str, entries: Sequence[Entry]) -> str:
        """Render a page with a table of results."""
        rows = [entry.row for entry in entries]
        return await asyncio.to_thread(list_of, note, rows, (), self.base)


def list_of(
    note: str, results: Sequence[Mapping[str, Any]], questions: Sequence[WorstQuestion], base: str
) -> str:
    """Render a page with a note and, unless both are empty, a table of results or of questions.

    Args:
        note: a sentence about the table.
        results: rows of results, as `Entry.row` returns them.
        questions: the questions.
        base: what addresses of pages begin with.
    """
    return render(
        "_list.html",
        note=note,
        results=results,
        result_metrics=result_metrics(results, RESULT_METRICS),
        questions=questions,
        base=base,
    )


def result_at(path: str, offset: int) -> dict[str, Any] | None:
    """Return the result in the line of a file that begins after `offset` bytes.

    Returns:
        None if no line begins there, if the line holds no result, or if the file cannot be read.
    """
    # The offset is from an address, so it may be any number, even one that `seek` does not take.
    with suppress(OSError, OverflowError, ValueError), open(path, "rb") as file:
        is_start_of_line = offset == 0
        if offset > 0:
            file.seek(offset - 1)
            is_start_of_line = file.read(1) == b"\n"
        if is_start_of_line:
            return _decode_result(file.readline(MAX_LINE_BYTES))
    return None


def results_of(path: str, question_id: str) -> list[dict[str, Any]]:
    """Return the rows of the latest `KEPT` results of a question in a file, the latest first.

    The `number` of a row is the end of the address of its page: "at/" and the offset of its line.
    Lines that hold no result are skipped. If the file cannot be read, there are no rows.
    """
    offset = 0
    rows = deque[dict[str, Any]](maxlen=KEPT)
    encoded_id = orjson.dumps(question_id)
    with suppress(OSError), open(path, "rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            # Most lines do not name the question, and finding that out is fast.
            result = _decode_result(line) if encoded_id in line else None
            if result is not None and result.get("question_id") == question_id:
                with suppress(AggregationError):
                    entry = entry_of(0, observe(result, include_errors=True))
                    rows.appendleft(entry.row | {"number": f"at/{offset}"})
            offset += len(line)
    return [*rows]


def _decode_result(line: bytes) -> dict[str, Any] | None:
    """Return the result in a line of JSON; None if the line holds none."""
    try:
        result = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return result if isinstance(result, dict) else None
