"""Context relevance: whether the retrieved texts help to answer the question. Needs no reference answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from graphrag_eval_async.metrics.documents import NO_TEXT, ask_about, retrieved_texts
from graphrag_eval_async.metrics.metric import Calls, Case, Keys, Metric, Prompt, has_text

if TYPE_CHECKING:
    from graphrag_eval_async.config.model import ContextRelevanceConfig

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


PROMPT = Prompt.of(INSTRUCTIONS, RatedDocuments)


def context_relevance(config: ContextRelevanceConfig) -> Metric:
    """Return the metric `context_relevance`: the mean rating of the retrieved documents, from 0 to 1.

    A document without text is rated 0; a response that retrieved no text scores 0.
    """

    def applies(case: Case) -> bool:
        return has_text(case.question) and retrieved_texts(case) is not None

    async def score(case: Case, calls: Calls) -> Keys:
        texts = retrieved_texts(case, blank=True) or []
        if not any(texts):
            return {NAME: 0.0, f"{NAME}_reason": NO_TEXT}
        found, ranks = await ask_about(calls, PROMPT, texts, config.seed, _check, question=case.question)
        rated = dict(zip(ranks, ((each.rating, each.reason) for each in found.documents), strict=True))
        each = [rated.get(rank, (0, "no text")) for rank in range(len(texts))]
        lines = [f"{rank}: {rating} ({reason})" for rank, (rating, reason) in enumerate(each, 1)]
        return {NAME: sum(rating for rating, _ in each) / (2 * len(each)), f"{NAME}_reason": "\n".join(lines)}

    return Metric.of_answer(NAME, [f"seed {config.seed}", *PROMPT.texts], applies, score)


def _check(found: RatedDocuments) -> None:
    if ratings := [each.rating for each in found.documents if each.rating not in {0, 1, 2}]:
        raise ValueError(f"documents: expected ratings of 0, 1 or 2, got {ratings[0]}")
