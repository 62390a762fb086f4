"""``watch``: responses that are still being written, evaluated as they come, and shown as it goes."""

from __future__ import annotations

import asyncio
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.run import cache_of, has_begun, open_run, report_run
from graphrag_eval_async.cli.sending import Sending
from graphrag_eval_async.cli.watch.baseline import final_lines, load_baseline
from graphrag_eval_async.cli.watch.commands import Commands
from graphrag_eval_async.cli.watch.counting import Counting, Showing
from graphrag_eval_async.cli.watch.facts import Facts
from graphrag_eval_async.cli.watch.views import Screen, open_view
from graphrag_eval_async.reference import load_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts
    from graphrag_eval_async.cli.gates import Gate
    from graphrag_eval_async.cli.models import Models
    from graphrag_eval_async.cli.outputs import Outputs
    from graphrag_eval_async.cli.watch.alerts import Change
    from graphrag_eval_async.cli.watch.following import Following
    from graphrag_eval_async.cli.watch.views import View
    from graphrag_eval_async.stream import EvaluationStream

LOOK_SECONDS = 1.0
"""How often alerts look whether time alone has changed something."""


def watch(
    reference_path: str,
    following: Following,
    interrupts: Interrupts,
    *,
    models: Models,
    outputs: Outputs,
    showing: Showing,
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
    following.check(outputs)
    config = models.config()
    read = [reference_path, *following.paths, models.path, cache_of(config), showing.baseline]
    outputs.check(read, stages=options["stages"])
    reference = load_reference(reference_path)
    showing = showing.of(reference.templates, config)
    comparison = None
    if showing.baseline is not None:
        comparison = load_baseline(showing.baseline, outputs, include_errors=include_errors)
    counting = Counting(showing, include_errors=include_errors, comparison=comparison)
    stop = asyncio.Event()
    follower = following.follow(stop)
    common: dict[str, Any] = {"outputs": outputs, "config": config}
    run = open_run(reference, follower, interrupts, include_errors=include_errors, **common, **options)
    with run as (stream, lines):
        sending = Sending(lines, stop.set)
        facts = Facts(stream, follower, counting, showing, config, reference, following.paths)
        view = open_view(facts, showing, interrupts)
        work = _watch(stream, sending, counting, view, showing.on_alert)
        ending = run_to_end(work, interrupts, drain=sending.drain)
        ending = _finish(view.finish if has_begun(stream, outputs) else view.clear, ending)
    return report_run(
        stream,
        ending,
        level=showing.level,
        reference=reference,
        answered=counting.answered,
        source=" ".join(following.paths),
        gates=gates,
        table=sys.stdout if isinstance(view, Screen) else sys.stderr,
        notes=final_lines(comparison, showing.level) if comparison is not None else (),
        **common,
    )


def _finish(finish: Callable[[], None], ending: Ending) -> Ending:
    try:
        finish()
    except OSError as error:
        return ending._replace(error=ending.error or error)
    return ending


async def _watch(
    stream: EvaluationStream, sending: Sending, counting: Counting, view: View, on_alert: str | None
) -> None:
    commands = Commands(on_alert, view.say) if on_alert is not None else None

    def tell(change: Change) -> None:
        view.say(change.message)
        if commands is not None:
            commands.run(change)

    async def work() -> None:
        async with stream:
            async for result in stream:
                # The aggregates have it already, even if it cannot be written.
                counting.add(result)
                await sending.send(result)
        if commands is not None:
            await commands.finish()

    counting.alerts.on_change = tell
    try:
        await _alongside(work(), _look(counting), *(loop() for loop in view.loops))
    finally:
        if commands is not None:
            await commands.aclose()


async def _look(counting: Counting) -> NoReturn:
    """Let alerts see the time pass."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        counting.alerts.look(monotonic())


async def _alongside(work: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, NoReturn]) -> None:
    """Do `work` while the others run.

    Raises:
        Exception: of `work`, or of one of the others, which ends it.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in (work, *others)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled():
            task.result()
