"""The table of comparators: which one scores a reference step, and which actual steps it accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from math import nan
from numbers import Real
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from graphrag_eval_async.errors import (
    ComparatorError,
    ComparisonBudgetExceeded,
    MalformedStep,
    UsageError,
    describe_exception,
)
from graphrag_eval_async.records.caching import remember
from graphrag_eval_async.records.copying import copy_json
from graphrag_eval_async.records.shapes import GRAPHS, MEDIA_TYPES
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.failure import Facts
from graphrag_eval_async.steps.iri_discovery import iri_discovery_comparator
from graphrag_eval_async.steps.json_values import json_comparator, same_output_comparator
from graphrag_eval_async.steps.rdf.step import GraphStep
from graphrag_eval_async.steps.retrieval import retrieval_comparator
from graphrag_eval_async.steps.sparql.budget import STEPS_PER_COPIED_VALUE
from graphrag_eval_async.steps.sparql.comparison import (
    agree_but_for_order,
    compare,
    lacks_columns,
    prepare_reference,
)
from graphrag_eval_async.steps.sparql.results import are_plain, is_same_table, read_document
from graphrag_eval_async.steps.time_series import data_points_comparator, time_series_comparator

if TYPE_CHECKING:
    from graphrag_eval_async.steps.actual import Score
    from graphrag_eval_async.steps.sparql.comparison import SparqlReference

    Explain: TypeAlias = Callable[[ActualStep], Facts]
    Build: TypeAlias = Callable[[Mapping[str, Any]], tuple[Score, Explain]]

Comparator: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], float]
"""A user's comparator: takes copies of a reference and an actual step, returns a match score from 0 to 1."""


def _nothing_more(_actual: ActualStep) -> Facts:
    return Facts()


class PreparedStep(msgspec.Struct, frozen=True):
    """A reference step, read once.

    Attributes:
        step: the step itself.
        names: names of the actual steps that `score` accepts.
        score: raises `MalformedStep` if it cannot read the actual step, `ComparisonBudgetExceeded`, or
            `ComparatorError`.
        explain: of an actual step that scored below 1, what only the comparator knows of the reason; raises
            the first two.
    """

    step: Mapping[str, Any]
    names: frozenset[str]
    score: Score
    explain: Explain = _nothing_more


def check_step(step: Mapping[str, Any], comparators: Mapping[str, Comparator] | None = None) -> None:
    """Check that a reference step is valid for its comparator.

    Raises:
        MalformedStep: the step is invalid; the message starts with the key.
        UsageError: the user's comparator for it is not a plain function.
    """
    name = step.get("name")
    own = comparators and name in comparators
    media_type = step.get("output_media_type")
    if media_type in GRAPHS and name not in _BY_NAME and not own:
        prepare_step(step)
        GraphStep(step).reference()
    elif media_type != _SPARQL or name in _BY_NAME or own:
        prepare_step(step, comparators)
    elif not are_plain(step.get("output"), step.get("required_columns") or ()):
        prepare_step(step)
        _prepare_sparql(step, ActualStep(step))


def prepare_step(
    step: Mapping[str, Any], comparators: Mapping[str, Comparator] | None = None
) -> PreparedStep:
    """Prepare a checked reference step for its comparator.

    `comparators` are the user's, by name of the reference step; they override built-in ones.

    Raises:
        MalformedStep: the step is invalid; the message starts with the key.
        UsageError: the user's comparator for it is not a plain function.
    """
    name, media_type = step.get("name"), step.get("output_media_type")
    if not isinstance(name, str):
        raise MalformedStep("name: must be a string")
    if comparators and name in comparators:
        return PreparedStep(step, accepted_names(name), _user_comparator(name, comparators[name], step))
    if not isinstance(media_type, str | None):
        raise MalformedStep(f"output_media_type: must be absent or one of {', '.join(MEDIA_TYPES)}")
    build = _BY_NAME.get(name) or _BY_MEDIA_TYPE.get(media_type) or _SAME_OUTPUT
    return PreparedStep(step, accepted_names(name), *build(step))


