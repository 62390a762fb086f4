"""Which queries are run, what they return, and what that adds to steps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from graphrag_eval_async.catalogue.media_types import GRAPHS, TABLES
from graphrag_eval_async.catalogue.reference_steps import ALTERNATIVES, REFERENCE_QUERY
from graphrag_eval_async.steps.comparators import variants_of
from graphrag_eval_async.steps.queries import (
    QUERY_KEYS,
    arguments_of,
    is_cypher_step,
    parameters_of,
    query_of,
)
from graphrag_eval_async.steps.tokens import (
    FORMS,
    GRAPH_FORMS,
    MAX_QUERY_CHARACTERS,
    form_of,
    has_second_statement,
    mentions,
    prefixes_of,
)
from graphrag_eval_async.unicode import in_utf8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.steps import PreparedStep

MAX_QUERIES = 50
"""Maximum number of queries of one response that are run or parsed: the last ones."""

MAX_MESSAGE = 500
"""Maximum number of characters kept of an error's text, which may quote the query."""

Kind: TypeAlias = Literal["invalid", "refused", "failed", "truncated", "unavailable"]
"""How a query failed: "invalid", it does not parse; "refused", it could fetch or change things;
"failed", it took too long or returned too much; "truncated", only a part came; "unavailable", which
is not its fault.
"""


class Place(NamedTuple):
    """Place of an expected output among the reference steps of a question.

    Attributes:
        group: index of the group of the reference step.
        step: index of the step in the group.
        alternative: index of the alternative that has the output; None if the step itself has it.
    """

    group: int
    step: int
    alternative: int | None = None

    def __str__(self) -> str:
        text = f"reference_steps[{self.group}][{self.step}]"
        if self.alternative is not None:
            text += f".{ALTERNATIVES}[{self.alternative}]"
        return text


class Query(NamedTuple):
    """A query to run.

    Attributes:
        text: the query.
        parameters: the values of its parameters, as a JSON object. Only Cypher has parameters.
        prefixes: pairs of a name and an IRI that a SPARQL query need not declare.
    """

    text: str
    parameters: str = "{}"
    prefixes: tuple[tuple[str, str], ...] = ()


class Answer(NamedTuple):
    """The answer to a query.

    Attributes:
        output: the table or the graph that the query returned, as text.
        media_type: the media type of the text.
        at: when the query was sent, in UTC.
    """

    output: str
    media_type: str
    at: str


class QueryFailed(Exception):  # noqa: N818
    """A query has no answer.

    Agents write queries that fail, so this is no error of the evaluation: it is caught, and becomes
    a part of the result.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        wait: float | None = None,
        is_suspect: bool = False,
        is_slow: bool = False,
    ) -> None:
        """Describe the failure.

        Args:
            kind: how the query failed.
            message: why, for people; cut after `MAX_MESSAGE` characters.
            wait: seconds to wait before another attempt; None if that cannot succeed.
            is_suspect: whether the server failed in a way in which it also fails if a query takes
                too much time or memory.
            is_slow: whether the query took all the time that it may take.
        """
        self.kind: Kind = kind
        self.message = in_utf8(message[:MAX_MESSAGE])
        self.wait = wait
        self.is_suspect = is_suspect
        self.is_slow = is_slow
        super().__init__(f"{kind}: {self.message}")


def error_of(place: str, failed: QueryFailed) -> str:
    """Return the `execution_error` of a result, which begins with the kind of failure.

    Args:
        place: the step that has the query.
        failed: the failure of the query.
    """
    kind: str = failed.kind
    if kind == "invalid":
        kind = "invalid_request"
    return f"{kind}: {place}: {failed.message}"


def now() -> str:
    """Return the time in UTC, to the second, in ISO 8601 format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reference_queries(
    groups: Sequence[Sequence[PreparedStep]], *, is_cypher: bool, replace: bool = True
) -> dict[Place, Query]:
    """Return the queries in one language whose results are expected outputs, by place.

    Args:
        groups: the groups of reference steps of a question.
        is_cypher: whether to return queries in Cypher; otherwise, those in SPARQL.
        replace: whether to include steps that have an output already.
    """
    queries: dict[Place, Query] = {}
    for group_index, group in enumerate(groups):
        for index, prepared in enumerate(group):
            for number, variant in enumerate(variants_of(prepared.step)):
                if variant.get("output") is not None and not replace:
                    continue
                text = _query_to_run(variant, is_cypher=is_cypher)
                if text is not None:
                    # The first variant is the step itself; its alternatives follow.
                    alternative = number - 1 if number > 0 else None
                    place = Place(group_index, index, alternative)
                    queries[place] = Query(text, parameters_of(variant))
    return queries


