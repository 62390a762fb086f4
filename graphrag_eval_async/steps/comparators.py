"""The table of comparators: which one scores a reference step, and which actual steps it
accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from numbers import Real
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from graphrag_eval_async.catalogue.media_types import (
    CYPHER_RESULTS,
    GRAPHS,
    MEDIA_TYPES,
    SPARQL_RESULTS,
    TABLES,
    plain_type,
)
from graphrag_eval_async.catalogue.metrics import VALUES_F1
from graphrag_eval_async.catalogue.reference_steps import REFERENCE_QUERY, STRICT_ORDER
from graphrag_eval_async.errors import (
    ComparatorError,
    MalformedStep,
    UsageError,
    describe_exception,
)
from graphrag_eval_async.records.caching import remember
from graphrag_eval_async.records.decoding import copy_json
from graphrag_eval_async.steps.arguments import args_comparator
from graphrag_eval_async.steps.differences import Agreement
from graphrag_eval_async.steps.formats.reading import results_in
from graphrag_eval_async.steps.formats.results import are_plain
from graphrag_eval_async.steps.graphs.comparison import GraphStep
from graphrag_eval_async.steps.iri_discovery import iri_discovery_comparator
from graphrag_eval_async.steps.json_values import json_comparator, same_output_comparator
from graphrag_eval_async.steps.queries import is_cypher_step
from graphrag_eval_async.steps.retrieval import retrieval_comparator
from graphrag_eval_async.steps.tables.comparison import check_required
from graphrag_eval_async.steps.tables.step import SparqlStep
from graphrag_eval_async.steps.time_series import data_points_comparator, time_series_comparator
from graphrag_eval_async.steps.tokens import FORMS, GRAPH_FORMS, form_of

if TYPE_CHECKING:
    from graphrag_eval_async.steps.actual import ActualStep, Compare

Comparator: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], float]
"""A user's comparator: takes copies of a reference and an actual step, returns a match score
from 0 to 1.
"""


class PreparedStep(msgspec.Struct, frozen=True):
    """A reference step, read once."""

    # With its media type and its output decoded, if that is SPARQL results in JSON.
    step: Mapping[str, Any]
    names: frozenset[str]  # Of the actual steps that `compare` accepts.
    compare: Compare  # May raise `MalformedStep`, `ComparisonBudgetExceeded` or `ComparatorError`.
    partial: bool = False  # The actual step that scores most is taken, and only 1 is a full match.
    kind: Callable[[], str] | None = None  # See `ActualStep.kind`; None of other comparators.
    has_args: bool = False  # Arguments are compared.
    is_strict: bool = False  # The first of a group whose steps must come in their order.
    as_values: bool = False  # Results are compared as sets of values.
    args_only: bool = False  # It has no output; an actual step without output may match it, too.


def check_step(
    step: Mapping[str, Any], comparators: Mapping[str, Comparator] | None = None
) -> None:
    """Raise `MalformedStep` if a step is invalid, `UsageError` if the user's comparator is no
    function.
    """
    name, query, media_type = (
        step.get("name"),
        step.get(REFERENCE_QUERY),
        step.get("output_media_type"),
    )
    own, required = comparators and name in comparators, step.get("required_columns") or ()
    # In names with escapes, the form may not be seen.
    if (
        isinstance(query, str)
        and form_of(query) not in FORMS
        and "\\" not in query
        and not is_cypher_step(step)
    ):
        raise MalformedStep(
            f"{REFERENCE_QUERY}: expected a SPARQL query: {', '.join(sorted(FORMS))}"
        )
    args = args_comparator(step)
    if (
        own
        or not isinstance(name, str)
        or name in COMPARATORS
        or (args and step.get("output") is None)
    ):
        prepare_step(step, comparators)
    elif media_type in (SPARQL_RESULTS, *_JSON) and are_plain(step.get("output"), required):
        _is_partial(step, SPARQL_RESULTS)
    else:
        step = prepare_step(step).step
        if needs_execution(step):
            check_required(required)
        elif (media_type := step.get("output_media_type")) in _BY_CONTENTS:
            _BY_CONTENTS[media_type](step, partial=False).kind()


def compares_by_name(name: str) -> bool:
    """Whether steps of this name are compared in their own way, whatever their outputs are."""
    return name in COMPARATORS


def needs_execution(step: Mapping[str, Any]) -> bool:
    """Whether a reference step has no output, but a query that gives it."""
    has_query = step.get(REFERENCE_QUERY) is not None and step.get("name") not in COMPARATORS
    return has_query and step.get("output") is None


def prepare_step(
    step: Mapping[str, Any], comparators: Mapping[str, Comparator] | None = None
) -> PreparedStep:
    """Prepare a checked reference step for its comparator; the user's override built-in ones."""
    args = args_comparator(step)
    prepared = _prepared(step, comparators) if args is None else _with_args(step, args, comparators)
    return (
        msgspec.structs.replace(prepared, is_strict=True)
        if step.get("order") == STRICT_ORDER
        else prepared
    )


def _with_args(
    step: Mapping[str, Any], args: Compare, comparators: Mapping[str, Comparator] | None
) -> PreparedStep:
    """Prepare a reference step whose arguments are compared, and then its output if it has one."""
    name, is_own = step.get("name"), step.get("name") in (comparators or ())
    if (
        isinstance(name, str)
        and step.get("output") is None
        and not (is_own or needs_execution(step))
    ):
        _is_partial(step, None)
        return PreparedStep(step, accepted_names(name), args, has_args=True, args_only=True)
    prepared = _prepared(step, comparators)

    def compare(actual: ActualStep) -> Agreement:
        found = args(actual)
        return found if found.differences else prepared.compare(actual)

    return msgspec.structs.replace(prepared, compare=compare, has_args=True)


