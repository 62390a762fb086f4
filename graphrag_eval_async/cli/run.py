"""The common part of ``evaluate`` and ``watch``: files, the stream, and its report."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.files import check_distinct, is_among, open_lines
from graphrag_eval_async.cli.gates import check_names
from graphrag_eval_async.cli.judges import judge_config, judging, load_for, never_judged, nothing_judged
from graphrag_eval_async.cli.report import deciding, end, journaling, report
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.metrics import judge_of
from graphrag_eval_async.monitor.otel import OtelExport, check_export
from graphrag_eval_async.monitor.otlp import OtlpFile
from graphrag_eval_async.reference import NoReference, Reference, load_reference
from graphrag_eval_async.scale.file_evaluation import EvaluatedFile
from graphrag_eval_async.sinks import RejectWriter
from graphrag_eval_async.sinks.journal import Journal
from graphrag_eval_async.stream import EvaluationStream, evaluate_stream
from graphrag_eval_async.traces import TraceFormat
from graphrag_eval_async.traces.format import OTLP
from graphrag_eval_async.traces.grouping import GRACE
from graphrag_eval_async.traces.trace import FAILURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts
    from graphrag_eval_async.cli.options import Given
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.inference.running import Interval
    from graphrag_eval_async.scale.redis.results import Run
    from graphrag_eval_async.scale.redis.source import RedisStream
    from graphrag_eval_async.sinks import LineFile
    from graphrag_eval_async.sources import Responses


def reference_of(given: Given) -> Reference:
    """Return the reference set, or what stands for none."""
    return NoReference() if given.reference is None else load_reference(given.reference)


def config_of(given: Given) -> Config | None:
    return judge_config(given.config, given.llm, given.embedding)


def trace_format(
    given: Given, *, name: str | None, grace: float | None = None, late: str | None = None
) -> TraceFormat | None:
    """Return the format of this name with the options for it; None without a name."""
    if name is None:
        options.refuse(given, "select question_id failed step_name grace", "{} needs --format")
        return None
    return TraceFormat(
        name=name,
        select=given.select,
        question_id=given.question_id,
        failed=tuple(given.failed) or FAILURES,
        step_names=dict(given.step_name),
        grace=GRACE if grace is None else grace,
        late=late,
    )


def traces_of(given: Given) -> TraceFormat | None:
    return trace_format(given, name=given.format, grace=given.grace, late=late_file(given))


def late_file(given: Given) -> str | None:
    """The file for responses of traces with late spans."""
    return f"{given.output}.late" if given.format == OTLP and given.output not in (None, "-") else None


def check_files(
    given: Given, config: Config | None, *read: str | None, pages: Iterable[str | None] = ()
) -> None:
    """Raise a `UsageError` if output options do not go together, or a file would be overwritten.

    `pages` are other files that the command writes.
    """
    if given.otel or given.otlp_metrics:
        check_export()
    elif given.otel_metric and given.otlp_json is None:
        raise UsageError("--otel-metric needs --otel or --otlp-json")
    written = [given.output, given.rejects, given.aggregates, given.otlp_json, late_file(given), *pages]
    if given.resume:
        if given.output in (None, "-") or given.rejects == "-":
            raise UsageError("--resume needs -o FILE, and no --rejects on standard output")
        options.refuse(
            given, "stages", "{} cannot be combined with --resume: a journal keeps only complete results"
        )
        written += [f"{given.output}{suffix}" for suffix in (".run", ".damaged", ".watch")]
        written += [] if given.rejects else [f"{given.output}.rejects"]
    options.refuse(given, "" if given.resume else "fsync", "{} needs --resume")
    if not given.resume and given.output is not None and os.path.exists(f"{given.output}.run"):
        raise UsageError(
            f"{given.output!r} is a journal, which would be overwritten; --resume resumes it; to "
            f"overwrite it, delete {given.output}.run"
        )
    cache = config.llm.cache if config is not None and config.llm is not None else None
    paths = [path for path in (given.reference, given.config, cache, *read) if path is not None]
    check_distinct(paths, written)
    for path, file in product(paths, readable_outputs(given, pages)):
        if is_among(file, path):
            raise UsageError(f"{file!r} is among the files of {path!r}, which are read")


def readable_outputs(given: Given, pages: Iterable[str | None] = ()) -> list[str]:
    """The files that would be read if they were among the sources; those of a journal would not."""
    lines = [] if given.resume else [given.output, given.rejects]
    written = (given.aggregates, given.otlp_json, *pages, *lines)
    return [path for path in written if path is not None and path != "-"]


@contextmanager
def open_stream(
    given: Given,
    reference: Reference,
    source: Responses | RedisStream,
    config: Config | None,
    interrupts: Interrupts,
    *,
    on_restored: Callable[[Mapping[str, Any]], object] | None = None,
    **more: Any,
) -> Iterator[tuple[EvaluationStream, LineFile | None]]:
    """A stream, and the file for its results; None if there is no file, or the stream keeps a journal."""
    for metric in given.otel_metric:
        check_names("--otel-metric", None, metric, (), config)
    most = given.max_reject_bytes
    journal = None
    if given.resume and given.output is not None:
        journal = Journal(
            given.output,
            force=given.resume == "force",
            fsync=given.fsync or "interval",
            rejects=given.rejects,
            max_reject_bytes=most,
        )
    output, rejects = (given.output, given.rejects) if journal is None else (None, None)
    writer = RejectWriter(max_bytes=most)
    # Before any file is opened, since it may find the configuration wanting.
    stream = evaluate_stream(
        reference,
        source,
        config=config,
        aggregates=RunningAggregates(include_errors=given.include_errors),
        on_reject=writer if rejects else "collect",
        journal=journal,
        dedupe=given.dedupe,
        on_fatal=given.on_fatal,
        stages=given.stages,
        steps_groups=given.steps_groups,
        format=traces_of(given),
        ordered=given.ordered,
        max_in_flight=given.max_in_flight,
        max_line_bytes=given.max_line_bytes,
        **more,
    )
    if on_restored is not None:
        stream.tell_restored(on_restored)
    load_for(config)
    _ = stream.rejects  # They are shown at the end.
    with ExitStack() as files:
        results = files.enter_context(open_lines(output)) if output is not None else None
        if (late := late_file(given)) is not None and journal is None:  # It is that of the results before.
            Path(late).unlink(missing_ok=True)
        if rejects is not None:
            writer.lines = files.enter_context(open_lines(rejects, interrupts))
        yield stream, results


@contextmanager
def exporting(given: Given, stream: Run) -> Iterator[list[Callable[[Mapping[str, Any]], object]]]:
    """What takes each result for OpenTelemetry; at the end, delivers the rest."""
    takers: list[Callable[[Mapping[str, Any]], object]] = []
    with ExitStack() as exports:
        if given.otlp_json is not None:
            file = OtlpFile(given.otlp_json, given.otel_metric)
            exports.callback(file.close)
            takers.append(file.add)
        if given.otel or given.otlp_metrics:
            # Its messages, one for each attempt, would go through the screen; the end says it once.
            logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
            aggregates = stream.aggregates if given.otlp_metrics else None
            export = OtelExport(metrics=given.otel_metric, logs=given.otel, aggregates=aggregates)
            exports.callback(export.close)
            takers.append(export.add)
        yield takers


def stopping(given: Given, stream: EvaluationStream, stop: Callable[[], object]) -> Callable[[], None]:
    """Return what a first signal calls: `stop`; with a journal, unsent calls are left to the next run."""

    def stop_paying() -> None:
        stop()
        if given.resume:
            stream.drop_unsent()

    return stop_paying


def report_stream(
    given: Given,
    stream: Run,
    ending: Ending,
    *,
    reference: Reference | None,
    config: Config | None,
    table: TextIO | None,
    interval: Interval | None = None,
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
    return report(
        given,
        EvaluatedFile(stream.aggregates, stream.rejects, stream.missing),
        ending,
        reference=reference,
        table=table,
        interval=interval,
        kept=(given.rejects or f"{given.output}.rejects") if given.resume else None,
        notes=[*about, *notes],
        decision=decision,
        page=page,
    )
