"""RAGAS context recall and precision of what a retrieval step retrieved."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import JudgeError, MalformedStep
from graphrag_eval_async.metrics.evaluation import Evaluation, Metric
from graphrag_eval_async.metrics.ragas_bridge import bridge, has_text, require_ragas, together
from graphrag_eval_async.steps import average_precision, read_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.config.model import RetrievalAnswerConfig, RetrievalContextConfig
    from graphrag_eval_async.judge.protocol import MetricJudge
    from graphrag_eval_async.metrics.evaluation import Case

ANSWER = "retrieval_answer"
CONTEXT = "retrieval_context"

_SUFFIXES = [
    *("recall", "recall_reason", "recall_error", "recall_cost"),
    *("precision", "precision_error", "precision_cost"),
    *("f1", "f1_cost"),
]


def retrieval_answer(_: RetrievalAnswerConfig | None = None) -> Metric:
    """The metric `retrieval_answer`: each successful retrieval step against the reference answer.

    Raises:
        ConfigError: ragas is not installed.
    """

    def evaluations(case: Case) -> list[Evaluation]:
        reference = case.reference_answer or ""
        return [each for index in _retrievals(case) for each in _both(ANSWER, case, index, reference)]

    return Metric(ANSWER, _prompts(ANSWER), evaluations)


def retrieval_context(_: RetrievalContextConfig | None = None) -> Metric:
    """The metric `retrieval_context`: each such step that matched against the reference step's texts.

    Raises:
        ConfigError: ragas is not installed.
    """

    def evaluations(case: Case) -> list[Evaluation]:
        return [
            each
            for index in _retrievals(case)
            if index in case.matches
            for each in _both(CONTEXT, case, index, "\n".join(_texts(case.matches[index])))
        ]

    return Metric(CONTEXT, _prompts(CONTEXT), evaluations)


def add_f1(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of one step, and the F1 scores and their costs where recall and precision have them."""
    result = dict(keys)
    for name in (ANSWER, CONTEXT):
        recall, precision = keys.get(f"{name}_recall"), keys.get(f"{name}_precision")
        if recall is not None and precision is not None:
            result[f"{name}_f1"] = 2 * recall * precision / (recall + precision or 1)
        costs = keys.get(f"{name}_recall_cost"), keys.get(f"{name}_precision_cost")
        if None not in costs:
            result[f"{name}_f1_cost"] = sum(costs)
        for key in [f"{name}_{suffix}" for suffix in _SUFFIXES]:
            if key in result:
                result[key] = result.pop(key)
    return result


def _prompts(name: str) -> list[str]:
    return [f"ragas {require_ragas(name)} ContextRecallPrompt, ContextPrecisionPrompt"]


def _retrievals(case: Case) -> list[int]:
    """The indexes of the successful retrieval steps."""
    steps = enumerate(case.actual_steps or [])
    return [
        index for index, step in steps if step.get("name") == "retrieval" and step.get("status") == "success"
    ]


def _texts(step: Mapping[str, Any]) -> list[str]:
    try:
        return read_texts(step.get("output"))
    except MalformedStep:
        return []


def _both(name: str, case: Case, index: int, reference: str) -> list[Evaluation]:
    """Recall and precision of the step at the index."""
    texts = _texts((case.actual_steps or [])[index])
    is_complete = has_text(case.question, reference) and texts
    return [
        Evaluation(
            name,
            partial(judge, key, case.question, texts, reference) if is_complete else None,
            f"{key}_error",
            f"{key}_cost",
            index,
        )
        for key, judge in [(f"{name}_recall", _recall), (f"{name}_precision", _precision)]
    ]


async def _recall(
    key: str, question: str, texts: Sequence[str], reference: str, asking: MetricJudge
) -> dict[str, Any]:
    """The share of the reference's statements that the judge attributes to the texts, from 0 to 1.

    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/context_recall/
    """
    judge = bridge(asking)
    from ragas.metrics.collections import ContextRecall

    prompt = ContextRecall(llm=judge).prompt
    output = await judge.answer(prompt, question=question, context="\n".join(texts), answer=reference)
    rows = output.classifications
    if not rows:
        raise JudgeError("invalid_reply", "the judge found no statement in the reference")
    result: dict[str, Any] = {key: sum(row.attributed for row in rows) / len(rows)}
    if key.startswith(ANSWER):
        result[f"{key}_reason"] = "\n".join(
            f"{'+' if row.attributed else '-'} {row.statement} ({row.reason})" for row in rows
        )
    return result


async def _precision(
    key: str, question: str, texts: Sequence[str], reference: str, asking: MetricJudge
) -> dict[str, float]:
    """The average precision of the texts that the judge finds useful, from 0 to 1; 0 if there are none.

    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/context_precision/
    """
    judge = bridge(asking)
    from ragas.metrics.collections import ContextPrecision

    answer = partial(judge.answer, ContextPrecision(llm=judge).prompt, question=question, answer=reference)
    outputs = await together(*(partial(answer, context=text) for text in texts))
    useful = [rank for rank, output in enumerate(outputs) if output.verdict]
    return {key: average_precision(useful, range(len(texts))) if useful else 0.0}
