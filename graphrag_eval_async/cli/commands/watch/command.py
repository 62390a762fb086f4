"""``watch``: evaluates responses while logs of them grow, and shows how the run goes."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from graphrag_eval_async.cli.commands.watch.changes import AlertCommand, AlertFile
from graphrag_eval_async.cli.commands.watch.views import Screen, View, open_view
from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.gates import check_alerts, check_gates
from graphrag_eval_async.cli.judges import judge_config
from graphrag_eval_async.cli.run import (
    LogOptions,
    check_files,
    make_stream,
    make_trace_format,
    open_results,
    read_reference,
    report_stream,
    sending,
    stopping,
)
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.errors import SourceError, UsageError
from graphrag_eval_async.exporters.prometheus import MetricsServer, PrometheusCollector
from graphrag_eval_async.helpers.text import one_line
from graphrag_eval_async.monitor.alerts import message
from graphrag_eval_async.monitor.board import Board
from graphrag_eval_async.monitor.counting import LOOK_SECONDS, Counting
from graphrag_eval_async.monitor.dashboard_server import DashboardServer
from graphrag_eval_async.monitor.facts import Facts
from graphrag_eval_async.sources import Follower, JsonlFiles, follow_jsonl, read_jsonl
from graphrag_eval_async.sources.paths import MEMBERS
from graphrag_eval_async.sources.receiving import OtlpReceiver, receive_otlp
from graphrag_eval_async.stream import evaluate_stream
from graphrag_eval_async.traces.format import OTLP

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from graphrag_eval_async.aggregates import Last, Seconds
    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.run import Send
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.monitor.alerts import Alert, Change
    from graphrag_eval_async.stream import EvaluationStream

Source: TypeAlias = Follower | JsonlFiles | OtlpReceiver

MAX_OPEN_FILES = 65_536
"""The limit of open files that is asked for: more than anybody follows."""

MAX_LISTED_FILES = 10
"""Maximum number of files that were not read and are named at the end."""

NEVER_EXISTED = "never existed"
"""Why a given path was not read for which no file was found."""

HAS_NO_FILES = f"has no {MEMBERS} file"
"""Why a given directory was not read."""


@dataclass(frozen=True, kw_only=True)
class WatchOptions(LogOptions):
    """The options of ``watch``."""

    paths: list[str]
    otlp_listen: tuple[str, int] | None
    start: Literal["beginning", "end"]
    until_idle: float | None
    exclude: list[str]
    ignore_older: float | None
    window: Last | Seconds
    show: Literal["last", "worst"]
    every: float
    metrics: tuple[str, int] | None
    web: tuple[str, int] | None
    alert: list[Alert]
    on_alert: str | None


def run(options: WatchOptions, interrupts: Interrupts) -> Exit:
    """Evaluate logs while they grow, show the run, and print its summary at the end."""
    options = _check_options(options)
    config = judge_config(options.config, options.llm)
    reference = read_reference(options.reference)
    check_files(options, config, *options.paths)
    check_gates(options.gate, None, reference, config)
    check_alerts(options.alert, reference.templates, config)

    # What is read and evaluated. The results of an earlier run, from the journal, are counted too.
    counting = Counting(options.window, options.show, options.alert)
    stop_following = asyncio.Event()
    source = _open_source(options, stop_following)
    make = partial(evaluate_stream, dedupe=options.dedupe, format=make_trace_format(options))
    stream, writer = make_stream(options, reference, source, config, make=make)
    stream.tell_restored(counting.restore)
    with (
        nullcontext() if options.metrics is None else MetricsServer(*options.metrics) as metrics,
        nullcontext() if options.web is None else DashboardServer(*options.web) as web,
        open_results(options, writer, interrupts) as lines,
        sending(lines, otel=options.otel) as send,
    ):
        paths = options.paths
        if isinstance(source, OtlpReceiver):
            paths = [f"http://{source.host}:{source.port}/v1/traces"]
        # What is shown while the run lasts, and what follows alerts.
        facts = Facts(
            stream, counting, source=source, config=config, paths=paths, level=options.level
        )
        view = open_view(facts, options.every, interrupts)
        journal = options.output if options.resume else None
        alert_file = AlertFile(journal, counting.alerts, lambda: stream.is_restored)
        command = None if options.on_alert is None else AlertCommand(options.on_alert, view.say)
        work = _watch(stream, send, counting, view, alert_file, command)

        # Each server runs beside the work that is given to it.
        if web is not None:
            view.address = web.url
            view.say(f"dashboard: {web.url}")
            board = Board(facts, counting, f"Watching {', '.join(paths)}", options.output)
            work = web.run(work, board)
        if metrics is not None:
            view.say(f"metrics: {metrics.address}")
            work = metrics.run(work, _collector(options, stream, source, counting, config))

        # At the first signal, the follower stops reading, and the stream still evaluates what was
        # read. Other sources can only be stopped together with the stream.
        stop = stop_following.set if isinstance(source, Follower) else stream.stop
        ending = run_to_end(work, interrupts, drain=stopping(options, stream, stop))
        # If the final state cannot be shown, this becomes the error of the run.
        ending = ending.attempt(partial(view.finish, shown=stream.is_restored))

    unread = _unread_files(source)
    # A file may still be created, or become readable, as long as the run waits for it. So it is an
    # error only if the run ended by itself: with --until-idle, and not by Ctrl-C.
    if options.until_idle is not None and ending.is_complete and unread:
        ending = ending._replace(error=_unread_error(options, unread, counting.count))
    return report_stream(
        options,
        stream,
        ending,
        reference=reference,
        config=config,
        output_stream=sys.stdout if isinstance(view, Screen) else sys.stderr,
        interval="anytime",  # Somebody looked at the run before its end.
        notes=[one_line(line) for line in _list_files(unread)],
    )


def _unread_files(source: Source) -> dict[str, str]:
    """Return the files and paths that were not read, each with the reason.

    They are paths of the command line at which no file was found, and files that were found but
    could not be read.
    """
    # Standard input and a receiver of traces have no files.
    if not isinstance(source, Follower):
        return {}
    missing = {}
    for path in source.not_found:
        missing[path] = HAS_NO_FILES if os.path.isdir(path) else NEVER_EXISTED
    return missing | source.unread


def _unread_error(options: WatchOptions, unread: Mapping[str, str], results: int) -> SourceError:
    """Return the error of a run that could not read some of its files.

    Args:
        options: the options, with the paths.
        unread: why paths and files were not read, by path.
        results: number of results of the run.
    """
    is_all_missing = all(
        unread.get(path) in (NEVER_EXISTED, HAS_NO_FILES) for path in options.paths
    )
    # A journal may have results, even if none of the logs exists any more.
    if is_all_missing and not results:
        missing = ", ".join(f"{path} {unread[path]}" for path in options.paths)
        return SourceError(f"nothing to watch: {missing}; check the path")
    return SourceError("; ".join(_list_files(unread)))


def _list_files(unread: Mapping[str, str]) -> list[str]:
    """Return a line for each file that was not read, at most `MAX_LISTED_FILES`.

    If there are more files, a last line says how many.

    Args:
        unread: why files were not read, by path.
    """
    lines = [f"{path}: {reason}" for path, reason in islice(unread.items(), MAX_LISTED_FILES)]
    hidden = len(unread) - MAX_LISTED_FILES
    if hidden > 0:
        lines.append(f"and {hidden} more files that were not read")
    return lines


def _collector(
    options: WatchOptions,
    stream: EvaluationStream,
    source: Source,
    counting: Counting,
    config: Config | None,
) -> Callable[[], PrometheusCollector]:
    """Return a function that creates the collector of the metrics page in Prometheus format."""
    return partial(
        PrometheusCollector,
        stream,
        recent=counting.recent,
        source=source if isinstance(source, Follower) else None,
        alerts=counting.alerts.states,
        reference=None if options.reference is None else os.path.basename(options.reference),
        judge_model=judge_of(config),
    )


def _check_options(options: WatchOptions) -> WatchOptions:
    """Check the options of the command, and complete them.

    Returns:
        The options with all logs in `paths`, and with the format of the traces to be received.

    Raises:
        UsageError: options do not go together, or logs are missing.
    """
    if options.no_reference is not None:
        # Without a reference set, all arguments are logs; `reference` holds the second one.
        paths = [options.no_reference]
        if options.reference is not None:
            paths.append(options.reference)
        options = replace(options, reference=None, paths=[*paths, *options.paths])
    elif options.reference is None:
        raise UsageError("expected REFERENCE and PATH..., or --no-reference PATH...")

    if options.otlp_listen is not None:
        if options.paths or options.format not in (None, OTLP):
            raise UsageError(
                "--otlp-listen cannot be combined with logs or a --format other than otlp"
            )
        options.refuse("until_idle", message="--otlp-listen cannot be combined with {}")
        options = replace(options, format=OTLP)
    elif not options.paths:
        raise UsageError("nothing to watch: name logs, or --otlp-listen HOST:PORT")
    _check_standard_input(options)

    if not options.alert:
        options.refuse("on_alert", message="{} needs --alert")
    if "-" in {options.output, options.rejects}:
        raise UsageError("standard output shows the view: -o and --rejects need files")
    return options


def _check_standard_input(options: WatchOptions) -> None:
    """Check the options if standard input (-) is watched.

    Raises:
        UsageError: standard input is closed, is watched together with files, or has an option that
            is for files.
    """
    if "-" not in options.paths:
        return
    if len(options.paths) > 1:
        raise UsageError("standard input (-) cannot be watched together with files")
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    problem = "{} is for files; standard input (-) is read until it ends"
    options.refuse("until_idle", "start", message=problem)


def _open_source(options: WatchOptions, stop_following: asyncio.Event) -> Source:
    """Return the source of responses: a receiver of traces, standard input, or a log follower.

    Args:
        given: the options.
        stop_following: an event that ends the log follower once it is set.
    """
    if options.otlp_listen is not None:
        host, port = options.otlp_listen
        return receive_otlp(host, port)
    if options.paths == ["-"]:
        return read_jsonl("-")
    _raise_limit_of_open_files()
    return follow_jsonl(
        options.paths,
        start=options.start,
        idle_timeout=options.until_idle,
        exclude=options.exclude,
        ignore_older=options.ignore_older,
        stop=stop_following,
    )


def _raise_limit_of_open_files() -> None:
    """Raise the limit of open files of this process, if the system allows it.

    The usual limit, such as 1,024, is for old programs; each followed log is an open file.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_OPEN_FILES
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        # A sandbox may forbid the change.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


