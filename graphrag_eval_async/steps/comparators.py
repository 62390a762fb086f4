"""The table of comparators: which one scores a reference step, and which actual steps it
accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from numbers import Real
from operator import attrgetter
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from graphrag_eval_async.catalogue.media_types import (
    CYPHER_RESULTS,
    GRAPHS,
    MEDIA_TYPES,
    SPARQL_RESULTS,
    TABLES,
    XML,
    plain_type,
)
from graphrag_eval_async.catalogue.metrics import VALUES_F1
from graphrag_eval_async.catalogue.reference_steps import (
    ALTERNATIVES,
    COLUMN_RULES,
    COMPARE,
    KEYS_OF_ALTERNATIVES,
    MATCH_COLUMNS,
    REFERENCE_QUERY,
    STRICT_ORDER,
    TABLE,
)
from graphrag_eval_async.errors import (
    ComparatorError,
    MalformedStep,
    UsageError,
    describe_exception,
)
from graphrag_eval_async.records.caching import remember
from graphrag_eval_async.records.decoding import copy_json
from graphrag_eval_async.steps.arguments import args_comparator
from graphrag_eval_async.steps.cypher.choice import compares_as_cypher
from graphrag_eval_async.steps.differences import Agreement
from graphrag_eval_async.steps.formats.reading import results_in
from graphrag_eval_async.steps.formats.results import are_plain
from graphrag_eval_async.steps.graphs.comparison import GraphStep
from graphrag_eval_async.steps.iri_discovery import iri_discovery_comparator
from graphrag_eval_async.steps.json_values import json_comparator, same_output_comparator
from graphrag_eval_async.steps.queries import is_cypher_step
from graphrag_eval_async.steps.retrieval import retrieval_comparator
from graphrag_eval_async.steps.tables.rules import check_required
from graphrag_eval_async.steps.tables.step import SparqlStep
from graphrag_eval_async.steps.time_series import data_points_comparator, time_series_comparator
from graphrag_eval_async.steps.tokens import FORMS, GRAPH_FORMS, form_of

if TYPE_CHECKING:
    from graphrag_eval_async.steps.actual import ActualStep, Compare
    from graphrag_eval_async.steps.cypher.step import CypherStep

Comparator: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], float]
"""A user's comparator: takes copies of a reference and an actual step, returns a match score
from 0 to 1.
"""


class PreparedStep(msgspec.Struct, frozen=True):
    """A reference step, read once."""

    step: Mapping[str, Any]
    """The step. Its media type is plain, and SPARQL results in JSON are decoded."""

    names: frozenset[str]
    """Names of the actual steps that `compare` accepts."""

    compare: Compare
    """May raise `MalformedStep`, `ComparisonBudgetExceeded` or `ComparatorError`."""

    partial: bool = False
    """Whether the actual step that scores most is taken, and only 1 is a full match."""

    kind: Callable[[], str] | None = None
    """Returns how errors call the output, as `ActualStep.kinds` does; None if its comparator reads
    all outputs.
    """

    has_args: bool = False
    """Whether arguments are compared."""

    is_strict: bool = False
    """Whether this is the first step of a group whose steps must come in their order."""

    as_values: bool = False
    """Whether results are compared as sets of values."""

    quotes_unreadable: bool = False
    """Whether `failure_detail` says why the output of an actual step cannot be read."""

    args_only: bool = False
    """Whether it has no output, so that an actual step without output may match it, too."""


def check_step(
    step: Mapping[str, Any], comparators: Mapping[str, Comparator] | None = None
) -> None:
    """Check that a reference step can be compared.

    Args:
        step: the step.
        comparators: the user's comparators, by name of the step.

    Raises:
        MalformedStep: the step is invalid.
        UsageError: the user's comparator is no function.
    """
    if step.get(ALTERNATIVES):
        for variant in variants_of(step):
            check_step(variant, comparators)
        return
    name = step.get("name")
    query = step.get(REFERENCE_QUERY)
    output = step.get("output")
    required_columns = step.get("required_columns") or ()
    # A query with escapes is not refused, since they may hide its form.
    is_other_query = isinstance(query, str) and form_of(query) not in FORMS and "\\" not in query
    if is_other_query and not (is_cypher_step(step) or compares_as_cypher(step)):
        raise MalformedStep(
            f"{REFERENCE_QUERY}: expected a SPARQL query: {', '.join(sorted(FORMS))}"
        )
    if COMPARE in step or MATCH_COLUMNS in step:
        _check_table_keys(step)

    # If the output is not compared by its media type, preparing the step checks all of it.
    is_compared_by_name = (
        not isinstance(name, str) or name in COMPARATORS or name in (comparators or ())
    )
    has_only_args = args_comparator(step) is not None and output is None
    if is_compared_by_name or has_only_args:
        # Called for its errors.
        prepare_step(step, comparators)
        return

    # Most outputs are plain SPARQL results, and to see that is much quicker than to read them.
    may_be_results = step.get("output_media_type") in (SPARQL_RESULTS, *_JSON)
    if may_be_results and are_plain(output, required_columns):
        # Called for its error.
        _asks_for_partial_credit(step, SPARQL_RESULTS)
        return

    # All other outputs are read.
    prepared = prepare_step(step).step
    if needs_execution(prepared):
        # There is no output yet.
        check_required(required_columns)
        return
    compared_as = _class_for_contents(prepared)
    if compared_as is not None:
        # Called for the errors that it raises if the output is not what its media type says.
        compared_as(prepared, partial=False).kind()


def _check_table_keys(step: Mapping[str, Any]) -> None:
    """Check the keys of a reference step that are only for tables.

    Raises:
        MalformedStep: one has a wrong value, or no effect on an output of this kind.
    """
    media_type = plain_type(step.get("output_media_type"))
    compare = step.get(COMPARE)
    if compare not in (None, TABLE):
        raise MalformedStep(f"{COMPARE}: must be absent or {TABLE}")
    if compare == TABLE and media_type not in (CYPHER_RESULTS, *_JSON):
        raise MalformedStep(f"{COMPARE}: only with output_media_type: application/json; remove it")

    column_rule = step.get(MATCH_COLUMNS)
    if column_rule is None:
        return
    if column_rule not in COLUMN_RULES:
        raise MalformedStep(f"{MATCH_COLUMNS}: must be absent or one of {', '.join(COLUMN_RULES)}")
    is_table = media_type in (*TABLES, *_JSON) or compares_as_cypher(step)
    if not is_table or step.get("name") in COMPARATORS:
        problem = "only for outputs that are compared as tables; remove it"
        raise MalformedStep(f"{MATCH_COLUMNS}: {problem}")
    if step.get("score") == VALUES_F1:
        problem = f"not with score: {VALUES_F1}, which takes the values of all columns; remove it"
        raise MalformedStep(f"{MATCH_COLUMNS}: {problem}")


def compares_by_name(name: str) -> bool:
    """Return whether steps of this name have a comparator that does not depend on media types."""
    return name in COMPARATORS


def needs_execution(step: Mapping[str, Any]) -> bool:
    """Return whether a query must be run for an output of a reference step.

    It is the output of the step or of an alternative that has only a query.
    """
    if step.get("name") in COMPARATORS:
        return False
    return any(
        output.get(REFERENCE_QUERY) is not None and output.get("output") is None
        for output in (step, *(step.get(ALTERNATIVES) or ()))
        if isinstance(output, Mapping)
    )


def prepare_step(
    step: Mapping[str, Any], comparators: Mapping[str, Comparator] | None = None
) -> PreparedStep:
    """Return a checked reference step with the comparator that scores it.

    Args:
        step: the step.
        comparators: the user's comparators, by name of the step. They override built-in ones.

    Raises:
        MalformedStep: the step is invalid.
        UsageError: the user's comparator is no function.
    """
    compare_args = args_comparator(step)
    if step.get(ALTERNATIVES):
        prepared = _prepare_alternatives(step, comparators)
    elif compare_args is None:
        prepared = _prepare_output(step, comparators)
    else:
        prepared = _prepare_args(step, compare_args, comparators)
    if step.get("order") == STRICT_ORDER:
        return msgspec.structs.replace(prepared, is_strict=True)
    return prepared


def _prepare_alternatives(
    step: Mapping[str, Any], comparators: Mapping[str, Comparator] | None
) -> PreparedStep:
    """Prepare a reference step with several right outputs, of which the best match counts.

    Differences and errors are those of the best match, or of the step's own output if no output
    matches.

    Args:
        step: the step, with a list of alternatives.
        comparators: the user's comparators, by name of the step.

    Raises:
        MalformedStep: an alternative is invalid.
    """
    variants = [prepare_step(variant, comparators) for variant in variants_of(step)]

    def compare(actual: ActualStep) -> Agreement:
        """Return the agreement with the variant that agrees best, the first of equal ones.

        Raises:
            MalformedStep: no variant can be compared with the actual step.
        """
        agreements = []
        errors = []
        for variant in variants:
            try:
                agreements.append(variant.compare(actual))
            except MalformedStep as error:
                # The output may be of the kind of another variant.
                errors.append(error)
        if not agreements:
            raise errors[0]
        return max(agreements, key=attrgetter("score"))

    return msgspec.structs.replace(variants[0], step=step, compare=compare)


def variants_of(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a step for each of the right outputs of a reference step: its own comes first.

    Raises:
        MalformedStep: its alternatives are no list, or one has other keys than
            `KEYS_OF_ALTERNATIVES`, or none.
    """
    own = {key: value for key, value in step.items() if key != ALTERNATIVES}
    alternatives = step.get(ALTERNATIVES) or []
    if not isinstance(alternatives, list):
        raise MalformedStep(f"{ALTERNATIVES}: must be a list")
    variants = [own]
    for index, alternative in enumerate(alternatives):
        place = f"{ALTERNATIVES}[{index}]"
        if not isinstance(alternative, Mapping) or not alternative:
            raise MalformedStep(f"{place}: must have {', '.join(KEYS_OF_ALTERNATIVES)}")
        unknown = [key for key in alternative if key not in KEYS_OF_ALTERNATIVES]
        if unknown:
            raise MalformedStep(
                f"{place}: {unknown[0]} is not one of {', '.join(KEYS_OF_ALTERNATIVES)}"
            )
        # Without an output of its own, an alternative has what its query returns.
        shared = {key: value for key, value in own.items() if key not in KEYS_OF_ALTERNATIVES}
        media_type = own.get("output_media_type")
        if media_type is not None:
            shared["output_media_type"] = media_type
        variants.append({**shared, **alternative})
    return variants


