"""Selects the queries of a question and a response to run, and lists facts about queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.execution.answer import GRAPH_FORMS
from graphrag_eval_async.records.outcomes import REFERENCE_QUERY
from graphrag_eval_async.records.shapes import GRAPHS, TABLES
from graphrag_eval_async.steps.queries import query_of, read_query
from graphrag_eval_async.steps.tokens import FORMS, form_of, tokens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.steps import PreparedStep

MAX_QUERIES = 50
"""Maximum queries of one response that are run or parsed: the last ones."""

MAX_LISTED = 50
"""Maximum predicates, classes and other IRIs listed in `query_facts`, of each."""


def reference_queries(groups: Sequence[Sequence[PreparedStep]]) -> dict[tuple[int, int], str]:
    """Return the queries that give expected outputs, by the indices of the group and of the step in it."""
    return {
        (group_index, index): query
        for group_index, group in enumerate(groups)
        for index, step in enumerate(group)
        if (query := query_to_run(step.step)) is not None
    }


def actual_queries(
    groups: Sequence[Sequence[PreparedStep]], steps: Sequence[Mapping[str, Any]]
) -> dict[int, str]:
    """Return the queries of the steps that match reference steps with queries, by index of the step."""
    names = {
        name
        for group in groups
        for step in group
        if step.step.get("output_media_type") in (*TABLES, *GRAPHS) or query_to_run(step.step) is not None
        for name in step.names
    }
    found = {
        index: text
        for index, step in enumerate(steps)
        if step.get("name") in names
        if (text := query_of(step)) is not None
    }
    return dict([*found.items()][-MAX_QUERIES:])


def query_to_run(step: Mapping[str, Any]) -> str | None:
    """Return the query of a reference step whose output can be fetched; None if it has none.

    It is the `reference_query`, or the query in the arguments if the output is the result of a query.
    """
    reference = step.get(REFERENCE_QUERY)
    if isinstance(reference, str):
        return reference
    text = query_of(step)
    if text is None or step.get("output_media_type") in {None, "application/json", "text/uri"}:
        return None
    form = form_of(text)
    is_table = step["output_media_type"] in TABLES
    return text if form in (FORMS - GRAPH_FORMS if is_table else GRAPH_FORMS) else None


def facts_of(query: str) -> dict[str, Any]:
    """Return the form of a query, and its predicates, classes and other IRIs."""
    read = read_query(query)
    listed = {key: iris[:MAX_LISTED] for key, iris in read.vocabulary().items()}
    return {"form": read.form, **listed}


def prefixes_in(query: str) -> dict[str, str]:
    """Return an IRI for each prefix in a query. Many servers know some, so a query need not declare them."""
    prefixes = {token.text.partition(":")[0] for token in tokens(query) if token.kind == "name"}
    return {prefix: f"urn:prefix:{prefix}:" for prefix in prefixes}
