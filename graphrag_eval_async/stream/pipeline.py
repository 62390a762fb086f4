"""The pipeline: responses in as they arrive, results and running aggregates out."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.judge.prices import FREE
from graphrag_eval_async.judge.usage import JudgeUsage
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from graphrag_eval_async.sinks.done import Done
from graphrag_eval_async.sinks.journal import Journal, OpenJournal
from graphrag_eval_async.sources import (
    Follower,
    JsonlFiles,
    Responses,
    Source,
    open_source,
    read_jsonl,
)
from graphrag_eval_async.stream.agent import Questions
from graphrag_eval_async.stream.counts import Counts, Observers
from graphrag_eval_async.stream.intake import Intake
from graphrag_eval_async.stream.read_ahead import ReadAhead
from graphrag_eval_async.stream.until import Decision, UntilDecided
from graphrag_eval_async.traces.grouping import LateSpans

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Record, Rejects
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.rejects import Rejected
    from graphrag_eval_async.stream.options import StreamOptions


class EvaluationStream:
    """Yields results, each as soon as it is complete; made by `evaluate_stream` and
    `evaluate_agent`.

    It is an asynchronous iterator and context manager. Reading starts when the first result is
    asked for. Leaving the context, calling `aclose` from any task, or dropping the stream stops all
    work. A cancelled or timed-out `anext` loses no result.

    Attributes:
        reference: the reference set.
        aggregates: running aggregates of the results handed out so far.
        usage: counts of the judge's calls.
        late: counts of spans that came after their trace was evaluated, with the format "otlp".
    """

    def __init__(
        self, evaluator: Evaluator, responses: Responses | Questions, options: StreamOptions
    ) -> None:
        """Create and connect the parts of a stream. None of them opens or reads a file yet.

        Args:
            evaluator: what evaluates the responses.
            responses: the responses, as `evaluate_stream` takes them, or the questions of an agent.
            options: the options of `evaluate_stream`.

        Raises:
            UsageError: the options cannot be combined with these responses.
        """
        # Whether other runs evaluate the rest of the responses. Only `JsonlFiles` tells.
        self._is_part = getattr(responses, "is_part", False)
        _check_combination(responses, options, is_part=self._is_part)
        journal = options.journal
        if not isinstance(journal, Journal | None):
            journal = Journal(journal)
        questions = responses if isinstance(responses, Questions) else None
        if options.until is not None and isinstance(responses, str | os.PathLike):
            responses = _shuffled(responses)

        # What the caller may read while the stream runs.
        self.reference = evaluator.reference
        aggregates = options.aggregates
        if aggregates is None:
            aggregates = RunningAggregates()
        self.aggregates = aggregates
        self.aggregates.order_templates(self.reference.templates)
        self.aggregates.expect_steps(self.reference.step_names)
        # The session with the judge; None if nothing is judged.
        self._session = evaluator.session()
        if self._session is None:
            self.usage = JudgeUsage(FREE)
        else:
            self.usage = self._session.usage
        if evaluator.trace_format is None:
            self.late = LateSpans()
        else:
            self.late = LateSpans(evaluator.trace_format.late)

        # What is counted. Only shuffled files and questions know their number of lines.
        self._until: UntilDecided | None = None
        if options.until is not None:
            self._until = UntilDecided(options.until, evaluator)
        self._counted_source = responses if isinstance(responses, JsonlFiles | Questions) else None
        self._observers = Observers()
        self._counts = Counts(
            aggregates=self.aggregates,
            usage=self.usage,
            reference=self.reference,
            until=self._until,
            on_reject=options.on_reject,
            is_numbered=not self._is_part,
            retries_failed=journal is not None and journal.retry_failed,
            observers=self._observers,
        )

        # Which lines are already evaluated: those in the journal, or equal lines of this run.
        done = Done(options.dedupe)
        must_know_lines = journal is not None or options.dedupe == "content"
        self._done = done if must_know_lines else None
        self._journal: OpenJournal | None = None
        if journal is not None:
            self._journal = OpenJournal(
                options=journal,
                done=done,
                count_result=self._counts.restore_result,
                count_reject=self._counts.restore_reject,
                fingerprints=partial(_fingerprints, evaluator, responses, options),
                retry_errors=questions is not None and questions.retry_errors,
            )

        # From the source to the results.
        source = _open_responses(
            responses, evaluator=evaluator, journal=journal, done=self._done, late=self.late
        )
        if journal is not None and self._journal is not None:
            batches = _batches_after_restoring(
                source,
                follower=responses if isinstance(responses, Follower) else None,
                journal=journal,
                open_journal=self._journal,
                done=done,
            )
            source = Source(batches, source)
        self._results = self._read_ahead(source, evaluator, options, questions)

    def _read_ahead(
        self,
        source: Source,
        evaluator: Evaluator,
        options: StreamOptions,
        questions: Questions | None,
    ) -> ReadAhead[Evaluation | Rejected]:
        """Return an iterator of the results of a source's lines, which are evaluated concurrently.

        Args:
            source: the lines.
            evaluator: what evaluates them.
            options: the options of the stream.
            questions: the questions, if the lines are those of an agent.
        """
        execution = evaluator.execution_session()
        intake = Intake(
            evaluator=evaluator,
            session=self._session,
            execution=execution,
            counts=self._counts,
            done=self._done,
            questions=questions,
            until=self._until,
            options=options,
            stores_rejects=self._journal is not None,
        )
        agent = None if questions is None else questions.http_agent
        return ReadAhead(
            source,
            intake.evaluate,
            limit=options.max_in_flight,
            ordered=options.ordered or self._until is not None,
            until=self._until,
            commit=None if self._journal is None else self._journal.commit,
            finish=partial(_close_all, [self._journal, self._session, execution, agent]),
        )

    @property
    def rejects(self) -> Rejects:
        """Responses that could not be evaluated, and why."""
        self._counts.rejects_are_read = True
        return self._counts.rejects

    @property
    def missing(self) -> list[str]:
        """Ids of questions without a response so far.

        Empty if other runs read other parts of the responses, since these may answer the questions.
        """
        if self._is_part:
            return []
        answered: Collection[str] = self._counts.samples
        if self._until is not None:
            answered = self._until.answered
        return [question for question in self.reference.questions if question not in answered]

    @property
    def _unfinished(self) -> list[str]:
        """Ids of the questions whose responses were read, but have no result, as the run ended."""
        return self._counts.unfinished

    @property
    def _has_ended(self) -> bool:
        """Whether reading has ended, and all results were yielded."""
        return self._results.state == "ended" and self._results.in_flight == 0

    @property
    def in_flight(self) -> int:
        """Number of responses that are read and whose results are not yet yielded."""
        return self._results.in_flight

    @property
    def journal(self) -> OpenJournal | None:
        """The journal, once its results are counted; None before that, and without a journal."""
        if self._journal is None or not self._journal.is_restored:
            return None
        return self._journal

    @property
    def is_restored(self) -> bool:
        """Whether the results of earlier runs are counted; always true without a journal."""
        return self._journal is None or self._journal.is_restored

    def tell_restored(self, call: Callable[[Mapping[str, Any]], object]) -> None:
        """Register a function that is called with each result of an earlier run.

        Must be called before the first result is asked for.

        Args:
            call: the function; it must not raise.
        """
        self._observers.of_restored.append(call)

    def _observe(self, call: Callable[[Evaluation], object]) -> None:
        """Register a function that is called with the evaluation of each yielded result.

        Must be called before the first result is asked for.

        Args:
            call: the function; it must not raise.
        """
        self._observers.of_results.append(call)

    @property
    def skipped(self) -> int:
        """Number of lines skipped because they were already evaluated; needs a journal or
        `dedupe`.
        """
        return self._done.skipped if self._done is not None else 0

    @property
    def decision(self) -> Decision | None:
        """What is known so far about the condition of `until`; None without one."""
        if self._until is None:
            return None
        lines = None
        if self._counted_source is not None:
            lines = self._counted_source.lines
        return self._until.decision(lines)

    def stop(self) -> None:
        """Stop reading; results in progress are still delivered. Safe to call at any time."""
        self._results.stop()

    def drop_unsent(self) -> None:
        """Send no further requests to the judge; drop the responses that still need one.

        A later run with the same journal evaluates them. With `until`, nothing is dropped, since
        its condition needs all results in order.
        """
        if self._session is not None and self._until is None:
            self._session.drop_unsent()

    def __repr__(self) -> str:
        results, errors = self.aggregates._counts()
        return (
            f"<EvaluationStream: {self._results.state}, {results} results, {errors} of them "
            f"errors, {self._counts.rejects.total} rejects, {self.in_flight} in flight, "
            f"{len(self.missing)} of {len(self.reference)} questions without a response>"
        )

    def _repr_html_(self) -> str:
        from html import escape  # Takes a millisecond to import, and only notebooks need it.

        usage = "" if self._session is None else self.usage._repr_html_()
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.aggregates._repr_html_()}{usage}"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> dict[str, Any]:
        results = self._results
        counts = self._counts
        # Whoever keeps the traceback of a cancellation keeps this frame. Without this `del`, the
        # frame would keep the stream alive, and so the work that ends when the stream is dropped.
        del self

        # Always an evaluation: `commit` drops rejects once they are stored. `take` is tried first,
        # since it needs no coroutine.
        result: Any = results.take()
        if result is None:
            try:
                result = await anext(results)
            except StopAsyncIteration:
                counts.finish(is_complete=results.is_exhausted)
                raise
        counts.add(result)
        return result.result or result.as_dict()  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Stop reading, cancel the work in progress, and wait until it has ended."""
        await self._results.aclose()
        self._counts.warn_of_rejects()

    async def __aenter__(self) -> Self:
        self._counts.warns_at_close = True
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        # There is no such attribute if `__init__` raised.
        results = getattr(self, "_results", None)
        if results is not None:
            results.drop()


