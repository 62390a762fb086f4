"""RAGAS answer correctness: an F-score of the answers' statements, averaged with their similarity."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.config.model import CORRECTNESS_INPUTS
from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.answer_correctness import FORM, instructions_of
from graphrag_eval_async.metrics.metric import has_text, messages, metric_of_one_call, prompts_of
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, cosine, require_ragas, together

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graphrag_eval_async.config.model import RagasAnswerCorrectnessConfig
    from graphrag_eval_async.judge.calls import MetricCalls
    from graphrag_eval_async.metrics.metric import Call, Case, Metric

NAME = "ragas_answer_correctness"


def ragas_answer_correctness(config: RagasAnswerCorrectnessConfig) -> Metric:
    """Return the metric `ragas_answer_correctness`."""
    if config.mode == "joint":
        count, prompts = _matched, ["joint", *prompts_of(instructions_of(), FORM)]
    else:
        count = _classified
        prompts = [f"ragas {require_ragas(NAME)} StatementGeneratorPrompt, CorrectnessClassifierPrompt"]
    prompts.append(f"weights {config.weights}, beta {config.beta}, threshold {config.threshold}")

    def call_for(case: Case) -> Call | None:
        answer, reference = case.actual_answer, case.reference_answer or ""
        if answer is None or not has_text(case.question, reference):
            return None
        return partial(_correctness, count, config, case.question, answer, reference)

    return metric_of_one_call(NAME, prompts, call_for)


class _Statements(NamedTuple):
    """How many statements of an answer are right or wrong, and how many of the reference it lacks.

    `is_refusal` says that the answer makes none.
    """

    tp: int
    fp: int
    fn: int
    is_refusal: bool


async def _correctness(
    count: Callable[[str, str, str, MetricCalls], Awaitable[_Statements]],
    config: RagasAnswerCorrectnessConfig,
    question: str,
    answer: str,
    reference: str,
    judge: MetricCalls,
) -> dict[str, Any]:
    """Return the weighted average of the F-score of the statements and the answers' cosine similarity.

    An answer without statements, such as a refusal or an empty one, scores 0.
    Formula: https://docs.ragas.io/en/v0.1.21/concepts/metrics/answer_correctness.html
    """
    embeds = config.weights[1] and answer.strip()
    embed = [partial(judge.embed, [answer, reference])] if embeds else []
    found, *vectors = await together(partial(count, question, answer, reference, judge), *embed)
    keys = {f"{NAME}_{name}": getattr(found, name) for name in ("tp", "fp", "fn")}
    similarity = {f"{NAME}_similarity": cosine(*pair) for pair in vectors}
    score = 0.0
    if not found.is_refusal:
        total = config.weights[0] * _f_score(found.tp, found.fp, found.fn, config.beta)
        score = (total + config.weights[1] * sum(similarity.values())) / sum(config.weights)
        if config.threshold is not None:
            score = float(score >= config.threshold)
    return {NAME: score, **keys, **similarity}


async def _matched(question: str, answer: str, reference: str, judge: MetricCalls) -> _Statements:
    """Count by the same call as answer correctness, which is made only once if both are on."""
    blocks = dict(zip(CORRECTNESS_INPUTS, (question, reference, answer), strict=True))
    found = await judge.ask(partial(messages, instructions_of(), blocks), FORM)
    expected, actual, matching = (
        found[f"answer_{name}_claims_count"] for name in ("reference", "actual", "matching")
    )
    return _Statements(matching, actual - matching, expected - matching, not actual)


async def _classified(question: str, answer: str, reference: str, judge: MetricCalls) -> _Statements:
    """Count with the prompts of RAGAS."""
    from ragas.metrics.collections.answer_correctness.util import (
        CorrectnessClassifierPrompt,
        StatementGeneratorPrompt,
    )

    split = partial(ask_ragas, judge, StatementGeneratorPrompt, question=question)
    expected, *actual = await together(
        *(partial(split, answer=text) for text in (reference, answer) if text.strip())
    )
    if not expected.statements:
        raise JudgeError("invalid_reply", "the judge found no statement in the reference answer")
    statements = [statement for each in actual for statement in each.statements]
    if not statements:  # Such as a refusal.
        return _Statements(0, 0, len(expected.statements), is_refusal=True)
    classes = await ask_ragas(
        judge,
        CorrectnessClassifierPrompt,
        question=question,
        answer=statements,
        ground_truth=expected.statements,
    )
    sizes = len(classes.TP), len(classes.FP), len(classes.FN)
    if not any(sizes):
        raise JudgeError("invalid_reply", "the judge classified no statement")
    return _Statements(*sizes, is_refusal=False)


def _f_score(tp: int, fp: int, fn: int, beta: float) -> float:
    """Return the F-score of counts, from 0 to 1. Formula: https://en.wikipedia.org/wiki/F-score"""
    if not tp:
        return 0.0
    precision, recall = tp / (tp + fp), tp / (tp + fn)
    return (1 + beta**2) * (precision * recall) / (beta**2 * precision + recall)
