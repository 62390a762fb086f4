"""What the commands that evaluate have in common."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.costs import judge_of, judging
from graphrag_eval_async.cli.files import open_output, open_rejects
from graphrag_eval_async.cli.report import LISTED_REJECTS, Run, journaling, report, tell_error
from graphrag_eval_async.cli.until import deciding
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.stream import EvaluationStream, evaluate_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

    from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts
    from graphrag_eval_async.cli.gates import Gate
    from graphrag_eval_async.cli.outputs import Outputs
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.reference import Reference
    from graphrag_eval_async.sinks import RejectsFile
    from graphrag_eval_async.sources import Responses


def cache_of(config: Config | None) -> str | None:
    """The path of the file that keeps finished calls, if there is one."""
    return config.llm.cache if config is not None and config.llm is not None else None


@contextmanager
def open_run(
    reference: Reference,
    source: Responses,
    interrupts: Interrupts,
    *,
    outputs: Outputs,
    config: Config | None,
    include_errors: bool,
    **options: Any,
) -> Iterator[tuple[EvaluationStream, LineFile | None]]:
    """A stream, and where its results are to be written, unless nowhere or by itself, in a journal.

    Raises:
        UsageError: a file cannot be opened, or an option has a value it cannot have.
        ConfigError: the configuration needs a package that is not installed.
    """
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
    with ExitStack() as files:
        results = None
        if outputs.results is not None and not outputs.resume:
            results = files.enter_context(open_output(LineFile, outputs.results))
        if outputs.rejects is not None and to_file:
            rejects_files.append(files.enter_context(open_rejects(outputs.rejects, interrupts)))
        yield stream, results


def has_begun(stream: EvaluationStream, outputs: Outputs) -> bool:
    """Whether there is anything to tell: nothing is of a run whose journal could not be gone on with."""
    return not outputs.resume or stream.journal is not None


def report_run(
    stream: EvaluationStream,
    ending: Ending,
    *,
    level: float,
    reference: Reference,
    answered: set[str],
    source: str,
    config: Config | None,
    outputs: Outputs,
    gates: Sequence[Gate],
    table: TextIO | None,
    notes: Sequence[str] = (),
) -> Exit:
    """Tell how a run ended, which is only an error where it has not begun; returns the exit code.

    Args:
        stream: what it was of.
        ending: how it ended.
        level: of the confidence that is shown.
        reference: the reference set.
        answered: ids of the questions that results were handed out for; a journal may have others.
        source: the name of what was read.
        config: which metrics were judged.
        outputs: the files that it wrote.
        gates: that are to hold.
        table: the stream that the table of the aggregates goes to.
        notes: what else is to be told, in lines.
    """
    if not has_begun(stream, outputs):
        tell_error(ending)
        return ending.code(rejects=False)
    model = judge_of(config)
    decision = stream.decision
    if stream.journal is not None:
        answered = {*reference.questions} - {*stream.missing}
    run = Run(
        level=level,
        ending=ending,
        aggregates=stream.aggregates,
        rejected=stream.rejects.counts,
        listed=[f"{reject.path or source}: {reject}" for reject in stream.rejects[:LISTED_REJECTS]],
        reference=reference,
        answered=answered,
        notes=[
            *journaling(stream),
            *(judging(model, stream.usage) if model else ()),
            *(deciding(decision, judged=model is not None) if decision else ()),
            *notes,
        ],
        decision=decision,
    )
    return report(run, aggregates=outputs.aggregates, gates=gates, table=table)
