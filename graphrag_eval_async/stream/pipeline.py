"""The pipeline: responses in as they arrive, results and running aggregates out."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from graphrag_eval_async.evaluator import Evaluator, StepsGroups
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.judge.usage import JudgeUsage
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.sinks.journal import Dedupe, Journal
from graphrag_eval_async.sources import Follower, JsonlFiles, Responses, Source, open_source
from graphrag_eval_async.sources.lines import MAX_LINE_BYTES
from graphrag_eval_async.stream.asking import Agent, Asking
from graphrag_eval_async.stream.bounded_map import BoundedMap
from graphrag_eval_async.stream.ending import Decision, UntilDecided, as_until, in_fair_order
from graphrag_eval_async.stream.intake import Intake, Result
from graphrag_eval_async.stream.options import MAX_IN_FLIGHT, OnReject, StreamOptions
from graphrag_eval_async.stream.resuming import Resuming, Tally
from graphrag_eval_async.stream.spans import grouped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.inference.until import Until
    from graphrag_eval_async.judge import Judge
    from graphrag_eval_async.judge.session import JudgeSession
    from graphrag_eval_async.metrics import OnFatal
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.reference import Reference, Templates
    from graphrag_eval_async.sinks.journal import OpenJournal
    from graphrag_eval_async.steps import Comparator
    from graphrag_eval_async.traces.format import TraceFormat


class EvaluationStream:
    """The results of a stream of responses, each as soon as it is complete.

    An asynchronous iterator and context manager; made by `evaluate_stream`. It starts reading when the first
    result is asked for. Leaving its context, or `aclose` from any task, stops reading and work; so does
    dropping the stream. A cancelled or timed-out `anext` loses nothing.

    Attributes:
        aggregates: running aggregates, up to and including the complete result handed out last.
        usage: counts of the judge's calls.
    """

    def __init__(self, evaluator: Evaluator, responses: Responses | Agent, options: StreamOptions) -> None:
        """See `evaluate_stream`."""
        until, journal = options.until, options.journal
        if until is not None:
            resumed = journal is not None and isinstance(responses, Follower)
            until = as_until(until, evaluator, resumed=resumed)
            responses = responses if isinstance(responses, Agent) else in_fair_order(responses)
        self.aggregates = RunningAggregates() if options.aggregates is None else options.aggregates
        self.aggregates.order_templates(evaluator.reference.templates)
        self.aggregates.expect_steps(evaluator.reference.step_names)
        self._reference = evaluator.reference
        self._session = session = evaluator.session()
        self.usage = JudgeUsage() if session is None else session.usage
        self._tally = Tally(self.aggregates, self.usage, Rejects())
        self._tally.heeded = options.on_reject != "collect"
        self._resuming: Resuming | None = None
        if journal is not None or options.dedupe == "content":
            own = {"dedupe": options.dedupe, "max_line_bytes": str(options.max_line_bytes)}
            if isinstance(responses, Agent):
                own["source"] = "agent"
            self._resuming = Resuming(
                options.dedupe, journal, lambda: evaluator.fingerprints() | own, self._tally
            )
        intake = Intake(evaluator, session, self._tally, self._resuming, options)
        work: Intake | Asking = intake
        source: Responses | Asking
        if isinstance(responses, Agent):
            work = source = Asking(responses, evaluator, intake, self._resuming, options)
        else:
            source = responses
        self._until = None
        if until is not None:
            self._until = UntilDecided(until, work, session, self._resuming, source)
        self._results: BoundedMap[Evaluation] = BoundedMap(
            _open(source, options, self._resuming, evaluator),
            (self._until or work).evaluate,
            limit=options.max_in_flight,
            ordered=options.ordered,
            commit=self._resuming.commit if self._resuming is not None and journal is not None else None,
            finish=partial(_close, session, self._resuming),
        )
        if self._resuming is not None:
            self._resuming.abort = self._results.abort
        if self._until is not None:
            self._until.end = partial(self._results.abort, None)

    @property
    def rejects(self) -> Rejects:
        """What could not be evaluated, and why."""
        self._tally.heeded = True
        return self._tally.rejects

    @property
    def missing(self) -> list[str]:
        """Ids of the questions that no response answered so far, in the order of the reference set."""
        answered = self._tally.samples
        return [question_id for question_id in self._reference.questions if question_id not in answered]

    @property
    def in_flight(self) -> int:
        """How many responses, by their weights, are read and not yet handed out as results."""
        return self._results.in_flight

    @property
    def journal(self) -> OpenJournal | None:
        """The journal, once what it has is counted; None before, and without one."""
        return self._resuming.journal if self._resuming is not None else None

    @property
    def skipped(self) -> int:
        """How many lines were left out since they had come before; 0 without a journal or `dedupe`."""
        return self._resuming.admission.skipped if self._resuming is not None else 0

    @property
    def decision(self) -> Decision | None:
        """What is known by now of the condition that `until` names; None without one."""
        return self._until.decision if self._until is not None else None

    def stop(self) -> None:
        """Read no more; the results of what was read still come. Safe to call at any time."""
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
            f"{self._tally.rejects.total} rejects, {self.in_flight} in flight, "
            f"{len(self.missing)} of {len(self._reference)} questions without a response>"
        )

    def _repr_html_(self) -> str:
        from html import escape  # Takes a millisecond to import, and only notebooks need it.

        usage = "" if self._session is None else self.usage._repr_html_()
        return f"<p>{escape(repr(self)[1:-1])}</p>{self.aggregates._repr_html_()}{usage}"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Result:
        results, aggregates, tally = self._results, self.aggregates, self._tally
        try:
            result = results.take()
            if result is None:
                result = await anext(results)
        except StopAsyncIteration:
            tally.warn_of_rejects()
            raise
        finally:
            del self, results  # See `BoundedMap.__anext__`.
        aggregates.add(result)
        return result.as_dict()  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Stop reading, cancel the work in progress, and wait until nothing of it is left."""
        await self._results.aclose()
        self._tally.warn_of_rejects()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def evaluate_stream(
    reference: str | os.PathLike[str] | Templates | Reference,
    responses: Responses | Agent,
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
    judge: Judge | None = None,
    on_fatal: OnFatal = "raise",
    format: str | TraceFormat | None = None,  # noqa: A002  (its name on the command line)
    stages: bool = False,
    journal: str | os.PathLike[str] | Journal | None = None,
    dedupe: Dedupe = "position",
    until: str | Until | None = None,
) -> EvaluationStream:
    """Evaluate responses as they arrive.

    Args:
        reference: a path to YAML or JSON, a list of template dicts, or a `Reference`.
        responses: a path to JSONL, or any iterable, asynchronous iterable or anyio receive stream of
            responses: dicts, or `bytes` or `str` that hold whole lines of JSON. A plain iterable is advanced
            on the event loop, so one that blocks belongs behind an asynchronous one.
        ordered: whether results come in the order of the input, rather than as they complete; with `until`
            they always do.
        max_in_flight: how many responses may be read and not yet handed out as results; 1 or more.
        max_line_bytes: a longer line is rejected as `too_long` and never held in memory.
        aggregates: running aggregates to go on counting with, rather than new ones.
        on_reject: what to do with a response that cannot be evaluated. "collect" keeps it in `rejects`; if
            nobody asks for these, the first of each reason is logged, and the end is a `GraphragEvalWarning`.
            "raise" ends the stream with `RejectedResponse` once the results before it are out. A callable is
            called with each `Reject` as it is found, which then is counted but not kept.
        steps_groups: see `Evaluator`, as for the following five, and `format`.
        step_aliases: by the name of a step in the reference set, other names that agents give it.
        comparators: the caller's own, by name of reference step.
        config: which metrics are judged, by which models and within which limits; without it only the steps
            are scored.
        judge: the caller's own.
        on_fatal: what becomes of a judge that will not answer any call; "raise" ends the stream.
        format: of the traces that `responses` holds, one in a line, such as "openai" or "auto"; or a
            `TraceFormat`, which has options.
        stages: whether a result that is to be judged comes twice: first when its steps are scored, with the
            names of the metrics that are still to come in `pending`, and then whole. Aggregates count it
            once, and `ordered` is the order of whole results.
        journal: where results are kept as JSONL, each before it is handed out, so that a stream that is
            started again with the same journal goes on where this one ended, however it ended: what stands
            there counts in `aggregates`, `missing` and `rejects.counts`, its lines are not evaluated again,
            and its results do not come again. See `Journal`.
        dedupe: by what a line is recognised that was evaluated before, in this run or, with a journal, in an
            earlier one. "position": a line of a followed file by its place; lines of any other source,
            which is to be read from its start again, as the same of as many equal ones. "content": any line
            that equals an earlier one, so that true duplicates do not count. To know them takes 24 bytes of
            memory a line, with a journal or "content"; 46 once a journal was resumed from a source that is
            read from its start again.
        until: a condition such as ``steps_score >= 0.8``, or an `Until`, which names the level, too. The
            stream ends with the result that decides, either way, whether it holds: it reads no more and
            cancels the work in progress. For that, results come in the order of the input, and those behind
            it do not come, even if they are complete, since what is quick is no fair sample. `decision`
            says what was found out. A path of regular files that are not compressed is read in a
            shuffled order, as by ``read_jsonl(path, shuffle=0)``, as files are often sorted by template;
            any other source in its own. `Until` says what a decision does not tell.

    Returns:
        an asynchronous iterator of results: dicts with the documented output keys. They are the caller's own,
        but for the values of the keys of reference steps, such as `args`: these belong to the reference set
        and must not be changed.

    Raises:
        ReferenceDataError: the reference set cannot be right.
        ConfigError: the configuration cannot be right, or needs a package that is not installed.
        UsageError: an argument has a value it cannot have.
        SourceError: on iteration, after the results in flight: the responses cannot be read.
        JournalError: on iteration: somebody else writes to the journal (`JournalLocked`), it was begun under
            another reference set, configuration or version (`JournalMismatch`), or it cannot be read or
            written; what stands in it stays valid.
        JudgeUnavailable: on iteration, after the results that are finished: the judge refuses the key, lacks
            the model, or the quota is used up.
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
    responses: Responses | Asking, options: StreamOptions, resuming: Resuming | None, evaluator: Evaluator
) -> Source:
    """The lines of any source; with a journal, those that it has do not come again."""
    written = [] if options.journal is None else options.journal.paths
    spool = callable(options.on_reject) or options.journal is not None
    if isinstance(responses, Asking):
        source = Source(responses.batches(), None)
    else:
        source = open_source(
            responses,
            max_line_bytes=options.max_line_bytes,
            spool=spool,
            exclude=written,
            documents=evaluator.trace_format is None,
        )
        if evaluator.trace_format is not None:
            is_live = not isinstance(responses, str | os.PathLike | JsonlFiles | list)
            follower = responses if isinstance(responses, Follower) else None
            # A later run with the journal sees the rest of traces that are incomplete.
            stopped = partial(_leaves_traces, follower, options.journal)
            source = grouped(
                source, evaluator.trace_format, evaluator.reference, is_live=is_live, is_stopped=stopped
            )
    if resuming is None:
        return source
    return Source(resuming.read(source, responses if isinstance(responses, Follower) else None), source)


def _leaves_traces(follower: Follower | None, journal: Journal | None) -> bool:
    return follower is not None and (journal is not None or follower._is_stopped())


async def _close(session: JudgeSession | None, resuming: Resuming | None) -> None:
    try:
        if session is not None:
            await session.aclose()
    finally:
        if resuming is not None:
            await resuming.aclose()