@remember(entries=256)
def accepted_names(name: str) -> frozenset[str]:
    """Return the names of actual steps that a reference step of this name can match."""
    return _ACCEPTED_NAMES.get(name) or frozenset([name])


def _built(comparator: Callable[[Mapping[str, Any]], Score], explain: Explain = _nothing_more) -> Build:
    return lambda step: (comparator(step), explain)


def _misses_documents(_actual: ActualStep) -> Facts:
    return Facts(misses_documents=True)


class _SparqlStep:
    """Compares with reference results, which are decoded and laid out as columns on first use."""

    __slots__ = ("_expected", "_reference", "_step")

    def __init__(self, step: Mapping[str, Any]) -> None:
        self._step = step
        self._expected: ActualStep | None = None
        self._reference: SparqlReference | None = None

    def expected(self) -> ActualStep:
        if self._expected is None:
            self._expected = ActualStep(self._step)
        return self._expected

    def reference(self) -> SparqlReference:
        if self._reference is None:
            self._reference = _prepare_sparql(self._step, self.expected())
        return self._reference

    def score(self, actual: ActualStep) -> float:
        try:
            document = actual.output(read_document)
        except MalformedStep:
            return compare(self.reference(), actual.table(), actual.budget)
        if is_same_table(self.expected().output(read_document), document):
            return 1.0
        return compare(self.reference(), actual.results(), actual.budget)

    def explain(self, actual: ActualStep) -> Facts:
        reference = self.reference()
        try:
            actual.output(read_document)
        except MalformedStep:
            results = actual.table()
        else:
            results = actual.results()
        return Facts(
            lacks_columns=lacks_columns(reference, results),
            only_disordered=agree_but_for_order(reference, results, actual.budget),
        )


def _sparql_comparator(step: Mapping[str, Any]) -> tuple[Score, Explain]:
    sparql = _SparqlStep(step)
    return sparql.score, sparql.explain


def _graph_comparator(step: Mapping[str, Any]) -> tuple[Score, Explain]:
    graph = GraphStep(step)
    return graph.score, graph.explain


def _prepare_sparql(step: Mapping[str, Any], expected: ActualStep) -> SparqlReference:
    try:
        results = expected.results()
    except ComparisonBudgetExceeded as error:  # A reference like that cannot be right.
        raise MalformedStep(f"output: {error}") from None
    return prepare_reference(
        results,
        required_columns=step.get("required_columns"),
        ordered=bool(step.get("ordered")),
        ignore_duplicates=step.get("ignore_duplicates") is not False,
    )


def _user_comparator(name: str, comparator: Comparator, step: Mapping[str, Any]) -> Score:
    if not callable(comparator) or iscoroutinefunction(comparator):
        raise UsageError(f"comparators[{name!r}]: must be a plain function")
    cost = _count_values(step) * STEPS_PER_COPIED_VALUE

    def score(actual: ActualStep) -> float:
        actual.budget.pay(cost)
        try:
            return _checked(comparator(copy_json(step), copy_json(actual.step)))
        except Exception as error:
            raise ComparatorError(describe_exception(error)) from error

    return score


def _count_values(value: Any) -> int:
    """Return the number of values in a JSON value, which is the cost of copying it."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count_values, items))


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
_SPARQL = "application/sparql-results+json"
_BY_MEDIA_TYPE: Mapping[str | None, Build] = {
    _SPARQL: _sparql_comparator,
    "application/json": _built(json_comparator),
    **dict.fromkeys(GRAPHS, _graph_comparator),
}
_SAME_OUTPUT = _built(same_output_comparator)
_ACCEPTED_NAMES = {"iri_discovery": frozenset(["autocomplete_search", "sparql_query"])}
