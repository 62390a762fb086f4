"""``aggregate``: aggregates of results that are on disk already."""

import sys
from dataclasses import dataclass
from typing import Annotated, Any

from graphrag_eval_async.batch import MAX_RESULT_BYTES
from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.cli.files import check_distinct
from graphrag_eval_async.cli.gates import MISSING_RATE
from graphrag_eval_async.cli.jobs import ReadingInProcesses, processes_for
from graphrag_eval_async.cli.reading import Reading
from graphrag_eval_async.cli.report import Run, report
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.reference import load_reference


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """Aggregate results that are on disk.

    They may be in several files, of one run or of many.
    """

    results: Annotated[
        list[str], options.input_argument(metavar="RESULTS...", help="Results, JSONL; - is standard input.")
    ]
    reference: options.ReferenceOption = None
    aggregates: options.Aggregates = None
    rejects: options.Rejects = None
    fail_under: options.FailUnder
    fail_over: options.FailOver
    include_errors: options.IncludeErrors = False
    level: options.Level = "0.95"
    jobs: Annotated[
        int,
        options.jobs_option(
            help="Read files in N processes; 0 means one for each core. Standard input, pipes, compressed "
            "files and results in stages take one process.",
        ),
    ] = 1
    max_line_bytes: options.MaxLineBytes = MAX_RESULT_BYTES

    def run(self, interrupts: Interrupts) -> Exit:
        """Run the command.

        Raises:
            UsageError: a file cannot be opened or would be overwritten, or a gate needs a reference set.
            ReferenceDataError: the reference set is wrong.
        """
        gates = [*self.fail_under, *self.fail_over]
        if self.reference is None and any(gate.metric == MISSING_RATE for gate in gates):
            raise UsageError(f"a gate on {MISSING_RATE} needs --reference REFERENCE")
        check_distinct([*self.results, self.reference], [self.rejects, self.aggregates])
        reference = load_reference(self.reference) if self.reference is not None else None
        templates = reference.templates if reference is not None else ()
        aggregates = RunningAggregates(include_errors=self.include_errors, templates=templates)
        answered: set[str] = set()
        jobs = processes_for(self.jobs, self.results) if self.jobs != 1 else 1
        if jobs > 1:
            reading: Reading | ReadingInProcesses = ReadingInProcesses(
                self.results,
                jobs,
                interrupts,
                rejects=self.rejects,
                max_line_bytes=self.max_line_bytes,
                include_errors=self.include_errors,
                aggregates=aggregates,
                answered=answered,
            )
        else:
            reading = self._read(aggregates, answered, interrupts)
        run = Run(
            level=self.level,
            ending=reading.ending,
            aggregates=aggregates,
            rejected=reading.rejected,
            listed=reading.listed,
            reference=reference,
            answered=answered,
        )
        table = sys.stderr if self.rejects == "-" else sys.stdout
        return report(run, aggregates=self.aggregates, gates=gates, table=table)

    def _read(self, aggregates: RunningAggregates, answered: set[str], interrupts: Interrupts) -> Reading:
        def add(result: dict[str, Any]) -> None:
            aggregates.add(result)
            if isinstance(question_id := result.get("question_id"), str):
                answered.add(question_id)

        return Reading(
            [(path, add) for path in self.results],
            interrupts,
            rejects=self.rejects,
            max_line_bytes=self.max_line_bytes,
        )