async def _watch(
    stream: EvaluationStream,
    send: Send,
    counting: Counting,
    view: View,
    alert_file: AlertFile,
    command: AlertCommand | None,
) -> None:
    """Evaluate the stream, and show the run and its alerts meanwhile.

    Args:
        stream: gives the results.
        send: writes a result.
        counting: counts the results, and watches alerts.
        view: shows the run and messages.
        alert_file: keeps the alerts.
        command: runs at each change of an alert; None without one.
    """

    def react(change: Change) -> None:
        """Say that an alert started or ended, run the command, and note it in the file."""
        view.say(message(change))
        if command is not None:
            command.add(change)
        alert_file.changed.set()

    async def evaluate() -> None:
        """Count and write each result, then wait for commands."""
        async with stream:
            async for result in stream:
                # The alerts of an earlier run must be active before a result of this run counts.
                alert_file.resume()
                # Counted before it is written: the aggregates of the stream already contain the
                # result, even if the write fails.
                counting.add(result)
                await send(result)
        alert_file.resume()
        if command is not None:
            await command.finish()

    async def look_at_alerts() -> NoReturn:
        """Start and end the alerts that change with time alone, without a new result."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # Until the alerts of the earlier run are resumed, none is looked at.
            if alert_file.resume():
                counting.look(stream)

    counting.alerts.on_change = react
    view_loops = [loop() for loop in view.loops]
    try:
        await _alongside(evaluate(), look_at_alerts(), alert_file.write_changes(), *view_loops)
    finally:
        if command is not None:
            await command.aclose()
        await alert_file.write()


async def _alongside(
    work: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, NoReturn]
) -> None:
    """Run coroutines concurrently until `work` ends; then cancel the others.

    If one of them raises an error, all are cancelled, and the error is raised.
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
            task.result()  # Raises the error of the task, if it has one.