def _check_combination(responses: object, options: StreamOptions, *, is_part: bool) -> None:
    """Check that responses of this kind can be read with these options.

    Args:
        responses: the responses, as `evaluate_stream` takes them, or the questions of an agent.
        options: the options.
        is_part: whether other runs read other parts of the responses.

    Raises:
        UsageError: they cannot.
    """
    part_message = "cannot be combined with responses that are a part of a larger run"
    if is_part and options.stages:
        raise UsageError(f"stages: {part_message}")
    if is_part and options.until is not None:
        raise UsageError(f"until: {part_message}")

    has_journal = options.journal is not None
    is_followed = isinstance(responses, Follower)
    if options.until is not None and has_journal and is_followed:
        raise UsageError(
            "until: cannot be combined with a journal of followed files, whose old lines are not "
            "read again; read_jsonl reads them from their start"
        )


def _shuffled(path: str | os.PathLike[str]) -> JsonlFiles:
    """Return the files of a path, with their lines in random order if possible.

    Files are often sorted by template, so their first lines are not a fair sample.
    """
    files = read_jsonl(path)
    if files.can_be_shuffled:
        return read_jsonl(path, shuffle=0)
    return files


def _open_responses(
    responses: Any,
    *,
    evaluator: Evaluator,
    journal: Journal | None,
    done: Done | None,
    late: LateSpans,
) -> Source:
    """Return a source of records for responses of any kind.

    If the responses are spans, each record is a whole trace.

    Args:
        responses: the responses, as `evaluate_stream` takes them, or the questions of an agent.
        evaluator: what evaluates them, which knows their format.
        journal: the journal, whose own files are not read; None without one.
        done: the lines that are already evaluated; None without a journal and `dedupe`.
        late: gets the counts of spans that came after their trace was evaluated.
    """
    if isinstance(responses, Questions):
        return Source(responses.batches())
    trace_format = evaluator.trace_format
    source = open_source(
        responses,
        exclude=[] if journal is None else journal.paths,
        documents=trace_format is None or trace_format.is_listed,
    )
    if trace_format is None:
        return source

    def was_stopped() -> bool:
        """Return whether incomplete traces at the end are left for a later run."""
        if not isinstance(responses, Follower):
            return False
        # With a journal, a later run reads the rest of these traces.
        return journal is not None or responses._is_stopped()

    def is_never_known(_identity: bytes) -> bool:
        """Return False: without a journal, no trace was evaluated by an earlier run."""
        return False

    # The readers of traces take long to import.
    from graphrag_eval_async.stream.spans import grouped

    # Of other kinds of responses, such as a follower, spans may still be made.
    is_finished = isinstance(responses, str | os.PathLike | JsonlFiles | list)
    return grouped(
        source,
        trace_format,
        evaluator.reference,
        is_live=not is_finished,
        is_stopped=was_stopped,
        is_known=is_never_known if done is None else done.knows,
        late=late,
    )


