"""Evaluating an agent that is called here, question by question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.stream.asking import MAX_CONCURRENCY, Agent
from graphrag_eval_async.stream.pipeline import EvaluationStream, evaluate_stream

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Unpack

    from graphrag_eval_async.records import Question
    from graphrag_eval_async.reference import Reference, Templates
    from graphrag_eval_async.stream.options import StreamKeywords


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
    """Ask an agent every question of a reference set, and evaluate the answers as they come.

    The agent is called with a `Question` and returns a response as a dict, a list of steps (`actual_steps`),
    or a str (`actual_answer`). Anything else becomes a reject that names the question. `question_id` is
    filled in, and `elapsed_sec`, the seconds that the call took, where the agent does not give it. An
    exception or a timeout becomes a response with an `error`: its type and message.

    The next question is asked when a call ends, unless `max_in_flight` results wait to be taken. Leaving or
    dropping the stream cancels the calls; `stop()` asks no more questions. With `journal`, questions that
    were answered in an earlier run are not asked again. With `until`, questions are asked in random order,
    the same in each run, and the decision cancels the calls in flight.

    Args:
        reference: as in `evaluate_stream`.
        agent: an async function, or a plain one, each call of which runs in a thread of its own.
        max_concurrency: how many calls may run at a time, 1 or more. `max_in_flight` limits it, too.
        repeats: how often each question is asked, 1 or more: all questions once, then all again. The number
            of the repeat, from 1, is the `sample` of its result.
        timeout: of one call, in seconds; None for no limit. A call of an async function is cancelled then,
            and has 10 seconds to clean up. A plain function cannot be stopped: the stream goes on without its
            answer, but it takes up one of `max_concurrency` until it returns. Neither closing the stream nor
            the end of the process waits for it.
        retry_errors: whether to ask again questions whose response in the journal failed or was rejected.
            Their lines move to the file ``.damaged`` beside the journal. A journal does not know the agent:
            use another one for another agent.
        options: as in `evaluate_stream`. `dedupe` has no effect.

    Returns:
        what `evaluate_stream` returns.

    Raises:
        ReferenceDataError, ConfigError, UsageError: as `evaluate_stream` does; on iteration, too.
    """
    asked = Agent(agent, max_concurrency, repeats, timeout, retry_errors)
    return evaluate_stream(reference, asked, **options)
