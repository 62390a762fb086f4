"""Context relevance: whether the retrieved texts help to answer the question. Needs no reference
answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from graphrag_eval_async.metrics.metric import Calls, Case, Keys, Metric, Prompt, has_text
from graphrag_eval_async.metrics.retrieval import NO_TEXT, ask_about, retrieved_texts

if TYPE_CHECKING:
    from graphrag_eval_async.catalogue.judged import ContextRelevanceConfig

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

    def __post_init__(self) -> None:
        if self.rating not in {0, 1, 2}:
            raise ValueError(f"expected a rating of 0, 1 or 2, got {self.rating}")


class RatedDocuments(Struct, frozen=True):
    """How relevant the documents are."""

    documents: list[RatedDocument]


PROMPT = Prompt.of(INSTRUCTIONS, RatedDocuments)


def context_relevance(config: ContextRelevanceConfig) -> Metric:
    """Return the metric `context_relevance`: the mean rating of the retrieved documents, from 0 to
    1.

    A document without text is rated 0; a response that retrieved no text scores 0.
    """

    def applies(case: Case) -> bool:
        return has_text(case.question) and retrieved_texts(case) is not None

    async def score(case: Case, calls: Calls) -> Keys:
        texts = retrieved_texts(case, blank=True) or []
        if not any(texts):
            return {NAME: 0.0, f"{NAME}_reason": NO_TEXT}
        _, rated = await ask_about(calls, PROMPT, texts, config.seed, question=case.question)
        lines = [
            f"{rank + 1}: {rated[rank].rating} ({rated[rank].reason})"
            if text
            else f"{rank + 1}: 0 (no text)"
            for rank, text in enumerate(texts)
        ]
        rating = sum(document.rating for document in rated.values())
        return {NAME: rating / (2 * len(texts)), f"{NAME}_reason": "\n".join(lines)}

    return Metric.of_answer(NAME, [f"seed {config.seed}", *PROMPT.texts], applies, score)
