"""The pipeline: responses in as they arrive, results and running aggregates out."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.evaluator import Evaluator, StepsGroups
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.judge.pricing import FREE
from graphrag_eval_async.judge.usage import JudgeUsage
from graphrag_eval_async.sinks.done import Dedupe, Done
from graphrag_eval_async.sinks.journal import Journal, OpenJournal
from graphrag_eval_async.sources import Follower, JsonlFiles, Responses, Source, open_source
from graphrag_eval_async.sources.lines import MAX_LINE_BYTES
from graphrag_eval_async.stream.asking import Agent, Questions
from graphrag_eval_async.stream.bounded_map import BoundedMap
from graphrag_eval_async.stream.counts import Counts
from graphrag_eval_async.stream.intake import Intake, Result
from graphrag_eval_async.stream.options import MAX_IN_FLIGHT, OnReject, StreamOptions
from graphrag_eval_async.stream.queue import Queue, QueueOptions, QueueWork
from graphrag_eval_async.stream.spans import grouped
from graphrag_eval_async.stream.until import Decision, UntilDecided, as_until, in_fair_order
from graphrag_eval_async.traces.grouping import LateSpans

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from types import TracebackType

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.execution import ExecutionSession
    from graphrag_eval_async.inference.until import Until
    from graphrag_eval_async.judge import Judge
    from graphrag_eval_async.judge.session import JudgeSession
    from graphrag_eval_async.metrics import OnFatal
    from graphrag_eval_async.records import Record, Rejects
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.reference import Reference, Templates
    from graphrag_eval_async.sinks.rejects import Rejected
    from graphrag_eval_async.steps import Comparator
    from graphrag_eval_async.traces.format import TraceFormat


class EvaluationStream:
    """Yields results, each as soon as it is complete; made by `evaluate_stream` and `evaluate_agent`.

    It is an asynchronous iterator and context manager. Reading starts when the first result is asked for.
    Leaving the context, calling `aclose` from any task, or dropping the stream stops all work. A cancelled or
    timed-out `anext` loses no result.

    Attributes:
        reference: the reference set.
        aggregates: running aggregates of the results handed out so far.
        usage: counts of the judge's calls.
        late: counts of spans that came after their trace was evaluated, with the format "otlp".
    """

    def __init__(
        self, evaluator: Evaluator, responses: Responses | Agent | Queue, options: StreamOptions
    ) -> None:
        """See `evaluate_stream`."""
        until, journal = options.until, options.journal
        self._is_part = bool(getattr(responses, "is_part", False))
        if self._is_part and (until is not None or options.stages):
            name = "stages" if options.stages else "until"
            raise UsageError(f"{name}: cannot be combined with responses that are a part of a larger run")
        if until is not None:
            resumed = journal is not None and isinstance(responses, Follower)
            until = as_until(until, evaluator, resumed=resumed)
            if not isinstance(responses, Agent | Queue):
                responses = in_fair_order(responses)
        self.aggregates = RunningAggregates() if options.aggregates is None else options.aggregates
        self.aggregates.order_templates(evaluator.reference.templates)
        self.aggregates.expect_steps(evaluator.reference.step_names)
        self._is_entered = False
        self.late = LateSpans(evaluator.trace_format.late if evaluator.trace_format is not None else None)
        self.reference = evaluator.reference
        self._session = session = evaluator.session()
        self.usage = JudgeUsage(FREE) if session is None else session.usage
        self._until = None if until is None else UntilDecided(until)
        self._counts = Counts(
            self.aggregates,
            self.usage,
            self.reference,
            self._until,
            [journal.on_restored] if journal is not None and journal.on_restored is not None else [],
            numbered=not self._is_part,
            rejects_are_read=options.on_reject != "collect",
        )
        queue = self._begin(evaluator, responses, options) if isinstance(responses, Queue) else None
        done = Done(options.dedupe) if journal is not None or options.dedupe == "content" else None
        self._done = queue or done
        self._journal = None
        if journal is not None and done is not None:
            fingerprints = partial(_fingerprints, evaluator, responses, options)
            retry_errors = isinstance(responses, Agent) and responses.retry_errors
            self._journal = OpenJournal(
                journal,
                done,
                self._counts.restore_result,
                self._counts.restore_reject,
                fingerprints,
                retry_errors=retry_errors,
            )
        kept = queue or self._journal
        execution = evaluator.execution_session()
        questions = Questions(responses, evaluator, options) if isinstance(responses, Agent) else None
        source = questions or queue or cast("Responses", responses)
        self._source = source if isinstance(source, JsonlFiles | Questions) else None
        intake = Intake(
            evaluator,
            session,
            execution,
            self._counts,
            self._done,
            questions,
            self._until,
            options,
            keeps_rejects=kept is not None,
        )
        self._results: BoundedMap[Evaluation | Rejected] = BoundedMap(
            _open(source, options, done, self._journal, evaluator, self.late),
            intake.evaluate,
            limit=options.max_in_flight,
            ordered=options.ordered or until is not None,
            until=self._until,
            commit=None if kept is None else kept.commit,
            finish=partial(_close, session, execution, kept),
        )

    def _begin(self, evaluator: Evaluator, queue: Queue, options: StreamOptions) -> QueueWork:
        _check_queue(evaluator, options)
        limits = None if self._session is None else self._session.limits
        return queue.begin(
            QueueOptions(
                evaluator=evaluator,
                include_errors=self.aggregates._include_errors,
                max_line_bytes=options.max_line_bytes,
                max_in_flight=options.max_in_flight,
                result_timeout_sec=0.0 if limits is None else limits.result_timeout_sec,
            )
        )

    @property
    def rejects(self) -> Rejects:
        """Responses that could not be evaluated, and why."""
        self._counts.rejects_are_read = True
        return self._counts.rejects

    @property
    def missing(self) -> list[str]:
        """Ids of questions without a response so far, in the order of the reference set.

        Empty if the responses are a part of a larger run, since other parts may have them.
        """
        if self._is_part:
            return []
        answered = self._counts.samples
        return [question_id for question_id in self.reference.questions if question_id not in answered]

    @property
    def in_flight(self) -> int:
        """Number of responses that are read and not yet handed out; large ones count more than once."""
        return self._results.in_flight

    @property
    def journal(self) -> OpenJournal | None:
        """The journal, once its results are counted; None before that, and without a journal."""
        return self._journal if self._journal is not None and self._journal.is_restored else None

    @property
    def is_restored(self) -> bool:
        """Whether the results of earlier runs are counted; without a journal, there are none."""
        return self._journal is None or self._journal.is_restored

    def tell_restored(self, take: Callable[[Mapping[str, Any]], object]) -> None:
        """Call `take` with each result of an earlier run, too, as `Journal` does with `on_restored`.

        It must not raise. Without a journal, or once these results are counted, this has no effect.
        """
        self._counts.on_restored.append(take)

    @property
    def skipped(self) -> int:
        """Number of lines skipped because they were already evaluated; needs a journal or `dedupe`."""
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
        """Drop all responses for which no request was sent to the judge yet, now and later.

        Their results do not come; with a journal, a later run evaluates them. It has no effect with `until`,
        which needs the results in the order of the input.
        """
        if self._session is not None and self._until is None:
            self._session.drop_unsent()

    def __repr__(self) -> str:
        results, errors = self.aggregates._counts()
        return (
            f"<EvaluationStream: {self._results.state}, {results} results, {errors} of them errors, "
            f"{self._counts.rejects.total} rejects, {self.in_flight} in flight, "
            f"{len(self.missing)} of {len(self.reference)} questions without a response>"
        )

    def _repr_html_(self) -> str:
        from html import escape  # Takes a millisecond to import, and only notebooks need it.

        usage = "" if self._session is None else self.usage._repr_html_()
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.aggregates._repr_html_()}{usage}"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Result:
        results, aggregates, counts = self._results, self.aggregates, self._counts
        is_entered = self._is_entered
        try:
            result: Any = results.take()  # Never a reject: none comes out of `commit`.
            if result is None:
                result = await anext(results)
        except StopAsyncIteration:
            if self._until is None and results.is_exhausted:
                aggregates.finish()
            counts.warn_of_names()
            if not is_entered:  # Else the caller may read them yet.
                counts.warn_of_rejects()
            raise
        finally:
            del self, results  # See `BoundedMap.__anext__`.
        counts.add(result)
        return result.as_dict()  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Stop reading, cancel the work in progress, and wait until nothing of it is left."""
        await self._results.aclose()
        self._counts.warn_of_rejects()

    async def __aenter__(self) -> Self:
        self._is_entered = True
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def evaluate_stream(
    reference: str | os.PathLike[str] | Templates | Reference | None,
    responses: Responses | Agent | Queue,
    *,
    ordered: bool = False,
    max_in_flight: int = MAX_IN_FLIGHT,
    max_line_bytes: int = MAX_LINE_BYTES,
    aggregates: RunningAggregates | None = None,
    on_reject: OnReject = "collect",
    steps_groups: StepsGroups | None = None,
    step_aliases: Mapping[str, Sequence[str]] | None = None,
    comparators: Mapping[str, Comparator] | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | Config | None = None,
    judge: Judge | Mapping[str, Judge] | None = None,
    on_fatal: OnFatal = "raise",
    format: str | TraceFormat | None = None,  # noqa: A002  (its name on the command line)
    stages: bool = False,
    journal: str | os.PathLike[str] | Journal | None = None,
    dedupe: Dedupe = "position",
    until: str | Until | None = None,
) -> EvaluationStream:
    """Evaluate responses as they arrive.

    Args:
        reference: a path to YAML or JSON, a list of template dicts, or a `Reference`. None: there is no
            reference set; each response names its `question`, and may name a `template` and a `question_id`.
        responses: a path to JSONL, or any iterable, asynchronous iterable or anyio receive stream of
            responses: dicts, or `bytes` or `str` that hold whole lines of JSON. Plain iterables run on the
            event loop: put one that blocks behind an asynchronous one. Or a `redis_stream`, which workers on
            many hosts share.
        ordered: whether to yield results in the order of the input instead of as they complete.
        max_in_flight: how many responses may be read and not yet handed out, 1 or more; beyond that, reading
            stops.
        max_line_bytes: a longer line is rejected as `too_long` and never held in memory.
        aggregates: a `RunningAggregates` to continue counting with; default: a new one.
        on_reject: what to do with a response that cannot be evaluated. "collect" keeps it in `rejects`; if
            nobody reads these, the first of each reason is logged, and a `GraphragEvalWarning` at the end
            counts them. "raise" ends the stream with `RejectedResponse`, after the results before it. A
            callable is called with each `Reject`, which is then counted but not kept.
        steps_groups: "last" scores the last group of reference steps, "all" the mean over all groups.
            Default: as the configuration says, else "last".
        step_aliases: other names that agents give a step, by its name in the reference set.
        comparators: your own comparison of steps, by name of reference step: see `Evaluator`.
        config: metrics to judge, models and limits: a path to YAML, a dict of that layout, or a `Config`.
            Without it, only steps are scored.
        judge: your own judge, in place of the configured models; or a dict with one for each name in `judges`
            of the metrics.
        on_fatal: what to do if the judge rejects the key, lacks the model or is out of quota: "raise" ends
            the stream with `JudgeUnavailable`, "continue" makes it the error of each metric.
        format: the responses are traces, one per line, in this format, such as "openai" or "auto"; or a
            `TraceFormat`, which has options.
        stages: whether to yield a judged result twice: when its steps are scored, with the names of the
            metrics still to come in `pending`, and when it is complete. Aggregates count it once.
        journal: file that keeps results as JSONL, each before it is yielded. A stream with the same journal
            resumes where this one ended, however it ended: earlier results count in `aggregates`, `missing`
            and `rejects.counts`, and are not yielded again. See `Journal`.
        dedupe: how to recognise lines that were already evaluated. "position": a line of a followed file by
            its place; lines of other sources by content, as often as each came. "content": any line that
            equals an earlier one, so equal lines count once. A journal or "content" takes 10 bytes of memory
            per line; 20 after resuming from a source that is read from its start.
        until: a condition such as ``steps_score >= 0.8``, or an `Until`, which also sets the level. The
            stream ends with the result that decides it, either way: reading stops and work in progress is
            cancelled. Results come in the order of the input, since quick ones are no fair sample.
            `decision` has the outcome. Regular files are read in random order, since files are often sorted
            by template; other sources in their own order.

    Returns:
        a stream of results, which are dicts. They are yours, except for the values inside reference steps,
        such as `args`: these belong to the reference set and must not be changed.

    Raises:
        ReferenceDataError: the reference set is invalid.
        ConfigError: the configuration is invalid, or needs a package that is not installed.
        UsageError: an argument has an invalid value.
        SourceError: on iteration, after the results in progress: the responses cannot be read.
        JournalError: on iteration: another process writes to the journal (`JournalLocked`), it belongs to
            another reference set, configuration or version (`JournalMismatch`), or it cannot be read or
            written. What is in it stays valid.
        JudgeUnavailable: on iteration, after the finished results: wrong key, unknown model, or no quota.
        ExecutionUnavailable: on iteration, likewise: the configured queries cannot be run.
    """
    evaluator = Evaluator(
        reference,
        comparators=comparators,
        steps_groups=steps_groups,
        step_aliases=step_aliases,
        config=config,
        judge=judge,
        on_fatal=on_fatal,
        format=format,
    )
    options = StreamOptions(
        ordered=ordered,
        max_in_flight=max_in_flight,
        max_line_bytes=max_line_bytes,
        aggregates=aggregates,
        on_reject=on_reject,
        stages=stages,
        journal=journal if isinstance(journal, Journal | None) else Journal(journal),
        dedupe=dedupe,
        until=until,
    )
    return EvaluationStream(evaluator, responses, options)


