"""``scale``: evaluates with the help of systems that run work on many machines."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import check_distinct, open_lines
from graphrag_eval_async.cli.gates import check_gates
from graphrag_eval_async.cli.judges import judge_config
from graphrag_eval_async.cli.reading import progress
from graphrag_eval_async.cli.run import report_shards
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.errors import UsageError, check_extra
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.scale.ray import RayEvaluation
from graphrag_eval_async.sinks import RejectWriter

if TYPE_CHECKING:
    from graphrag_eval_async.cli.commands import Given
    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.evaluator import EvaluatorOptions


def run(given: Given, interrupts: Interrupts) -> Exit:
    """Run ``scale ray``."""
    if "-" in given.responses:
        raise UsageError("standard input cannot be read by several workers")
    check_distinct(
        [given.reference, given.config, *given.responses],
        [given.output, given.rejects, given.aggregates],
    )
    check_extra("scale ray", "ray", "ray", "pyarrow")
    config, reference = judge_config(given.config, given.llm), load_reference(given.reference)
    check_gates(given, reference, config)

    options: EvaluatorOptions = {"config": config}
    writer = RejectWriter()
    evaluation = RayEvaluation(
        Evaluator(reference, **options),
        options,
        given.responses,
        given.output,
        given.concurrency,
        max_in_flight=given.max_in_flight,
        on_reject=writer if given.rejects else "collect",
    )
    outcome = evaluation.outcome
    with ExitStack() as files:
        if given.rejects:
            writer.lines = files.enter_context(open_lines(given.rejects, interrupts))
        usage = outcome.usage if judge_of(config) else None
        with progress(outcome, usage=usage, aggregates=outcome.aggregates) as advance:
            ending = run_to_end(evaluation.run(advance), interrupts, drain=outcome.stop)
    return report_shards(given, outcome, ending, reference=reference, config=config)