def _query_to_run(step: Mapping[str, Any], *, is_cypher: bool) -> str | None:
    """Return the query whose result is the output of a reference step.

    It is the `reference_query` or, without one, the query in the arguments. In SPARQL, the latter
    must return a table or a graph, as the media type of the output says.

    Args:
        step: the reference step.
        is_cypher: the language of the query.

    Returns:
        None if the step has no query, or one in the other language.
    """
    if is_cypher_step(step) != is_cypher:
        return None
    reference_query = step.get(REFERENCE_QUERY)
    if isinstance(reference_query, str):
        return reference_query
    query = query_of(step)
    if is_cypher or query is None:
        return query
    media_type = step.get("output_media_type")
    if media_type in TABLES and form_of(query) in FORMS - GRAPH_FORMS:
        return query
    if media_type in GRAPHS and form_of(query) in GRAPH_FORMS:
        return query
    return None


def actual_queries(
    groups: Sequence[Sequence[PreparedStep]],
    steps: Sequence[Mapping[str, Any]],
    *,
    is_cypher: bool,
) -> dict[int, Query]:
    """Return the agent's queries in one language that correspond to queries of reference steps.

    These are the queries of steps that have the name of such a reference step.

    Args:
        groups: the groups of reference steps of a question.
        steps: the steps of a response.
        is_cypher: whether to return queries in Cypher; otherwise, those in SPARQL.

    Returns:
        the last `MAX_QUERIES` of these queries, by index of the step.
    """
    names = _names_of_queries(groups, is_cypher=is_cypher)
    queries: dict[int, Query] = {}
    for index, step in enumerate(steps):
        if step.get("name") not in names:
            continue
        text = query_of(step)
        if text is not None:
            queries[index] = Query(text, parameters_of(step))
    return dict([*queries.items()][-MAX_QUERIES:])


def expects_query(groups: Sequence[Sequence[PreparedStep]], *, is_cypher: bool) -> bool:
    """Return whether the agent is expected to run a query in one language."""
    return bool(_names_of_queries(groups, is_cypher=is_cypher))


def _names_of_queries(
    groups: Sequence[Sequence[PreparedStep]], *, is_cypher: bool
) -> frozenset[str]:
    """Return the names that an agent's steps may have if they run an expected query.

    Args:
        groups: the groups of reference steps of a question.
        is_cypher: whether the query is in Cypher; otherwise, it is in SPARQL.
    """
    names = frozenset[str]()
    for group in groups:
        for prepared in group:
            if _has_queried_output(prepared.step) and is_cypher_step(prepared.step) == is_cypher:
                names |= prepared.names
    return names


def with_reference_prefixes(
    queries: Mapping[int, Query], groups: Sequence[Sequence[PreparedStep]]
) -> dict[int, Query]:
    """Return queries of which those without prefixes get the prefixes of the reference queries.

    Args:
        queries: the agent's queries in SPARQL, by index of the step.
        groups: the groups of reference steps of the question.
    """
    prefixes: dict[str, str] = {}
    for query in reference_queries(groups, is_cypher=False).values():
        prefixes.update(prefixes_of(query.text))

    new_queries: dict[int, Query] = {}
    for index, query in queries.items():
        declares_prefixes = bool(prefixes_of(query.text))
        if declares_prefixes:
            new_queries[index] = query
        else:
            new_queries[index] = query._replace(prefixes=tuple(prefixes.items()))
    return new_queries


def _has_queried_output(step: Mapping[str, Any]) -> bool:
    """Return whether the output of a reference step is the result of a query."""
    is_result = step.get("output_media_type") in (*TABLES, *GRAPHS)
    return is_result or bool(step.get(REFERENCE_QUERY)) or is_cypher_step(step)


def queries_to_check(
    groups: Sequence[Sequence[PreparedStep]], steps: Sequence[Mapping[str, Any]]
) -> dict[int, str]:
    """Return the texts of the agent's SPARQL queries, by index of the step; the last `MAX_QUERIES`.

    These are:

    - the `actual_queries` in SPARQL,
    - queries of steps that have "sparql" in their name or in the name of the argument,
    - texts that have the form of a SPARQL query. SQL begins in the same way, but has no braces.
    """
    actual = actual_queries(groups, steps, is_cypher=False)
    texts = {index: query.text for index, query in actual.items()}
    for index, step in enumerate(steps):
        text = query_of(step)
        if text is None or index in texts or is_cypher_step(step):
            continue
        names = [str(step.get("name"))]
        arguments = arguments_of(step)
        if isinstance(arguments, Mapping):
            names += [key for key in QUERY_KEYS if arguments.get(key) == text]
        is_named_so = any("sparql" in name.lower() for name in names)
        has_form_of_query = form_of(text) in FORMS and "{" in text
        if is_named_so or has_form_of_query:
            texts[index] = text
    return dict(sorted(texts.items())[-MAX_QUERIES:])


