"""Recall and precision of the texts that retrieval steps return, with prompts of RAGAS or in one call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import JudgeError, MalformedStep
from graphrag_eval_async.metrics.joint_retrieval import (
    ANSWER,
    CONTEXT,
    NO_TEXT,
    OTHER,
    joint_prompts,
    judge_jointly,
)
from graphrag_eval_async.metrics.metric import Metric, MetricTask, has_text
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, require_ragas, together
from graphrag_eval_async.steps import average_precision, read_texts
from graphrag_eval_async.steps.retrieval import read_documents

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from graphrag_eval_async.config.model import RetrievalAnswerConfig, RetrievalContextConfig
    from graphrag_eval_async.judge.calls import MetricCalls
    from graphrag_eval_async.metrics.metric import Case


def retrieval_answer(config: RetrievalAnswerConfig, *, is_shared: bool = False) -> Metric:
    """Return the metric `retrieval_answer`: compares successful retrieval steps with the reference answer.

    With `is_shared`, it shares its calls with `retrieval_context`.
    """
    return _retrieval(ANSWER, config, is_shared=is_shared)


def retrieval_context(config: RetrievalContextConfig, *, is_shared: bool = False) -> Metric:
    """Return the metric `retrieval_context`: compares matched steps with their reference steps' texts.

    With `is_shared`, it shares its calls with `retrieval_answer`.
    """
    return _retrieval(CONTEXT, config, is_shared=is_shared)


def can_share(answer: RetrievalAnswerConfig | None, context: RetrievalContextConfig | None) -> bool:
    """Whether one call can judge a step for both metrics."""
    if answer is None or context is None or not answer.mode == context.mode == "joint":
        return False
    return (answer.seed, answer.judges) == (context.seed, context.judges)


def _retrieval(
    name: str, config: RetrievalAnswerConfig | RetrievalContextConfig, *, is_shared: bool
) -> Metric:
    """Return a metric of successful retrieval steps."""
    judges: dict[str, Callable[..., Awaitable[Mapping[str, Any]]]]
    if config.mode == "joint":
        prompts = joint_prompts(config.seed, is_shared=is_shared)
        judges = {name: partial(judge_jointly, name, config.seed)}
    else:
        prompts = [f"ragas {require_ragas(name)} ContextRecallPrompt, ContextPrecisionPrompt"]
        keys = {f"{name}_recall": _recall, f"{name}_precision": _precision}
        judges = {key: partial(ask, key) for key, ask in keys.items()}

    def tasks(case: Case) -> list[MetricTask]:
        found = []
        for index, step in enumerate(case.actual_steps or []):
            if _is_retrieval(step) and (reference := _reference(name, case, index)) is not None:
                texts = _texts(step)
                is_complete = has_text(case.question, reference) and texts is not None
                other = _reference(OTHER[name], case, index) if is_shared else None
                more = {"other": other} if has_text(other) else {}
                for key, ask in judges.items():
                    call = partial(ask, case.question, texts, reference, **more) if is_complete else None
                    found.append(MetricTask(name, call, f"{key}_error", f"{key}_cost", index))
        return found

    return Metric(name, prompts, tasks)


def _reference(name: str, case: Case, index: int) -> str | None:
    """Return what a metric compares a step with; None if it does not judge the step."""
    if name == ANSWER:
        return case.reference_answer or ""
    return _joined(_texts(case.matches[index]) or []) if index in case.matches else None


def retrieved_texts(case: Case, *, blank: bool = False) -> list[str] | None:
    """Return the texts that all successful retrieval steps of a response returned, each once.

    With `blank`, also "" for each document without text. None if no such step tells texts.
    """
    of_steps = [_texts(step) for step in case.actual_steps or () if _is_retrieval(step)]
    known = [texts for texts in of_steps if texts is not None]
    if not known:
        return None
    texts = [text for each in known for text in each]
    return [*{text or place: text for place, text in enumerate(texts) if text or blank}.values()]


def _is_retrieval(step: Mapping[str, Any]) -> bool:
    return step.get("name") == "retrieval" and step.get("status") == "success"


def add_f1(keys: dict[str, Any], name: str) -> None:
    """Add F1 and its cost to a step's keys if a metric's recall and precision have them."""
    recall, precision = keys.get(f"{name}_recall"), keys.get(f"{name}_precision")
    if recall is not None and precision is not None:
        keys[f"{name}_f1"] = 2 * recall * precision / (recall + precision or 1)
    costs = keys.get(f"{name}_recall_cost"), keys.get(f"{name}_precision_cost")
    if None not in costs:
        keys[f"{name}_f1_cost"] = sum(costs)


def _joined(texts: Sequence[str]) -> str:
    return "\n".join(filter(None, texts))


def _texts(step: Mapping[str, Any]) -> list[str] | None:
    """Return the texts that a step returned by rank, "" for a document without text.

    None if they are not known: the output cannot be read, or it has documents, but none with the key `text`.
    """
    try:
        texts = read_texts(step.get("output"))
        is_known = not texts or any("text" in document for document in read_documents(step.get("output")))
    except MalformedStep:
        return None
    return texts if is_known else None


async def _recall(
    key: str, question: str, texts: Sequence[str], reference: str, judge: MetricCalls
) -> dict[str, Any]:
    """Return the share of the reference's statements that the judge attributes to the texts, from 0 to 1.

    0 without any text. Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/context_recall/
    """
    if not any(texts):
        return {key: 0.0} | ({f"{key}_reason": NO_TEXT} if key.startswith(ANSWER) else {})
    from ragas.metrics.collections.context_recall.util import ContextRecallPrompt

    context = _joined(texts)
    output = await ask_ragas(judge, ContextRecallPrompt, question=question, context=context, answer=reference)
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
    key: str, question: str, texts: Sequence[str], reference: str, judge: MetricCalls
) -> dict[str, float]:
    """Return the average precision of the texts that the judge finds useful, from 0 to 1; 0 if none is.

    A document without text takes up a rank.

    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/context_precision/
    """
    from ragas.metrics.collections.context_precision.util import ContextPrecisionPrompt

    ask = partial(ask_ragas, judge, ContextPrecisionPrompt, question=question, answer=reference)
    ranks = [rank for rank, text in enumerate(texts) if text]
    outputs = await together(*(partial(ask, context=texts[rank]) for rank in ranks))
    useful = [rank for rank, output in zip(ranks, outputs, strict=True) if output.verdict]
    return {key: average_precision(useful, range(len(texts))) if useful else 0.0}
