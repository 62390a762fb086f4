"""What ``evaluate`` and ``watch`` have in common: options, files, the stream, and its report."""

import os
from collections.abc import Iterable, Iterator, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TextIO

import typer

from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts
from graphrag_eval_async.cli.files import check_distinct, is_among, open_output, open_rejects
from graphrag_eval_async.cli.gates import Gate
from graphrag_eval_async.cli.judges import cache_of, judge_config, judge_of, judging
from graphrag_eval_async.cli.report import LISTED_REJECTS, Run, deciding, journaling, report, tell_error
from graphrag_eval_async.config import Config
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.evaluator import StepsGroups
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.metrics import OnFatal
from graphrag_eval_async.reference import Reference
from graphrag_eval_async.sinks import LineFile, write_reject
from graphrag_eval_async.sinks.journal import Dedupe, Fsync, Journal
from graphrag_eval_async.sources import Responses
from graphrag_eval_async.stream import MAX_IN_FLIGHT, MAX_LINE_BYTES, EvaluationStream, evaluate_stream


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a command that evaluates, which gives `output` its help."""

    reference: options.ReferencePath
    output: str | None = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Keep the output as a journal, and go on with what it has: lines that are done are not "
            "evaluated again. --resume=force goes on even if it was begun under another reference set, "
            "configuration or version.",
        ),
    ] = False
    resume_force: Annotated[bool, typer.Option("--resume-force", hidden=True)] = False
    fsync: Annotated[
        Fsync | None,
        typer.Option(
            help="With --resume, when results are brought to the disk, so that they outlive a power failure: "
            "each before it counts, those of a second together, or as the system likes.  [default: interval]",
        ),
    ] = None
    dedupe: Annotated[
        Dedupe,
        typer.Option(
            help="By what a line is recognised that was evaluated before: by its position or, where lines "
            "may be delivered twice, by its content, so that true duplicates do not count.",
        ),
    ] = "position"
    config: options.Config = None
    llm: options.Llm = None
    embedding: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER/MODEL",
            help="With --llm: judge answer relevance, too, with this embedding model.",
        ),
    ] = None
    on_fatal: Annotated[
        OnFatal,
        typer.Option(
            help="If the judge rejects the key, lacks the model or is out of quota: raise stops the run, "
            "continue records it as the error of each metric.",
        ),
    ] = "raise"
    stages: Annotated[
        bool,
        typer.Option(
            "--stages",
            help="Write a result twice: as soon as its steps are scored, with the metrics to come in the key "
            "pending, and whole.",
        ),
    ] = False
    aggregates: options.Aggregates = None
    rejects: options.Rejects = None
    steps_groups: Annotated[
        StepsGroups | None,
        typer.Option(
            help="Which groups of reference steps are scored.  [default: last, unless --config says "
            "otherwise]",
        ),
    ] = None
    fail_under: options.FailUnder
    fail_over: options.FailOver
    include_errors: options.IncludeErrors = False
    level: options.Level = "0.95"
    ordered: Annotated[bool, typer.Option("--ordered", help="Write results in the order of the input.")] = (
        False
    )
    max_in_flight: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many responses may be in progress at once.")
    ] = MAX_IN_FLIGHT
    max_line_bytes: options.MaxLineBytes = MAX_LINE_BYTES

    @property
    def gates(self) -> list[Gate]:
        """What must hold at the end."""
        return [*self.fail_under, *self.fail_over]

    @property
    def is_resumable(self) -> bool:
        """Whether the output is a journal."""
        return self.resume or self.resume_force

    def read_config(self) -> Config | None:
        """The configuration that is asked for.

        Raises:
            UsageError: the options do not go together.
            ConfigError: the configuration is wrong.
        """
        return judge_config(self.config, self.llm, self.embedding)

    def check_files(self, config: Config | None, *read: str | None) -> None:
        """Check that the files to be written can be, and that none overwrites another or what is `read`.

        Raises:
            UsageError: something is wrong with one.
        """
        written = [self.output, self.rejects, self.aggregates]
        if self.is_resumable:
            if self.output in (None, "-") or self.rejects == "-":
                raise UsageError("--resume needs -o FILE, and no --rejects on standard output")
            if self.stages:
                raise UsageError("--stages does not go with --resume: a journal has whole results only")
            written += [f"{self.output}.run", f"{self.output}.damaged"]
            written += [] if self.rejects else [f"{self.output}.rejects"]
        elif self.fsync is not None:
            raise UsageError("--fsync needs --resume, which makes a journal of the output")
        elif self.output is not None and os.path.exists(f"{self.output}.run"):
            raise UsageError(
                f"{self.output!r} is a journal, which would be overwritten; --resume goes on with it, "
                f"without {self.output}.run it is a file like others"
            )
        paths = [path for path in (self.reference, self.config, cache_of(config), *read) if path is not None]
        check_distinct(paths, written)
        for path in paths:
            for file in self.readable_outputs():
                if is_among(file, path):
                    raise UsageError(f"{file!r} is among the files of {path!r}, which are read")

    def readable_outputs(self) -> list[str]:
        """The files that would be read if they stood among the sources; those of a journal would not."""
        lines = [] if self.is_resumable else [self.output, self.rejects]
        return [path for path in (self.aggregates, *lines) if path is not None and path != "-"]

    def _journal(self) -> Journal | None:
        if not self.is_resumable or self.output is None:
            return None
        fsync = self.fsync or "interval"
        return Journal(self.output, force=self.resume_force, fsync=fsync, rejects=self.rejects)

    @contextmanager
    def open(
        self,
        reference: Reference,
        source: Responses,
        config: Config | None,
        interrupts: Interrupts,
        **more: Any,
    ) -> Iterator[tuple[EvaluationStream, LineFile | None]]:
        """A stream, and the file for its results; None if there is no file, or the stream keeps a journal.

        Raises:
            UsageError: a file cannot be opened, or an option has a value it cannot have.
            ConfigError: the configuration needs a package that is not installed.
        """
        rejects_files: list[LineFile] = []
        rejects = self.rejects if not self.is_resumable else None
        # Before any file is opened, since it may find the configuration wanting.
        stream = evaluate_stream(
            reference,
            source,
            config=config,
            aggregates=RunningAggregates(include_errors=self.include_errors),
            on_reject=(lambda reject: write_reject(rejects_files[0], reject))
            if rejects is not None
            else "collect",
            journal=self._journal(),
            dedupe=self.dedupe,
            on_fatal=self.on_fatal,
            stages=self.stages,
            steps_groups=self.steps_groups,
            ordered=self.ordered,
            max_in_flight=self.max_in_flight,
            max_line_bytes=self.max_line_bytes,
            **more,
        )
        with ExitStack() as files:
            output = self.output if not self.is_resumable else None
            results = files.enter_context(open_output(LineFile, output)) if output is not None else None
            if rejects is not None:
                rejects_files.append(files.enter_context(open_rejects(rejects, interrupts)))
            yield stream, results

    def has_begun(self, stream: EvaluationStream) -> bool:
        """Whether there is anything to report; there is not if its journal could not be resumed."""
        return not self.is_resumable or stream.journal is not None

    def report(
        self,
        stream: EvaluationStream,
        ending: Ending,
        *,
        reference: Reference,
        config: Config | None,
        answered: Set[str],
        source: str,
        table: TextIO | None,
        notes: Iterable[str] = (),
    ) -> Exit:
        """Tell how a run ended, with only the error if it has not begun.

        Args:
            stream: of the run.
            ending: how it ended.
            reference: the reference set.
            config: says which metrics were judged.
            answered: ids of the questions with results from this run; a journal may have others.
            source: the name of what was read.
            table: the stream that the table of the aggregates goes to.
            notes: more lines to tell.
        """
        if not self.has_begun(stream):
            tell_error(ending)
            return ending.code(rejects=False)
        run = Run(
            level=self.level,
            ending=ending,
            aggregates=stream.aggregates,
            rejected=stream.rejects.counts,
            listed=[f"{reject.path or source}: {reject}" for reject in stream.rejects[:LISTED_REJECTS]],
            reference=reference,
            answered=answered if stream.journal is None else {*reference.questions} - {*stream.missing},
            notes=[*_notes(stream, judge_of(config)), *notes],
            decision=stream.decision,
        )
        return report(run, aggregates=self.aggregates, gates=self.gates, table=table)


def _notes(stream: EvaluationStream, model: str | None) -> Iterator[str]:
    """What became of the journal, of judging by `model`, and of the condition, where there is any."""
    yield from journaling(stream)
    if model is not None:
        yield from judging(model, stream.usage)
    if stream.decision is not None:
        yield from deciding(stream.decision, judged=model is not None)
