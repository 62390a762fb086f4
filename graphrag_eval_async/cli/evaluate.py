"""``evaluate``: results and aggregates of responses."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates import RunningAggregates
from graphrag_eval_async.cli.costs import judge_of, judging
from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import open_output, open_rejects
from graphrag_eval_async.cli.input import Input
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.report import LISTED_REJECTS, Run, journaling, report
from graphrag_eval_async.cli.sending import Sending
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.stream import EvaluationStream, evaluate_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.cli.exits import Exit
    from graphrag_eval_async.cli.gates import Gate
    from graphrag_eval_async.cli.interrupts import Interrupts
    from graphrag_eval_async.cli.models import Models
    from graphrag_eval_async.cli.outputs import Outputs
    from graphrag_eval_async.sinks import RejectsFile


def evaluate(
    reference_path: str,
    responses: str,
    interrupts: Interrupts,
    *,
    models: Models,
    outputs: Outputs,
    gates: Sequence[Gate],
    include_errors: bool,
    **options: Any,
) -> Exit:
    """Run the command; `options` are those of `evaluate_stream`.

    Raises:
        UsageError: options do not go together, or a file cannot be opened, or would be overwritten.
        ConfigError: the configuration cannot be right, or needs a package that is not installed.
        ReferenceDataError: the reference set cannot be right.
    """
    config = models.config()
    cache = config.llm.cache if config is not None and config.llm is not None else None
    outputs.check([reference_path, responses, models.path, cache], stages=options["stages"])
    reference = load_reference(reference_path)
    source = Input(responses)
    rejects_files: list[RejectsFile] = []
    to_file = outputs.rejects is not None and not outputs.resume
    # Before any file is opened, since it may find the configuration wanting.
    stream = evaluate_stream(
        reference,
        source,
        config=config,
        aggregates=RunningAggregates(include_errors=include_errors),
        on_reject=(lambda reject: rejects_files[0](reject)) if to_file else "collect",
        journal=outputs.journal(),
        **options,
    )
    model = judge_of(config)
    with ExitStack() as files:
        results = None
        if outputs.results is not None and not outputs.resume:
            results = files.enter_context(open_output(LineFile, outputs.results))
        if outputs.rejects is not None and to_file:
            rejects_files.append(files.enter_context(open_rejects(outputs.rejects, interrupts)))
        # Results on the same terminal would go through the bar.
        shown = outputs.results != "-" or not sys.stdout.isatty()
        with progress(source, shown=shown, usage=stream.usage if model else None) as advance:
            sending = Sending(results, stream.stop)
            answered: set[str] = set()
            work = _write_results(stream, sending, answered, advance)
            ending = run_to_end(work, interrupts, drain=sending.drain)
    if stream.journal is not None:
        answered = {*reference.questions} - {*stream.missing}
    run = Run(
        ending=ending,
        aggregates=stream.aggregates,
        rejected=stream.rejects.counts,
        listed=[f"{responses}: {reject}" for reject in stream.rejects[:LISTED_REJECTS]],
        reference=reference,
        answered=answered,
        notes=[*journaling(stream), *(judging(model, stream.usage) if model else ())],
    )
    table = sys.stderr if "-" in {outputs.results, outputs.rejects} else sys.stdout
    return report(run, aggregates=outputs.aggregates, gates=gates, table=table)


async def _write_results(
    stream: EvaluationStream, sending: Sending, answered: set[str], advance: Callable[[], None]
) -> None:
    async with stream:
        async for result in stream:
            # The aggregates have it already, even if it cannot be written.
            answered.add(result["question_id"])
            if "pending" not in result:
                advance()
            await sending.send(result)
