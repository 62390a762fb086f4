"""The pipeline: responses in as they arrive, results and running aggregates out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal, Self

from graphrag_eval_async.aggregates import RunningAggregates
from graphrag_eval_async.concurrency import BoundedMap, Later
from graphrag_eval_async.errors import RejectedResponse, UsageError
from graphrag_eval_async.evaluator import Evaluator, Scored, StepsGroups, weight
from graphrag_eval_async.judge.usage import JudgeUsage
from graphrag_eval_async.records import Record, Reject, Rejects, read_record
from graphrag_eval_async.records.copying import copier
from graphrag_eval_async.sources import Responses, open_source

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from types import TracebackType

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.judge import Judge, JudgeSession
    from graphrag_eval_async.metrics import OnFatal
    from graphrag_eval_async.records import Response
    from graphrag_eval_async.reference import Reference, Templates
    from graphrag_eval_async.steps import Comparator

Result = dict[str, Any]
OnReject = Literal["collect", "raise"] | Callable[[Reject], object]

MAX_IN_FLIGHT = 256
MAX_LINE_BYTES = 32 * 1024 * 1024


class EvaluationStream:
    """The results of a stream of responses, each as soon as it is complete.

    An asynchronous iterator and context manager; made by `evaluate_stream`. It starts reading when the first
    result is asked for. Leaving its context, or `aclose` from any task, stops reading and work; so does
    dropping the stream. A cancelled or timed-out `anext` loses nothing.

    Attributes:
        aggregates: running aggregates, up to and including the complete result handed out last.
        rejects: what could not be evaluated, and why.
        usage: counts of the judge's calls.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        responses: Responses,
        *,
        ordered: bool = False,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_line_bytes: int = MAX_LINE_BYTES,
        aggregates: RunningAggregates | None = None,
        on_reject: OnReject = "collect",
        stages: bool = False,
    ) -> None:
        """See `evaluate_stream`."""
        _check_positive("max_in_flight", max_in_flight)
        _check_positive("max_line_bytes", max_line_bytes)
        for name, flag in (("ordered", ordered), ("stages", stages)):
            if not isinstance(flag, bool):
                raise UsageError(f"{name}: expected a boolean, got {flag!r}")
        if not isinstance(aggregates, RunningAggregates | None):
            raise UsageError(f"aggregates: expected a RunningAggregates, got {aggregates!r}")
        if iscoroutinefunction(on_reject) or not (callable(on_reject) or on_reject in ("collect", "raise")):
            raise UsageError(f'on_reject: expected "collect", "raise" or a plain function, got {on_reject!r}')
        self.aggregates = RunningAggregates() if aggregates is None else aggregates
        self.aggregates.order_templates(evaluator.reference.templates)
        session = evaluator.session()
        self._intake = _Intake(evaluator, session, on_reject, stages=stages)
        self.rejects = self._intake.rejects
        self.usage = JudgeUsage() if session is None else session.usage
        source = open_source(responses, max_line_bytes=max_line_bytes, spool=callable(on_reject))
        self._results: BoundedMap[Result] = BoundedMap(
            source,
            self._intake.evaluate,
            limit=max_in_flight,
            ordered=ordered,
            finish=None if session is None else session.aclose,
        )

    @property
    def missing(self) -> list[str]:
        """Ids of the questions that no response answered so far, in the order of the reference set."""
        return self._intake.unanswered()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Result:
        results, aggregates = self._results, self.aggregates
        try:
            result = results.take()
            if result is None:
                result = await anext(results)
        finally:
            del self, results  # See `BoundedMap.__anext__`.
        aggregates.add(result)
        return result

    async def aclose(self) -> None:
        """Stop reading, cancel the work in progress, and wait until nothing of it is left."""
        await self._results.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class _Intake:
    """What happens to each record: it is read, numbered and evaluated, or rejected.

    It knows nothing of the stream, so that dropping the stream ends the work.
    """

    def __init__(
        self, evaluator: Evaluator, session: JudgeSession | None, on_reject: OnReject, *, stages: bool
    ) -> None:
        self._evaluator = evaluator
        self._session = session
        self._on_reject = on_reject
        self._stages = stages
        self._samples: Counter[str] = Counter()
        self.rejects = Rejects()

    def evaluate(self, record: Record) -> Result | Later[Result] | None:
        response = read_record(record, self._evaluator.reference.questions)
        if isinstance(response, Reject):
            self._reject(response)
            return None
        sample = self._samples[response.question_id] = self._samples[response.question_id] + 1
        scored = self._evaluator.score_at_once(record, response, sample)
        if scored is not None and not self._is_due(scored):
            return scored.result
        return Later(partial(self._finish, scored, response, sample), weight=max(1, weight(record)))

    async def _finish(
        self, scored: Scored | None, response: Response, sample: int, hand_out: Callable[[Result], None]
    ) -> Result:
        """What takes time: scoring large steps, and judging."""
        if scored is None:
            scored = await self._evaluator.score_in_thread(response, sample)
            if not self._is_due(scored):
                return scored.result
        result, plan = scored
        assert plan is not None and self._session is not None  # noqa: PT018, S101
        if self._stages:
            hand_out({**copier(result)(), "pending": plan.pending})
        return await self._evaluator.judge(result, plan, self._session)

    def _is_due(self, scored: Scored) -> bool:
        """Whether there is something to judge."""
        if scored.plan is None or self._session is None:
            return False
        self._session.usage.outcomes["skipped"] += scored.plan.skipped
        return bool(scored.plan.due)

    def _reject(self, reject: Reject) -> None:
        if self._on_reject == "collect":
            self.rejects.keep(reject)
            return
        self.rejects.tally(reject)
        if self._on_reject == "raise":
            raise RejectedResponse(reject)
        try:
            self._on_reject(reject)
        finally:
            if reject.content is not None and not isinstance(reject.content, bytes):
                reject.content.close()

    def unanswered(self) -> list[str]:
        return [
            question_id
            for question_id in self._evaluator.reference.questions
            if question_id not in self._samples
        ]


