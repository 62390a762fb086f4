"""``evaluate``: results and aggregates of responses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.costs import judge_of
from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.run import cache_of, open_run, report_run
from graphrag_eval_async.cli.sending import Sending
from graphrag_eval_async.cli.until import seed_of, tell_order
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.sources import read_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.gates import Gate
    from graphrag_eval_async.cli.models import Models
    from graphrag_eval_async.cli.outputs import Outputs
    from graphrag_eval_async.inference.until import Until
    from graphrag_eval_async.stream import EvaluationStream


def evaluate(
    reference_path: str,
    responses: str,
    interrupts: Interrupts,
    *,
    models: Models,
    outputs: Outputs,
    gates: Sequence[Gate],
    include_errors: bool,
    level: float,
    until: Until | None = None,
    shuffle: int | None = None,
    **options: Any,
) -> Exit:
    """Run the command; `options` are those of `evaluate_stream`.

    Raises:
        UsageError: options do not go together, or a file cannot be opened, or would be overwritten.
        ConfigError: the configuration cannot be right, or needs a package that is not installed.
        ReferenceDataError: the reference set cannot be right.
    """
    config = models.config()
    outputs.check([reference_path, responses, models.path, cache_of(config)], stages=options["stages"])
    reference = load_reference(reference_path)
    seed = seed_of(responses, until, shuffle, gates)
    source = read_jsonl(responses, shuffle=seed)
    run = open_run(
        reference,
        source,
        interrupts,
        outputs=outputs,
        config=config,
        include_errors=include_errors,
        until=until,
        **options,
    )
    answered: set[str] = set()
    with run as (stream, results):
        if until is not None and shuffle is None:
            tell_order(seed)
        # Results on the same terminal would go through the bar.
        shown = outputs.results != "-" or not sys.stdout.isatty()
        with progress(source, shown=shown, usage=stream.usage if judge_of(config) else None) as advance:
            sending = Sending(results, stream.stop)
            work = _write_results(stream, sending, answered, advance)
            ending = run_to_end(work, interrupts, drain=sending.drain)
    return report_run(
        stream,
        ending,
        level=level,
        reference=reference,
        answered=answered,
        source=responses,
        config=config,
        outputs=outputs,
        gates=gates,
        table=sys.stderr if "-" in {outputs.results, outputs.rejects} else sys.stdout,
    )


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