def _prepare_args(
    step: Mapping[str, Any], compare_args: Compare, comparators: Mapping[str, Comparator] | None
) -> PreparedStep:
    """Return a reference step that compares arguments and then, if it has an output, outputs.

    Args:
        step: the step.
        compare_args: the function that compares the arguments of an actual step.
        comparators: the user's comparators, by name of the step.

    Raises:
        MalformedStep: the step is invalid.
        UsageError: the user's comparator is no function.
    """
    name = step.get("name")
    has_output = (
        step.get("output") is not None or needs_execution(step) or name in (comparators or ())
    )
    if isinstance(name, str) and not has_output:
        # Called for its error: partial credit needs an output.
        _asks_for_partial_credit(step, None)
        return PreparedStep(
            step=step,
            names=accepted_names(name),
            compare=compare_args,
            has_args=True,
            args_only=True,
        )
    prepared = _prepare_output(step, comparators)

    def compare(actual: ActualStep) -> Agreement:
        """Return how far the output agrees, or a score of 0 if the arguments differ."""
        args_agreement = compare_args(actual)
        if args_agreement.differences:
            return args_agreement
        return prepared.compare(actual)

    return msgspec.structs.replace(prepared, compare=compare, has_args=True)


def _prepare_output(
    step: Mapping[str, Any], comparators: Mapping[str, Comparator] | None
) -> PreparedStep:
    """Return a reference step with the comparator of its output.

    The comparator is the first of these that there is:

    - the user's comparator for the name of the step;
    - the built-in comparator for the name of the step;
    - the comparator for the media type of its output.

    Args:
        step: the step.
        comparators: the user's comparators, by name of the step.

    Raises:
        MalformedStep: the step is invalid.
        UsageError: the user's comparator is no function.
    """
    name = step.get("name")
    if not isinstance(name, str):
        raise MalformedStep("name: must be a string")
    names = accepted_names(name)
    if comparators and name in comparators:
        compare = _user_comparator(name, comparators[name], step)
        return PreparedStep(step, names, compare)

    if needs_execution(step):
        # Called for its error.
        _asks_for_partial_credit(step, _media_type_of_results(step))
        as_values = step.get("score") == VALUES_F1
        return PreparedStep(step, names, _refuse_missing_output, as_values=as_values)

    step = _with_plain_output(step)
    media_type = step.get("output_media_type")
    is_partial = _asks_for_partial_credit(step, media_type)
    if name in COMPARATORS:
        return PreparedStep(step, names, COMPARATORS[name](step))
    compared_as = _class_for_contents(step)
    if compared_as is not None:
        contents = compared_as(step, partial=is_partial)
        return PreparedStep(
            step=step,
            names=names,
            compare=contents.compare,
            partial=is_partial,
            kind=contents.kind,
            as_values=step.get("score") == VALUES_F1,
            quotes_unreadable=compared_as not in _BY_CONTENTS.values(),
        )
    if media_type == "application/json":
        return PreparedStep(step, names, json_comparator(step))
    return PreparedStep(step, names, same_output_comparator(step))