async def _batches_after_restoring(
    source: Source,
    *,
    follower: Follower | None,
    journal: Journal,
    open_journal: OpenJournal,
    done: Done,
) -> AsyncGenerator[list[Record]]:
    """Open a journal, which counts its results, and then yield the batches of a source.

    Args:
        source: the source.
        follower: the follower that the source reads, if it follows files. It starts after the
            lines that the journal has.
        journal: the options of the journal.
        open_journal: the journal.
        done: gets the lines that the journal has.
    """
    await open_journal.open()
    if follower is not None:
        conditions = open_journal.conditions
        # If all lines are to be read, a first run is like a later one: it also reads files that
        # were rotated before it began.
        applies_start = not conditions.followed and follower.start != "beginning"
        await follower.begin(
            done.files(conditions.origins),
            journal.paths,
            is_first=applies_start,
            copies=conditions.copies,
            keep=open_journal.note,
        )
    async for batch in source:
        yield batch


def _fingerprints(
    evaluator: Evaluator, responses: object, options: StreamOptions
) -> dict[str, str]:
    """Return texts by name that must be the same in all runs of a journal.

    A run refuses to resume from a journal with other texts, since its results would not fit.
    """
    fingerprints = evaluator.fingerprints()
    fingerprints["dedupe"] = options.dedupe
    # The maximum length of a line was an option once. A journal that was written with another
    # value is refused.
    fingerprints["max_line_bytes"] = str(MAX_LINE_BYTES)
    if isinstance(responses, Questions):
        fingerprints["source"] = "agent"
        if responses.http_agent is not None:
            fingerprints["agent"] = responses.http_agent.fingerprint
    if isinstance(responses, JsonlFiles) and responses.shard is not None:
        fingerprints["shard"] = str(responses.shard)
    return fingerprints


async def _close_all(parts: Iterable[Any]) -> None:
    """Close all parts that are not None, in reverse order, even if closing one of them raises."""
    async with AsyncExitStack() as stack:
        for part in parts:
            if part is not None:
                stack.push_async_callback(part.aclose)
