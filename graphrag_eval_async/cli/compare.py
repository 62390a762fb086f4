"""``compare``: two runs, question by question."""

import sys
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from graphrag_eval_async.batch import MAX_RESULT_BYTES
from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.comparison import regressions, render_comparison
from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.cli.files import aggregates_path, check_distinct, write_aggregates
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.report import end, list_rejects
from graphrag_eval_async.cli.text import tell
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.comparison import RunningComparison


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Compare the results of two runs, question by question.

    It tells by how much each metric has changed, whether that can be chance, which questions got worse, and
    which are on one side only.
    """

    baseline: Annotated[
        str,
        options.input_argument(
            metavar="BASELINE", help="Results to compare with, JSONL; - is standard input."
        ),
    ]
    candidate: Annotated[
        str, options.input_argument(metavar="CANDIDATE", help="Results to be compared, likewise.")
    ]
    output: Annotated[
        str | None,
        options.file_option(
            "--output",
            "-o",
            parser=options.parser(aggregates_path),
            help="Write the whole comparison here, by the suffix as YAML (.yaml, .yml) or JSON (.json).",
        ),
    ] = None
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression",
            help="Gate: no score, nor the error rate, must have become worse, overall or in a template, by "
            "more than chance, nor questions have lost their scores; and there must be a score to compare.",
        ),
    ] = False
    level: options.Level = "0.95"
    worst: Annotated[
        int, typer.Option(min=0, metavar="N", help="How many of the questions that got worse to list.")
    ] = 10
    include_errors: options.IncludeErrors = False
    rejects: options.Rejects = None
    max_line_bytes: options.MaxLineBytes = MAX_RESULT_BYTES

    def run(self, interrupts: Interrupts) -> Exit:
        """Run the command."""
        if self.baseline == self.candidate == "-":
            raise UsageError("only one of the two can come from standard input")
        check_distinct([self.baseline, self.candidate], [self.rejects, self.output])
        comparison = RunningComparison(include_errors=self.include_errors)
        rejects, ending = read_to_end(
            [(self.baseline, comparison.add_baseline), (self.candidate, comparison.add)],
            interrupts,
            rejects=self.rejects,
            max_line_bytes=self.max_line_bytes,
        )
        list_rejects(rejects)
        failures: list[str] = []
        if ending.error is None and not interrupts.came:  # Half of a file would mislead.
            snapshot = comparison.snapshot(level=self.level)
            failures = regressions(snapshot) if self.fail_on_regression else []
            if self.output is not None:
                ending = ending.attempt(partial(write_aggregates, self.output, snapshot))
            table = sys.stderr if self.rejects == "-" else sys.stdout
            ending = ending.attempt(partial(tell, table, render_comparison(snapshot, worst=self.worst)))
        return end(ending, rejects, failures)
