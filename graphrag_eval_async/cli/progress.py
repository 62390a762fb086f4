"""A progress bar on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from graphrag_eval_async.cli.input import Input

UPDATE_SECONDS = 0.1


@contextmanager
def progress(*sources: Input, shown: bool = True) -> Iterator[Callable[[], None]]:
    """A bar on stderr while the context is open; the function it gives is to be called for each result."""
    if not shown or sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[results]} results, {task.fields[rate]:.1f}/s, time left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        meter = _Meter(bar, sources)
        try:
            yield meter.advance
        finally:
            meter.show()


class _Meter:
    """Counts results; tells the bar now and then, since telling it takes longer than a result may."""

    def __init__(self, bar: Progress, sources: Sequence[Input]) -> None:
        self._bar = bar
        self._sources = sources
        sizes = [source.size for source in sources if source.size is not None]
        total = sum(sizes) if len(sizes) == len(sources) else None
        self._task = bar.add_task("", total=total, results=0, rate=0.0)
        self._results = 0
        self._start = monotonic()
        self._due = self._start + UPDATE_SECONDS

    def advance(self) -> None:
        self._results += 1
        if monotonic() >= self._due:
            self.show()

    def show(self) -> None:
        now = monotonic()
        self._due = now + UPDATE_SECONDS
        rate = self._results / max(now - self._start, UPDATE_SECONDS)
        consumed = sum(source.consumed for source in self._sources)
        self._bar.update(self._task, completed=consumed, results=self._results, rate=rate)
