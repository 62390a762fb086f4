"""Context relevance: whether the retrieved texts help to answer the question. Needs no reference
answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from graphrag_eval_async.metrics.metric import Calls, Case, Metric, Prompt, has_text
from graphrag_eval_async.metrics.retrieval import ask_about_texts
from graphrag_eval_async.metrics.retrieved import NO_TEXT, ranked_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.catalogue.judged import ContextRelevanceConfig

NAME = "context_relevance"

BEST_RATING = 2
"""The rating of a document that helps to answer the question."""

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
        """Raise a `ValueError` unless the rating is 0, 1 or 2."""
        if self.rating not in {0, 1, 2}:
            raise ValueError(f"expected a rating of 0, 1 or 2, got {self.rating}")


class RatedDocuments(Struct, frozen=True):
    """How relevant the documents are."""

    documents: list[RatedDocument]


PROMPT = Prompt.for_struct(INSTRUCTIONS, RatedDocuments)


def context_relevance(config: ContextRelevanceConfig) -> Metric:
    """Return the metric `context_relevance`: how relevant the retrieved documents are to the
    question.

    The value is the mean rating of the documents, scaled to 0 to 1. A document without text is
    rated 0, and a response that retrieved no text scores 0.
    """
    seed = config.seed

    async def score(case: Case, calls: Calls) -> dict[str, Any]:
        """Return the mean rating of the retrieved documents, and all ratings as the reason."""
        texts = ranked_texts(case) or []
        if not any(texts):
            return {NAME: 0.0, f"{NAME}_reason": NO_TEXT}
        verdict = await ask_about_texts(calls, PROMPT, texts, seed=seed, question=case.question)
        rated_documents = verdict.documents_by_rank
        sum_of_ratings = sum(document.rating for document in rated_documents.values())
        return {
            NAME: sum_of_ratings / (BEST_RATING * len(texts)),
            f"{NAME}_reason": _list_ratings(texts, rated_documents),
        }

    return Metric.of_answer(NAME, [f"seed {seed}", *PROMPT.texts], _applies, score)


def _applies(case: Case) -> bool:
    """Return whether a response has a question, and a retrieval step whose texts are known."""
    return has_text(case.question) and ranked_texts(case) is not None


def _list_ratings(texts: Sequence[str], rated_documents: Mapping[int, RatedDocument]) -> str:
    """Return one line for each document: the rank, from 1, the rating and the reason.

    Args:
        texts: the texts of all documents by rank; "" for a document without text, which is rated 0.
        rated_documents: the documents that the judge rated, by rank from 0.
    """
    lines = []
    for rank, text in enumerate(texts):
        if text:
            document = rated_documents[rank]
            lines.append(f"{rank + 1}: {document.rating} ({document.reason})")
        else:
            lines.append(f"{rank + 1}: 0 (no text)")
    return "\n".join(lines)
