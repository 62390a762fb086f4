"""Calls an agent with every question and evaluates its answers."""

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
    """Ask an agent every question of a reference set and evaluate the answers as they come.

    The agent is called with a `Question` and returns a response as a dict, a list of steps (`actual_steps`),
    or a str (`actual_answer`). Anything else becomes a reject that names the question. The library adds
    `question_id`, and `elapsed_sec` (the seconds that the call took) unless the agent returns it. An
    exception or a timeout becomes the `error` of the response, with type and message.

    The next question is asked when a call ends, unless `max_in_flight` results are waiting. Leaving or
    dropping the stream cancels the calls; `stop()` asks no more questions. With `journal`, questions that an
    earlier run answered are not asked again. With `until`, questions are asked in random order, the same in
    each run, and the decision cancels the calls in progress.

    Args:
        reference: a path to YAML or JSON, a list of template dicts, or a `Reference`.
        agent: an async function, or a plain function, which runs in threads.
        max_concurrency: how many calls may run at a time, 1 or more; `max_in_flight` also limits it.
        repeats: how often to ask each question, 1 or more: all questions once, then all again. The number of
            the repeat, from 1, is the `sample` of the result.
        timeout: limit of one call in seconds; None for no limit. An async call is cancelled and has 10
            seconds to clean up. A plain function cannot be stopped: the stream continues without its answer,
            but the call occupies one of `max_concurrency` slots until it returns. Neither closing the stream
            nor the end of the process waits for it.
        retry_errors: whether to ask again the questions whose responses in the journal failed or were
            rejected. Their lines move to the file ``.damaged`` beside the journal. A journal does not know
            the agent: use another journal for another agent.
        options: the other options of `evaluate_stream`. `dedupe` has no effect.

    Returns:
        a stream of results, as `evaluate_stream` returns it.

    Raises:
        ReferenceDataError: the reference set is invalid.
        ConfigError: the configuration is invalid, or needs a package that is not installed.
        UsageError: an argument has an invalid value.
    """
    asked = Agent(agent, max_concurrency, repeats, timeout, retry_errors)
    return evaluate_stream(reference, asked, **options)
