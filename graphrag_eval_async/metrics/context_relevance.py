"""Context relevance: whether the retrieved texts help to answer the question. Needs no reference answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from graphrag_eval_async.judge.protocol import format_of
from graphrag_eval_async.metrics.joint_retrieval import NO_TEXT, ask_about
from graphrag_eval_async.metrics.metric import has_text, metric_of_one_call, prompts_of
from graphrag_eval_async.metrics.retrieval import retrieved_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.config.model import ContextRelevanceConfig
    from graphrag_eval_async.judge.calls import MetricCalls
    from graphrag_eval_async.metrics.metric import Call, Case, Metric

NAME = "context_relevance"

INSTRUCTIONS = """\
<documents> were retrieved to answer <question>; their order means nothing. Rate each: 2 if it holds what \
is needed to answer the question or a part of it, 1 if it is about the subject of the question but does \
not help to answer it, 0 if neither.

Reply with JSON: "documents", for each document {"id", "reason" in a few words, "rating"}."""


class RatedDocument(Struct, frozen=True):
    """How relevant a document is."""

    id: int
    reason: Annotated[str, Meta(description="Why, in a few words.")]
    rating: Annotated[int, Meta(description="0, 1 or 2.")]


class RatedDocuments(Struct, frozen=True):
    """How relevant the documents are."""

    documents: list[RatedDocument]


FORM = format_of(RatedDocuments)


def context_relevance(config: ContextRelevanceConfig) -> Metric:
    """Return the metric `context_relevance`: the mean rating of the retrieved documents, from 0 to 1.

    A document without text is rated 0; a response that retrieved no text scores 0.
    """

    def call_for(case: Case) -> Call | None:
        texts = retrieved_texts(case, blank=True)
        if texts is None or not has_text(case.question):
            return None
        return partial(_relevance, config.seed, case.question, texts)

    prompts = [f"seed {config.seed}", *prompts_of(INSTRUCTIONS, FORM)]
    return metric_of_one_call(NAME, prompts, call_for)


async def _relevance(seed: int, question: str, texts: Sequence[str], judge: MetricCalls) -> dict[str, Any]:
    ranks = [rank for rank, text in enumerate(texts) if text]
    if not ranks:
        return {NAME: 0.0, f"{NAME}_reason": NO_TEXT}
    blocks = {"question": question}
    found = await ask_about(texts, ranks, judge, seed, INSTRUCTIONS, blocks, FORM, _check_ratings)
    rated = {ranks[each.id - 1]: (each.rating, each.reason) for each in found.documents}
    each = [rated.get(rank, (0, "no text")) for rank in range(len(texts))]
    lines = [f"{rank}: {rating} ({reason})" for rank, (rating, reason) in enumerate(each, 1)]
    score = sum(rating for rating, _ in each) / (2 * len(each))
    return {NAME: score, f"{NAME}_reason": "\n".join(lines)}


def _check_ratings(found: RatedDocuments) -> None:
    if ratings := [each.rating for each in found.documents if each.rating not in {0, 1, 2}]:
        raise ValueError(f"documents: expected ratings of 0, 1 or 2, got {ratings[0]}")
