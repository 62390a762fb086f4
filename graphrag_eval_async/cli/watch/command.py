"""``watch``: responses that are still being written, evaluated as they come, and shown as it goes."""

import asyncio
import os
import resource
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Annotated, Any, ClassVar, Literal, NoReturn, TypeAlias

import typer

from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Exit, Interrupts, Sending, run_to_end
from graphrag_eval_async.cli.files import file_path, open_lines, output_path
from graphrag_eval_async.cli.gates import check_alerts, check_gates
from graphrag_eval_async.cli.run import RunOptions
from graphrag_eval_async.cli.watch.baseline import final_lines, load_baseline
from graphrag_eval_async.cli.watch.commands import ShellCommand
from graphrag_eval_async.cli.watch.kept import Kept
from graphrag_eval_async.cli.watch.views import Lines, Screen, open_view
from graphrag_eval_async.config import Config
from graphrag_eval_async.errors import SourceError, UsageError
from graphrag_eval_async.inference.running import Interval
from graphrag_eval_async.metrics import judge_of
from graphrag_eval_async.monitor.alerts import Alert, Change, message, parse_alert
from graphrag_eval_async.monitor.arrivals import Arrivals
from graphrag_eval_async.monitor.board import Board
from graphrag_eval_async.monitor.counting import LOOK_SECONDS, Counting, Show
from graphrag_eval_async.monitor.dashboard_server import DashboardServer
from graphrag_eval_async.monitor.deliveries import Deliveries
from graphrag_eval_async.monitor.facts import Facts
from graphrag_eval_async.monitor.prometheus import PrometheusCollector
from graphrag_eval_async.monitor.prometheus_server import MetricsServer
from graphrag_eval_async.monitor.webhooks import SECRET, Webhook
from graphrag_eval_async.monitor.webhooks import parse_address as parse_url
from graphrag_eval_async.monitor.windows import parse_duration, parse_window
from graphrag_eval_async.redis_client import is_redis
from graphrag_eval_async.reference import Reference
from graphrag_eval_async.scale.redis.results import RedisRun, Run
from graphrag_eval_async.scale.redis.source import RedisStream, stream_at
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.sources import Follower, JsonlFiles, follow_jsonl, read_jsonl
from graphrag_eval_async.sources.paths import former_names
from graphrag_eval_async.sources.receiving import OtlpReceiver, receive_otlp
from graphrag_eval_async.stream import EvaluationStream
from graphrag_eval_async.text import one_line
from graphrag_eval_async.traces.format import OTLP

Source: TypeAlias = Follower | JsonlFiles | OtlpReceiver | RedisStream

OPEN_FILES = 65_536  # more than anybody follows
DURATION: dict[str, Any] = {"parser": options.parser(parse_duration), "metavar": "TIME"}