def _open(
    responses: Responses | Questions | QueueWork,
    options: StreamOptions,
    done: Done | None,
    opened: OpenJournal | None,
    evaluator: Evaluator,
    late: LateSpans,
) -> Source:
    """Yield the lines of any source; with a journal, skip those that are done."""
    journal, follower = options.journal, responses if isinstance(responses, Follower) else None
    if isinstance(responses, Questions | QueueWork):
        source = Source(responses.batches(), None)
    else:
        source = open_source(
            responses,
            max_line_bytes=options.max_line_bytes,
            exclude=[] if journal is None else journal.paths,
            documents=evaluator.trace_format is None,
        )
        if evaluator.trace_format is not None:
            source = grouped(
                source,
                evaluator.trace_format,
                evaluator.reference,
                is_live=not isinstance(responses, str | os.PathLike | JsonlFiles | list),
                # A later run with the journal sees the rest of traces that are incomplete.
                is_stopped=lambda: follower is not None and (journal is not None or follower._is_stopped()),
                is_known=done.knows if done is not None else lambda _: False,
                late=late,
            )
    if journal is None or done is None or opened is None:
        return source
    return Source(_resume(source, follower, journal, done, opened), source)


async def _resume(
    source: Source, follower: Follower | None, options: Journal, done: Done, journal: OpenJournal
) -> AsyncGenerator[list[Record]]:
    """Open the journal and count what it holds, then yield the batches of a source."""
    await journal.open()
    if follower is not None:
        # With a journal, lines rotated before the first run began are read, too.
        await follower.begin(
            done.files(),
            options.paths,
            is_first=not journal.conditions.followed and follower.start != "beginning",
            copies=journal.conditions.copies,
            keep=journal.note,
        )
    async for batch in source:
        yield batch


