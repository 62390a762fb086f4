"""RAGAS answer correctness: an F-score of the answers' statements, averaged with their similarity."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.metric import metric_of_one_call
from graphrag_eval_async.metrics.ragas_bridge import bridge, cosine, has_text, require_ragas, together

if TYPE_CHECKING:
    from graphrag_eval_async.config.model import RagasAnswerCorrectnessConfig
    from graphrag_eval_async.judge.protocol import MetricJudge
    from graphrag_eval_async.metrics.metric import Call, Case, Metric

NAME = "ragas_answer_correctness"


def ragas_answer_correctness(config: RagasAnswerCorrectnessConfig) -> Metric:
    """The metric `ragas_answer_correctness`.

    Raises:
        ConfigError: ragas is not installed.
    """
    version = require_ragas(NAME)

    def call_for(case: Case) -> Call | None:
        answer, reference = case.actual_answer or "", case.reference_answer or ""
        is_complete = has_text(answer, reference)
        return partial(_correctness, config, case.question, answer, reference) if is_complete else None

    prompts = [
        f"ragas {version} StatementGeneratorPrompt, CorrectnessClassifierPrompt",
        f"weights {config.weights}, beta {config.beta}, threshold {config.threshold}",
    ]
    return metric_of_one_call(NAME, prompts, call_for)


async def _correctness(
    config: RagasAnswerCorrectnessConfig, question: str, answer: str, reference: str, judge: MetricJudge
) -> dict[str, Any]:
    """The average, by the weights, of the F-score of true and false statements and the cosine similarity.

    Formula: https://docs.ragas.io/en/v0.1.21/concepts/metrics/answer_correctness.html
    """
    llm = bridge(judge)
    from ragas.metrics.collections import AnswerCorrectness

    weights = list(config.weights)
    metric = AnswerCorrectness(llm=llm, embeddings=llm, weights=weights, beta=float(config.beta))
    split = partial(llm.answer, metric.statement_generator_prompt, question=question)
    embed = [partial(judge.embed, [answer, reference])] if weights[1] else []
    actual, expected, *vectors = await together(
        partial(split, answer=answer), partial(split, answer=reference), *embed
    )
    for output, whose in [(actual, "actual"), (expected, "reference")]:
        if not output.statements:
            raise JudgeError("invalid_reply", f"the judge found no statement in the {whose} answer")
    classes = await llm.answer(
        metric.correctness_classifier_prompt,
        question=question,
        answer=actual.statements,
        ground_truth=expected.statements,
    )
    if not (classes.TP or classes.FP or classes.FN):
        raise JudgeError("invalid_reply", "the judge classified no statement")
    similarity = {f"{NAME}_similarity": cosine(*pair) for pair in vectors}
    total = weights[0] * metric._compute_f1_score(classes) + weights[1] * sum(similarity.values())
    score = total / sum(weights)
    if config.threshold is not None:
        score = float(score >= config.threshold)
    counts = {f"{NAME}_{name.lower()}": len(getattr(classes, name)) for name in ("TP", "FP", "FN")}
    return {NAME: score, **counts, **similarity}
