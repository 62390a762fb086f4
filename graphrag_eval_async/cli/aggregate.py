"""``aggregate``: aggregates of results that are on disk already."""

import asyncio
import sys
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from graphrag_eval_async.batch import MAX_RESULT_BYTES
from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import STATE, check_distinct, merge_aggregates, results_path
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.reading import collecting, processes_for, read_to_end
from graphrag_eval_async.cli.report import ReportOptions
from graphrag_eval_async.errors import SourceError, UsageError
from graphrag_eval_async.inference.running import Interval, RunningAggregates
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.records.metrics import MISSING_RATE
from graphrag_eval_async.redis_client import is_redis
from graphrag_eval_async.reference import NoReference, StepNames, load_reference, misnamed_steps
from graphrag_eval_async.scale.file_evaluation import EvaluatedFile
from graphrag_eval_async.scale.merging import Merging
from graphrag_eval_async.scale.redis.results import RedisRun
from graphrag_eval_async.scale.redis.source import stream_at
from graphrag_eval_async.scale.work import Aggregating, Reply
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.sources.shards import Window
from graphrag_eval_async.text import counts, one_line


@dataclass(frozen=True, kw_only=True)
class Aggregate(ReportOptions):
    """Aggregate results that are on disk.

    The results may be in several files, of one run or of many, or of the shards of a run. Files that end in
    .aggregates, which --aggregates writes, are merged as they are.
    """

    example: ClassVar = "aggregate results.jsonl --aggregates aggregates.yaml"

    results: Annotated[
        list[str],
        typer.Argument(
            parser=options.parser(results_path),
            metavar="RESULTS...",
            help="Results, JSONL or Parquet, or .aggregates files; - for standard input; "
            "redis://HOST/RESULTS for those on a Redis server, or redis://HOST/STREAM?group=GROUP for the "
            "aggregates of all its workers.",
        ),
    ]
    reference: options.ReferenceOption = None
    interval: options.IntervalKind = None
    jobs: options.Jobs = 1
    max_line_bytes: options.MaxResultBytes = MAX_RESULT_BYTES

    @property
    def interval_kind(self) -> Interval | None:
        return self.interval

    def run(self, interrupts: Interrupts) -> Exit:
        groups = [path for path in self.results if _is_group(path)]
        merged = [path for path in self.results if path.endswith(STATE)]
        if self.gates_missing:
            if self.reference is None:
                raise UsageError(f"a gate on {MISSING_RATE} needs --reference REFERENCE")
            if merged:
                raise UsageError(f"{merged[0]}: a gate on {MISSING_RATE} needs results, not their aggregates")
        check_distinct([*self.results, self.reference], [self.rejects, self.aggregates])
        reference = load_reference(self.reference) if self.reference is not None else None
        aggregates = RunningAggregates(include_errors=self.include_errors)
        if reference is not None:
            aggregates.order_templates(reference.templates)
            aggregates.expect_steps(reference.step_names)
        for path in merged:
            merge_aggregates(aggregates, path)
        answered, names = set[str](), StepNames()
        notes = [asyncio.run(_merge_group(aggregates, answered, path)) for path in groups]
        can_be_cut = self.jobs != 1 and not any(map(is_redis, self._lines))
        jobs = processes_for(self.jobs, self._lines) if can_be_cut else 1
        if jobs > 1:
            steps = reference.step_names if reference is not None else frozenset()
            rejects, ending = self._read_in_processes(jobs, aggregates, steps, names, answered, interrupts)
        else:
            rejects, ending = self._read(aggregates, names, answered, interrupts)
        if ending.error is None and not interrupts.came:
            aggregates.finish()
            if told := misnamed_steps(reference or names, aggregates._step_names()):
                notes.append(f"warning: {told}")
        questions = reference.questions if reference is not None else ()
        missing = [question_id for question_id in questions if question_id not in answered]
        found = EvaluatedFile(aggregates, rejects, missing)
        table = sys.stderr if self.rejects == "-" else sys.stdout
        return self.report(
            found,
            ending,
            reference=None if merged else reference,
            table=table,
            notes=notes,
            lines_known=not merged and not groups,
        )

    @property
    def _lines(self) -> list[str]:
        """The paths of results."""
        return [path for path in self.results if not path.endswith(STATE) and not _is_group(path)]

    def _read(
        self, aggregates: RunningAggregates, names: StepNames, answered: set[str], interrupts: Interrupts
    ) -> tuple[Rejects, Ending]:
        def add(result: dict[str, Any]) -> None:
            aggregates.add(result)
            names.add(result)
            if isinstance(question_id := result.get("question_id"), str):
                answered.add(question_id)

        return read_to_end(
            [(path, add) for path in self._lines],
            interrupts,
            rejects=self.rejects,
            max_reject_bytes=self.max_reject_bytes,
            max_line_bytes=self.max_line_bytes,
        )

    def _read_in_processes(
        self,
        jobs: int,
        aggregates: RunningAggregates,
        steps: frozenset[str],
        names: StepNames,
        answered: set[str],
        interrupts: Interrupts,
    ) -> tuple[Rejects, Ending]:
        with collecting(self.rejects, self.max_reject_bytes, interrupts) as (rejects, on_reject):
            merging = Merging(
                Aggregating(
                    max_line_bytes=self.max_line_bytes,
                    include_errors=self.include_errors,
                    content=self.rejects is not None,
                    steps=steps,
                ),
                [Window(file) for path in self._lines for file in expand([path])],
                jobs,
                aggregates=aggregates,
                on_reject=on_reject,
                threaded=True,
            )
            with progress(merging) as advance:

                async def take(_: object, reply: Reply) -> None:
                    answered.update(reply.questions)
                    names.merge(reply.names)
                    for _ in range(reply.results + len(reply.rejects)):
                        advance()

                return rejects, run_to_end(merging.run(take), interrupts)


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
