"""``compare``: two runs, question by question."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.comparison import regressions, render_comparison
from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import check_distinct, open_rejects, write_aggregates
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.reading import Reading
from graphrag_eval_async.cli.report import list_rejects, tell_error
from graphrag_eval_async.cli.text import one_line, tell
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.sources import read_jsonl

if TYPE_CHECKING:
    from graphrag_eval_async.cli.exits import Exit, Interrupts


def compare(
    baseline: str,
    candidate: str,
    interrupts: Interrupts,
    *,
    output: str | None,
    rejects: str | None,
    fail_on_regression: bool,
    level: float,
    worst: int,
    include_errors: bool,
    max_line_bytes: int,
) -> Exit:
    """Run the command.

    Raises:
        UsageError: a file cannot be opened or would be overwritten, or both sides are standard input.
    """
    if baseline == candidate == "-":
        raise UsageError("only one of the two can come from standard input")
    check_distinct([baseline, candidate], [rejects, output])
    comparison = RunningComparison(include_errors=include_errors)
    sides = [
        (baseline, read_jsonl(baseline), comparison.add_baseline),
        (candidate, read_jsonl(candidate), comparison.add),
    ]
    with ExitStack() as files:
        rejects_file = files.enter_context(open_rejects(rejects, interrupts)) if rejects else None
        reading = Reading(rejects_file, max_line_bytes=max_line_bytes)
        with progress(*(source for _, source, _ in sides)) as advance:
            ending = run_to_end(reading.read(sides, advance), interrupts)
    list_rejects(reading.rejected, reading.listed)
    gates: list[str] = []
    if ending.error is None and not interrupts.came:  # Half of a file would mislead.
        snapshot = comparison.snapshot(level=level)
        gates = regressions(snapshot) if fail_on_regression else []
        table = sys.stderr if rejects == "-" else sys.stdout
        try:
            if output is not None:
                write_aggregates(output, snapshot)
            tell(table, render_comparison(snapshot, worst=worst))
        except OSError as error:
            ending = ending._replace(error=error)
        for gate in gates:
            tell(sys.stderr, one_line(f"gate does not hold: {gate}"))
    tell_error(ending)
    return ending.code(rejects=bool(reading.rejected), gates=bool(gates))