def _prepared(
    step: Mapping[str, Any], comparators: Mapping[str, Comparator] | None
) -> PreparedStep:
    """Prepare a reference step whose output alone is compared."""
    name, media_type = step.get("name"), plain_type(step.get("output_media_type"))
    if not isinstance(name, str):
        raise MalformedStep("name: must be a string")
    if comparators and name in comparators:
        return PreparedStep(
            step, accepted_names(name), _user_comparator(name, comparators[name], step)
        )
    as_values = step.get("score") == VALUES_F1
    if needs_execution(step):
        _is_partial(step, _media_type_of_results(step))
        return PreparedStep(step, accepted_names(name), _not_fetched, as_values=as_values)
    if not isinstance(media_type, str | None):
        raise MalformedStep(f"output_media_type: must be absent or one of {', '.join(MEDIA_TYPES)}")
    if media_type != step.get("output_media_type"):
        step = {**step, "output_media_type": media_type}
    is_json = media_type in _JSON and name not in COMPARATORS
    if is_json and (document := results_in(step.get("output"))) is not None:
        media_type = SPARQL_RESULTS
        step = {**step, "output": document, "output_media_type": media_type}
    names, is_partial = accepted_names(name), _is_partial(step, media_type)
    if name not in COMPARATORS and media_type in _BY_CONTENTS:
        output = _BY_CONTENTS[media_type](step, partial=is_partial)
        compare, kind = output.compare, output.kind
        return PreparedStep(
            step, names, compare, partial=is_partial, kind=kind, as_values=as_values
        )
    build = json_comparator if media_type == "application/json" else same_output_comparator
    return PreparedStep(step, names, COMPARATORS.get(name, build)(step))


def _media_type_of_results(step: Mapping[str, Any]) -> str:
    """Return a media type that results of the `reference_query` of a step can have."""
    if is_cypher_step(step):
        return CYPHER_RESULTS
    if form_of(step[REFERENCE_QUERY]) in GRAPH_FORMS:
        return GRAPHS[0]
    return SPARQL_RESULTS


def _is_partial(step: Mapping[str, Any], media_type: str | None) -> bool:
    """Whether a reference step with an output of `media_type` asks for partial credit."""
    score = step.get("score")
    if score is None or score == "exact":
        return False
    if score not in ("f1", VALUES_F1):
        raise MalformedStep("score: must be absent, exact, f1 or values_f1")
    known = TABLES if score == VALUES_F1 else (*TABLES, *GRAPHS)
    if step.get("name") in COMPARATORS or media_type not in known:
        what = f"is only for outputs that are compared as {', '.join(known)}; leave it out"
        raise MalformedStep(f"score: {score} {what}")
    for key in ("required_columns", "ignore_duplicates") if score == VALUES_F1 else ():
        if step.get(key) not in (None, [], True):
            raise MalformedStep(
                f"{key}: not with score: values_f1, which takes the values of all columns once; "
                "remove it"
            )
    return True


@remember(entries=256)
def accepted_names(name: str) -> frozenset[str]:
    """Return the names of actual steps that a reference step of this name can match."""
    return _ACCEPTED_NAMES.get(name) or frozenset([name])


def _not_fetched(_actual: ActualStep) -> Agreement:
    raise MalformedStep("output: missing; its reference_query has not been run")


def _user_comparator(name: str, comparator: Comparator, step: Mapping[str, Any]) -> Compare:
    if not callable(comparator) or iscoroutinefunction(comparator):
        raise UsageError(f"comparators[{name!r}]: must be a plain function")
    cost = len(msgspec.json.encode(step, enc_hook=str)) // _CHARACTERS_PER_STEP

    def compare(actual: ActualStep) -> Agreement:
        actual.budget.spend(cost)
        try:
            value: object = comparator(copy_json(step), copy_json(actual.step))
            score = float(value) if isinstance(value, Real) else -1.0
            if not 0 <= score <= 1:
                raise ValueError(
                    f"a comparator must return a number from 0 to 1, not {short_repr(value)}"
                )
            return Agreement(score)
        except Exception as error:
            raise ComparatorError(describe_exception(error)) from error

    return compare


COMPARATORS: Mapping[str, Callable[[Mapping[str, Any]], Compare]] = {
    "retrieval": retrieval_comparator,
    "retrieve_time_series": time_series_comparator,
    "retrieve_data_points": data_points_comparator,
    "iri_discovery": iri_discovery_comparator,
}
"""By name of the reference step."""

_BY_CONTENTS: Mapping[str | None, type[SparqlStep | GraphStep]] = {
    **dict.fromkeys(TABLES, SparqlStep),
    **dict.fromkeys(GRAPHS, GraphStep),
}
"""By media type, the comparators that also give partial credit."""

# Of a reference step that is copied for a user's comparator, per step of a budget.
_CHARACTERS_PER_STEP = 4

_JSON = ("application/json", None)
"""Media types of outputs that are SPARQL results if they have the keys of such results."""

_ACCEPTED_NAMES = {"iri_discovery": frozenset(["autocomplete_search", "sparql_query"])}
