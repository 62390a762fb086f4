"""The table of comparators: which one judges a reference step, and which actual steps it accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction
from math import nan
from numbers import Real
from reprlib import repr as short_repr
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.errors import ComparatorError, ComparisonBudgetExceeded, MalformedStep, UsageError
from graphrag_eval_async.records.copying import copier
from graphrag_eval_async.steps.actual import read_output
from graphrag_eval_async.steps.failure import Facts
from graphrag_eval_async.steps.iri_discovery import iri_discovery_comparator
from graphrag_eval_async.steps.json_values import json_comparator, same_output_comparator
from graphrag_eval_async.steps.retrieval import retrieval_comparator
from graphrag_eval_async.steps.sparql import (
    agree_but_for_order,
    compare,
    lacks_columns,
    prepare_reference,
    read_results,
)
from graphrag_eval_async.steps.time_series import data_points_comparator, time_series_comparator

if TYPE_CHECKING:
    from graphrag_eval_async.steps.actual import ActualStep, Score

    Explain: TypeAlias = Callable[[ActualStep], Facts]
    Build: TypeAlias = Callable[[Mapping[str, Any]], tuple[Score, Explain]]

Comparator: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], float]
"""A user's comparator: from copies of the reference step and an actual step to their match score, 0 to 1."""


def _nothing_more(_actual: ActualStep) -> Facts:
    return Facts()


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A reference step, read once.

    `names` are those of the actual steps that `score` accepts. `score` raises `MalformedStep` where it cannot
    read the actual step, `ComparisonBudgetExceeded`, or `ComparatorError`. `explain`, of an actual step that
    has scored below 1, returns what only the comparator knows of the reason; it raises the first two.
    """

    step: Mapping[str, Any]
    names: frozenset[str]
    score: Score
    explain: Explain = _nothing_more


def prepare_step(
    step: Mapping[str, Any], comparators: Mapping[str, Comparator] | None = None
) -> PreparedStep:
    """Read a reference step for the comparator that is to judge it.

    `comparators` are the user's, by the name of the reference step; they win over the built-in ones.

    Raises:
        MalformedStep: the step cannot be right; the message starts with the key.
        UsageError: the user's comparator for it is not a plain function.
    """
    name = step.get("name")
    if not isinstance(name, str):
        raise MalformedStep("name: must be a string")
    names = _ACCEPTED_NAMES.get(name) or frozenset([name])
    if comparators and name in comparators:
        return PreparedStep(step, names, _user_comparator(name, comparators[name], step))
    return PreparedStep(step, names, *_built_in_comparator(name, step.get("output_media_type"))(step))


def _built_in_comparator(name: str, media_type: Any) -> Build:
    if media_type not in (None, *_BY_MEDIA_TYPE):  # Not a set: the media type may be unhashable.
        raise MalformedStep(f"output_media_type: must be absent or one of {', '.join(_BY_MEDIA_TYPE)}")
    return _BY_NAME.get(name) or _BY_MEDIA_TYPE.get(media_type) or _built(same_output_comparator)


def _built(comparator: Callable[[Mapping[str, Any]], Score], explain: Explain = _nothing_more) -> Build:
    return lambda step: (comparator(step), explain)


def _misses_documents(_actual: ActualStep) -> Facts:
    return Facts(misses_documents=True)


def _sparql_comparator(step: Mapping[str, Any]) -> tuple[Score, Explain]:
    try:
        reference = prepare_reference(
            read_output(step, read_results),
            required_columns=step.get("required_columns"),
            ordered=bool(step.get("ordered")),
            ignore_duplicates=step.get("ignore_duplicates") is not False,
        )
    except ComparisonBudgetExceeded as error:  # Of a reference, it cannot be right.
        raise MalformedStep(f"output: {error}") from None

    def score(actual: ActualStep) -> float:
        return compare(reference, actual.output(read_results), actual.budget)

    def explain(actual: ActualStep) -> Facts:
        results = actual.output(read_results)
        return Facts(
            lacks_columns=lacks_columns(reference, results),
            only_disordered=agree_but_for_order(reference, results, actual.budget),
        )

    return score, explain


def _user_comparator(name: str, comparator: Comparator, step: Mapping[str, Any]) -> Score:
    if not callable(comparator) or iscoroutinefunction(comparator):
        raise UsageError(f"comparators[{name!r}]: must be a plain function")
    copy_step = copier(step)

    def score(actual: ActualStep) -> float:
        try:
            return _checked(comparator(copy_step(), copier(actual.step)()))
        except Exception as error:
            raise ComparatorError("".join(format_exception_only(error)).strip()) from error

    return score


def _checked(value: object) -> float:
    score = float(value) if isinstance(value, Real) else nan
    if not 0 <= score <= 1:
        raise ValueError(f"a comparator must return a number from 0 to 1, not {short_repr(value)}")
    return score


_BY_NAME: Mapping[str, Build] = {
    "retrieval": _built(retrieval_comparator, _misses_documents),
    "retrieve_time_series": _built(time_series_comparator),
    "retrieve_data_points": _built(data_points_comparator),
    "iri_discovery": _built(iri_discovery_comparator),
}
_BY_MEDIA_TYPE: Mapping[str, Build] = {
    "application/sparql-results+json": _sparql_comparator,
    "application/json": _built(json_comparator),
}
_ACCEPTED_NAMES = {"iri_discovery": frozenset(["autocomplete_search", "sparql_query"])}
