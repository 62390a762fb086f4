"""``scale``: evaluates with the help of systems that run work on many machines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts
from graphrag_eval_async.cli.files import check_distinct, open_lines
from graphrag_eval_async.cli.gates import check_gates
from graphrag_eval_async.cli.judges import judge_config
from graphrag_eval_async.cli.report import report
from graphrag_eval_async.errors import JudgeError, SourceError, UsageError, WorkerError
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.scale.ray.evaluation import evaluate_dataset
from graphrag_eval_async.scale.ray.parts import stored_rejects
from graphrag_eval_async.sinks import RejectWriter
from graphrag_eval_async.text import dollars, tell

if TYPE_CHECKING:
    from graphrag_eval_async.cli.commands import Given


def run(given: Given, interrupts: Interrupts) -> Exit:
    if "-" in given.responses:
        raise UsageError("standard input cannot be read by several workers")
    check_distinct([given.reference, given.config, *given.responses], [given.rejects, given.aggregates])
    config, reference = judge_config(given.config, given.llm), load_reference(given.reference)
    check_gates(given, reference, config)
    try:
        found = evaluate_dataset(
            reference,
            given.responses,
            results=given.results,
            resume=given.resume,
            concurrency=given.concurrency,
            batch_size=given.batch_size,
            include_errors=given.include_errors,
            max_in_flight=given.max_in_flight,
            max_line_bytes=given.max_line_bytes,
            config=config,
            steps_groups=given.steps_groups,
        )
    except (SourceError, JudgeError, WorkerError):
        tell(sys.stderr, f"batches that are done stay in {given.results}; --resume evaluates the rest")
        raise
    if given.rejects is not None:
        with open_lines(given.rejects, interrupts) as lines:
            write = RejectWriter(lines, max_bytes=given.max_reject_bytes)
            for reject in stored_rejects(given.results):
                write(reject)
    notes = [f"skipped as done: {found.skipped}"] if found.skipped else []
    if found.usage:
        calls, attempts = int(found.usage["calls"]), int(found.usage["attempts"])
        notes.append(f"judge: {calls} calls, {attempts} attempts, {dollars(found.usage['dollars'])}")
    return report(given, found, Ending(interrupts), reference=reference, notes=notes)