@dataclass(frozen=True, kw_only=True)
class Watch(RunOptions):
    """Follow growing logs and show live scores.

    On a terminal, shows overall and recent scores; s sorts the templates, j, k, PgDn and PgUp scroll them.
    Without a terminal, prints one JSON object per interval. Ctrl-C stops it.
    """

    example: ClassVar = "watch reference.yaml logs/ --alert 'steps_score < 0.8 over 200'"

    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            default_factory=list,
            show_default=False,
            help="Logs of responses, JSONL: files, directories or globs, which may appear later; - for "
            "standard input; or redis://HOST/STREAM?group=GROUP, to show what all workers of a group find.",
        ),
    ]
    otlp_listen: Annotated[
        Any,
        options.input_option(
            parser=options.parser(options.parse_address),
            metavar="HOST:PORT",
            help="Receive OpenTelemetry spans over HTTP instead of following logs, such as 127.0.0.1:4318.",
        ),
    ] = None
    start: Annotated[
        Literal["beginning", "end"],
        options.input_option(help="Where to begin in files that already exist."),
    ] = "beginning"
    until_idle: Annotated[
        float | None,
        options.input_option(
            **DURATION,
            help="Stop when nothing was written for this long, such as 30s; exit code 4 if no log ever "
            "existed.",
        ),
    ] = None
    # Any, of what is parsed, since the defaults are text that is parsed as well.
    poll_interval: Annotated[
        Any, options.advanced_option(**DURATION, help="How often to look for new lines.")
    ] = "50ms"
    exclude: Annotated[
        list[str],
        options.input_option(
            metavar="GLOB",
            help="Skip logs with this name, or this path if GLOB has a slash: '*.debug.jsonl'. Repeatable.",
            **options.REPEATABLE,
        ),
    ]
    ignore_older: Annotated[
        float | None,
        options.input_option(
            **DURATION, help="Of logs last written longer ago than this, such as 24h, read only new lines."
        ),
    ] = None
    window: Annotated[
        Any,
        options.output_option(
            parser=options.parser(parse_window),
            metavar="N|TIME",
            help="What counts as recent: a number of results, or a time such as 5m.",
        ),
    ] = "200"
    show: Annotated[
        Show,
        options.output_option(
            help="Which results to list: the last, or the worst (errors, then the lowest scores)."
        ),
    ] = "last"
    interval: Annotated[
        Any,
        options.output_option(**DURATION, help="How often to print JSON without a terminal."),
    ] = "10s"
    metrics: Annotated[
        Any,
        options.output_option(
            parser=options.parser(options.parse_address),
            metavar="[HOST:]PORT",
            help="Serve metrics for Prometheus at this address, such as :9464; without HOST, only to this "
            "machine. Port 0 selects a free one.",
        ),
    ] = None
    alert: Annotated[
        list[Alert],
        options.alert_option(
            parser=options.parser(parse_alert),
            metavar="CONDITION",
            help="Alert when the mean of recent values crosses a threshold: 'steps_score < 0.8 over 200', "
            "'TEMPLATE: error_rate > 0.1 over 5m'; when a quantile does: 'p95 elapsed_sec > 30'; or on "
            "'no lines for 10m'. Repeatable.  [default window: that of --window]",
            **options.REPEATABLE,
        ),
    ]
    on_alert: Annotated[
        str | None,
        options.alert_option(
            metavar="COMMAND",
            help="Shell command to run when an alert starts or ends, with the facts as JSON on its standard "
            "input; killed after 30 s.",
        ),
    ] = None
    on_alert_url: Annotated[
        list[Any],
        options.alert_option(
            parser=options.parser(parse_url),
            metavar="URL",
            help="Post the facts as JSON to this URL when an alert starts or ends; ${NAME} stands for an "
            f"environment variable. The secret in {SECRET} signs it. Repeatable.",
            **options.REPEATABLE,
        ),
    ]
    baseline: Annotated[
        str | None,
        options.statistics_option(
            parser=options.parser(partial(file_path, what="the baseline")),
            metavar="FILE",
            help="Results of an earlier run, JSONL, to compare with question by question.",
        ),
    ] = None
    web: Annotated[
        Any,
        options.output_option(
            parser=options.parser(options.parse_web),
            metavar="[HOST:PORT]",
            help="Show the run in the browser at this address.  [default: 127.0.0.1:8080]",
        ),
    ] = None
    output: Annotated[
        str | None,
        options.output_option(
            "--output", "-o", parser=output_path, metavar="FILE", help="Write results here, as JSONL."
        ),
    ] = None

    @property
    def interval_kind(self) -> Interval | None:
        return "anytime"  # It was looked at.

    def run(self, interrupts: Interrupts) -> Exit:
        if self.no_reference is not None:
            others = [] if self.reference is None else [self.reference]
            paths = [self.no_reference, *others, *self.paths]
            return replace(self, reference=None, no_reference="", paths=paths)._run(interrupts)
        if self.reference is None:
            raise UsageError("expected REFERENCE and PATH..., or --no-reference PATH...")
        if is_redis(self.reference):  # The workers know their reference set.
            return replace(self, reference=None, paths=[self.reference, *self.paths])._run(interrupts)
        return self._run(interrupts)

    def _run(self, interrupts: Interrupts) -> Exit:
        self._check_options()
        config = self.read_config()
        self.check_files(config, *self.paths, self.baseline)
        reference = self.load_reference()
        check_gates(self.gates, reference.templates, config)
        check_alerts(self.alert, reference.templates, config)
        counting = self._counting(config)
        stop = asyncio.Event()
        source = self._source(stop)
        with (
            nullcontext() if self.metrics is None else MetricsServer(*self.metrics) as metrics,
            nullcontext() if self.web is None else DashboardServer(*self.web) as web,
            self._opened(reference, source, config, interrupts, on_restored=counting.restore) as (
                stream,
                lines,
            ),
            self.exporting(stream) as takers,
        ):
            stopping = stream.stop
            if isinstance(stream, EvaluationStream):
                stopping = self.stopping(stream, stop.set if isinstance(source, Follower) else stream.stop)
            sending = Sending(lines, stopping, takers)
            watched = [str(source)] if isinstance(source, RedisStream) else self.paths
            if isinstance(source, OtlpReceiver):
                watched = [f"http://{source.host}:{source.port}/v1/traces"]
            facts = Facts(stream, counting, source=source, config=config, paths=watched, level=self.level)
            view = open_view(facts, self.window, self.interval, interrupts, reads_stdin=self.paths == ["-"])
            journal = self.output if self.is_resumable else None
            kept = Kept(journal, counting.alerts, counting.arrivals, lambda: stream.is_restored)
            work = _watch(stream, sending, counting, view, kept, self._deliveries(view.say))
            if web is not None:
                view.say(f"dashboard: {web.url}")
                title = f"Watching {', '.join(watched)}"
                work = web.run(work, Board(facts, counting, title, self.output))
            if metrics is not None:
                view.say(f"metrics: {metrics.address}")
                work = metrics.run(work, partial(self._collector, stream, counting, source, config))
            ending = run_to_end(work, interrupts, drain=sending.drain)
            ending = ending.attempt(partial(view.finish, shown=stream.is_restored))
        compared = final_lines(counting.comparison, self.level) if counting.comparison is not None else ()
        not_found = source.not_found if isinstance(source, Follower) else []
        if self.until_idle is not None and {*not_found} == {*self.paths} and not counting.count:
            problem = f"nothing to watch: {', '.join(not_found)} never existed; check the path"
            ending = ending._replace(error=ending.error or SourceError(problem))
        return self.report_stream(
            stream,
            ending,
            reference=reference,
            config=config,
            table=sys.stdout if isinstance(view, Screen) else sys.stderr,
            notes=[*compared, *(one_line(f"{path}: never existed") for path in not_found)],
        )

    @contextmanager
    def _opened(
        self, reference: Reference, source: Source, *given: Any, **more: Any
    ) -> Iterator[tuple[Run, LineFile | None]]:
        """The results to show, and the file for them, if any."""
        if isinstance(source, RedisStream):
            with nullcontext() if self.output is None else open_lines(self.output) as lines:
                yield RedisRun(source.settings, reference), lines
        else:
            with self.open(reference, source, *given, **more) as opened:
                yield opened

    def _deliveries(self, say: Callable[[str], object]) -> list[Deliveries]:
        secret = os.environ.get(SECRET)
        key = None if secret is None else secret.encode(errors="surrogateescape")
        posts = [
            Deliveries(f"--on-alert-url {address.host}", Webhook(address, key), say)
            for address in self.on_alert_url
        ]
        if self.on_alert is None:
            return posts
        return [Deliveries("--on-alert", ShellCommand(self.on_alert), say), *posts]

    def _collector(
        self, stream: Run, counting: Counting, source: Source, config: Config | None
    ) -> PrometheusCollector:
        return PrometheusCollector(
            stream,
            recent=counting.recent,
            source=source if isinstance(source, Follower) else None,
            alerts=counting.alerts.states,
            reference=None if self.reference is None else os.path.basename(self.reference),
            judge_model=judge_of(config),
            level=self.level,
        )

    def _counting(self, config: Config | None) -> Counting:
        comparison = None
        if self.baseline is not None:
            primary = None if config is None else config.primary
            comparison = load_baseline(self.baseline, include_errors=self.include_errors, primary=primary)
        return Counting(
            self.window,
            self.show,
            self.alert,
            include_errors=self.include_errors,
            comparison=comparison,
            arrivals=Arrivals([self.window, *(alert.window for alert in self.alert)]),
        )

    @property
    def format_name(self) -> str | None:
        return self.format if self.otlp_listen is None else OTLP

    def _check_options(self) -> None:
        if self.otlp_listen is None and not self.paths:
            raise UsageError("nothing to watch: name logs, or --otlp-listen HOST:PORT")
        if any(map(is_redis, self.paths)):
            self._check_redis()
        if not self.alert:
            given = {"--on-alert": self.on_alert is not None, "--on-alert-url": self.on_alert_url}
            options.refuse(given, "{} needs --alert")
        if self.on_alert_url and os.environ.get(SECRET) == "":
            raise UsageError(f"the environment variable {SECRET} is empty; set it, or unset it")
        if self.otlp_listen is not None and (
            self.paths or self.until_idle is not None or self.format not in (None, OTLP)
        ):
            raise UsageError(
                "--otlp-listen cannot be combined with logs, --until-idle or a --format other than otlp"
            )
        if "-" in self.paths:
            self._check_stdin()
        if "-" in {self.output, self.rejects}:
            raise UsageError("standard output shows the view: -o and --rejects need files")
        for written, path in product(self.readable_outputs(), self.paths):
            if os.path.normpath(path) in map(os.path.normpath, former_names(written)):
                raise UsageError(f"{written!r} is a name for the log {path!r} once it is rotated")

    def _check_redis(self) -> None:
        if len(self.paths) > 1:
            raise UsageError("a group of a Redis server cannot be watched together with others")
        others = {
            "--config": self.config or self.llm,
            "--format": self.format,
            "--otlp-metrics": self.otlp_metrics,
            "--rejects": self.rejects,
            "--resume": self.is_resumable,
            "--start": self.start != "beginning",
            "--until-idle": self.until_idle,
        }
        options.refuse(others, "{} cannot be combined with a Redis stream, which watch only shows")

    def _check_stdin(self) -> None:
        if len(self.paths) > 1:
            raise UsageError("standard input (-) cannot be watched together with files")
        if sys.stdin is None:
            raise UsageError("standard input is closed")
        for_files = {"--until-idle": self.until_idle, "--start": self.start != "beginning"}
        options.refuse(for_files, "{} is for files; standard input (-) is read until it ends")

    def _source(self, stop: asyncio.Event) -> Source:
        if self.otlp_listen is not None:
            return receive_otlp(*self.otlp_listen)
        if self.paths == ["-"]:
            return read_jsonl("-")
        if is_redis(self.paths[0]):
            return stream_at(self.paths[0])
        raise_file_limit()
        return follow_jsonl(
            self.paths,
            start=self.start,
            poll_interval=self.poll_interval,
            idle_timeout=self.until_idle,
            exclude=self.exclude,
            ignore_older=self.ignore_older,
            stop=stop,
        )


def raise_file_limit() -> None:
    """Let this process hold as many files open as it may, since the usual limit is for old programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _watch(
    stream: Run,
    sending: Sending,
    counting: Counting,
    view: Screen | Lines,
    kept: Kept,
    deliveries: Sequence[Deliveries],
) -> None:
    def tell(change: Change) -> None:
        view.say(message(change))
        for each in deliveries:
            each.add(change)
        kept.changed.set()

    async def work() -> None:
        async with stream:
            async for result in stream:
                kept.resume()
                # The aggregates have it already, even if it cannot be written.
                counting.add(result)
                await sending.send(result)
        kept.resume()
        await asyncio.gather(*(each.finish() for each in deliveries))

    async def look() -> NoReturn:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if kept.resume():
                kept.note(counting.count)
                counting.look(stream)

    counting.alerts.on_change = tell
    try:
        await _alongside(work(), look(), kept.keep(), *(loop() for loop in view.loops))
    finally:
        await asyncio.gather(*(each.aclose() for each in deliveries))
        kept.note(counting.count, last=True)
        await kept.write()


async def _alongside(work: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, NoReturn]) -> None:
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
