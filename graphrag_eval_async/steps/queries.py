"""Compares the queries of actual steps with the `reference_query` of reference steps, without running them.

A secondary score: queries of other elements may return the same rows, and queries of the same elements other
rows. See `steps.sparql.query` for what elements are.
"""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.records.caching import remember
from graphrag_eval_async.records.outcomes import REFERENCE_QUERY
from graphrag_eval_async.steps.sparql.query import Query, query_of, read_query, similarity
from graphrag_eval_async.steps.sparql.tokens import MAX_QUERY_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.steps.comparators import PreparedStep

QUICK_CHARACTERS = 10_000
"""Maximum characters of queries that are compared on an event loop: about 5 ms."""

TOO_LONG = f"a query of more than {MAX_QUERY_CHARACTERS:,} characters: its query_similarity is 0"


class Similarities(NamedTuple):
    """How similar the queries of a response are to the reference queries.

    Attributes:
        mean: over all reference steps that have a reference query, from 0 to 1.
        each: by the indices of the group and of the step in it.
        error: what could not be compared, and why; None if nothing.
    """

    mean: float
    each: dict[tuple[int, int], float]
    error: str | None = None


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
    reference query to which the response has no query scores 0.

    Raises:
        ComparisonBudgetExceeded: only if `quick`: reading the queries would block an event loop.
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
        reference = _read_reference(step.step[REFERENCE_QUERY])
        read = (read_query(text, reference.prefixes) for text in dict.fromkeys(short))
        each[place] = max((similarity(reference, query) for query in read), default=0.0)
        if len(short) < len(own):
            error = TOO_LONG
    return Similarities(fsum(each.values()) / len(each), each, error)


@remember(entries=256)
def _read_reference(text: str) -> Query:
    return read_query(text)
