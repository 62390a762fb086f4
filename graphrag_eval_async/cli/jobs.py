"""``--jobs``: finished files, by several worker processes."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import open_output, open_rejects
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.reading import RejectedLines
from graphrag_eval_async.cli.report import LISTED_REJECTS, Run, report
from graphrag_eval_async.cli.sending import Sending
from graphrag_eval_async.cli.text import one_line, tell
from graphrag_eval_async.scale.evaluate_file import FileEvaluation, count_jobs
from graphrag_eval_async.scale.merging import Merging
from graphrag_eval_async.scale.ranges import unsplittable
from graphrag_eval_async.scale.work import Aggregating
from graphrag_eval_async.sinks import LineFile, write_reject
from graphrag_eval_async.sources.reading import expand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.run import RunOptions
    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.scale.work import Reply


def processes_for(jobs: int, paths: Sequence[str], *, judged: bool = False) -> int:
    """How many worker processes are to read files; 1 if this process reads them, and why is told."""
    jobs = count_jobs(jobs)
    if jobs > 1:
        reason = "judged metrics share one limit and one budget" if judged else None
        reason = reason or unsplittable([file for path in paths for file in expand([path])])
        if reason is not None:
            tell(sys.stderr, one_line(f"--jobs: {reason}; one process does it"))
            return 1
    return jobs


def evaluate_files(
    command: RunOptions, responses: str, evaluator: Evaluator, jobs: int, interrupts: Interrupts
) -> Exit:
    """Run `evaluate` in worker processes, and tell how that ended.

    Raises:
        UsageError: a file cannot be opened, or would be overwritten.
    """
    with ExitStack() as files:
        results = command.output and files.enter_context(open_output(LineFile, command.output))
        rejects = command.rejects and files.enter_context(open_rejects(command.rejects, interrupts))
        evaluation = FileEvaluation(
            evaluator,
            expand([responses]),
            jobs,
            on_reject=partial(write_reject, rejects) if rejects else "collect",
            max_line_bytes=command.max_line_bytes,
            include_errors=command.include_errors,
        )
        shown = command.output != "-" or not sys.stdout.isatty()
        with progress(evaluation.merging, shown=shown) as advance:
            sending = Sending(results or None, evaluation.merging.stop)
            work = evaluation.run(sending.send_lines, advance)
            ending = run_to_end(work, interrupts, drain=sending.drain)
    run = Run(
        level=command.level,
        ending=ending,
        aggregates=evaluation.aggregates,
        rejected=evaluation.rejects.counts,
        listed=[f"{reject.path}: {reject}" for reject in evaluation.rejects[:LISTED_REJECTS]],
        reference=evaluator.reference,
        answered=evaluation.answered.keys(),
    )
    table = sys.stderr if "-" in {command.output, command.rejects} else sys.stdout
    return report(run, aggregates=command.aggregates, gates=command.gates, table=table)


class ReadingInProcesses:
    """As `Reading`, for the results that `aggregate` reads."""

    def __init__(
        self,
        results: Sequence[str],
        jobs: int,
        interrupts: Interrupts,
        *,
        rejects: str | None,
        max_line_bytes: int,
        include_errors: bool,
        aggregates: RunningAggregates,
        answered: set[str],
    ) -> None:
        """Read; the results count in `aggregates`, and the ids of their questions come into `answered`.

        Raises:
            UsageError: the file of the rejects cannot be opened.
        """
        with ExitStack() as opened:
            file = rejects and opened.enter_context(open_rejects(rejects, interrupts))
            rejected = RejectedLines(file or None)
            self.rejected, self.listed = rejected.counts, rejected.listed
            merging = Merging(
                Aggregating(
                    max_line_bytes=max_line_bytes,
                    include_errors=include_errors,
                    content=bool(file),
                ),
                [file for path in results for file in expand([path])],
                jobs,
                aggregates=aggregates,
                on_reject=lambda reject: rejected.add("", reject),
                spool=bool(file),
            )
            with progress(merging) as advance:

                async def take(_: object, reply: Reply) -> None:
                    answered.update(reply.questions)
                    for _ in range(reply.results + len(reply.rejects)):
                        advance()

                self.ending = run_to_end(merging.run(take), interrupts)
