"""``aggregate``: aggregates of results that are on disk already."""

import sys
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from graphrag_eval_async.batch import MAX_RESULT_BYTES
from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import STATE, check_distinct, merge_aggregates
from graphrag_eval_async.cli.gates import MISSING_RATE
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.reading import collecting, processes_for, read_to_end
from graphrag_eval_async.cli.report import ReportOptions
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.running import Interval, RunningAggregates
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.scale.file_evaluation import EvaluatedFile
from graphrag_eval_async.scale.merging import Merging
from graphrag_eval_async.scale.work import Aggregating, Reply
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.sources.shards import Window


@dataclass(frozen=True, kw_only=True)
class Aggregate(ReportOptions):
    """Aggregate results that are on disk.

    The results may be in several files, of one run or of many, or of the shards of a run. Files that end in
    .aggregates, which --aggregates writes, are merged as they are.
    """

    example: ClassVar = "aggregate results.jsonl --aggregates aggregates.yaml"

    results: Annotated[
        list[str],
        options.input_argument(
            metavar="RESULTS...", help="Results, JSONL, or .aggregates files; - for standard input."
        ),
    ]
    reference: options.ReferenceOption = None
    interval: options.IntervalKind = None
    jobs: options.Jobs = 1
    max_line_bytes: options.MaxResultBytes = MAX_RESULT_BYTES

    @property
    def interval_kind(self) -> Interval | None:
        kind: Interval | None = self.interval
        return kind

    def run(self, interrupts: Interrupts) -> Exit:
        merged = [path for path in self.results if path.endswith(STATE)]
        if any(gate.metric == MISSING_RATE for gate in self.gates):
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
        answered: set[str] = set()
        jobs = processes_for(self.jobs, self._lines) if self.jobs != 1 else 1
        if jobs > 1:
            steps = reference.step_names if reference is not None else frozenset()
            rejects, ending = self._read_in_processes(jobs, aggregates, steps, answered, interrupts)
        else:
            rejects, ending = self._read(aggregates, answered, interrupts)
        if ending.error is None and not interrupts.came:
            aggregates.finish()
        questions = reference.questions if reference is not None else ()
        missing = [question_id for question_id in questions if question_id not in answered]
        found = EvaluatedFile(aggregates, rejects, missing)
        table = sys.stderr if self.rejects == "-" else sys.stdout
        return self.report(found, ending, reference=None if merged else reference, table=table)

    @property
    def _lines(self) -> list[str]:
        """The paths of results."""
        return [path for path in self.results if not path.endswith(STATE)]

    def _read(
        self, aggregates: RunningAggregates, answered: set[str], interrupts: Interrupts
    ) -> tuple[Rejects, Ending]:
        def add(result: dict[str, Any]) -> None:
            aggregates.add(result)
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
        answered: set[str],
        interrupts: Interrupts,
    ) -> tuple[Rejects, Ending]:
        spool = self.rejects is not None
        with collecting(self.rejects, self.max_reject_bytes, interrupts) as (rejects, on_reject):
            merging = Merging(
                Aggregating(
                    max_line_bytes=self.max_line_bytes,
                    include_errors=self.include_errors,
                    content=spool,
                    steps=steps,
                ),
                [Window(file) for path in self._lines for file in expand([path])],
                jobs,
                aggregates=aggregates,
                on_reject=on_reject,
                spool=spool,
                threaded=True,
            )
            with progress(merging) as advance:

                async def take(_: object, reply: Reply) -> None:
                    answered.update(reply.questions)
                    for _ in range(reply.results + len(reply.rejects)):
                        advance()

                return rejects, run_to_end(merging.run(take), interrupts)
