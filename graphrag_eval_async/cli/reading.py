"""Reads results for ``aggregate``, ``compare``, ``plan`` and ``plot``."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.batch import read_results
from graphrag_eval_async.cli.exits import Ending, run_to_end
from graphrag_eval_async.cli.files import open_lines
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.redis_client import is_redis
from graphrag_eval_async.scale.file_evaluation import count_jobs
from graphrag_eval_async.scale.pieces import unsplittable
from graphrag_eval_async.scale.redis.results import results_on
from graphrag_eval_async.scale.redis.source import results_at
from graphrag_eval_async.sinks import MAX_REJECT_BYTES, RejectWriter
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.text import one_line, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.traces import TraceFormat


def read_to_end(
    sources: Sequence[tuple[str, Callable[[dict[str, Any]], object]]],
    interrupts: Interrupts,
    *,
    max_line_bytes: int,
    rejects: str | None = None,
    max_reject_bytes: int | None = None,
) -> tuple[Rejects, Ending]:
    """Read paths in order, each with the function that takes its results; keep rejects without a file."""
    opened = [(read_jsonl(path), add) for path, add in sources if not is_redis(path)]
    on_servers = [(results_at(path), add) for path, add in sources if is_redis(path)]
    with (
        collecting(rejects, max_reject_bytes, interrupts) as (rejected, on_reject),
        progress(*(source for source, _ in opened)) as advance,
    ):

        async def read() -> None:
            for source, add in opened:
                await read_results(
                    source,
                    add,
                    on_reject,
                    max_line_bytes=max_line_bytes,
                    advance=advance,
                )
            for (address, name), add in on_servers:
                async for result in results_on(address, name):
                    add(result)
                    advance()

        return rejected, run_to_end(read(), interrupts)


@contextmanager
def collecting(
    path: str | None, max_bytes: int | None, interrupts: Interrupts
) -> Iterator[tuple[Rejects, Callable[[Reject], object]]]:
    """Yield rejects and a function that takes them: it writes to the file at `path`, or keeps them."""
    rejects = Rejects()
    if path is None:
        yield rejects, rejects.add
        return

    def write(reject: Reject) -> None:
        rejects.add(reject, keep=False)
        writer(replace(reject, path=reject.path or "-"))

    with open_lines(path, interrupts) as file:
        writer = RejectWriter(file, max_bytes=MAX_REJECT_BYTES if max_bytes is None else max_bytes)
        yield rejects, write


def processes_for(
    jobs: int,
    paths: Sequence[str],
    *,
    judged: bool = False,
    traces: TraceFormat | None = None,
    results: bool = False,
) -> int:
    """Return the number of worker processes; 1 means that this process reads, and stderr says why."""
    jobs = count_jobs(jobs)
    if jobs > 1:
        reason = "judged metrics share one limit and one budget" if judged else None
        files = [file for path in paths for file in expand([path])]
        reason = reason or unsplittable(files, traces, results=results)
        if reason is not None:
            tell(sys.stderr, one_line(f"--jobs: {reason}; one process does the work"))
            return 1
    return jobs
