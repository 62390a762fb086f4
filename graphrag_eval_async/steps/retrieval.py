"""Compares retrieved documents with the relevant ones."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import MalformedStep, UsageError
from graphrag_eval_async.steps.actual import read_args, read_output, read_whole_number
from graphrag_eval_async.steps.differences import Agreement
from graphrag_eval_async.steps.json_values import read_json

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from graphrag_eval_async.steps.actual import ActualStep, Compare


def recall_at_k(
    relevant_docs: Iterable[Hashable], retrieved_docs: Iterable[Hashable], k: int | None = None
) -> float:
    """The share of the first `k` relevant documents that are among the first `k` retrieved, from 0
    to 1.

    Both are cut at `k`, then duplicates count once. A set of relevant documents has no first `k`:
    the hits are divided by `k` or by its size, whichever is less. Without `k` nothing is cut.

    Formula: https://en.wikipedia.org/wiki/Evaluation_measures_(information_retrieval)#Recall, with
    the relevant documents cut at `k`, so that a perfect ranking has recall 1 at every `k`.

    Raises:
        UsageError: `k` is not a positive integer, or there are no relevant documents.
    """
    if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 1):
        raise UsageError(f"k: must be a positive integer or None, not {k!r}")
    relevant = set(
        relevant_docs if isinstance(relevant_docs, AbstractSet) else [*relevant_docs][:k]
    )
    if not relevant:
        raise UsageError("relevant_docs: must not be empty")
    hits = len(relevant.intersection([*retrieved_docs][:k]))
    return hits / (len(relevant) if k is None else min(k, len(relevant)))


def average_precision(
    relevant_docs: Iterable[Hashable], retrieved_docs: Iterable[Hashable]
) -> float:
    """Return the sum of precisions at the ranks of relevant documents, over the number of relevant
    ones.

    From 0 to 1. A document retrieved again takes up a rank and is not a hit. Formula:
    https://en.wikipedia.org/wiki/Evaluation_measures_(information_retrieval)#Average_precision

    The worked example of the published description divides by the number of hits instead: for
    relevant ``{1, 3, 5, 6}`` and retrieved ``[1, 4, 3, 5, 7]`` it gives 0.8056, the formula 0.6042.

    Raises:
        UsageError: there are no relevant documents.
    """
    missing = set(relevant_docs)
    total = len(missing)
    if not total:
        raise UsageError("relevant_docs: must not be empty")
    precisions = []
    for rank, doc in enumerate(retrieved_docs, 1):
        if doc in missing:
            missing.remove(doc)
            precisions.append((total - len(missing)) / rank)
    return math.fsum(precisions) / total


def retrieval_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a comparator: recall of the document ids at the actual step's `k`."""
    relevant = read_output(step, _read_ids)
    if not relevant or None in relevant:
        raise MalformedStep("output: must be a list of one or more documents, each with an id")

    def compare(actual: ActualStep) -> Agreement:
        actual.budget.spend(len(relevant))
        score = 0.0
        with suppress(MalformedStep, UsageError):
            k = read_whole_number(read_args(actual.step), "k")
            score = recall_at_k(relevant, actual.output(_read_ids), k)
        return Agreement(score, None if score == 1 else "missed_retrieval")

    return compare


def read_documents(output: Any) -> list[dict[str, Any]]:
    documents = read_json(output)
    if not isinstance(documents, list):
        raise MalformedStep("must be a list of documents")
    if not all(isinstance(document, dict) for document in documents):
        raise MalformedStep("every document must be an object")
    return documents


def _read_ids(output: Any) -> list[Hashable]:
    """Return the documents' ids by rank; None for documents without id."""
    ids = [document.get("id") for document in read_documents(output)]
    if not all(
        isinstance(each, str | int | float | None) and not isinstance(each, bool) for each in ids
    ):
        raise MalformedStep("a document's id must be a string or a number")
    return ids
