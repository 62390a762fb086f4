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
from graphrag_eval_async.stream.counts import Counts
from graphrag_eval_async.stream.intake import Intake
from graphrag_eval_async.stream.read_ahead import ReadAhead
from graphrag_eval_async.stream.spans import grouped
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
        """See `evaluate_stream`."""
        self._is_part = getattr(responses, "is_part", False)
        _check(responses, options, is_part=self._is_part)
        journal = options.journal
        if not isinstance(journal, Journal | None):
            journal = Journal(journal)
        questions = responses if isinstance(responses, Questions) else None
        if options.until is not None and isinstance(responses, str | os.PathLike):
            responses = _shuffled(responses)

        # What is known of the stream while it runs.
        self.reference = evaluator.reference
        self.aggregates = RunningAggregates() if options.aggregates is None else options.aggregates
        self.aggregates.order_templates(self.reference.templates)
        self.aggregates.expect_steps(self.reference.step_names)
        trace_format = evaluator.trace_format
        self.late = LateSpans(None if trace_format is None else trace_format.late)
        self._session = evaluator.session()
        self.usage = JudgeUsage(FREE) if self._session is None else self._session.usage
        self._until = None if options.until is None else UntilDecided(options.until, evaluator)
        self._source = responses if isinstance(responses, JsonlFiles | Questions) else None
        self._is_entered = False
        self._counts = Counts(
            self.aggregates,
            self.usage,
            self.reference,
            self._until,
            options.on_reject,
            is_numbered=not self._is_part,
            retry_failed=journal is not None and journal.retry_failed,
        )

        # What earlier runs, or earlier lines, have evaluated.
        self._done: Done | None = None
        self._journal: OpenJournal | None = None
        if journal is not None or options.dedupe == "content":
            self._done = Done(options.dedupe)
        if journal is not None and self._done is not None:
            self._journal = OpenJournal(
                journal,
                self._done,
                self._counts.restore_result,
                self._counts.restore_reject,
                partial(_fingerprints, evaluator, responses, options),
                retry_errors=questions is not None and questions.retry_errors,
            )

        # From the source to the results.
        if questions is not None:
            source = Source(questions.batches(), None)
        else:
            source = _open(responses, journal, self._done, evaluator, self.late)
        if journal is not None and self._done is not None and self._journal is not None:
            follower = responses if isinstance(responses, Follower) else None
            batches = _resume(source, follower, journal, self._done, self._journal)
            source = Source(batches, source)
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
            hands_on_rejects=self._journal is not None,
        )
        closing = [self._journal, self._session, execution, questions and questions.closing]
        self._results: ReadAhead[Evaluation | Rejected] = ReadAhead(
            source,
            intake.evaluate,
            limit=options.max_in_flight,
            must_start=intake.must_start,
            ordered=options.ordered or self._until is not None,
            until=self._until,
            commit=None if self._journal is None else self._journal.commit,
            finish=partial(_close, closing),
        )

    @property
    def rejects(self) -> Rejects:
        """Responses that could not be evaluated, and why."""
        self._counts.rejects_are_read = True
        return self._counts.rejects

    @property
    def missing(self) -> list[str]:
        """Ids of questions without a response so far; none if others may have the responses."""
        if self._is_part:
            return []
        answered: Collection[str] = self._counts.samples
        if self._until is not None:
            answered = self._until.answered
        return [each for each in self.reference.questions if each not in answered]

    @property
    def in_flight(self) -> int:
        """Number of responses that are read and not yet handed out."""
        return self._results.in_flight

    @property
    def journal(self) -> OpenJournal | None:
        """The journal, once its results are counted; None before that, and without a journal."""
        return self._journal if self._journal is not None and self._journal.is_restored else None

    @property
    def is_restored(self) -> bool:
        """Whether the results of earlier runs are counted; without a journal, there are none."""
        return self._journal is None or self._journal.is_restored

    def tell_restored(self, call: Callable[[Mapping[str, Any]], object]) -> None:
        """Call a function, which must not raise, with each result of an earlier run of the
        journal.
        """
        self._counts.on_restored.append(call)

    def _tell(self, call: Callable[[Evaluation], object]) -> None:
        """Call a function, which must not raise, with the evaluation of each result that is
        handed out.
        """
        self._counts.tell(call)

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
        return self._until.decision(None if self._source is None else self._source.lines)

    def stop(self) -> None:
        """Stop reading; results in progress are still delivered. Safe to call at any time."""
        self._results.stop()

    def drop_unsent(self) -> None:
        """Drop the responses for which no request was sent to the judge yet, now and later.

        A later run with the journal evaluates them. With `until`, which needs all, nothing is
        dropped.
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
        results, counts, aggregates = self._results, self._counts, self.aggregates
        is_whole, is_entered = self._until is None, self._is_entered
        del self  # The traceback of a cancellation, kept by anyone, must not keep the work going.
        result: Any = results.take()  # Never a reject: none comes out of `commit`.
        if result is None:
            try:
                result = await anext(results)
            except StopAsyncIteration:
                if is_whole and results.is_exhausted:
                    aggregates.finish()
                counts.warn_of_names()
                if not is_entered:  # Else the caller may read them yet.
                    counts.warn_of_rejects()
                raise
        counts.add(result)
        return result.result or result.as_dict()  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Stop reading, cancel the work in progress, and wait until nothing of it is left."""
        await self._results.aclose()
        self._counts.warn_of_rejects()

    async def __aenter__(self) -> Self:
        self._is_entered = True
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if (results := getattr(self, "_results", None)) is not None:
            results.drop()


