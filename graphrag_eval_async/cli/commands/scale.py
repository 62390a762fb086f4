"""``scale``: evaluates with the help of systems that run work on many machines."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import check_distinct, open_lines
from graphrag_eval_async.cli.gates import check_gates, named_tag_keys
from graphrag_eval_async.cli.judges import judge_config
from graphrag_eval_async.cli.reading import progress
from graphrag_eval_async.cli.run import report_shards
from graphrag_eval_async.cli.run_summary import SummaryOptions, page_stream
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.errors import UsageError, check_extra
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.scale.folder import SUFFIX
from graphrag_eval_async.scale.ray import check_responses, evaluate_on_ray
from graphrag_eval_async.scale.run import ShardedRun
from graphrag_eval_async.sinks import RejectWriter

if TYPE_CHECKING:
    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.evaluator import EvaluatorOptions


@dataclass(frozen=True, kw_only=True)
class RayOptions(SummaryOptions):
    """The options of ``scale ray``."""

    reference: str
    responses: list[str]
    output: str
    config: str | None
    llm: str | None
    concurrency: int
    max_in_flight: int


def run(options: RayOptions, interrupts: Interrupts) -> Exit:
    """Evaluate responses on a Ray cluster."""
    if "-" in options.responses:
        raise UsageError("standard input cannot be read by several workers")
    check_distinct(
        [options.reference, options.config, *options.responses],
        [options.output, options.rejects, options.aggregates],
    )
    check_extra("scale ray", "ray", "ray", "pyarrow")
    config = judge_config(options.config, options.llm)
    reference = load_reference(options.reference)
    check_gates(options.gate, None, reference, config)

    evaluator_options: EvaluatorOptions = {"config": config}
    reject_writer = RejectWriter()
    evaluator = Evaluator(reference, **evaluator_options)
    responses = check_responses(options.responses, options.output, evaluator)
    run = ShardedRun(
        evaluator,
        evaluator_options,
        shards_path=f"{options.output}{SUFFIX}",
        max_workers=options.concurrency,
        max_in_flight=options.max_in_flight,
        on_reject=reject_writer if options.rejects else "collect",
        first_tag_keys=named_tag_keys(options.gate, None),
    )
    with ExitStack() as files:
        if options.rejects:
            reject_writer.lines = files.enter_context(open_lines(options.rejects, interrupts))
        usage = run.usage if judge_of(config) else None
        with progress(run, usage=usage, aggregates=run.aggregates) as advance:
            work = evaluate_on_ray(run, responses, results=options.output, advance=advance)
            ending = run_to_end(work, interrupts, drain=run.stop)
    return report_shards(
        options,
        run,
        ending,
        output_stream=page_stream(options.rejects, options.output),
        reference=reference,
        config=config,
    )
