"""``aggregate``: aggregates of results that are on disk already."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import check_distinct, open_rejects
from graphrag_eval_async.cli.gates import MISSING_RATE
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.reading import Reading
from graphrag_eval_async.cli.report import Run, report
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.sources import read_jsonl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.gates import Gate


def aggregate(
    shards: Sequence[str],
    interrupts: Interrupts,
    *,
    reference_path: str | None,
    aggregates: str | None,
    rejects: str | None,
    gates: Sequence[Gate],
    include_errors: bool,
    level: float,
    max_line_bytes: int,
) -> Exit:
    """Run the command.

    Raises:
        UsageError: a file cannot be opened or would be overwritten, or a gate wants a reference set.
        ReferenceDataError: the reference set cannot be right.
    """
    if reference_path is None and any(gate.metric == MISSING_RATE for gate in gates):
        raise UsageError(f"a gate on {MISSING_RATE} needs --reference REFERENCE")
    check_distinct([*shards, reference_path], [rejects, aggregates])
    reference = load_reference(reference_path) if reference_path is not None else None
    templates = reference.templates if reference is not None else ()
    running = RunningAggregates(include_errors=include_errors, templates=templates)
    answered: set[str] = set()

    def add(result: dict[str, Any]) -> None:
        running.add(result)
        if isinstance(question_id := result.get("question_id"), str):
            answered.add(question_id)

    sources = [read_jsonl(shard) for shard in shards]
    with ExitStack() as files:
        rejects_file = files.enter_context(open_rejects(rejects, interrupts)) if rejects else None
        reading = Reading(rejects_file, max_line_bytes=max_line_bytes)
        with progress(*sources) as advance:
            read = [(shard, source, add) for shard, source in zip(shards, sources, strict=True)]
            ending = run_to_end(reading.read(read, advance), interrupts)
    run = Run(
        level=level,
        ending=ending,
        aggregates=running,
        rejected=reading.rejected,
        listed=reading.listed,
        reference=reference,
        answered=answered,
    )
    table = sys.stderr if rejects == "-" else sys.stdout
    return report(run, aggregates=aggregates, gates=gates, table=table)
