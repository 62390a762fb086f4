"""``aggregate``: aggregates of results that are on disk already."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import STATE, check_distinct, merge_aggregates
from graphrag_eval_async.cli.gates import on_missing
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.reading import collecting, processes_for, read_to_end
from graphrag_eval_async.cli.report import report
from graphrag_eval_async.errors import SourceError, UsageError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records.metrics import MISSING_RATE
from graphrag_eval_async.redis_client import is_redis
from graphrag_eval_async.reference import NoReference, StepNames, load_reference, misnamed_steps
from graphrag_eval_async.scale.file_evaluation import EvaluatedFile
from graphrag_eval_async.scale.pieces import Work
from graphrag_eval_async.scale.redis.results import RedisRun
from graphrag_eval_async.scale.redis.source import stream_at
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.sources.shards import Window
from graphrag_eval_async.text import counts, one_line

if TYPE_CHECKING:
    from graphrag_eval_async.cli.options import Given
    from graphrag_eval_async.records import Rejects


def run(given: Given, interrupts: Interrupts) -> Exit:
    groups = [path for path in given.results if _is_group(path)]
    merged = [path for path in given.results if path.endswith(STATE)]
    if on_missing(given.gate):
        if given.reference is None:
            raise UsageError(f"a gate on {MISSING_RATE} needs --reference REFERENCE")
        if merged:
            raise UsageError(f"{merged[0]}: a gate on {MISSING_RATE} needs results, not their aggregates")
    check_distinct([*given.results, given.reference], [given.rejects, given.aggregates])
    reference = load_reference(given.reference) if given.reference is not None else None
    aggregates = RunningAggregates(include_errors=given.include_errors)
    if reference is not None:
        aggregates.order_templates(reference.templates)
        aggregates.expect_steps(reference.step_names)
    for path in merged:
        merge_aggregates(aggregates, path)
    answered, names = set[str](), StepNames()
    notes = [asyncio.run(_merge_group(aggregates, answered, path)) for path in groups]
    can_be_cut = given.jobs != 1 and not any(map(is_redis, _lines(given)))
    jobs = processes_for(given.jobs, _lines(given), results=True) if can_be_cut else 1
    if jobs > 1:
        steps = reference.step_names if reference is not None else frozenset()
        rejects, ending = _read_in_processes(given, jobs, aggregates, steps, names, answered, interrupts)
    else:
        rejects, ending = _read(given, aggregates, names, answered, interrupts)
    if ending.error is None and not interrupts.came:
        aggregates.finish()
        if told := misnamed_steps(reference or names, aggregates._step_names()):
            notes.append(f"warning: {told}")
    questions = reference.questions if reference is not None else ()
    missing = [question_id for question_id in questions if question_id not in answered]
    found = EvaluatedFile(aggregates, rejects, missing)
    table = sys.stderr if given.rejects == "-" else sys.stdout
    return report(
        given,
        found,
        ending,
        reference=None if merged else reference,
        table=table,
        interval=given.interval,
        notes=notes,
        lines_known=not merged and not groups,
    )


def _lines(given: Given) -> list[str]:
    """The paths of results."""
    return [path for path in given.results if not path.endswith(STATE) and not _is_group(path)]


def _read(
    given: Given,
    aggregates: RunningAggregates,
    names: StepNames,
    answered: set[str],
    interrupts: Interrupts,
) -> tuple[Rejects, Ending]:
    def add(result: dict[str, Any]) -> None:
        aggregates.add(result)
        names.add(result)
        if isinstance(question_id := result.get("question_id"), str):
            answered.add(question_id)

    return read_to_end(
        [(path, add) for path in _lines(given)],
        interrupts,
        rejects=given.rejects,
        max_reject_bytes=given.max_reject_bytes,
        max_line_bytes=given.max_line_bytes,
    )


def _read_in_processes(
    given: Given,
    jobs: int,
    aggregates: RunningAggregates,
    steps: frozenset[str],
    names: StepNames,
    answered: set[str],
    interrupts: Interrupts,
) -> tuple[Rejects, Ending]:
    from graphrag_eval_async.scale.merging import Merging  # Here, since it imports multiprocessing.

    with collecting(given.rejects, given.max_reject_bytes, interrupts) as (rejects, on_reject):
        merging = Merging(
            Work(
                max_line_bytes=given.max_line_bytes,
                include_errors=given.include_errors,
                content=given.rejects is not None,
                steps=steps,
            ),
            [Window(file) for path in _lines(given) for file in expand([path])],
            jobs,
            aggregates=aggregates,
            on_reject=on_reject,
            threaded=True,
        )
        with progress(merging) as advance:
            ending = run_to_end(merging.run(advance=advance), interrupts)
        answered.update(merging.samples)
        names.merge(merging.names)
        return rejects, ending


def _is_group(path: str) -> bool:
    """Whether a path is a group of workers on a Redis server."""
    return is_redis(path) and "?" in path


async def _merge_group(aggregates: RunningAggregates, answered: set[str], path: str) -> str:
    """Add the aggregates of a group and the questions its workers answered; return a line on the rest."""
    async with RedisRun(stream_at(path).settings, NoReference()) as run:
        await run.refresh()
        if not run.has_begun:
            raise SourceError(f"{run}: no worker has begun; check the names of the stream and the group")
        await run.look()
        aggregates.merge(run.aggregates)
        answered |= await run.answered()
        backlog = run.backlog
        waiting = "an unknown number" if backlog.unread is None else str(backlog.unread)
        rejected = f" ({counts(run.rejects.counts)})" if run.rejects.total else ""
        return one_line(
            f"{run}: entries rejected: {run.rejects.total}{rejected}, lost: {backlog.lost}, "
            f"in work: {backlog.in_work}, waiting: {waiting}"
        )
