"""RAGAS answer correctness: an F-score of the answers' statements, averaged with their similarity."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.metric import has_text, metric_of_one_call
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, cosine, require_ragas, together

if TYPE_CHECKING:
    from graphrag_eval_async.config.model import RagasAnswerCorrectnessConfig
    from graphrag_eval_async.judge.protocol import MetricJudge
    from graphrag_eval_async.metrics.metric import Call, Case, Metric

NAME = "ragas_answer_correctness"


def ragas_answer_correctness(config: RagasAnswerCorrectnessConfig) -> Metric:
    """Return the metric `ragas_answer_correctness`.

    Raises:
        ConfigError: ragas is not installed.
    """
    version = require_ragas(NAME)

    def call_for(case: Case) -> Call | None:
        answer, reference = case.actual_answer, case.reference_answer or ""
        if answer is None or not has_text(case.question, reference):
            return None
        return partial(_correctness, config, case.question, answer, reference)

    prompts = [
        f"ragas {version} StatementGeneratorPrompt, CorrectnessClassifierPrompt",
        f"weights {config.weights}, beta {config.beta}, threshold {config.threshold}",
    ]
    return metric_of_one_call(NAME, prompts, call_for)


async def _correctness(
    config: RagasAnswerCorrectnessConfig, question: str, answer: str, reference: str, judge: MetricJudge
) -> dict[str, Any]:
    """Return the weighted average of the F-score of the statements and the answers' cosine similarity.

    An answer without statements, such as a refusal or an empty one, scores 0.
    Formula: https://docs.ragas.io/en/v0.1.21/concepts/metrics/answer_correctness.html
    """
    from ragas.metrics.collections.answer_correctness.util import (
        CorrectnessClassifierPrompt,
        StatementGeneratorPrompt,
    )

    split = partial(ask_ragas, judge, StatementGeneratorPrompt, question=question)
    is_blank = not answer.strip()
    embed = [partial(judge.embed, [answer, reference])] if config.weights[1] and not is_blank else []
    answers = [partial(split, answer=text) for text in ([reference] if is_blank else [reference, answer])]
    expected, *others = await together(*answers, *embed)
    actual, vectors = ([], others) if is_blank else (others[0].statements, others[1:])
    similarity = {f"{NAME}_similarity": cosine(*pair) for pair in vectors}
    if not expected.statements:
        raise JudgeError("invalid_reply", "the judge found no statement in the reference answer")
    if not actual:  # Such as a refusal.
        counts = {f"{NAME}_tp": 0, f"{NAME}_fp": 0, f"{NAME}_fn": len(expected.statements)}
        return {NAME: 0.0, **counts, **similarity}
    classes = await ask_ragas(
        judge,
        CorrectnessClassifierPrompt,
        question=question,
        answer=actual,
        ground_truth=expected.statements,
    )
    sizes = len(classes.TP), len(classes.FP), len(classes.FN)
    if not any(sizes):
        raise JudgeError("invalid_reply", "the judge classified no statement")
    total = config.weights[0] * _f_score(*sizes, config.beta) + config.weights[1] * sum(similarity.values())
    score = total / sum(config.weights)
    if config.threshold is not None:
        score = float(score >= config.threshold)
    counts = {f"{NAME}_{name}": size for name, size in zip(("tp", "fp", "fn"), sizes, strict=True)}
    return {NAME: score, **counts, **similarity}


def _f_score(tp: int, fp: int, fn: int, beta: float) -> float:
    """Return the F-score of counts, from 0 to 1. Formula: https://en.wikipedia.org/wiki/F-score"""
    if not tp:
        return 0.0
    precision, recall = tp / (tp + fp), tp / (tp + fn)
    return (1 + beta**2) * (precision * recall) / (beta**2 * precision + recall)
