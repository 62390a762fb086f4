"""Reads results that are on disk, and shows how far a command is."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.batch import read_results
from graphrag_eval_async.cli.exits import Ending, run_to_end
from graphrag_eval_async.cli.files import STATE, open_lines
from graphrag_eval_async.config.load import load_part
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import one_line, tell
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.sinks import RejectWriter
from graphrag_eval_async.sources.reading import read_result_files, response_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from graphrag_eval_async.cli.bar import Countdown, Source
    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.traces import TraceFormat


def read_to_end(
    given: Given,
    sources: Sequence[tuple[str, Callable[[dict[str, Any]], object]]],
    interrupts: Interrupts,
    *,
    may_grow: bool = True,
) -> tuple[Rejects, Ending]:
    """Read paths in order, each with the function that takes its results.

    If files `may_grow`, an unfinished last line is skipped.
    """
    for path, _ in sources:
        if path.endswith(STATE):
            raise UsageError(
                f"{path} holds aggregates, which only `aggregate` reads; name the results"
            )
    opened = [read_result_files(path) for path, _ in sources]
    with collecting(given, interrupts) as (rejects, on_reject), progress(*opened) as advance:

        async def read() -> None:
            for file, (_, add) in zip(opened, sources, strict=True):
                await read_results(file, add, on_reject, advance=advance, may_grow=may_grow)

        return rejects, run_to_end(read(), interrupts)


@contextmanager
def collecting(
    given: Given, interrupts: Interrupts
) -> Iterator[tuple[Rejects, Callable[[Reject], object]]]:
    """Yield rejects and a function that takes them: it writes to the file of ``--rejects``, or
    keeps them.

    Unfinished last lines are no rejects; they are listed on stderr at the end.
    """
    rejects = Rejects()
    unfinished: list[Reject] = []
    path = getattr(given, "rejects", None)
    with nullcontext() if path is None else open_lines(path, interrupts) as file:
        writer = None if file is None else RejectWriter(file)

        def take(reject: Reject) -> None:
            if reject.reason == "incomplete":
                unfinished.append(reject)
            elif writer is None:
                rejects.add(reject)
            else:
                rejects.add(reject, keep=False)
                writer(replace(reject, path=reject.path or "-"))

        yield rejects, take
    for line in unfinished:
        tell(sys.stderr, line.described())


@contextmanager
def progress(
    *sources: Source,
    shown: bool = True,
    countdown: Countdown | None = None,
    usage: JudgeUsage | None = None,
    aggregates: RunningAggregates | None = None,
    in_flight: Callable[[], int] = lambda: 0,
) -> Iterator[Callable[[], None]]:
    """Show a bar on stderr while the context is open; call the yielded function for each result.

    Without a terminal, nothing is shown.

    Args:
        sources: the files that are read.
        shown: whether a bar may be shown.
        countdown: the results that the run will give, if their number is known.
        usage: the usage of the judge; with known prices, the bar shows the dollars spent.
        aggregates: those of the results so far, for their errors and scores.
        in_flight: returns how many results are begun and not complete.
    """
    if not shown or sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    from graphrag_eval_async.cli.bar import Bar

    bar = Bar(sources, countdown=countdown, usage=usage, aggregates=aggregates, in_flight=in_flight)
    with bar:
        yield bar.count


def results_of_questions(
    path: str, questions: Collection[str]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the results of some questions in a regular file, each after its question and its
    place.
    """
    if not questions or not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            with suppress(orjson.JSONDecodeError):
                result = orjson.loads(line)
                question = result.get("question_id") if isinstance(result, dict) else None
                if isinstance(question, str) and question in questions:
                    yield question, f"{os.path.basename(path)}:{number}", result


def primary_of(given: Given) -> tuple[str, ...] | None:
    """Return the primary metrics of the configuration, if there is one that names them."""
    return None if given.config is None else load_part(given.config, "primary").primary


def processes_for(jobs: int, path: str, traces: TraceFormat | None) -> int:
    """Return the number of worker processes; 1 means that this process reads, and stderr says
    why.
    """
    from graphrag_eval_async.scale.files import count_jobs, why_one_process

    jobs = count_jobs(jobs)
    if jobs > 1:
        reason = why_one_process(response_files(path), traces)
        if reason is not None:
            tell(sys.stderr, one_line(f"--jobs: {reason}; one process does the work"))
            return 1
    return jobs
