"""``watch``: responses that are still being written, evaluated as they come, and shown as it
goes.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from contextlib import nullcontext, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from graphrag_eval_async.cli.command_table import refuse
from graphrag_eval_async.cli.commands.watch.changes import AlertCommand, Kept
from graphrag_eval_async.cli.commands.watch.views import Screen, View, open_view
from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.gates import check_alerts, check_gates
from graphrag_eval_async.cli.run import (
    check_files,
    config_of,
    exporting,
    make_stream,
    open_results,
    reference_of,
    report_stream,
    stopping,
)
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.errors import SourceError, UsageError
from graphrag_eval_async.exporters.prometheus import MetricsServer, PrometheusCollector
from graphrag_eval_async.monitor.alerts import message
from graphrag_eval_async.monitor.board import Board
from graphrag_eval_async.monitor.counting import LOOK_SECONDS, Counting
from graphrag_eval_async.monitor.dashboard_server import DashboardServer
from graphrag_eval_async.monitor.facts import Facts
from graphrag_eval_async.sources import Follower, JsonlFiles, follow_jsonl, read_jsonl
from graphrag_eval_async.sources.paths import MEMBERS
from graphrag_eval_async.sources.receiving import OtlpReceiver, receive_otlp
from graphrag_eval_async.text import one_line
from graphrag_eval_async.traces.format import OTLP

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.run import Send
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.monitor.alerts import Change
    from graphrag_eval_async.stream import EvaluationStream

Source: TypeAlias = Follower | JsonlFiles | OtlpReceiver

OPEN_FILES = 65_536  # more than anybody follows

LISTED_FILES = 10  # how many files that were not read are named

NEVER_EXISTED = "never existed"
"""Why a given path was not read for which no file was found."""

HAS_NO_FILES = f"has no {MEMBERS} file"
"""The same of a directory that exists."""


def run(given: Given, interrupts: Interrupts) -> Exit:
    """Run the command."""
    given = _checked(given)
    config, reference = config_of(given), reference_of(given)
    check_files(given, config, *given.paths)
    check_gates(given, reference, config)
    check_alerts(given.alert, reference.templates, config)
    counting = Counting(given.window, given.show, given.alert)
    ended = asyncio.Event()
    source = _source(given, ended)
    stream, writer = make_stream(given, reference, source, config)
    stream.tell_restored(counting.restore)
    with (
        nullcontext() if given.metrics is None else MetricsServer(*given.metrics) as metrics,
        nullcontext() if given.web is None else DashboardServer(*given.web) as web,
        open_results(given, writer, interrupts) as lines,
        exporting(given, lines) as send,
    ):
        stop = ended.set if isinstance(source, Follower) else stream.stop
        stops = stopping(given, stream, stop)
        if isinstance(source, OtlpReceiver):
            watched = [f"http://{source.host}:{source.port}/v1/traces"]
        else:
            watched = given.paths
        facts = Facts(
            stream, counting, source=source, config=config, paths=watched, level=given.level
        )
        view = open_view(facts, given.every, interrupts)
        journal = given.output if given.resume else None
        kept = Kept(journal, counting.alerts, lambda: stream.is_restored)
        command = None if given.on_alert is None else AlertCommand(given.on_alert, view.say)
        work = _watch(stream, send, counting, view, kept, command)
        if web is not None:
            view.address = web.url
            view.say(f"dashboard: {web.url}")
            work = web.run(
                work, Board(facts, counting, f"Watching {', '.join(watched)}", given.output)
            )
        if metrics is not None:
            view.say(f"metrics: {metrics.address}")
            work = metrics.run(work, _collector(given, stream, source, counting, config))
        ending = run_to_end(work, interrupts, drain=stops)
        ending = ending.attempt(partial(view.finish, shown=stream.is_restored))
    unread = _unread(source)
    # What exists later, or can be read later, is an error only for a run that has ended by itself.
    if given.until_idle is not None and ending.is_complete and unread:
        ending = ending._replace(error=_unread_error(given, unread, counting.count))
    return report_stream(
        given,
        stream,
        ending,
        reference=reference,
        config=config,
        table=sys.stdout if isinstance(view, Screen) else sys.stderr,
        interval="anytime",  # It was looked at.
        notes=[*map(one_line, _listed(unread))],
    )


def _unread(source: Source) -> dict[str, str]:
    """Return why given paths and files that were found have not been read, by path."""
    if not isinstance(source, Follower):
        return {}
    missing = {}
    for path in source.not_found:
        missing[path] = HAS_NO_FILES if os.path.isdir(path) else NEVER_EXISTED
    return missing | source.unread


def _unread_error(given: Given, unread: Mapping[str, str], results: int) -> SourceError:
    """Return the error of a run to which a part of its input is missing."""
    is_all_missing = all(unread.get(path) in (NEVER_EXISTED, HAS_NO_FILES) for path in given.paths)
    if is_all_missing and not results:
        missing = ", ".join(f"{path} {unread[path]}" for path in given.paths)
        return SourceError(f"nothing to watch: {missing}; check the path")
    return SourceError("; ".join(_listed(unread)))


def _listed(unread: Mapping[str, str]) -> list[str]:
    """Return the first files that were not read, each with its reason, and how many more there
    are.
    """
    listed = [f"{path}: {reason}" for path, reason in islice(unread.items(), LISTED_FILES)]
    if len(unread) > LISTED_FILES:
        listed.append(f"and {len(unread) - LISTED_FILES} more files that were not read")
    return listed


def _collector(
    given: Given,
    stream: EvaluationStream,
    source: Source,
    counting: Counting,
    config: Config | None,
) -> Callable[[], PrometheusCollector]:
    return partial(
        PrometheusCollector,
        stream,
        recent=counting.recent,
        source=source if isinstance(source, Follower) else None,
        alerts=counting.alerts.states,
        reference=None if given.reference is None else os.path.basename(given.reference),
        judge_model=judge_of(config),
    )


def _checked(given: Given) -> Given:
    """Sort logs from the reference set; raise a `UsageError` if options do not go together."""
    if given.no_reference is not None:  # All arguments are logs.
        others = [] if given.reference is None else [given.reference]
        given = given.replace(reference=None, paths=[given.no_reference, *others, *given.paths])
    elif given.reference is None:
        raise UsageError("expected REFERENCE and PATH..., or --no-reference PATH...")
    if given.otlp_listen is not None:
        if given.paths or given.format not in (None, OTLP):
            raise UsageError(
                "--otlp-listen cannot be combined with logs or a --format other than otlp"
            )
        refuse(given, "until_idle", "--otlp-listen cannot be combined with {}")
    elif not given.paths:
        raise UsageError("nothing to watch: name logs, or --otlp-listen HOST:PORT")
    _check_paths(given)
    if not given.alert:
        refuse(given, "on_alert", "{} needs --alert")
    if "-" in {given.output, given.rejects}:
        raise UsageError("standard output shows the view: -o and --rejects need files")
    return given if given.otlp_listen is None else given.replace(format=OTLP)


def _check_paths(given: Given) -> None:
    if len(given.paths) > 1 and "-" in given.paths:
        raise UsageError("standard input (-) cannot be watched together with files")
    if given.paths == ["-"]:
        if sys.stdin is None:
            raise UsageError("standard input is closed")
        told = "{} is for files; standard input (-) is read until it ends"
        refuse(given, "until_idle start", told)


def _source(given: Given, ended: asyncio.Event) -> Source:
    if given.otlp_listen is not None:
        return receive_otlp(*given.otlp_listen)
    if given.paths == ["-"]:
        return read_jsonl("-")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:  # The usual limit is for old programs.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return follow_jsonl(
        given.paths,
        start=given.start,
        idle_timeout=given.until_idle,
        exclude=given.exclude,
        ignore_older=given.ignore_older,
        stop=ended,
    )


async def _watch(
    stream: EvaluationStream,
    send: Send,
    counting: Counting,
    view: View,
    kept: Kept,
    command: AlertCommand | None,
) -> None:
    def tell(change: Change) -> None:
        view.say(message(change))
        if command is not None:
            command.add(change)
        kept.changed.set()

    async def work() -> None:
        async with stream:
            async for result in stream:
                kept.resume()
                # The aggregates have it already, even if it cannot be written.
                counting.add(result)
                await send(result)
        kept.resume()
        if command is not None:
            await command.finish()

    async def look() -> NoReturn:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if kept.resume():
                counting.look(stream)

    counting.alerts.on_change = tell
    try:
        await _alongside(work(), look(), kept.keep(), *(loop() for loop in view.loops))
    finally:
        if command is not None:
            await command.aclose()
        await kept.write()


async def _alongside(
    work: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, NoReturn]
) -> None:
    """Do `work` while the others run; one of them that fails ends it."""
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
