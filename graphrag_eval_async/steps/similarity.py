"""How similar queries of a response are to the reference queries: the F1 of their elements.

This is a secondary score: queries of other elements may return the same rows, and queries of the same
elements other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.records.caching import remember
from graphrag_eval_async.records.outcomes import REFERENCE_QUERY
from graphrag_eval_async.steps.queries import read_query
from graphrag_eval_async.steps.tokens import FORMS, MAX_QUERY_CHARACTERS, form_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.steps.comparators import PreparedStep
    from graphrag_eval_async.steps.queries import Query


def similarity(one: Query, other: Query) -> float:
    """Return the F1 of the elements of two queries, each counted as often as it occurs; from 0 to 1."""
    total = one.elements.total() + other.elements.total()
    if not total:
        return float(one.form == other.form)
    return 2 * (one.elements & other.elements).total() / total


def sparql_of(step: Mapping[str, Any]) -> str | None:
    """Return the SPARQL query that a step carries; None if it has none, or one of another language."""
    text = query_of(step)
    return text if text is not None and form_of(text) in FORMS else None


QUERY_KEYS = ("query", "sparql", "sparql_query", "queryString")
"""The arguments of a step that may hold its query; the first that holds text counts."""


def query_of(step: Mapping[str, Any]) -> str | None:
    """Return the query that a step carries in its arguments, or else itself; None if it has none."""
    args = step.get("args")
    for place in (args, step):
        if isinstance(place, Mapping):
            for key in QUERY_KEYS:
                if isinstance(text := place.get(key), str) and text.strip():
                    return text
    return None


QUICK_CHARACTERS = 10_000  # Maximum characters of queries that are compared on an event loop: about 5 ms.

TOO_LONG = f"a query of more than {MAX_QUERY_CHARACTERS:,} characters: its query_similarity is 0"


class Similarities(NamedTuple):
    """How similar the queries of a response are to the reference queries, from 0 to 1."""

    mean: float
    each: dict[tuple[int, int], float]  # By the indices of the group and of the step in it.
    error: str | None = None  # What could not be compared, and why.


def compare_queries(
    groups: Sequence[Sequence[PreparedStep]],
    actual_steps: Sequence[Mapping[str, Any]],
    matches: Sequence[tuple[int, int, int]],
    *,
    quick: bool,
) -> Similarities:
    """Compare the queries of a response with the reference queries, of which there is at least one.

    A reference step is compared with the query of the actual step that it took. If it took none, the most
    similar one counts of those that have an accepted name and that no reference step took, failed or not. A
    reference query to which the response has no query scores 0. If `quick`, long ones raise
    `ComparisonBudgetExceeded`.
    """
    asking = [
        (group_index, index, step)
        for group_index, group in enumerate(groups)
        for index, step in enumerate(group)
        if step.step.get(REFERENCE_QUERY) is not None
    ]
    texts = [query_of(step) for step in actual_steps]
    if quick and sum(len(text) for text in texts if text is not None) > QUICK_CHARACTERS:
        raise ComparisonBudgetExceeded("the queries are too long for an event loop")
    taken = {(group, index): actual for group, index, actual in matches}
    used = {*taken.values()}
    each, error = {}, None
    for group_index, index, step in asking:
        place = group_index, index
        names = step.names
        candidates = (
            [taken[place]]
            if place in taken
            else [i for i, actual in enumerate(actual_steps) if i not in used and actual.get("name") in names]
        )
        own = [text for i in candidates if (text := texts[i]) is not None]
        short = [text for text in own if len(text) <= MAX_QUERY_CHARACTERS]
        reference = _read_cached(step.step[REFERENCE_QUERY])
        read = (read_query(text, reference.prefixes) for text in dict.fromkeys(short))
        each[place] = max((similarity(reference, query) for query in read), default=0.0)
        if len(short) < len(own):
            error = TOO_LONG
    return Similarities(fsum(each.values()) / len(each), each, error)


_read_cached = remember(entries=256)(read_query)
