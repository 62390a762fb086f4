"""Reads results that are on disk, and shows how far a command is."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
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
    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.records import Reject
    from graphrag_eval_async.traces import TraceFormat


def read_to_end(
    sources: Sequence[tuple[str, Callable[[dict[str, Any]], object]]],
    interrupts: Interrupts,
    *,
    rejects_path: str | None = None,
    may_grow: bool = True,
) -> tuple[Rejects, Ending]:
    """Read the results in some files, one file after the other.

    Args:
        sources: pairs of a path and a function that takes each result of that path.
        interrupts: signals that end the reading.
        rejects_path: file for the lines that are no results; None to keep the first ones.
        may_grow: whether the files may still be written, so that an unfinished last line is
            skipped.

    Returns:
        The lines that are no results, and how the reading ended.

    Raises:
        UsageError: a file holds aggregates, or the file for rejects cannot be written.
    """
    for path, _ in sources:
        if path.endswith(STATE):
            raise UsageError(
                f"{path} holds aggregates, which only `aggregate` reads; name the results"
            )
    files = [read_result_files(path) for path, _ in sources]
    with (
        collecting(rejects_path, interrupts) as (rejects, take_reject),
        progress(*files) as advance,
    ):

        async def read_all() -> None:
            for file, (_, take_result) in zip(files, sources, strict=True):
                await read_results(
                    file, take_result, take_reject, advance=advance, may_grow=may_grow
                )

        ending = run_to_end(read_all(), interrupts)
    return rejects, ending


@contextmanager
def collecting(
    rejects_path: str | None, interrupts: Interrupts
) -> Iterator[tuple[Rejects, Callable[[Reject], object]]]:
    """Yield a collection of rejected lines, and a function that takes each of them.

    Unfinished last lines do not count; they are printed on standard error at the end.

    Args:
        rejects_path: file to which the rejected lines are written, so that the collection only
            counts them; None if the collection keeps the first ones.
        interrupts: signals that end the wait for the reader of the file.
    """
    rejects = Rejects()
    unfinished_lines: list[Reject] = []
    with ExitStack() as files:
        writer = None
        if rejects_path is not None:
            writer = RejectWriter(files.enter_context(open_lines(rejects_path, interrupts)))

        def take(reject: Reject) -> None:
            if reject.reason == "incomplete":
                unfinished_lines.append(reject)
            elif writer is None:
                rejects.add(reject)
            else:
                rejects.add(reject, keep=False)
                writer(replace(reject, path=reject.path or "-"))

        yield rejects, take
    for line in unfinished_lines:
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
    path: str, question_ids: Collection[str]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Find the results of some questions in a file.

    Args:
        path: the file; if it is no regular file, such as a pipe, it has no results.
        question_ids: the ids of the questions.

    Yields:
        For each result, the id of its question, its place as ``NAME:LINE``, and the result.
    """
    if not question_ids or not os.path.isfile(path):
        return
    file_name = os.path.basename(path)
    with open(path, "rb") as file:
        for line_number, line in enumerate(file, start=1):
            try:
                result = orjson.loads(line)
            except orjson.JSONDecodeError:
                # It was rejected when the file was read before.
                continue
            if not isinstance(result, dict):
                continue
            question_id = result.get("question_id")
            if isinstance(question_id, str) and question_id in question_ids:
                yield question_id, f"{file_name}:{line_number}", result


def primary_metrics(config_path: str | None) -> tuple[str, ...] | None:
    """Return the primary metrics that a configuration names; None if it names none.

    Args:
        config_path: the file of the configuration; None without one.
    """
    if config_path is None:
        return None
    return load_part(config_path, "primary").primary


def choose_process_count(jobs: int, path: str, trace_format: TraceFormat | None) -> int:
    """Return how many processes evaluate some responses.

    If one process has to do the work although more are asked for, standard error says why.

    Args:
        jobs: the number that is asked for; 0 stands for one process per core.
        path: the files of the responses.
        trace_format: format of the traces in them; None if they are no traces.
    """
    from graphrag_eval_async.scale.files import count_jobs, why_one_process

    process_count = count_jobs(jobs)
    if process_count == 1:
        return 1
    reason = why_one_process(response_files(path), trace_format)
    if reason is not None:
        tell(sys.stderr, one_line(f"--jobs: {reason}; one process does the work"))
        return 1
    return process_count
