"""Shows progress on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphrag_eval_async.cli.bar import Source
    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.judge import JudgeUsage


@contextmanager
def progress(
    *sources: Source,
    shown: bool = True,
    usage: JudgeUsage | None = None,
    aggregates: RunningAggregates | None = None,
) -> Iterator[Callable[[], None]]:
    """Show a bar on stderr while the context is open; call the yielded function for each result.

    With the usage of a judge whose prices are known, the bar shows the dollars spent, and with aggregates
    the mean so far of the first score that has values.
    """
    if not shown or sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    from graphrag_eval_async.cli.bar import Bar

    with Bar(sources, usage, aggregates) as bar:
        yield bar.count