def _fingerprints(
    evaluator: Evaluator, responses: Responses | Agent | Queue, options: StreamOptions
) -> dict[str, str]:
    """Return what must be the same in all runs of a journal."""
    own = {"dedupe": options.dedupe, "max_line_bytes": str(options.max_line_bytes)}
    if isinstance(responses, Agent):
        own["source"] = "agent"
    if isinstance(responses, JsonlFiles) and responses.shard is not None:
        own["shard"] = str(responses.shard)
    return evaluator.fingerprints() | own


def _check_queue(evaluator: Evaluator, options: StreamOptions) -> None:
    """Check that responses that others evaluate, too, can be read with these options."""
    if options.journal is not None or options.dedupe != "position":
        name = "dedupe" if options.journal is None else "journal"
        raise UsageError(f"{name}: cannot be combined with a queue, which remembers what is done")
    if evaluator.trace_format is not None and evaluator.trace_format.is_grouped:
        raise UsageError(
            f"format: traces in several lines ({evaluator.trace_format.name}) cannot come from a queue, "
            "since its workers would have a part of each; `convert` makes responses of them"
        )


async def _close(
    session: JudgeSession | None, execution: ExecutionSession | None, kept: OpenJournal | QueueWork | None
) -> None:
    try:
        if execution is not None:
            await execution.aclose()
        if session is not None:
            await session.aclose()
    finally:
        if kept is not None:
            await kept.aclose()
