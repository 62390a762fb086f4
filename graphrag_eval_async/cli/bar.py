"""A progress bar on a terminal; imported only if there is one, since rich takes a while."""

from __future__ import annotations

from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from graphrag_eval_async.helpers.text import dollars
from graphrag_eval_async.records.snapshots import mean_of_questions
from graphrag_eval_async.reports.kept import RANKING_SCORES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import RenderableType
    from rich.progress import Task

    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.judge import JudgeUsage

MIN_PAUSE_SECONDS = 5.0
"""Shorter pauses of the judge are not shown; chosen."""

SCORE_SECONDS = 1.0
"""Least time between two looks at the scores, which take a while with many templates; chosen."""

SHOWN_SCORES = 2
"""Maximum number of scores beside the bar; chosen."""


MIN_WHOLE_RATE = 100.0
"""Rates from here on have no decimals; chosen."""


class Source(Protocol):
    """A source of bytes, of which `consumed` are read; `size` is None if unknown."""

    @property
    def size(self) -> int | None: ...

    @property
    def consumed(self) -> int: ...


class Countdown(Protocol):
    """A known number of results, `size`, of which `consumed` are complete."""

    @property
    def size(self) -> int: ...

    @property
    def consumed(self) -> int: ...


class Bar(Progress):
    """Shows the share that is done, results, their rate, and the time left.

    A second line has the errors, the dollars spent and the scores so far, as far as they are known.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        countdown: Countdown | None = None,
        usage: JudgeUsage | None = None,
        aggregates: RunningAggregates | None = None,
        in_flight: Callable[[], int] = lambda: 0,
    ) -> None:
        """Prepare a bar.

        Args:
            sources: the files that are read. How many results they will give is estimated.
            countdown: the results that the run will give, if their number is known.
            usage: the usage of the judge, for the dollars spent and for pauses.
            aggregates: those of the results so far, for errors and scores.
            in_flight: returns how many results are begun and not complete.
        """
        self._sources = sources
        self._countdown = countdown
        self._usage = usage
        self._aggregates = aggregates
        self._in_flight = in_flight

        self._results = 0
        self._errors_and_scores = Text()
        self._next_look = 0.0
        self._start = monotonic()

        super().__init__(
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[results]}"),
            _TimeLeftColumn(compact=True),
            console=_ConsoleWithCursor(stderr=True),
            transient=True,
            expand=True,
        )
        self.add_task("", total=None, results="")

    def count(self) -> None:
        """Count a result, and now and then read the errors and scores that the bar shows."""
        self._results += 1
        # The thread that draws must not read aggregates that this thread changes.
        if self._aggregates is not None and monotonic() >= self._next_look:
            self._errors_and_scores = _errors_and_scores(self._aggregates)
            self._next_look = monotonic() + SCORE_SECONDS

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return the lines of the bar; rich calls this ten times a second."""
        # The bar has one task, or none while rich starts.
        for task in self.tasks:
            results = self._results_in_words()
            share = self._share_done()
            if share is None:
                self.update(task.id, results=results)
            else:
                self.update(task.id, total=1.0, completed=share, results=results)
        yield self.make_tasks_table(self.tasks)
        yield self._second_line()

    def _done(self) -> int:
        """Return how many results are complete, with those that a journal restored."""
        if self._countdown is not None:
            return self._countdown.consumed
        return self._results

    def _total(self) -> float | None:
        """Return how many results the run will give; None if that is unknown.

        For files, the number is estimated from the results that are begun or complete, and from the
        share of bytes that were read for them.
        """
        if self._countdown is not None:
            return self._countdown.size
        size = 0
        for source in self._sources:
            if source.size is None:
                return None  # Standard input, for example, has no size.
            size += source.size
        consumed = sum(source.consumed for source in self._sources)
        begun = self._results + self._in_flight()
        if not consumed or not begun:
            return None
        return begun * size / consumed

    def _share_done(self) -> float | None:
        """Return the share of results that are complete, from 0 to 1; None if it is unknown.

        The share of bytes that were read would be too high: the judge needs more time for a result
        than its line takes to be read.
        """
        total = self._total()
        if not total:
            return None
        return min(1.0, self._done() / total)

    def _results_in_words(self) -> str:
        """Return the number of results and their rate, such as "70 of about 200  2.5/s"."""
        count = f"{self._done():,}"
        total = self._total()
        if total is None:
            count += " results"
        elif self._is_total_known():
            count += f" of {total:,.0f}"
        else:
            # The estimate is rounded to two significant digits: it is not more precise.
            rounded = float(f"{total:.1e}")
            count += f" of about {rounded:,.0f}"

        # At the very start, the rate would be absurd, or a division by zero.
        seconds = max(monotonic() - self._start, 0.1)
        rate = self._results / seconds
        digits = 0 if rate >= MIN_WHOLE_RATE else 1
        return f"{count}  {rate:,.{digits}f}/s"

    def _is_total_known(self) -> bool:
        """Return whether the number of results is known, not estimated: all input is read."""
        if self._countdown is not None:
            return True
        return all(source.consumed == source.size for source in self._sources)

    def _second_line(self) -> Text:
        """Return the second line of the bar.

        It shows errors and scores so far, the cost, and until when the judge pauses.
        """
        parts = []
        if self._errors_and_scores:
            parts.append(self._errors_and_scores)
        if self._usage is not None and self._usage.spent is not None:
            parts.append(Text(f"{dollars(self._usage.spent)} spent"))
        if self._usage is not None and self._usage.paused_sec > MIN_PAUSE_SECONDS:
            end = datetime.now() + timedelta(seconds=self._usage.paused_sec)
            parts.append(Text(f"paused by the judge until {end:%H:%M:%S}", "yellow"))
        return Text("  ").join(parts)


def _errors_and_scores(aggregates: RunningAggregates) -> Text:
    """Return the number of errors and the means of the main scores.

    At most `SHOWN_SCORES` of the scores that have values are shown.
    """
    all_results = aggregates.snapshot()["micro"]
    errors = all_results["number_of_error_samples"]
    style = "red" if errors else ""
    parts = [Text("1 error" if errors == 1 else f"{errors:,} errors", style)]
    for name in RANKING_SCORES:
        shown = len(parts) - 1  # The first part is the errors.
        if name in all_results and shown < SHOWN_SCORES:
            parts.append(Text(f"{name} {mean_of_questions(all_results[name]):.3f}"))
    return Text("  ").join(parts)


class _TimeLeftColumn(TimeRemainingColumn):
    """The time left, such as "02:05 left"; empty if the number of results is unknown."""

    def render(self, task: Task) -> Text:
        """Return the time left for a task, such as "1:20 left"; blank if it is unknown."""
        time = super().render(task)
        if time:
            time.append(" left")
        return time


class _ConsoleWithCursor(Console):
    """A console that never hides the cursor."""

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002
        """Leave the cursor: if the process is killed, a hidden cursor stays hidden."""
        return False
