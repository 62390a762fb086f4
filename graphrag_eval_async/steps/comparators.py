"""The table of comparators: which one scores a reference step, and which actual steps it accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import iscoroutinefunction
from math import nan
from numbers import Real
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from graphrag_eval_async.errors import (
    ComparatorError,
    MalformedStep,
    UsageError,
    describe_exception,
)
from graphrag_eval_async.records.caching import remember
from graphrag_eval_async.records.copying import copy_json
from graphrag_eval_async.records.outcomes import REFERENCE_QUERY
from graphrag_eval_async.records.shapes import GRAPHS, MEDIA_TYPES, SPARQL_RESULTS, TABLES
from graphrag_eval_async.steps.failure import Facts
from graphrag_eval_async.steps.iri_discovery import iri_discovery_comparator
from graphrag_eval_async.steps.json_values import json_comparator, same_output_comparator
from graphrag_eval_async.steps.rdf.step import GraphStep
from graphrag_eval_async.steps.retrieval import retrieval_comparator
from graphrag_eval_async.steps.sparql.budget import STEPS_PER_COPIED_VALUE
from graphrag_eval_async.steps.sparql.results import are_plain
from graphrag_eval_async.steps.sparql.step import SparqlStep
from graphrag_eval_async.steps.sparql.tokens import FORMS, form_of
from graphrag_eval_async.steps.time_series import data_points_comparator, time_series_comparator

if TYPE_CHECKING:
    from graphrag_eval_async.steps.actual import ActualStep, Score
    from graphrag_eval_async.steps.differences import Difference

    Explain: TypeAlias = Callable[[ActualStep], Facts]
    Diff: TypeAlias = Callable[[ActualStep], list[Difference]]
    Build: TypeAlias = Callable[[Mapping[str, Any]], tuple[Score, Explain]]
    BuildPartial: TypeAlias = Callable[[Mapping[str, Any]], tuple[Score, Explain, Diff]]

Comparator: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], float]
"""A user's comparator: takes copies of a reference and an actual step, returns a match score from 0 to 1."""


def _nothing_more(_actual: ActualStep) -> Facts:
    return Facts()


def _no_differences(_actual: ActualStep) -> list[Difference]:
    return []


class PreparedStep(msgspec.Struct, frozen=True):
    """A reference step, read once.

    Attributes:
        step: the step itself.
        names: names of the actual steps that `score` accepts.
        score: raises `MalformedStep` if it cannot read the actual step, `ComparisonBudgetExceeded`, or
            `ComparatorError`.
        explain: of an actual step that scored below 1, what only the comparator knows of the reason; raises
            the first two.
        diff: of an actual step that scored above 0 and below 1, the differences that results list; raises
            `ComparisonBudgetExceeded`.
        partial: whether a score is partial credit: the actual step that scores most is taken, and only 1 is
            a full match.
    """

    step: Mapping[str, Any]
    names: frozenset[str]
    score: Score
    explain: Explain = _nothing_more
    diff: Diff = _no_differences
    partial: bool = False


def check_step(step: Mapping[str, Any], comparators: Mapping[str, Comparator] | None = None) -> None:
    """Check that a reference step is valid for its comparator.

    Raises:
        MalformedStep: the step is invalid; the message starts with the key.
        UsageError: the user's comparator for it is not a plain function.
    """
    name = step.get("name")
    own = comparators and name in comparators
    media_type = step.get("output_media_type")
    if (query := step.get(REFERENCE_QUERY)) is not None:
        _check_query(query)
        if needs_execution(step) and not own:
            return
    if media_type in GRAPHS and name not in _BY_NAME and not own:
        prepare_step(step)
        GraphStep(step).reference()
    elif media_type not in TABLES or name in _BY_NAME or own:
        prepare_step(step, comparators)
    elif media_type == SPARQL_RESULTS and are_plain(step.get("output"), step.get("required_columns") or ()):
        _is_partial(step)
    else:
        prepare_step(step)
        SparqlStep(step).reference()


def _check_query(query: Any) -> None:
    # In names with escapes, the form may not be seen.
    if isinstance(query, str) and form_of(query) not in FORMS and "\\" not in query:
        raise MalformedStep(f"{REFERENCE_QUERY}: expected a SPARQL query: {', '.join(sorted(FORMS))}")


def needs_execution(step: Mapping[str, Any]) -> bool:
    """Whether a reference step has no output, but a query that gives it."""
    return step.get("output") is None and step.get(REFERENCE_QUERY) is not None


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
    if needs_execution(step):
        return PreparedStep(step, accepted_names(name), _not_fetched)
    if not isinstance(media_type, str | None):
        raise MalformedStep(f"output_media_type: must be absent or one of {', '.join(MEDIA_TYPES)}")
    if _is_partial(step):
        return PreparedStep(step, accepted_names(name), *_PARTIAL[str(media_type)](step), partial=True)
    build = _BY_NAME.get(name) or _BY_MEDIA_TYPE.get(media_type) or _SAME_OUTPUT
    return PreparedStep(step, accepted_names(name), *build(step))


def _is_partial(step: Mapping[str, Any]) -> bool:
    """Whether a reference step asks for partial credit.

    Raises:
        MalformedStep: `score` is invalid, or its comparator has no partial credit.
    """
    score = step.get("score")
    if score is None or score == "exact":
        return False
    if score != "f1":
        raise MalformedStep("score: must be absent, exact or f1")
    if step.get("name") in _BY_NAME or step.get("output_media_type") not in _PARTIAL:
        raise MalformedStep(
            f"score: f1 is only for outputs that are compared as {', '.join(_PARTIAL)}; leave it out"
        )
    return True


@remember(entries=256)
def accepted_names(name: str) -> frozenset[str]:
    """Return the names of actual steps that a reference step of this name can match."""
    return _ACCEPTED_NAMES.get(name) or frozenset([name])


def _not_fetched(_actual: ActualStep) -> float:
    raise MalformedStep("output: missing; its reference_query has not been run")


def _built(comparator: Callable[[Mapping[str, Any]], Score], explain: Explain = _nothing_more) -> Build:
    return lambda step: (comparator(step), explain)


def _misses_documents(_actual: ActualStep) -> Facts:
    return Facts(misses_documents=True)


def _exact(kind: type[SparqlStep | GraphStep], step: Mapping[str, Any]) -> tuple[Score, Explain]:
    reference = kind(step)
    return reference.score, reference.explain


def _in_part(kind: type[SparqlStep | GraphStep], step: Mapping[str, Any]) -> tuple[Score, Explain, Diff]:
    reference = kind(step)
    return reference.score_in_part, reference.explain_in_part, reference.diff


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
_BY_MEDIA_TYPE: Mapping[str | None, Build] = {
    **dict.fromkeys(TABLES, partial(_exact, SparqlStep)),
    "application/json": _built(json_comparator),
    **dict.fromkeys(GRAPHS, partial(_exact, GraphStep)),
}
_PARTIAL: Mapping[str, BuildPartial] = {
    **dict.fromkeys(TABLES, partial(_in_part, SparqlStep)),
    **dict.fromkeys(GRAPHS, partial(_in_part, GraphStep)),
}
"""By media type, the comparators of `score: f1`."""

_SAME_OUTPUT = _built(same_output_comparator)
_ACCEPTED_NAMES = {"iri_discovery": frozenset(["autocomplete_search", "sparql_query"])}
