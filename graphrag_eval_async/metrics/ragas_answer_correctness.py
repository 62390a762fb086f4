"""RAGAS answer correctness: an F-score of the answers' statements, averaged with their
similarity.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.answer_correctness import (
    has_both_answers,
    match_claims,
    matching_prompt,
)
from graphrag_eval_async.metrics.metric import Calls, Case, Keys, Metric, has_text
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, cosine, ragas_prompts, together

if TYPE_CHECKING:
    from graphrag_eval_async.catalogue.judged import RagasAnswerCorrectnessConfig

NAME = "ragas_answer_correctness"
RAGAS = NAME.removeprefix("ragas_")
PROMPT = matching_prompt()


def ragas_answer_correctness(config: RagasAnswerCorrectnessConfig) -> Metric:
    """Return the metric `ragas_answer_correctness`.

    It is the weighted average of the F-score of the statements and the answers' cosine similarity.
    An answer without statements, such as a refusal or an empty one, scores 0.
    Formula: https://docs.ragas.io/en/v0.1.21/concepts/metrics/answer_correctness.html
    """
    if config.mode == "joint":
        count, prompts = _matched, ["joint", *PROMPT.texts]
    else:
        count = _classified
        prompts = ragas_prompts(NAME, "StatementGeneratorPrompt", "CorrectnessClassifierPrompt")
    prompts.append(f"weights {config.weights}, beta {config.beta}, threshold {config.threshold}")

    async def score(case: Case, calls: Calls) -> Keys:
        answers = [case.actual_answer or "", case.reference_answer or ""]
        embeds = config.weights[1] and has_text(answers[0])
        counts, *vectors = await together(
            count(case, calls), *([calls.embed(answers)] if embeds else [])
        )
        keys: Keys = {f"{NAME}_similarity": cosine(*pair) for pair in vectors}
        tp, fp, fn, makes_statements = counts
        value = 0.0
        if makes_statements:
            total = config.weights[0] * _f_score(tp, fp, fn, config.beta)
            value = (total + config.weights[1] * sum(keys.values())) / sum(config.weights)
            if config.threshold is not None:
                value = float(value >= config.threshold)
        return {NAME: value, f"{NAME}_tp": tp, f"{NAME}_fp": fp, f"{NAME}_fn": fn} | keys

    return Metric.of_answer(NAME, prompts, has_both_answers, score)


async def _matched(case: Case, calls: Calls) -> tuple[int, int, int, bool]:
    """Count right, wrong and lacking statements by the call of answer correctness; and whether
    it has any.
    """
    found = await match_claims(PROMPT, case, calls)
    matching, actual = len(found.matches), len(found.actual_claims)
    return matching, actual - matching, len(found.reference_claims) - matching, actual > 0


async def _classified(case: Case, calls: Calls) -> tuple[int, int, int, bool]:
    """Count with the prompts of RAGAS; see `_matched`."""
    ask = partial(ask_ragas, calls, RAGAS, question=case.question)
    split = partial(ask, "StatementGeneratorPrompt")
    texts = [text for text in (case.reference_answer, case.actual_answer) if has_text(text)]
    expected, *actual = await together(*(split(answer=text) for text in texts))
    if not expected.statements:
        raise JudgeError("invalid_reply", "the judge found no statement in the reference answer")
    statements = [statement for each in actual for statement in each.statements]
    if not statements:  # Such as a refusal.
        return 0, 0, len(expected.statements), False
    classes = await ask(
        "CorrectnessClassifierPrompt", answer=statements, ground_truth=expected.statements
    )
    if not (classes.TP or classes.FP or classes.FN):
        raise JudgeError("invalid_reply", "the judge classified no statement")
    return len(classes.TP), len(classes.FP), len(classes.FN), True


def _f_score(tp: int, fp: int, fn: int, beta: float) -> float:
    """Return the F-score of counts, from 0 to 1. Formula: https://en.wikipedia.org/wiki/F-score"""
    if not tp:
        return 0.0
    precision, recall = tp / (tp + fp), tp / (tp + fn)
    return (1 + beta**2) * (precision * recall) / (beta**2 * precision + recall)
