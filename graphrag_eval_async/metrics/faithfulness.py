"""Faithfulness: which claims of the answer the retrieved texts support. Needs no reference answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from graphrag_eval_async.judge.protocol import format_of
from graphrag_eval_async.metrics.joint_retrieval import NO_TEXT
from graphrag_eval_async.metrics.metric import dumps, has_text, messages, metric_of_one_call, prompts_of
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, require_ragas
from graphrag_eval_async.metrics.retrieval import retrieved_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphrag_eval_async.config.model import FaithfulnessConfig
    from graphrag_eval_async.judge.calls import MetricCalls
    from graphrag_eval_async.metrics.metric import Call, Case, Metric

NAME = "faithfulness"
NO_CLAIMS = "the answer makes no claims"

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


FORM = format_of(FaithfulnessClaims)


def faithfulness(config: FaithfulnessConfig) -> Metric:
    """Return the metric `faithfulness`. No claim is supported if no text was retrieved."""
    judge_claims = _with_ragas if config.mode == "ragas" else _jointly

    def call_for(case: Case) -> Call | None:
        texts, answer = retrieved_texts(case), case.actual_answer or ""
        if texts is None or not has_text(case.question, answer):
            return None
        return partial(judge_claims, case.question, answer, texts)

    if config.mode == "ragas":
        prompts = [f"ragas {require_ragas(NAME)} StatementGeneratorPrompt, NLIStatementPrompt"]
    else:
        prompts = prompts_of(INSTRUCTIONS, FORM)
    return metric_of_one_call(NAME, prompts, call_for)


async def _jointly(question: str, answer: str, texts: Sequence[str], judge: MetricCalls) -> dict[str, Any]:
    blocks = {"question": question, "answer": answer, "documents": dumps(texts)}
    found = await judge.ask(partial(messages, INSTRUCTIONS, blocks), FORM)
    return _score((each.supported and bool(texts), each.claim, each.reason) for each in found.claims)


async def _with_ragas(question: str, answer: str, texts: Sequence[str], judge: MetricCalls) -> dict[str, Any]:
    from ragas.metrics.collections.faithfulness.util import NLIStatementPrompt, StatementGeneratorPrompt

    split = await ask_ragas(judge, StatementGeneratorPrompt, question=question, answer=answer)
    if not split.statements or not texts:
        return _score((False, statement, NO_TEXT) for statement in split.statements)
    context = "\n".join(texts)
    verdicts = await ask_ragas(judge, NLIStatementPrompt, context=context, statements=split.statements)
    return _score((bool(each.verdict), each.statement, each.reason) for each in verdicts.statements)


def _score(claims: Iterable[tuple[bool, str, str]]) -> dict[str, Any]:
    """Return the share of supported claims, from 0 to 1; no value for an answer without claims.

    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/faithfulness/
    """
    claims = list(claims)
    if not claims:
        return {f"{NAME}_reason": NO_CLAIMS}
    lines = [f"{'+' if supported else '-'} {claim} ({reason})" for supported, claim, reason in claims]
    share = sum(supported for supported, *_ in claims) / len(claims)
    return {NAME: share, f"{NAME}_reason": "\n".join(lines)}
