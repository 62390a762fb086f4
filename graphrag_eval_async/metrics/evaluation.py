"""One metric of one result: what it is computed from, and where its values go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from graphrag_eval_async.judge.protocol import MetricJudge


class Case(NamedTuple):
    """A response beside its question, as the metrics see them.

    Attributes:
        question: the text of the question.
        reference_answer: None where there is none, and likewise for the following.
        reference_steps: groups of steps.
        actual_answer: the agent's.
        actual_steps: the agent's.
        matches: for each actual step, by its index, that matches a reference step: the reference step.
    """

    question: str
    reference_answer: str | None = None
    reference_steps: Sequence[Sequence[Mapping[str, Any]]] | None = None
    actual_answer: str | None = None
    actual_steps: Sequence[Mapping[str, Any]] | None = None
    matches: Mapping[int, Mapping[str, Any]] = {}


class Evaluation(NamedTuple):
    """One metric that applies to a case, or to one of its steps.

    Attributes:
        metric: the metric's name in the configuration.
        call: asks the judge and returns the keys of the metric with their values; raises `JudgeError`.
            None where an input is missing: the metric is skipped.
        error_key: the key of the message where the call fails.
        cost_key: the key of the cost in US dollars.
        step: the index of the actual step that the keys belong to; None where they belong to the result.
        nulls: keys that are None where the call fails.
    """

    metric: str
    call: Callable[[MetricJudge], Awaitable[Mapping[str, Any]]] | None
    error_key: str
    cost_key: str
    step: int | None = None
    nulls: Sequence[str] = ()


class Metric(NamedTuple):
    """A metric that has been configured.

    Attributes:
        name: its name in the configuration.
        prompts: all that the judge is told besides the data: it makes the `prompts` hash of the results.
        evaluations: what it has to evaluate in a case.
    """

    name: str
    prompts: Sequence[str]
    evaluations: Callable[[Case], list[Evaluation]]