def check_sparql(query: str, *, allow_from: bool, allow_service: bool) -> None:
    """Check that a SPARQL query of an agent only reads, and makes no server fetch anything.

    Args:
        query: the query.
        allow_from: whether it may name graphs with FROM, which servers may fetch.
        allow_service: whether it may send parts of it to other servers with SERVICE.

    Raises:
        QueryFailed: the query does more, or is none.
    """
    if len(query) > MAX_QUERY_CHARACTERS:
        raise QueryFailed("refused", f"it has more than {MAX_QUERY_CHARACTERS:,} characters")
    form = form_of(query)
    if form == "UPDATE":
        raise QueryFailed("refused", "updates are not run")
    if form not in FORMS:
        raise QueryFailed("invalid", f"expected {', '.join(sorted(FORMS))}")
    if has_second_statement(query):
        raise QueryFailed("refused", "it has more than one statement; only one query is run")
    if not allow_service and mentions(query, "SERVICE"):
        cure = "execute.allow_service permits it at an endpoint"
        raise QueryFailed(
            "refused", f"SERVICE is not allowed: it makes the server fetch addresses; {cure}"
        )
    if not allow_from and mentions(query, "FROM"):
        cure = "execute.allow_from permits it"
        raise QueryFailed(
            "refused", f"FROM is not allowed: it may make the server fetch addresses; {cure}"
        )


class Executed(msgspec.Struct, frozen=True):
    """The outcomes of queries for one response.

    Attributes:
        expected: what reference queries returned, by place of the reference step.
        actual: what the agent's queries returned or how they failed, by index of the step.
        invalid: why queries of the agent do not parse, by index of the step.
        facts: what queries of the agent consist of, by index of the step.
        error: why the steps cannot be scored, which is not the agent's fault.
        provenance: where and when reference queries were run.
        executable: 1 if the last query of the agent has an answer, 0 if it failed or there is none;
            None if no query is expected, or if queries are not run.
    """

    expected: Mapping[Place, Answer] = {}
    actual: Mapping[int, Answer | QueryFailed] = {}
    invalid: Mapping[int, str] = {}
    facts: Mapping[int, Mapping[str, Any]] = {}
    error: str | None = None
    provenance: Mapping[str, Any] | None = None
    executable: float | None = None

    def reference_steps(
        self, groups: Sequence[Sequence[dict[str, Any]]]
    ) -> list[list[dict[str, Any]]]:
        """Return a copy of the reference steps with the expected outputs that queries returned."""
        steps = [[*group] for group in groups]
        for place, answer in self.expected.items():
            step = steps[place.group][place.step]
            if place.alternative is None:
                step = {**step, **_output_of(answer), "executed_at": answer.at}
            else:
                alternatives = [*step[ALTERNATIVES]]
                alternative = alternatives[place.alternative]
                alternatives[place.alternative] = {**alternative, **_output_of(answer)}
                step = {**step, ALTERNATIVES: alternatives}
            steps[place.group][place.step] = step
        return steps

    def actual_steps(self, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the steps to score: a copy with the outputs that their queries return now.

        A step whose query failed has an error instead.
        """
        new_steps = [*steps]
        for index, outcome in self.actual.items():
            if isinstance(outcome, Answer):
                new_steps[index] = {
                    **steps[index],
                    "status": "success",
                    "executed_at": outcome.at,
                    **_output_of(outcome),
                }
            else:
                new_steps[index] = {
                    **steps[index],
                    "output": None,
                    "status": "error",
                    "execution_error": str(outcome),
                }
        return new_steps

    def judged_steps(self, steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the steps to judge: a copy in which no recorded output is replaced.

        Steps without a recorded output get the output that their queries return now.
        """
        new_steps = [*steps]
        for index, outcome in self.actual.items():
            if isinstance(outcome, Answer) and steps[index].get("output") is None:
                new_steps[index] = {**steps[index], **_output_of(outcome)}
        return new_steps

    def additions(self) -> dict[int, dict[str, Any]]:
        """Return what the result adds to actual steps: keys with values, by index of the step."""
        additions: dict[int, dict[str, Any]] = {}
        for index, facts in self.facts.items():
            additions[index] = {"query_facts": facts}
        for index, outcome in self.actual.items():
            keys = additions.setdefault(index, {})
            if isinstance(outcome, Answer):
                keys["executed_at"] = outcome.at
                keys["executed_output"] = outcome.output
            else:
                keys["execution_error"] = str(outcome)
        return additions


def _output_of(answer: Answer) -> dict[str, str]:
    """Return the keys and values of a step whose output is the answer to a query."""
    return {"output": answer.output, "output_media_type": answer.media_type}
