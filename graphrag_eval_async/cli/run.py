"""The common part of ``evaluate`` and ``watch``: options, files, the stream, and its report."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts
from graphrag_eval_async.cli.files import check_distinct, is_among, open_lines, resumable_path
from graphrag_eval_async.cli.gates import check_names
from graphrag_eval_async.cli.judges import judge_config, judging, load_for, never_judged, nothing_judged
from graphrag_eval_async.cli.report import ReportOptions, deciding, end, journaling
from graphrag_eval_async.config import Config
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.metrics import OnFatal, judge_of
from graphrag_eval_async.monitor.otel import OtelExport, check_export
from graphrag_eval_async.monitor.otlp import OtlpFile
from graphrag_eval_async.reference import NoReference, Reference, load_reference
from graphrag_eval_async.scale.file_evaluation import EvaluatedFile
from graphrag_eval_async.scale.redis.results import Run
from graphrag_eval_async.scale.redis.source import RedisStream
from graphrag_eval_async.sinks import LineFile, RejectWriter
from graphrag_eval_async.sinks.done import Dedupe
from graphrag_eval_async.sinks.journal import Fsync, Journal
from graphrag_eval_async.sources import Responses
from graphrag_eval_async.stream import MAX_IN_FLIGHT, MAX_LINE_BYTES, EvaluationStream, evaluate_stream
from graphrag_eval_async.traces import TraceFormat
from graphrag_eval_async.traces.format import OTLP


@dataclass(frozen=True, kw_only=True)
class RunOptions(ReportOptions):
    """The options of a command that evaluates; the command defines `output`."""

    reference: options.OptionalReferencePath = None
    no_reference: options.NoReference = None
    output: str | None = None
    resume: Annotated[
        bool,
        options.resume_option(
            "--resume",
            help="Keep the output as a journal, and skip lines that are done. --resume=force resumes even if "
            "the reference set, the configuration or the version has changed.",
        ),
    ] = False
    resume_force: Annotated[bool, typer.Option("--resume-force", hidden=True)] = False
    fsync: Annotated[
        Fsync | None,
        options.resume_option(
            help="With --resume, when to flush results to the disk: after every result, once a second, or "
            "never.  [default: interval]"
        ),
    ] = None
    dedupe: Annotated[
        Dedupe,
        options.resume_option(
            help="How to recognise lines that were already evaluated: by position or by content. With "
            "content, equal lines count once."
        ),
    ] = "position"
    config: options.Config = None
    llm: options.Llm = None
    embedding: Annotated[
        str | None,
        options.judge_option(
            metavar="PROVIDER/MODEL",
            help="With --llm: judge answer relevance too, with this embedding model.",
        ),
    ] = None
    on_fatal: Annotated[
        OnFatal,
        options.judge_option(
            help="What to do on a wrong key, an unknown model or a used-up quota: raise stops the run, "
            "continue records an error for each metric."
        ),
    ] = "raise"
    stages: Annotated[
        bool,
        options.judge_option(
            "--stages",
            help="Write each result twice: when its steps are scored, with pending metrics, and complete.",
        ),
    ] = False
    steps_groups: options.StepsGroupsOption = None
    format: options.Format = None
    select: options.Select = None
    question_id: options.QuestionId = None
    failed: options.Failed
    step_name: options.StepNames
    grace: options.Grace = None
    otel: Annotated[
        bool,
        options.output_option(
            "--otel",
            help="Send each score to an OpenTelemetry collector; the OTEL_* environment variables say where.",
        ),
    ] = False
    otlp_metrics: Annotated[
        bool,
        options.output_option(
            "--otlp-metrics", help="Send means and counts to an OpenTelemetry collector as gauges."
        ),
    ] = False
    otlp_json: Annotated[
        str | None,
        options.output_option(
            parser=options.parser(resumable_path),
            metavar="FILE",
            help="Append each score to this file as OTLP JSON, for a collector to tail.",
        ),
    ] = None
    otel_metric: Annotated[
        list[str],
        options.output_option(
            metavar="METRIC",
            help="With --otel and --otlp-json: send only this score. Repeatable.",
            **options.REPEATABLE,
        ),
    ]
    ordered: Annotated[
        bool,
        options.output_option("--ordered", help="Write results in the order of the input."),
    ] = False
    max_in_flight: Annotated[
        int,
        options.advanced_option(min=1, metavar="N", help="Responses in progress at once, at most."),
    ] = MAX_IN_FLIGHT
    max_line_bytes: options.MaxLineBytes = MAX_LINE_BYTES

    @property
    def more_outputs(self) -> list[str | None]:
        """Other files that the command writes."""
        return []

    def load_reference(self) -> Reference:
        """Return the reference set, or what stands for none."""
        return NoReference() if self.reference is None else load_reference(self.reference)

    @property
    def is_resumable(self) -> bool:
        return self.resume or self.resume_force

    @property
    def kept_rejects(self) -> str | None:
        return (self.rejects or f"{self.output}.rejects") if self.is_resumable else None

    @property
    def traces(self) -> TraceFormat | None:
        chosen = self.format_name, self.select, self.question_id, self.failed, self.step_name
        return options.trace_format(*chosen, grace=self.grace, late=self.late)

    @property
    def format_name(self) -> str | None:
        return self.format

    @property
    def late(self) -> str | None:
        """The file for responses of traces with late spans."""
        has_late = self.format_name == OTLP and self.output not in (None, "-")
        return f"{self.output}.late" if has_late else None

    def read_config(self) -> Config | None:
        return judge_config(self.config, self.llm, self.embedding)

    def check_files(self, config: Config | None, *read: str | None) -> None:
        """Raise a `UsageError` if output options do not go together, or a file would be overwritten."""
        if self.otel or self.otlp_metrics:
            check_export()
        elif self.otel_metric and self.otlp_json is None:
            raise UsageError("--otel-metric needs --otel or --otlp-json")
        written = [self.output, self.rejects, self.aggregates, self.otlp_json, self.late, *self.more_outputs]
        if self.is_resumable:
            if self.output in (None, "-") or self.rejects == "-":
                raise UsageError("--resume needs -o FILE, and no --rejects on standard output")
            if self.stages:
                raise UsageError(
                    "--stages cannot be combined with --resume: a journal keeps only complete results"
                )
            written += [f"{self.output}{suffix}" for suffix in (".run", ".damaged", ".watch")]
            written += [] if self.rejects else [f"{self.output}.rejects"]
        elif self.fsync is not None:
            raise UsageError("--fsync needs --resume")
        elif self.output is not None and os.path.exists(f"{self.output}.run"):
            raise UsageError(
                f"{self.output!r} is a journal, which would be overwritten; --resume resumes it; to "
                f"overwrite it, delete {self.output}.run"
            )
        cache = config.llm.cache if config is not None and config.llm is not None else None
        paths = [path for path in (self.reference, self.config, cache, *read) if path is not None]
        check_distinct(paths, written)
        for path, file in product(paths, self.readable_outputs()):
            if is_among(file, path):
                raise UsageError(f"{file!r} is among the files of {path!r}, which are read")

    def readable_outputs(self) -> list[str]:
        """The files that would be read if they were among the sources; those of a journal would not."""
        lines = [] if self.is_resumable else [self.output, self.rejects]
        return [
            path
            for path in (self.aggregates, self.otlp_json, *self.more_outputs, *lines)
            if path is not None and path != "-"
        ]

    @contextmanager
    def open(
        self,
        reference: Reference,
        source: Responses | RedisStream,
        config: Config | None,
        interrupts: Interrupts,
        *,
        on_restored: Callable[[Mapping[str, Any]], object] | None = None,
        **more: Any,
    ) -> Iterator[tuple[EvaluationStream, LineFile | None]]:
        """A stream, and the file for its results; None if there is no file, or the stream keeps a journal."""
        for metric in self.otel_metric:
            check_names("--otel-metric", None, metric, (), config)
        journal = self._journal()
        output, rejects = (self.output, self.rejects) if journal is None else (None, None)
        writer = RejectWriter(max_bytes=self.max_reject_bytes)
        # Before any file is opened, since it may find the configuration wanting.
        stream = evaluate_stream(
            reference,
            source,
            config=config,
            aggregates=RunningAggregates(include_errors=self.include_errors),
            on_reject=writer if rejects else "collect",
            journal=journal,
            dedupe=self.dedupe,
            on_fatal=self.on_fatal,
            stages=self.stages,
            steps_groups=self.steps_groups,
            format=self.traces,
            ordered=self.ordered,
            max_in_flight=self.max_in_flight,
            max_line_bytes=self.max_line_bytes,
            **more,
        )
        if on_restored is not None:
            stream.tell_restored(on_restored)
        load_for(config)
        _ = stream.rejects  # They are shown at the end.
        with ExitStack() as files:
            results = files.enter_context(open_lines(output)) if output is not None else None
            if self.late is not None and journal is None:  # It is that of the results before.
                Path(self.late).unlink(missing_ok=True)
            if rejects is not None:
                writer.lines = files.enter_context(open_lines(rejects, interrupts))
            yield stream, results

    @contextmanager
    def exporting(self, stream: Run) -> Iterator[list[Callable[[Mapping[str, Any]], object]]]:
        """What takes each result for OpenTelemetry; at the end, delivers the rest."""
        takers: list[Callable[[Mapping[str, Any]], object]] = []
        with ExitStack() as exports:
            if self.otlp_json is not None:
                file = OtlpFile(self.otlp_json, self.otel_metric)
                exports.callback(file.close)
                takers.append(file.add)
            if self.otel or self.otlp_metrics:
                # Its messages, one for each attempt, would go through the screen; the end says it once.
                logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
                aggregates = stream.aggregates if self.otlp_metrics else None
                export = OtelExport(metrics=self.otel_metric, logs=self.otel, aggregates=aggregates)
                exports.callback(export.close)
                takers.append(export.add)
            yield takers

    def _journal(self) -> Journal | None:
        if not self.is_resumable or self.output is None:
            return None
        return Journal(
            self.output,
            force=self.resume_force,
            fsync=self.fsync or "interval",
            rejects=self.rejects,
            max_reject_bytes=self.max_reject_bytes,
        )

    def stopping(self, stream: EvaluationStream, stop: Callable[[], object]) -> Callable[[], None]:
        """Return what a first signal calls: `stop`; with a journal, unsent calls are left to the next run."""

        def stop_paying() -> None:
            stop()
            if self.is_resumable:
                stream.drop_unsent()

        return stop_paying

    def report_stream(
        self,
        stream: Run,
        ending: Ending,
        *,
        reference: Reference | None,
        config: Config | None,
        table: TextIO | None,
        notes: Iterable[str] = (),
        page: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> Exit:
        """Report the outcome of a stream, with `notes` at the end; only the error if it has not begun.

        `page` writes a report of the aggregates.
        """
        if not stream.is_restored:  # The journal could not be resumed.
            return end(ending)
        model, decision = judge_of(config), stream.decision
        skipped: list[str] = []
        if config is not None and model is not None and ending.error is None:
            metrics = stream.aggregates.snapshot()["micro"]
            ending = ending._replace(error=nothing_judged(config, stream.usage, metrics))
            if ending.error is None and metrics["number_of_success_samples"]:
                skipped = never_judged(config, stream.usage, metrics)
        about = [
            *journaling(stream),
            *(judging(model, stream.usage) if model is not None else ()),
            *(f"not judged: {text}" for text in skipped),
            *(deciding(decision) if decision is not None else ()),
        ]
        return self.report(
            EvaluatedFile(stream.aggregates, stream.rejects, stream.missing),
            ending,
            reference=reference,
            table=table,
            notes=[*about, *notes],
            decision=decision,
            page=page,
        )
