"""RAGAS answer relevancy: whether the answer answers the question that was asked."""

from __future__ import annotations

from functools import partial
from math import fsum
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.metric import has_text, metric_of_one_call
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, cosine, require_ragas, together

if TYPE_CHECKING:
    from graphrag_eval_async.config.model import AnswerRelevanceConfig
    from graphrag_eval_async.judge.protocol import MetricJudge
    from graphrag_eval_async.metrics.metric import Call, Case, Metric

NAME = "answer_relevance"
NONCOMMITTAL = "the judge found the answer noncommittal: evasive, vague or ambiguous"


def answer_relevance(config: AnswerRelevanceConfig) -> Metric:
    """Return the metric `answer_relevance`.

    Raises:
        ConfigError: ragas is not installed.
    """
    version = require_ragas(NAME)

    def call_for(case: Case) -> Call | None:
        answer = case.actual_answer or ""
        is_complete = has_text(case.question, answer)
        return partial(_relevance, config.strictness, case.question, answer) if is_complete else None

    prompts = [f"ragas {version} AnswerRelevancePrompt", f"strictness {config.strictness}"]
    return metric_of_one_call(NAME, prompts, call_for)


async def _relevance(strictness: int, question: str, answer: str, judge: MetricJudge) -> dict[str, Any]:
    """Return the mean cosine similarity of the question and questions generated from the answer.

    From -1 to 1; 0 if the judge found the answer noncommittal in every sample. Formula:
    https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/answer_relevance/
    """
    from ragas.metrics.collections.answer_relevancy.util import AnswerRelevancePrompt

    sample = partial(ask_ragas, judge, AnswerRelevancePrompt, response=answer)
    samples = [partial(sample, repeat=index) for index in range(strictness)]
    outputs = [output for output in await together(*samples) if has_text(output.question)]
    if not outputs:
        raise JudgeError("invalid_reply", "the judge generated no question from the answer")
    if all(output.noncommittal for output in outputs):
        return {NAME: 0.0, f"{NAME}_reason": NONCOMMITTAL}
    asked, *generated = await judge.embed([question, *(output.question for output in outputs)])
    return {NAME: fsum(cosine(asked, vector) for vector in generated) / len(generated)}