def evaluate_stream(
    reference: str | os.PathLike[str] | Templates | Reference,
    responses: Responses,
    *,
    ordered: bool = False,
    max_in_flight: int = MAX_IN_FLIGHT,
    max_line_bytes: int = MAX_LINE_BYTES,
    aggregates: RunningAggregates | None = None,
    on_reject: OnReject = "collect",
    steps_groups: StepsGroups | None = None,
    comparators: Mapping[str, Comparator] | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | Config | None = None,
    judge: Judge | None = None,
    on_fatal: OnFatal = "raise",
    stages: bool = False,
) -> EvaluationStream:
    """Evaluate responses as they arrive.

    Args:
        reference: a path to YAML or JSON, a list of template dicts, or a `Reference`.
        responses: a path to JSONL, or any iterable, asynchronous iterable or anyio receive stream of
            responses: dicts, or `bytes` or `str` that hold whole lines of JSON. A plain iterable is advanced
            on the event loop, so one that blocks belongs behind an asynchronous one.
        ordered: whether results come in the order of the input, rather than as they complete.
        max_in_flight: how many responses may be read and not yet handed out as results; 1 or more.
        max_line_bytes: a longer line is rejected as `too_long` and never held in memory.
        aggregates: running aggregates to go on counting with, rather than new ones.
        on_reject: what becomes of a response that cannot be evaluated: "collect" keeps it in `rejects`,
            "raise" ends the stream with `RejectedResponse` once the results before it are out, and a callable
            is called with each `Reject` as it is found, which then is counted but not kept.
        steps_groups: see `Evaluator`, as for the following four.
        comparators: the caller's own, by name of reference step.
        config: which metrics are judged, by which models and within which limits; without it only the steps
            are scored.
        judge: the caller's own.
        on_fatal: what becomes of a judge that will not answer any call; "raise" ends the stream.
        stages: whether a result that is to be judged comes twice: first when its steps are scored, with the
            names of the metrics that are still to come in `pending`, and then whole. Aggregates count it
            once, and `ordered` is the order of whole results.

    Returns:
        an asynchronous iterator of results: dicts with the documented output keys.

    Raises:
        ReferenceDataError: the reference set cannot be right.
        ConfigError: the configuration cannot be right, or needs a package that is not installed.
        UsageError: an argument has a value it cannot have.
        SourceError: on iteration, after the results in flight: the responses cannot be read.
        JudgeUnavailable: on iteration, after the results that are finished: the judge refuses the key, lacks
            the model, or the quota is used up.
    """
    evaluator = Evaluator(
        reference,
        comparators=comparators,
        steps_groups=steps_groups,
        config=config,
        judge=judge,
        on_fatal=on_fatal,
    )
    return EvaluationStream(
        evaluator,
        responses,
        ordered=ordered,
        max_in_flight=max_in_flight,
        max_line_bytes=max_line_bytes,
        aggregates=aggregates,
        on_reject=on_reject,
        stages=stages,
    )


def _check_positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name}: expected an integer of 1 or more, got {value!r}")
