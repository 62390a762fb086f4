"""A progress bar on a terminal; imported only if there is one, since rich takes a while."""

from __future__ import annotations

from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from graphrag_eval_async.records.snapshots import mean_of_questions
from graphrag_eval_async.reports.kept import SCORES
from graphrag_eval_async.text import dollars

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.judge import JudgeUsage

MIN_PAUSE = 5.0  # seconds; shorter pauses are not shown
SCORE_SECONDS = 1.0  # between two looks at the score


class Source(Protocol):
    """A source of which `consumed` of `size` is read; `size` is None if unknown."""

    @property
    def size(self) -> int | None: ...

    @property
    def consumed(self) -> int: ...


class Bar(Progress):
    """Reads the position of its sources when drawn, since not every line gives a result."""

    def __init__(
        self,
        sources: Sequence[Source],
        usage: JudgeUsage | None,
        aggregates: RunningAggregates | None,
    ) -> None:
        self._sources, self._usage, self._aggregates = sources, usage, aggregates
        self._score, self._scored, self._results, self._start = "", 0.0, 0, monotonic()
        text = TextColumn("{task.fields[results]} results, {task.fields[pace]}, time left")
        columns = (BarColumn(), TaskProgressColumn(), text, TimeRemainingColumn())
        super().__init__(*columns, console=_Console(stderr=True), transient=True)
        sizes = [source.size for source in sources]
        self.add_task("", total=None if None in sizes else sum(size or 0 for size in sizes))

    def count(self) -> None:
        """Count a result. Reads the score here, since another thread draws."""
        self._results += 1
        if self._aggregates is not None and monotonic() - self._scored >= SCORE_SECONDS:
            micro = self._aggregates.snapshot()["micro"]
            means = (
                f", {name} {mean_of_questions(micro[name]):.3f}" for name in SCORES if name in micro
            )
            self._score, self._scored = next(means, ""), monotonic()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return the bar, which is drawn ten times a second."""
        pace = f"{self._results / max(monotonic() - self._start, 0.1):.1f}/s"
        if self._usage is not None and self._usage.spent is not None:
            pace += f", {dollars(self._usage.spent)}"
        if self._usage is not None and self._usage.paused_sec > MIN_PAUSE:
            end = datetime.now() + timedelta(seconds=self._usage.paused_sec)
            pace += f", paused by the judge until {end:%H:%M:%S}"
        consumed = sum(source.consumed for source in self._sources)
        for task in self.task_ids:  # There is none before the first.
            self.update(task, completed=consumed, results=self._results, pace=pace + self._score)
        return super().get_renderables()


class _Console(Console):
    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002
        """Leave the cursor: if the process is killed, a hidden cursor stays hidden."""
        return False
