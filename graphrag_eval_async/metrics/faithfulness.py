"""Faithfulness: which claims of the answer the retrieved texts support. Needs no reference
answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from graphrag_eval_async.metrics.metric import (
    Calls,
    Case,
    Keys,
    Metric,
    Prompt,
    dumps,
    has_text,
    lines_of,
)
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, ragas_prompts
from graphrag_eval_async.metrics.retrieval import NO_TEXT, retrieved_texts

if TYPE_CHECKING:
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


PROMPT = Prompt.of(INSTRUCTIONS, FaithfulnessClaims)


def faithfulness(config: FaithfulnessConfig) -> Metric:
    """Return the metric `faithfulness`: the share of supported claims, from 0 to 1.

    No value for an answer without claims. No claim is supported if no text was retrieved.
    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/faithfulness/
    """
    is_joint, ragas = config.mode == "joint", ("StatementGeneratorPrompt", "NLIStatementPrompt")

    def applies(case: Case) -> bool:
        return has_text(case.question, case.actual_answer) and retrieved_texts(case) is not None

    async def score(case: Case, calls: Calls) -> Keys:
        texts, answer = retrieved_texts(case) or [], case.actual_answer or ""
        if is_joint:
            found = await PROMPT.ask(
                calls, question=case.question, answer=answer, documents=dumps(texts)
            )
            claims = [
                (each.supported and bool(texts), each.claim, each.reason) for each in found.claims
            ]
        else:
            split = await ask_ragas(calls, NAME, ragas[0], question=case.question, answer=answer)
            claims = [(False, statement, NO_TEXT) for statement in split.statements]
            if claims and texts:
                data = {"context": "\n".join(texts), "statements": split.statements}
                found = await ask_ragas(calls, NAME, ragas[1], **data)
                claims = [
                    (each.verdict == 1, each.statement, each.reason) for each in found.statements
                ]
        if not claims:
            return {f"{NAME}_reason": "the answer makes no claims"}
        share = sum(supported for supported, *_ in claims) / len(claims)
        return {NAME: share, f"{NAME}_reason": lines_of(claims)}

    return Metric.of_answer(
        NAME, PROMPT.texts if is_joint else ragas_prompts(NAME, *ragas), applies, score
    )
