"""A progress bar on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import RenderableType

    from graphrag_eval_async.cli.input import Input

MIN_SECONDS = 0.1
"""A rate over less would say nothing."""


@contextmanager
def progress(*sources: Input, shown: bool = True) -> Iterator[Callable[[], None]]:
    """A bar on stderr while the context is open; the function it gives is to be called for each result."""
    if not shown or sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    with _Bar(sources) as bar:
        yield bar.count


class _Bar(Progress):
    """Looks at its sources whenever it is drawn, since not every line of theirs gives a result."""

    def __init__(self, sources: Sequence[Input]) -> None:
        self._sources = sources
        self._results = 0
        self._start = monotonic()
        columns = (
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[results]} results, {task.fields[rate]:.1f}/s, time left"),
            TimeRemainingColumn(),
        )
        super().__init__(*columns, console=_Console(stderr=True), transient=True)
        sizes = [source.size for source in sources if source.size is not None]
        self.add_task("", total=sum(sizes) if len(sizes) == len(sources) else None)

    def count(self) -> None:
        """Count one more result."""
        self._results += 1

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is drawn, ten times a second."""
        rate = self._results / max(monotonic() - self._start, MIN_SECONDS)
        consumed = sum(source.consumed for source in self._sources)
        for task in self.task_ids:
            self.update(task, completed=consumed, results=self._results, rate=rate)
        return super().get_renderables()


class _Console(Console):
    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002
        """Leave the cursor: a hidden one would stay so after a process that is killed."""
        return False
