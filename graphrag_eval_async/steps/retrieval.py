"""Compares retrieved documents with the relevant ones."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
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
    """Return the share of the relevant documents that are retrieved, from 0 to 1.

    Both lists are cut after their first `k` documents; if `k` is None, nothing is cut. After the
    cut, duplicates count once. A set of relevant documents has no order and is not cut: the hits
    are divided by `k` or by the size of the set, whichever is less.

    Formula: https://en.wikipedia.org/wiki/Evaluation_measures_(information_retrieval)#Recall, with
    the relevant documents cut at `k`, so that a perfect ranking has recall 1 at every `k`.

    Raises:
        UsageError: `k` is not a positive integer, or there are no relevant documents.
    """
    if k is not None:
        is_integer = isinstance(k, int) and not isinstance(k, bool)
        if not is_integer or k < 1:
            raise UsageError(f"k: must be a positive integer or None, not {k!r}")

    if isinstance(relevant_docs, AbstractSet):
        relevant = set(relevant_docs)
    else:
        relevant = set([*relevant_docs][:k])
    if not relevant:
        raise UsageError("relevant_docs: must not be empty")

    retrieved = set([*retrieved_docs][:k])
    hits = len(relevant & retrieved)
    most_hits = len(relevant) if k is None else min(k, len(relevant))
    return hits / most_hits


def average_precision(
    relevant_docs: Iterable[Hashable], retrieved_docs: Iterable[Hashable]
) -> float:
    """Return the average precision of retrieved documents, in order of rank, from 0 to 1.

    It is the sum of the precisions at the ranks of relevant documents, over the number of relevant
    documents. A document retrieved again takes up a rank and is not a hit. Formula:
    https://en.wikipedia.org/wiki/Evaluation_measures_(information_retrieval)#Average_precision

    The worked example of the published description divides by the number of hits instead: for
    relevant ``{1, 3, 5, 6}`` and retrieved ``[1, 4, 3, 5, 7]`` it gives 0.8056, the formula 0.6042.

    Raises:
        UsageError: there are no relevant documents.
    """
    relevant = set(relevant_docs)
    if not relevant:
        raise UsageError("relevant_docs: must not be empty")

    hits = set()
    precisions = []
    for rank, doc in enumerate(retrieved_docs, start=1):
        if doc in relevant and doc not in hits:
            hits.add(doc)
            precisions.append(len(hits) / rank)
    return math.fsum(precisions) / len(relevant)


def retrieval_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a function that scores an actual step by recall at `k`, an argument of that step.

    The relevant documents are those of the reference step's output. A step whose output or `k`
    cannot be read scores 0.

    Raises:
        MalformedStep: the output of the reference step is no list of documents with ids.
    """
    relevant_ids = read_output(step, _read_ids)
    if not relevant_ids or None in relevant_ids:
        raise MalformedStep("output: must be a list of one or more documents, each with an id")

    def compare(actual: ActualStep) -> Agreement:
        """Return the recall of `relevant_ids` in the output of an actual step."""
        actual.budget.spend(len(relevant_ids))
        try:
            k = read_whole_number(read_args(actual.step), "k")
            score = recall_at_k(relevant_ids, actual.output(_read_ids), k)
        except (MalformedStep, UsageError):
            score = 0.0
        if score == 1:
            return Agreement(score)
        return Agreement(score, "missed_retrieval")

    return compare


def read_documents(output: Any) -> list[dict[str, Any]]:
    """Return the documents in the output of a retrieval, which is a list or its JSON text.

    Raises:
        MalformedStep: the output is no list of objects.
    """
    documents = read_json(output)
    if not isinstance(documents, list):
        raise MalformedStep("must be a list of documents")
    if not all(isinstance(document, dict) for document in documents):
        raise MalformedStep("every document must be an object")
    return documents


def _read_ids(output: Any) -> list[Hashable]:
    """Return the ids of the documents in an output, in order, with None for one without an id.

    Raises:
        MalformedStep: the output is no list of documents, or an id is no string or number.
    """
    ids = [document.get("id") for document in read_documents(output)]
    for document_id in ids:
        is_text_or_number = isinstance(document_id, str | int | float | None)
        if not is_text_or_number or isinstance(document_id, bool):
            raise MalformedStep("a document's id must be a string or a number")
    return ids
