"""Reading the results that ``aggregate`` and ``compare`` are about."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import open_rejects
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.report import LISTED_REJECTS
from graphrag_eval_async.resultfiles import read_results
from graphrag_eval_async.sources import read_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.cli.exits import Ending, Interrupts
    from graphrag_eval_async.records import Reason, Reject


class Reading(NamedTuple):
    """How reading ended, how many lines are no results, by reason, and the first of these as text."""

    ending: Ending
    rejected: Counter[Reason]
    listed: list[str]


def read_to_end(
    sources: Sequence[tuple[str, Callable[[dict[str, Any]], object]]],
    interrupts: Interrupts,
    *,
    rejects: str | None,
    max_line_bytes: int,
) -> Reading:
    """Read sources, one after the other: each has a path, and what takes its results.

    Rejects go to the file `rejects`; without one, the first are listed.

    Raises:
        UsageError: the file cannot be opened.
    """
    rejected: Counter[Reason] = Counter()
    listed: list[str] = []
    files = [read_jsonl(path) for path, _ in sources]
    with ExitStack() as stack:
        rejects_file = stack.enter_context(open_rejects(rejects, interrupts)) if rejects else None

        def reject(path: str, line: Reject) -> None:
            name = line.path or path
            rejected[line.reason] += 1
            if rejects_file is not None:
                rejects_file(line, file=name)
            elif len(listed) < LISTED_REJECTS:
                listed.append(f"{name}: {line}")
            if line.content is not None and not isinstance(line.content, bytes):
                line.content.close()

        async def read(advance: Callable[[], None]) -> None:
            for (path, add), source in zip(sources, files, strict=True):
                spool = rejects_file is not None
                common: dict[str, Any] = {
                    "max_line_bytes": max_line_bytes,
                    "spool": spool,
                    "advance": advance,
                }
                await read_results(source, add, partial(reject, path), **common)

        with progress(*files) as advance:
            ending = run_to_end(read(advance), interrupts)
    return Reading(ending, rejected, listed)
