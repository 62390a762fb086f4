"""RAGAS answer correctness: an F-score of the answers' statements, averaged with their
similarity.

The prompts and the formula are those of `AnswerCorrectness` of ragas, but not its class: there, an
answer without statements, such as a refusal, is right.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

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
PROMPT = matching_prompt()


class StatementCounts(NamedTuple):
    """How the statements of an answer agree with those of the reference answer.

    Attributes:
        right: statements of the answer that the reference answer makes, too.
        wrong: statements of the answer that it does not make.
        missing: statements of the reference answer that the answer lacks.
        makes_statements: whether the answer makes any.
    """

    right: int
    wrong: int
    missing: int
    makes_statements: bool

    def f_score(self, beta: float) -> float:
        """Return the F-score, from 0 to 1. Formula: https://en.wikipedia.org/wiki/F-score"""
        if not self.right:
            return 0.0
        precision = self.right / (self.right + self.wrong)
        recall = self.right / (self.right + self.missing)
        return (1 + beta**2) * (precision * recall) / (beta**2 * precision + recall)


def ragas_answer_correctness(config: RagasAnswerCorrectnessConfig) -> Metric:
    """Return the metric `ragas_answer_correctness`.

    It is the weighted average of the F-score of the statements and the answers' cosine similarity.
    An answer without statements, such as a refusal or an empty one, scores 0.
    Formula: https://docs.ragas.io/en/v0.1.21/concepts/metrics/answer_correctness.html
    """
    if config.mode == "joint":
        prompts = ["joint", *PROMPT.texts]
        count_statements = _count_by_matching
    else:
        prompts = ragas_prompts(NAME, "StatementGeneratorPrompt", "CorrectnessClassifierPrompt")
        count_statements = _count_by_ragas
    prompts.append(f"weights {config.weights}, beta {config.beta}, threshold {config.threshold}")

    async def score(case: Case, calls: Calls) -> Keys:
        counts, similarity = await together(
            count_statements(case, calls), _similarity(config, case, calls)
        )
        keys: Keys = {
            NAME: _value(config, counts, similarity),
            f"{NAME}_tp": counts.right,
            f"{NAME}_fp": counts.wrong,
            f"{NAME}_fn": counts.missing,
        }
        if similarity is not None:
            keys[f"{NAME}_similarity"] = similarity
        return keys

    return Metric.of_answer(NAME, prompts, has_both_answers, score)


def _value(
    config: RagasAnswerCorrectnessConfig, counts: StatementCounts, similarity: float | None
) -> float:
    """Return the weighted mean of the F-score and the similarity; 0 without statements."""
    if not counts.makes_statements:
        return 0.0
    weight_of_f_score, weight_of_similarity = config.weights
    total = weight_of_f_score * counts.f_score(config.beta)
    total += weight_of_similarity * (similarity or 0.0)
    value = total / sum(config.weights)
    if config.threshold is not None:
        return float(value >= config.threshold)
    return value


async def _similarity(
    config: RagasAnswerCorrectnessConfig, case: Case, calls: Calls
) -> float | None:
    """Return the cosine of both answers; None if it has no weight, or the answer is blank."""
    if not config.needs_embedding or not has_text(case.actual_answer):
        return None
    actual, reference = await calls.embed([case.actual_answer or "", case.reference_answer or ""])
    return cosine(actual, reference)


async def _count_by_matching(case: Case, calls: Calls) -> StatementCounts:
    """Return the counts of the claims that answer correctness finds, in a call that both share."""
    claims = await match_claims(PROMPT, case, calls)
    matching = len(claims.matches)
    actual = len(claims.actual_claims)
    return StatementCounts(
        right=matching,
        wrong=actual - matching,
        missing=len(claims.reference_claims) - matching,
        makes_statements=actual > 0,
    )


async def _count_by_ragas(case: Case, calls: Calls) -> StatementCounts:
    """Return the counts of statements that the prompts of RAGAS find and classify."""
    ask = partial(ask_ragas, calls, "answer_correctness", question=case.question)
    answers = [case.reference_answer]
    if has_text(case.actual_answer):
        answers.append(case.actual_answer)
    replies = await together(*(ask("StatementGeneratorPrompt", answer=text) for text in answers))
    expected = replies[0].statements
    if not expected:
        raise JudgeError("invalid_reply", "the judge found no statement in the reference answer")

    statements = [statement for reply in replies[1:] for statement in reply.statements]
    if not statements:
        # Such as a refusal, or a blank answer.
        return StatementCounts(right=0, wrong=0, missing=len(expected), makes_statements=False)

    classes = await ask("CorrectnessClassifierPrompt", answer=statements, ground_truth=expected)
    if not (classes.TP or classes.FP or classes.FN):
        raise JudgeError("invalid_reply", "the judge classified no statement")
    return StatementCounts(
        right=len(classes.TP),
        wrong=len(classes.FP),
        missing=len(classes.FN),
        makes_statements=True,
    )
