"""Faithfulness: which claims of the answer the retrieved texts support. Needs no reference
answer.
"""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from graphrag_eval_async.metrics.metric import (
    Calls,
    Case,
    Judgement,
    Metric,
    Prompt,
    has_text,
    list_judgements,
    share_of_positives,
    to_json,
)
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, ragas_prompts
from graphrag_eval_async.metrics.ragas_lookup import metric_of_collections
from graphrag_eval_async.metrics.ragas_metric import run_metric
from graphrag_eval_async.metrics.retrieved import NO_TEXT, retrieved_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.catalogue.judged import FaithfulnessConfig

NAME = "faithfulness"

INSTRUCTIONS = """\
<answer> is an answer to <question>, and <documents> are what it should rest on. List the claims that \
<answer> makes, each one atomic fact that can be understood alone. Greetings and refusals are no claims. \
For each claim, say whether it can be concluded from <documents> alone, whatever else you know.

Reply with JSON: "claims", a list of {"claim", "reason" in a few words, "supported"}; empty if there are \
none."""


class JudgedClaim(Struct, frozen=True):
    """A claim of the answer."""

    claim: str
    reason: Annotated[str, Meta(description="Why it is supported or not, in a few words.")]
    supported: bool


class FaithfulnessClaims(Struct, frozen=True):
    """The claims of an answer."""

    claims: list[JudgedClaim]


PROMPT = Prompt.for_struct(INSTRUCTIONS, FaithfulnessClaims)


def faithfulness(config: FaithfulnessConfig) -> Metric:
    """Return the metric `faithfulness`: the share of the answer's claims that the retrieved texts
    support.

    Values are from 0 to 1. An answer without claims has no value. If no text was retrieved, no
    claim is supported.
    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/faithfulness/
    """
    if config.mode == "joint":
        prompts = PROMPT.texts
        judge_claims = _judge_in_one_call
    else:
        prompts = ragas_prompts(NAME, "StatementGeneratorPrompt", "NLIStatementPrompt")
        judge_claims = _judge_by_ragas

    async def score(case: Case, calls: Calls) -> dict[str, Any]:
        """Return the share of supported claims, and a line on each claim as the reason."""
        judged_claims = await judge_claims(
            question=case.question,
            answer=case.actual_answer or "",
            texts=retrieved_texts(case) or [],
            calls=calls,
        )
        if not judged_claims:
            return {f"{NAME}_reason": "the answer makes no claims"}
        return {
            NAME: share_of_positives(judged_claims),
            f"{NAME}_reason": list_judgements(judged_claims),
        }

    return Metric.of_answer(NAME, prompts, _applies, score)


def _applies(case: Case) -> bool:
    """Return whether there are a question, an answer, and a retrieval step with known texts."""
    return has_text(case.question, case.actual_answer) and retrieved_texts(case) is not None


async def _judge_in_one_call(
    *, question: str, answer: str, texts: Sequence[str], calls: Calls
) -> list[Judgement]:
    """Ask the judge once for the claims of an answer, and return whether `texts` support each.

    If there are no texts, no claim is supported, whatever the judge says.
    """
    reply = await PROMPT.ask(calls, question=question, answer=answer, documents=to_json(texts))
    return [
        Judgement(
            is_positive=claim.supported and bool(texts),
            text=claim.claim,
            reason=claim.reason,
        )
        for claim in reply.claims
    ]


async def _judge_by_ragas(
    *, question: str, answer: str, texts: Sequence[str], calls: Calls
) -> list[Judgement]:
    """Return the statements of an answer, each judged by `Faithfulness` of ragas against `texts`.

    If there are no texts, no statement is supported.
    """
    if not texts:
        # Ragas refuses to judge without texts, so its first prompt alone finds the statements.
        reply = await ask_ragas(
            calls, NAME, "StatementGeneratorPrompt", question=question, answer=answer
        )
        return [
            Judgement(is_positive=False, text=statement, reason=NO_TEXT)
            for statement in reply.statements
        ]

    inputs = {"user_input": question, "response": answer, "retrieved_contexts": [*texts]}
    outcome = await run_metric(metric_of_collections("Faithfulness"), inputs, calls)
    # Ragas gives NaN for an answer without statements.
    if isnan(outcome.value):
        return []
    # The first reply lists the statements, and the last reply judges them.
    last_reply = outcome.replies[-1]
    return [
        Judgement(is_positive=row.verdict == 1, text=row.statement, reason=row.reason)
        for row in last_reply.statements
    ]
