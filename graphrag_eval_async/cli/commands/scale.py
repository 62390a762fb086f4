"""``scale``: evaluates with the help of systems that run work on many machines."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import check_distinct, open_lines
from graphrag_eval_async.cli.gates import check_gates, named_tag_keys
from graphrag_eval_async.cli.judges import judge_config
from graphrag_eval_async.cli.reading import progress
from graphrag_eval_async.cli.run import report_shards
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.errors import UsageError, check_extra
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.scale.folder import SUFFIX
from graphrag_eval_async.scale.ray import check_responses, evaluate_on_ray
from graphrag_eval_async.scale.run import ShardedRun
from graphrag_eval_async.sinks import RejectWriter

if TYPE_CHECKING:
    from graphrag_eval_async.cli.command_table import Given
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
    evaluator = Evaluator(reference, **options)
    responses = check_responses(given.responses, given.output, evaluator)
    run = ShardedRun(
        evaluator,
        options,
        shards_path=f"{given.output}{SUFFIX}",
        max_workers=given.concurrency,
        max_in_flight=given.max_in_flight,
        on_reject=writer if given.rejects else "collect",
        first_tag_keys=named_tag_keys(given),
    )
    with ExitStack() as files:
        if given.rejects:
            writer.lines = files.enter_context(open_lines(given.rejects, interrupts))
        usage = run.usage if judge_of(config) else None
        with progress(run, usage=usage, aggregates=run.aggregates) as advance:
            work = evaluate_on_ray(run, responses, results=given.output, advance=advance)
            ending = run_to_end(work, interrupts, drain=run.stop)
    return report_shards(given, run, ending, reference=reference, config=config)