def _check(responses: object, options: StreamOptions, *, is_part: bool) -> None:
    """Check that responses of this kind can be read with these options."""
    if is_part and (options.until is not None or options.stages):
        name = "stages" if options.stages else "until"
        raise UsageError(
            f"{name}: cannot be combined with responses that are a part of a larger run"
        )
    if (
        options.until is not None
        and options.journal is not None
        and isinstance(responses, Follower)
    ):
        raise UsageError(
            "until: cannot be combined with a journal of followed files, whose old lines are not "
            "read again; read_jsonl reads them from their start"
        )


def _shuffled(path: str | os.PathLike[str]) -> JsonlFiles:
    """Return the files of a path in random order, if possible: they are often sorted by
    template.
    """
    files = read_jsonl(path)
    return read_jsonl(path, shuffle=0) if files.can_be_shuffled else files


def _open(
    responses: Any,
    journal: Journal | None,
    done: Done | None,
    evaluator: Evaluator,
    late: LateSpans,
) -> Source:
    """Return the records of any responses, without the files of the journal; of spans, a record
    for each trace.
    """
    source = open_source(
        responses,
        exclude=[] if journal is None else journal.paths,
        documents=evaluator.trace_format is None or evaluator.trace_format.is_listed,
    )
    if evaluator.trace_format is None:
        return source
    follower = responses if isinstance(responses, Follower) else None
    return grouped(
        source,
        evaluator.trace_format,
        evaluator.reference,
        is_live=not isinstance(responses, str | os.PathLike | JsonlFiles | list),
        # A later run with the journal sees the rest of traces that are incomplete.
        is_stopped=lambda: follower is not None and (journal is not None or follower._is_stopped()),
        is_known=done.knows if done is not None else lambda _: False,
        late=late,
    )


async def _resume(
    source: Source, follower: Follower | None, journal: Journal, done: Done, opened: OpenJournal
) -> AsyncGenerator[list[Record]]:
    """Open a journal and count what it holds, then yield the batches of a source."""
    await opened.open()
    if follower is not None:
        # With a journal, lines rotated before the first run began are read, too.
        await follower.begin(
            done.files(opened.conditions.origins),
            journal.paths,
            is_first=not opened.conditions.followed and follower.start != "beginning",
            copies=opened.conditions.copies,
            keep=opened.note,
        )
    async for batch in source:
        yield batch


def _fingerprints(
    evaluator: Evaluator, responses: object, options: StreamOptions
) -> dict[str, str]:
    """Return what must be the same in all runs of a journal."""
    # The maximum length of a line was an option: journals that were written with another are not
    # resumed.
    own = {"dedupe": options.dedupe, "max_line_bytes": str(MAX_LINE_BYTES)}
    if isinstance(responses, Questions):
        own["source"] = "agent"
        if responses.closing is not None:
            own["agent"] = responses.closing.fingerprint
    if isinstance(responses, JsonlFiles) and responses.shard is not None:
        own["shard"] = str(responses.shard)
    return evaluator.fingerprints() | own


async def _close(closing: Iterable[Any]) -> None:
    async with AsyncExitStack() as stack:
        for each in filter(None, closing):
            stack.push_async_callback(each.aclose)
