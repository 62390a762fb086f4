"""The pipeline: responses in as they arrive, results and running aggregates out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import check_integer
from graphrag_eval_async.evaluator import Evaluator, EvaluatorOptions
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.stream.agent import MAX_CONCURRENCY, Questions
from graphrag_eval_async.stream.options import MAX_IN_FLIGHT, OnReject, StreamOptions
from graphrag_eval_async.stream.pipeline import EvaluationStream

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Unpack

    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.inference.until import Until
    from graphrag_eval_async.records import Question
    from graphrag_eval_async.reference import Reference, Templates
    from graphrag_eval_async.sinks.done import Dedupe
    from graphrag_eval_async.sinks.journal import Journal
    from graphrag_eval_async.sources import Responses
    from graphrag_eval_async.stream.options import StreamKeywords

IN_FLIGHT_PER_CALL = 4
"""Questions of an agent that may be asked and not yet handed out, for each call at a time."""

LEAST_IN_FLIGHT = 8
"""Least number of questions of an agent that may be asked and not yet handed out."""

__all__ = ["MAX_IN_FLIGHT", "EvaluationStream", "evaluate_agent", "evaluate_stream"]


@without_removed("max_line_bytes", "rejudge")
def evaluate_stream(
    reference: str | os.PathLike[str] | Templates | Reference | None,
    responses: Responses,
    *,
    ordered: bool = False,
    max_in_flight: int = MAX_IN_FLIGHT,
    aggregates: RunningAggregates | None = None,
    on_reject: OnReject = "collect",
    stages: bool = False,
    journal: str | os.PathLike[str] | Journal | None = None,
    dedupe: Dedupe = "position",
    until: str | Until | None = None,
    **evaluator: Unpack[EvaluatorOptions],
) -> EvaluationStream:
    """Evaluate responses as they arrive.

    Args:
        reference: a path to YAML or JSON, a list of template dicts, or a `Reference`. None: there
            is no reference set; each response names its `question`, and may name a `template` and a
            `question_id`.
        responses: a path to JSONL or to a JSON array, or any iterable, asynchronous iterable or
            anyio receive stream of responses: dicts, or `bytes` or `str` that hold whole lines of
            JSON. Values in dicts may also be numpy scalars and arrays, `Decimal`, dates, UUIDs,
            dataclasses and pydantic models. Plain iterables run on the event loop; put one that
            blocks behind an asynchronous iterable. Or a pandas DataFrame, an
            `asyncio.StreamReader`, `read_jsonl(...)`, `follow_jsonl(...)` or `receive_otlp(...)`.
        ordered: whether to yield results in the order of the input instead of as they complete.
        max_in_flight: how many responses may be read and not yet handed out; beyond that, reading
            stops.
        aggregates: a `RunningAggregates` to continue counting with; default: a new one.
        on_reject: what to do with a response that cannot be evaluated. "collect" keeps it in
            `rejects`; if nobody reads these, the first of each reason is logged, and a
            `GraphragEvalWarning` at the end counts them. "raise" ends the stream with
            `RejectedResponse`, after the results before it; so does each run that resumes from its
            journal. A callable is called with each `Reject`, which is then counted but not kept.
        stages: whether to yield a judged result twice: when its steps are scored, with the names of
            the metrics still to come in `pending`, and when it is complete. Aggregates count it
            once.
        journal: file that keeps results as JSONL, each before it is yielded. A stream with the same
            journal resumes where this one ended, however it ended: earlier results count in
            `aggregates`, `missing` and `rejects.counts`, and are not yielded again. See `Journal`.
        dedupe: how to recognise lines that were already evaluated. "position": a line of a followed
            file by its place; lines of other sources by content, as often as each came. "content":
            any line that equals an earlier one, so equal lines count once.
        until: a condition such as ``steps_score >= 0.8``, or an `Until`, which also sets the level.
            The stream ends with the result that decides it, either way: reading stops and work in
            progress is cancelled. Results come in the order in which responses were read, because
            the quick ones are not a fair sample. Regular files are read in random order. `decision`
            has the outcome.
        evaluator: `steps_groups`, `step_aliases`, `comparators`, `config`, `judge`, `metrics`,
            `on_fatal` and `format`, as in `Evaluator`.

    Returns:
        a stream of results, which are dicts. They are yours, except for the values inside reference
        steps, such as `args`: these belong to the reference set and must not be changed.

    Raises:
        ReferenceDataError: the reference set is invalid.
        ConfigError: the configuration is invalid, or needs a package that is not installed.
        UsageError: an argument has an invalid value.
        SourceError: on iteration, after the results in progress: the responses cannot be read.
        JournalError: on iteration: another process writes to the journal (`JournalLocked`), it
            belongs to another reference set, configuration or version (`JournalMismatch`), or it
            cannot be read or written. What is in it stays valid.
        JudgeUnavailable: on iteration, after the finished results: wrong key, unknown model, or no
            quota.
        ExecutionUnavailable: on iteration, after the finished results: the configured queries
            cannot be run.
    """
    return EvaluationStream(
        Evaluator(reference, **evaluator),
        responses,
        StreamOptions(
            ordered=ordered,
            max_in_flight=max_in_flight,
            aggregates=aggregates,
            on_reject=on_reject,
            stages=stages,
            journal=journal,
            dedupe=dedupe,
            until=until,
        ),
    )


@without_removed("max_line_bytes", "rejudge")
def evaluate_agent(
    reference: str | os.PathLike[str] | Templates | Reference,
    agent: Callable[[Question], Any],
    *,
    max_concurrency: int = MAX_CONCURRENCY,
    repeats: int = 1,
    timeout: float | None = None,
    retry_errors: bool = False,
    **options: Unpack[StreamKeywords],
) -> EvaluationStream:
    """Ask an agent every question of a reference set and evaluate the answers as they come.

    The agent is called with a `Question` and returns a response as a dict, a list of steps
    (`actual_steps`), or a str (`actual_answer`). Anything else becomes a reject that names the
    question. An exception or a timeout becomes the `error` of the response; the logger
    `graphrag_eval_async.agent` has the traceback at level DEBUG. The library adds `elapsed_sec`,
    the seconds that the call took, unless the agent returns it. With `format`, such as "langchain",
    the agent returns a history in that format.

    Leaving or dropping the stream cancels the calls; `stop()` asks no more questions. With
    `journal`, questions that an earlier run answered are not asked again, but those in flight when
    it ended are. With `until`, questions are asked in random order, the same in each run, and the
    decision cancels the calls in progress.

    Args:
        reference: a path to YAML or JSON, a list of template dicts, or a `Reference`.
        agent: an async function, or a plain function, which runs in threads.
        max_concurrency: how many calls may run at a time, 1 or more; `max_in_flight` also limits
            it.
        repeats: how often to ask each question, 1 or more: all questions once, then all again. The
            number of the repeat, from 1, is the `sample` of the result.
        timeout: limit of one call in seconds; None for no limit. An async call is cancelled and has
            10 seconds to clean up. A plain function cannot be stopped: the stream continues without
            its answer, but the call occupies one of `max_concurrency` slots until it returns.
            Neither closing the stream nor the end of the process waits for it.
        retry_errors: whether to ask again the questions whose responses in the journal are errors
            or were rejected. Their lines move to the file ``.replaced`` beside the journal. A
            journal does not know the agent: use another journal for another agent.
        options: the other options of `evaluate_stream`. `max_in_flight` limits the questions asked
            and not yet handed out; default: 4 times `max_concurrency`, at least 8. `dedupe` has no
            effect.

    Returns:
        a stream of results, which raises the same errors as `evaluate_stream`.
    """
    # `options` has those of the evaluator and those of the stream.
    stream_keywords: dict[str, Any] = dict(options)
    evaluator_keywords: dict[str, Any] = {}
    for name in EvaluatorOptions.__annotations__:
        if name in stream_keywords:
            evaluator_keywords[name] = stream_keywords.pop(name)
    check_integer("max_concurrency", max_concurrency)
    if stream_keywords.get("max_in_flight") is None:
        stream_keywords["max_in_flight"] = max(
            LEAST_IN_FLIGHT, IN_FLIGHT_PER_CALL * max_concurrency
        )

    evaluator = Evaluator(reference, **evaluator_keywords)
    stream_options = StreamOptions(**stream_keywords)
    questions = Questions(
        agent,
        evaluator,
        max_concurrency=max_concurrency,
        repeats=repeats,
        timeout=timeout,
        retry_errors=retry_errors,
        is_shuffled=stream_options.until is not None,
    )
    return EvaluationStream(evaluator, questions, stream_options)