def _class_for_contents(
    step: Mapping[str, Any],
) -> type[SparqlStep | GraphStep | CypherStep] | None:
    """Return the class that compares the output of a reference step as a table or a graph.

    None if the output is compared otherwise.

    Args:
        step: the step, whose media type has no parameters.
    """
    media_type = step.get("output_media_type")
    if media_type not in _TYPES_OF_RDF and compares_as_cypher(step):
        # The readers of Cypher's results are many, and most reference sets do not need them.
        from graphrag_eval_async.steps.cypher.step import CypherStep

        return CypherStep
    return _BY_CONTENTS.get(media_type)


def _with_plain_output(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a reference step in which the media type of the output has no parameters.

    If the output is JSON, and is SPARQL results, it is also decoded and gets their media type. This
    does not apply to steps that have a comparator for their name.

    Raises:
        MalformedStep: the media type is no text.
    """
    media_type = plain_type(step.get("output_media_type"))
    if not isinstance(media_type, str | None):
        raise MalformedStep(f"output_media_type: must be absent or one of {', '.join(MEDIA_TYPES)}")
    may_be_results = media_type in _JSON and step.get(COMPARE) is None
    if may_be_results and step.get("name") not in COMPARATORS:
        document = results_in(step.get("output"))
        if document is not None:
            return {**step, "output": document, "output_media_type": SPARQL_RESULTS}
    if media_type != step.get("output_media_type"):
        return {**step, "output_media_type": media_type}
    return step


def _media_type_of_results(step: Mapping[str, Any]) -> str:
    """Return a media type that results of the `reference_query` of a step can have."""
    if is_cypher_step(step):
        return CYPHER_RESULTS
    if form_of(step[REFERENCE_QUERY]) in GRAPH_FORMS:
        return GRAPHS[0]
    return SPARQL_RESULTS


def _asks_for_partial_credit(step: Mapping[str, Any], media_type: str | None) -> bool:
    """Return whether a reference step asks for partial credit.

    Args:
        step: the step.
        media_type: the media type of its output; None if there is no output or no media type.

    Raises:
        MalformedStep: the `score` of the step is invalid, or is not possible for such an output.
    """
    score = step.get("score")
    if score in (None, "exact"):
        return False
    if score not in ("f1", VALUES_F1):
        raise MalformedStep("score: must be absent, exact, f1 or values_f1")

    # Only tables have values; tables and graphs agree in part.
    media_types: tuple[str, ...] = (*TABLES, CYPHER_RESULTS)
    if score == "f1":
        media_types += GRAPHS
    is_for_output = media_type in media_types or compares_as_cypher(step)
    if step.get("name") in COMPARATORS or not is_for_output:
        problem = f"is only for outputs that are compared as {', '.join(media_types)}; leave it out"
        raise MalformedStep(f"score: {score} {problem}")
    if score == VALUES_F1:
        for key in ("required_columns", "ignore_duplicates"):
            # With one of these values, the key asks for nothing, so it does no harm.
            if step.get(key) not in (None, [], True):
                raise MalformedStep(
                    f"{key}: not with score: values_f1, which takes the values of all columns "
                    "once; remove it"
                )
    return True


@remember(entries=256)
def accepted_names(name: str) -> frozenset[str]:
    """Return the names of the actual steps that a reference step of the given name can match."""
    return _ACCEPTED_NAMES.get(name) or frozenset([name])


def _refuse_missing_output(_actual: ActualStep) -> Agreement:
    """Raise `MalformedStep`: the reference step has no output, since its query was not run."""
    raise MalformedStep("output: missing; its reference_query has not been run")


def _user_comparator(name: str, comparator: Comparator, step: Mapping[str, Any]) -> Compare:
    """Return a function that compares actual steps with a reference step by a user's comparator.

    Each comparison takes steps of the budget in proportion to the size of the reference step.

    Args:
        name: the name of the reference step, for the error.
        comparator: the user's function.
        step: the reference step. The function gets a copy for each comparison.

    Raises:
        UsageError: the comparator is no function, or an async one.
    """
    if not callable(comparator) or iscoroutinefunction(comparator):
        raise UsageError(f"comparators[{name!r}]: must be a plain function")
    size = len(msgspec.json.encode(step, enc_hook=str))
    cost = size // _CHARACTERS_PER_STEP

    def compare(actual: ActualStep) -> Agreement:
        """Return the score that the user's function returns for an actual step.

        Raises:
            ComparatorError: the function raised an exception or returned no score.
            ComparisonBudgetExceeded: the budget does not suffice for the comparison.
        """
        actual.budget.spend(cost)
        try:
            value: object = comparator(copy_json(step), copy_json(actual.step))
            score = float(value) if isinstance(value, Real) else None
            # The chain of comparisons refuses NaN, too.
            if score is None or not 0 <= score <= 1:
                raise ValueError(
                    f"a comparator must return a number from 0 to 1, not {short_repr(value)}"
                )
            return Agreement(score)
        except Exception as error:
            # Whatever a user's function raises fails this comparison alone.
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

_TYPES_OF_RDF = (SPARQL_RESULTS, XML, *GRAPHS)
"""Media types that no database with Cypher writes, so that names of steps do not count."""

_CHARACTERS_PER_STEP = 4
"""Characters of a reference step, copied for a user's comparator, for each step of a budget."""

_JSON = ("application/json", None)
"""Media types of outputs that are SPARQL results if they have the keys of such results."""

_ACCEPTED_NAMES = {"iri_discovery": frozenset(["autocomplete_search", "sparql_query"])}
