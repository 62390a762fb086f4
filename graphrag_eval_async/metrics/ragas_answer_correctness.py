"""RAGAS answer correctness: an F-score of the answers' statements, averaged with their
similarity.

The prompts and the formula are those of `AnswerCorrectness` of ragas, but not its class: there, an
answer without statements, such as a refusal, is right.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.answer_correctness import (
    has_both_answers,
    match_claims,
    matching_prompt,
)
from graphrag_eval_async.metrics.metric import Calls, Case, Metric, has_text
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, cosine, ragas_prompts, together

if TYPE_CHECKING:
    from graphrag_eval_async.catalogue.judged import RagasAnswerCorrectnessConfig

NAME = "ragas_answer_correctness"
PROMPT = matching_prompt()


class StatementCounts(NamedTuple):
    """Counts of the statements that an answer shares with the reference answer, and of all others.

    Attributes:
        right: the number of statements of the answer that the reference answer makes, too.
        wrong: the number of statements of the answer that the reference answer does not make.
        missing: the number of statements of the reference answer that the answer lacks.
        makes_statements: whether the answer makes any statement.
    """

    right: int
    wrong: int
    missing: int
    makes_statements: bool

    def f_score(self, beta: float) -> float:
        """Return the F-score of the counts, from 0 to 1.

        With a `beta` above 1, recall counts more than precision, and below 1, less.

        Formula: https://en.wikipedia.org/wiki/F-score
        """
        if self.right == 0:
            return 0.0
        precision = self.right / (self.right + self.wrong)
        recall = self.right / (self.right + self.missing)
        return (1 + beta**2) * (precision * recall) / (beta**2 * precision + recall)


def ragas_answer_correctness(config: RagasAnswerCorrectnessConfig) -> Metric:
    """Return the metric `ragas_answer_correctness`: a weighted mean of an F-score and a similarity.

    The F-score compares the statements of both answers. The similarity is the cosine of the vectors
    of both answers. An answer without statements, such as a refusal or an empty answer, scores 0.
    Formula: https://docs.ragas.io/en/v0.1.21/concepts/metrics/answer_correctness.html
    """
    if config.mode == "joint":
        prompts = ["joint", *PROMPT.texts]
        count_statements = _count_by_matching
    else:
        prompts = ragas_prompts(NAME, "StatementGeneratorPrompt", "CorrectnessClassifierPrompt")
        count_statements = _count_by_ragas
    # These settings change values, too, so they are part of the hash of prompts.
    prompts.append(f"weights {config.weights}, beta {config.beta}, threshold {config.threshold}")

    async def score(case: Case, calls: Calls) -> dict[str, Any]:
        """Return the entries of a result: the value, the counts, and any similarity."""
        counts, similarity = await together(
            count_statements(case, calls), _similarity_of_answers(config, case, calls)
        )
        entries: dict[str, Any] = {
            NAME: _combine(config, counts, similarity),
            f"{NAME}_tp": counts.right,
            f"{NAME}_fp": counts.wrong,
            f"{NAME}_fn": counts.missing,
        }
        if similarity is not None:
            entries[f"{NAME}_similarity"] = similarity
        return entries

    return Metric.of_answer(NAME, prompts, has_both_answers, score)


def _combine(
    config: RagasAnswerCorrectnessConfig, counts: StatementCounts, similarity: float | None
) -> float:
    """Return the weighted mean of the F-score of `counts` and the similarity of the answers.

    - If the answer makes no statements, the result is 0.
    - If a threshold is configured, the result is 1 if the mean reaches it, otherwise 0.
    - A similarity of None counts as 0.
    """
    if not counts.makes_statements:
        return 0.0
    if similarity is None:
        similarity = 0.0
    f_score_weight, similarity_weight = config.weights
    weighted_sum = f_score_weight * counts.f_score(config.beta) + similarity_weight * similarity
    mean = weighted_sum / sum(config.weights)
    if config.threshold is not None:
        return float(mean >= config.threshold)
    return mean


async def _similarity_of_answers(
    config: RagasAnswerCorrectnessConfig, case: Case, calls: Calls
) -> float | None:
    """Return the cosine of the vectors of both answers, from -1 to 1.

    The result is None if the similarity has no weight, or if the actual answer is blank.
    """
    if not config.needs_embedding or not has_text(case.actual_answer):
        return None
    answers = [case.actual_answer or "", case.reference_answer or ""]
    actual_vector, reference_vector = await calls.embed(answers)
    return cosine(actual_vector, reference_vector)


async def _count_by_matching(case: Case, calls: Calls) -> StatementCounts:
    """Return counts of the claims of both answers, which the judge lists and matches in one call.

    The metric `answer_correctness` makes an equal call, so one call serves both metrics.
    """
    claims = await match_claims(PROMPT, case, calls)
    match_count = len(claims.matches)
    actual_count = len(claims.actual_claims)
    return StatementCounts(
        right=match_count,
        wrong=actual_count - match_count,
        missing=len(claims.reference_claims) - match_count,
        makes_statements=actual_count > 0,
    )


async def _count_by_ragas(case: Case, calls: Calls) -> StatementCounts:
    """Return counts of the statements of both answers, which the judge finds and then classifies.

    The prompts are those of RAGAS.

    Raises:
        JudgeError: a call failed, the judge found no statement in the reference answer, or the
            judge classified no statement.
    """
    ask = partial(ask_ragas, calls, "answer_correctness", question=case.question)

    # Find the statements of both answers. A blank actual answer has none, so it needs no call.
    answers = [case.reference_answer]
    if has_text(case.actual_answer):
        answers.append(case.actual_answer)
    requests = [ask("StatementGeneratorPrompt", answer=answer) for answer in answers]
    reference_reply, *actual_replies = await together(*requests)
    reference_statements = reference_reply.statements
    if not reference_statements:
        raise JudgeError("invalid_reply", "the judge found no statement in the reference answer")
    actual_statements = []
    for reply in actual_replies:
        actual_statements += reply.statements
    if not actual_statements:
        return StatementCounts(
            right=0, wrong=0, missing=len(reference_statements), makes_statements=False
        )

    # Classify all statements: TP are true positives, FP false positives, FN false negatives.
    classes = await ask(
        "CorrectnessClassifierPrompt", answer=actual_statements, ground_truth=reference_statements
    )
    if not (classes.TP or classes.FP or classes.FN):
        raise JudgeError("invalid_reply", "the judge classified no statement")
    return StatementCounts(
        right=len(classes.TP),
        wrong=len(classes.FP),
        missing=len(classes.FN),
        makes_statements=True,
    )
