from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import MalformedStep, UsageError
from graphrag_eval_async.steps import average_precision, recall_at_k
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.retrieval import retrieval_comparator
from tests.support.cases import each


@pytest.mark.parametrize("k", [0, 2.0, "2", True])
def test_what_no_recall_is_computed_of(k: Any) -> None:
    with pytest.raises(UsageError, match=r"^relevant_docs: "):
        recall_at_k([], [1], 1)
    with pytest.raises(UsageError, match=r"^k: "):
        recall_at_k([1], [1], k)


documents = st.lists(st.integers(0, 6), max_size=8)


@given(documents.filter(bool), documents, st.none() | st.integers(1, 10))
def test_recall_agrees_with_a_plain_oracle(relevant: list[int], retrieved: list[int], k: int | None) -> None:
    wanted = relevant if k is None else relevant[:k]
    got = retrieved if k is None else retrieved[:k]
    unique = [doc for rank, doc in enumerate(wanted) if doc not in wanted[:rank]]
    assert recall_at_k(relevant, retrieved, k) == sum(doc in got for doc in unique) / len(unique)
    as_set = set(relevant)
    possible = len(as_set) if k is None else min(k, len(as_set))
    assert recall_at_k(as_set, retrieved, k) == sum(doc in got for doc in as_set) / possible


@given(documents.filter(bool), documents)
def test_average_precision_agrees_with_a_plain_oracle(relevant: list[int], retrieved: list[int]) -> None:
    total = Fraction(0)
    for rank in range(1, len(retrieved) + 1):
        is_hit = retrieved[rank - 1] in relevant and retrieved[rank - 1] not in retrieved[: rank - 1]
        total += Fraction(len(set(retrieved[:rank]) & set(relevant)), rank) * is_hit
    score = average_precision(relevant, retrieved)
    assert score == pytest.approx(float(total / len(set(relevant))), abs=1e-15)
    assert 0 <= score <= 1


def docs(*ids: Any) -> str:
    return json.dumps([{"id": identifier, "text": "..."} for identifier in ids])


def score(reference: Any, actual: Any, **step: Any) -> float:
    return retrieval_comparator({"output": reference})(ActualStep({"output": actual, **step})).score


@each("actual", ["[]", "{}", "[1]", '[{"id": []}]', 1])
def test_what_cannot_be_read_is_missed(actual: Any) -> None:
    found = retrieval_comparator({"output": docs(1)})(ActualStep({"output": actual}))
    assert (found.score, found.reason) == (0.0, "missed_retrieval")
    assert score(docs(1, 2), docs(2, 1, 3), args={"k": 1}) == 0
    assert score(docs(1), docs(1), args={"k": 0}) == score(docs(1), docs(1), args=[2]) == 0.0


@pytest.mark.parametrize("output", [None, "[]", [], "[{}]", '[{"id": 1}, {"id": null}]'])
def test_a_reference_needs_documents_with_ids(output: Any) -> None:
    with pytest.raises(MalformedStep, match=r"^output: "):
        retrieval_comparator({"output": output})
