"""``scale``: evaluates with the help of systems that run work on many machines."""

import sys
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts
from graphrag_eval_async.cli.files import check_distinct, input_path, open_lines
from graphrag_eval_async.cli.gates import check_gates
from graphrag_eval_async.cli.judges import judge_config
from graphrag_eval_async.cli.report import ReportOptions, end
from graphrag_eval_async.errors import (
    ConfigError,
    GraphragEvalError,
    JudgeError,
    ReferenceDataError,
    SourceError,
    UsageError,
    WorkerError,
)
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.scale.file_evaluation import EvaluatedFile
from graphrag_eval_async.scale.ray.evaluation import DatasetEvaluation, evaluate_dataset, stored_rejects
from graphrag_eval_async.sinks import RejectWriter
from graphrag_eval_async.stream import MAX_IN_FLIGHT, MAX_LINE_BYTES
from graphrag_eval_async.text import dollars, tell


@dataclass(frozen=True, kw_only=True)
class ScaleRay(ReportOptions):
    """Evaluate responses on a Ray cluster.

    Connects to the cluster that RAY_ADDRESS names, or starts Ray on this machine. All hosts need the files
    and DIR under the same path. Run it again with --resume after a failure.
    """

    example: ClassVar = "scale ray reference.yaml responses.jsonl --results results --concurrency 2"

    reference: options.ReferencePath
    responses: Annotated[
        list[str],
        typer.Argument(
            parser=options.parser(input_path),
            metavar="RESPONSES...",
            help="Responses, JSONL or Parquet: files (.gz too), directories or globs.",
        ),
    ]
    results: Annotated[
        str,
        options.output_option(
            metavar="DIR",
            show_default=False,
            help="Directory for Parquet files of results, in results/, and of rejects, in rejects/.",
        ),
    ]
    resume: Annotated[
        bool, options.resume_option("--resume", help="Skip responses that are done in DIR.")
    ] = False
    concurrency: Annotated[
        int, options.advanced_option(min=1, metavar="N", help="Number of workers, which are Ray actors.")
    ] = 1
    batch_size: Annotated[
        int | None,
        options.advanced_option(
            min=1,
            metavar="N",
            help="Responses in a batch, which a worker that dies evaluates again.  [default: 2048, but 256 "
            "with a judge]",
        ),
    ] = None
    config: options.Config = None
    llm: options.Llm = None
    steps_groups: options.StepsGroupsOption = None
    max_in_flight: Annotated[
        int, options.advanced_option(min=1, metavar="N", help="Responses that a worker judges at once.")
    ] = MAX_IN_FLIGHT
    max_line_bytes: options.MaxLineBytes = MAX_LINE_BYTES

    def run(self, interrupts: Interrupts) -> Exit:
        if "-" in self.responses:
            raise UsageError("standard input cannot be read by several workers")
        check_distinct([self.reference, self.config, *self.responses], [self.rejects, self.aggregates])
        config, reference = judge_config(self.config, self.llm), load_reference(self.reference)
        check_gates(self.gates, reference.templates, config)
        try:
            found = evaluate_dataset(
                reference,
                self.responses,
                results=self.results,
                resume=self.resume,
                concurrency=self.concurrency,
                batch_size=self.batch_size,
                include_errors=self.include_errors,
                max_in_flight=self.max_in_flight,
                max_line_bytes=self.max_line_bytes,
                config=config,
                steps_groups=self.steps_groups,
            )
        except (UsageError, ConfigError, ReferenceDataError):
            raise
        except (SourceError, JudgeError, WorkerError) as error:
            tell(sys.stderr, f"batches that are done stay in {self.results}; --resume evaluates the rest")
            return end(Ending(interrupts, error))
        except GraphragEvalError as error:
            return end(Ending(interrupts, error))
        self._write_rejects(interrupts)
        return self.report(
            EvaluatedFile(found.aggregates, found.rejects, found.missing),
            Ending(interrupts),
            reference=reference,
            table=sys.stderr if self.rejects == "-" else sys.stdout,
            notes=_notes(found),
        )

    def _write_rejects(self, interrupts: Interrupts) -> None:
        if self.rejects is not None:
            with open_lines(self.rejects, interrupts) as lines:
                writer = RejectWriter(lines, max_bytes=self.max_reject_bytes)
                for reject in stored_rejects(self.results):
                    writer(reject)


def _notes(found: DatasetEvaluation) -> list[str]:
    notes = [f"skipped as done: {found.skipped}"] if found.skipped else []
    if found.usage:
        calls, attempts = int(found.usage["calls"]), int(found.usage["attempts"])
        notes.append(f"judge: {calls} calls, {attempts} attempts, {dollars(found.usage['dollars'])}")
    return notes
