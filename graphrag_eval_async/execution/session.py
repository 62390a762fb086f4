"""Runs and checks the queries of streams: each reference query once, and those of the agent."""

from __future__ import annotations

import asyncio
import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.config import as_written
from graphrag_eval_async.errors import ConfigError, needs
from graphrag_eval_async.execution.bolt import BoltDatabase
from graphrag_eval_async.execution.cypher_clauses import check_cypher
from graphrag_eval_async.execution.endpoint import Endpoint
from graphrag_eval_async.execution.outcomes import (
    Answer,
    Executed,
    QueryFailed,
    actual_queries,
    check_sparql,
    error_of,
    expects_query,
    queries_to_check,
    reference_queries,
    with_reference_prefixes,
)
from graphrag_eval_async.execution.processes import LADYBUG, OXIGRAPH, Processes
from graphrag_eval_async.execution.worker import Setup
from graphrag_eval_async.steps.queries import vocabulary
from graphrag_eval_async.steps.tokens import FORMS, MAX_QUERY_CHARACTERS, form_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.config import ExecuteConfig
    from graphrag_eval_async.execution.outcomes import Place, Query
    from graphrag_eval_async.steps import PreparedStep

CACHE_BYTES = 32 << 20
"""Maximum bytes of results of the agent's queries that are kept, since responses repeat queries."""

PARSE_SECONDS = 5.0
"""Maximum seconds for parsing a query."""

PARSE_MEMORY_BYTES = 512 << 20
"""Maximum memory of a process that parses queries, in bytes."""

PARSERS = 2
"""Number of processes that parse queries."""

MAX_LISTED = 50
"""Maximum number of predicates, of classes and of other IRIs that `query_facts` lists."""

MAX_SLOW = 4
"""Maximum number of queries of one response that take all their time.

After that, its other queries are not run, or not parsed.
"""


class Executing:
    """Runs queries by a configuration; without a configuration, it only parses them."""

    def __init__(self, config: ExecuteConfig | None, *, checks: bool) -> None:
        """Prepare to run queries.

        Args:
            config: where queries are run; None if they are not.
            checks: whether to parse the agent's queries.

        Raises:
            ConfigError: a package that this needs is missing.
        """
        self.config = config
        self._checks = checks
        # For each needed package: the key of the configuration that needs it, its name, and the
        # extra that installs it.
        needed = []
        if checks:
            needed.append(("steps.check_queries", "pyoxigraph", "rdf"))
        if config is not None:
            if config.database is not None:
                needed.append(("execute.database", "neo4j", "cypher"))
            elif config.runs_cypher:
                needed.append(("execute.graph", "ladybug", "cypher"))
            elif config.endpoint is not None:
                needed.append(("execute", "httpx", "execute"))
            else:
                needed.append(("execute", "pyoxigraph", "execute"))
        problems = [
            f"{key}: {needs(extra)}" for key, package, extra in needed if find_spec(package) is None
        ]
        if problems:
            raise ConfigError(problems)

    @property
    def fingerprint(self) -> list[Any]:
        """The settings on which results depend, besides the data."""
        config = self.config
        if config is None:
            return [self._checks]
        endpoint = None if config.endpoint is None else as_written(config.endpoint)
        settings = [
            self._checks,
            endpoint,
            config.graph,
            sorted(config.prefixes.items()),
            config.actual,
            config.allow_from,
            config.max_rows,
            config.max_bytes,
        ]
        # Options that have their defaults are left out, so that fingerprints in older journals stay
        # valid: these were written before there were such options.
        if not config.reference:
            settings.append("outputs stand")
        if config.allow_service:
            settings.append("SERVICE")
        if not config.reference_prefixes:
            settings.append("own prefixes only")
        if config.database is not None:
            database_name = as_written(config.database_name or "")
            settings += ["database", as_written(config.database), database_name]
        return settings

    def session(self) -> ExecutionSession:
        """Return a session for one stream."""
        return ExecutionSession(self.config, checks=self._checks)


def _engine_of(config: ExecuteConfig) -> BoltDatabase | Endpoint | Processes:
    """Return the engine for the database, the endpoint or the file of a configuration."""
    if config.database is not None:
        return BoltDatabase(config)
    if config.endpoint is not None:
        return Endpoint(config)
    setup = Setup(
        graph=str(config.graph),
        prefixes={name: str(iri) for name, iri in config.prefixes.items()},
        seconds=config.timeout_sec,
        max_rows=config.max_rows,
        max_bytes=config.max_bytes,
        max_memory_bytes=config.max_memory_bytes,
    )
    engine = LADYBUG if config.runs_cypher else OXIGRAPH
    return Processes(setup, config.max_in_flight, f"execute.graph: {config.graph}", engine)


def _source_of(config: ExecuteConfig) -> dict[str, str]:
    """Return where queries are run, as keys and values of the `provenance` of results."""
    if config.database is not None:
        source = {"database": as_written(config.database)}
        if config.database_name is not None:
            source["database_name"] = as_written(config.database_name)
        return source
    if config.endpoint is not None:
        return {"endpoint": as_written(config.endpoint)}
    return {"graph": str(config.graph)}


class ExecutionSession:
    """Runs and parses queries for the results of one stream.

    Connections and processes are opened before the first query.
    """

    def __init__(self, config: ExecuteConfig | None, *, checks: bool) -> None:
        """Prepare a session, without connections and processes.

        Args:
            config: where queries are run; None if they are not.
            checks: whether to parse the agent's queries.
        """
        self._config = config
        self._engine: BoltDatabase | Endpoint | Processes | None = None
        self._source: dict[str, str] = {}
        if config is not None:
            self._engine = _engine_of(config)
            self._source = _source_of(config)
        self._parsers: Processes | None = None
        if checks:
            setup = Setup(
                graph=None,
                prefixes={},
                seconds=PARSE_SECONDS,
                max_rows=1,
                max_bytes=1,
                max_memory_bytes=PARSE_MEMORY_BYTES,
            )
            self._parsers = Processes(setup, PARSERS, "steps.check_queries")
        self._opening: asyncio.Task[None] | None = None
        # Running queries, by query and by whether they are of an agent.
        self._running: dict[tuple[Query, bool], asyncio.Task[Answer | QueryFailed]] = {}
        # Outcomes of reference queries, for the whole stream.
        self._expected: dict[Query, Answer | QueryFailed] = {}
        # Outcomes of the agent's queries, the oldest first.
        self._cache: dict[Query, Answer | QueryFailed] = {}
        self._cached_bytes = 0

    async def run(
        self, groups: Sequence[Sequence[PreparedStep]], steps: Sequence[Mapping[str, Any]]
    ) -> Executed:
        """Run the reference queries that have not run yet, and the queries of a response.

        Args:
            groups: the groups of reference steps of the question.
            steps: the steps of the response.
        """
        # Find the queries, and open what runs and parses them before the first one.
        references, queries = self._find_queries(groups, steps)
        config = self._config
        to_check = queries_to_check(groups, steps) if self._parsers is not None else {}
        if references or queries or to_check:
            if self._opening is None:
                self._opening = asyncio.create_task(
                    self._open(), name="graphrag-eval-async queries"
                )
            await asyncio.shield(self._opening)

        # Run the queries. Those of steps that failed for the agent are not run again.
        expected, error = await self._run_references(references)
        outcomes: dict[int, Answer | QueryFailed] = {}
        if config is not None and config.actual and error is None:
            succeeded = {
                index: query
                for index, query in queries.items()
                if steps[index].get("status") != "error"
            }
            outcomes = await self._run_actual(succeeded)

        # Distinguish failures that are the agent's fault from others.
        invalid, facts = await self._parse(to_check, outcomes)
        for index, outcome in outcomes.items():
            if isinstance(outcome, Answer):
                continue
            if outcome.kind == "invalid":
                invalid[index] = outcome.message
            elif outcome.kind == "unavailable" and error is None:
                error = error_of(f"actual_steps[{index}]", outcome)

        # Say where and when the answers were given.
        provenance = None
        if expected:
            provenance = {**self._source, "at": min(answer.at for answer in expected.values())}
        executable = None
        if error is None:
            executable = self._is_executable(groups, queries, outcomes)
        return Executed(
            expected=expected,
            actual=outcomes,
            invalid=invalid,
            facts=facts,
            error=error,
            provenance=provenance,
            executable=executable,
        )

    def _is_executable(
        self,
        groups: Sequence[Sequence[PreparedStep]],
        queries: Mapping[int, Query],
        outcomes: Mapping[int, Answer | QueryFailed],
    ) -> float | None:
        """Return 1 if the last query of the agent has an answer; 0 if it has none, or is absent.

        Args:
            groups: the groups of reference steps of the question.
            queries: the agent's queries, by index of the step.
            outcomes: the outcomes of the queries that were run, by index of the step. A query that
                failed for the agent is not run.

        Returns:
            None if no query is expected, or if the agent's queries are not run.
        """
        config = self._config
        if config is None or not config.actual:
            return None
        if not expects_query(groups, is_cypher=config.runs_cypher):
            return None
        if not queries:
            return 0.0
        outcome_of_last = outcomes.get(max(queries))
        return float(isinstance(outcome_of_last, Answer))

    def _find_queries(
        self, groups: Sequence[Sequence[PreparedStep]], steps: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[Place, Query], dict[int, Query]]:
        """Return the reference queries by place, and the agent's queries by index of the step."""
        config = self._config
        if config is None:
            return {}, {}
        is_cypher = config.runs_cypher
        references = reference_queries(groups, is_cypher=is_cypher, replace=config.reference)
        queries = actual_queries(groups, steps, is_cypher=is_cypher)
        if config.reference_prefixes and not is_cypher:
            queries = with_reference_prefixes(queries, groups)
        return references, queries

    async def _open(self) -> None:
        """Open the engine that runs queries and the processes that parse them."""
        for engine in (self._engine, self._parsers):
            if engine is not None:
                await engine.open()

    async def _run_references(
        self, queries: Mapping[Place, Query]
    ) -> tuple[dict[Place, Answer], str | None]:
        """Run the reference queries of a question that have not run yet.

        Returns:
            the answers by place, and None. If a query has no answer: an empty dict, and the reason.
        """
        expected: dict[Place, Answer] = {}
        for place, query in queries.items():
            outcome = await self._outcome_of(query, of_agent=False)
            if isinstance(outcome, QueryFailed):
                return {}, error_of(str(place), outcome)
            expected[place] = outcome
        return expected, None

    async def _run_actual(self, queries: Mapping[int, Query]) -> dict[int, Answer | QueryFailed]:
        """Run the agent's queries in a response, and return their outcomes, by index of the step.

        Equal queries run once. After `MAX_SLOW` queries that took all their time, no more are run.
        """
        # At most `MAX_SLOW` queries run at a time, so that few are running when it is reached.
        slots = asyncio.Semaphore(MAX_SLOW)
        slow_queries: list[Query] = []

        async def run_unless_too_slow(query: Query) -> Answer | QueryFailed:
            """Run a query unless too many are in `slow_queries`; add it to these if it is slow."""
            async with slots:
                if len(slow_queries) >= MAX_SLOW:
                    message = (
                        f"not run, as {len(slow_queries)} queries of the response took too long"
                    )
                    return QueryFailed("failed", message)
                outcome = await self._outcome_of(query, of_agent=True)
                if isinstance(outcome, QueryFailed) and outcome.is_slow:
                    slow_queries.append(query)
                return outcome

        async with asyncio.TaskGroup() as tasks:
            running = {
                query: tasks.create_task(run_unless_too_slow(query))
                for query in dict.fromkeys(queries.values())
            }
        return {index: running[query].result() for index, query in queries.items()}

    async def _outcome_of(self, query: Query, *, of_agent: bool) -> Answer | QueryFailed:
        """Return the answer to a query, or its failure.

        If its outcome was kept, return that. If the query is running already, wait for that run.
        """
        known_outcomes = self._cache if of_agent else self._expected
        known_outcome = known_outcomes.get(query)
        if known_outcome is not None:
            return known_outcome
        key = (query, of_agent)
        task = self._running.get(key)
        if task is None:
            run = self._run_and_keep(query, of_agent=of_agent)
            task = asyncio.create_task(run, name="graphrag-eval-async query")
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        # A response that is cancelled must not cancel the query for others that wait for it.
        return await asyncio.shield(task)

    async def _run_and_keep(self, query: Query, *, of_agent: bool) -> Answer | QueryFailed:
        """Run a query, and return its answer or its failure.

        An outcome that another run would not change is kept: in the cache for the agent's queries,
        in `_expected` for reference queries.
        """
        assert self._engine is not None  # noqa: S101
        outcome: Answer | QueryFailed
        try:
            await self._check_before(query, of_agent=of_agent)
            outcome = await self._engine.run(query, of_agent=of_agent)
        except QueryFailed as failed:
            outcome = failed.with_traceback(None)
        if of_agent:
            if isinstance(outcome, Answer) or outcome.kind == "invalid":
                self._keep_in_cache(query, outcome)
        elif isinstance(outcome, Answer) or outcome.kind != "unavailable":
            self._expected[query] = outcome
        return outcome

    async def _check_before(self, query: Query, *, of_agent: bool) -> None:
        """Check a query before it is run.

        Raises:
            QueryFailed: the query could do more than read, or make a server fetch addresses.
        """
        config = self._config
        assert config is not None  # noqa: S101
        if config.runs_cypher:
            await asyncio.to_thread(_check_cypher_query, query)
        elif of_agent:
            allow_from = config.allow_from or config.graph is not None
            await asyncio.to_thread(
                check_sparql,
                query.text,
                allow_from=allow_from,
                allow_service=config.allow_service,
            )

    def _keep_in_cache(self, query: Query, outcome: Answer | QueryFailed) -> None:
        """Keep the outcome of an agent's query; drop the oldest ones if the cache is too large."""
        self._cache[query] = outcome
        self._cached_bytes += _size(query, outcome)
        while self._cached_bytes > CACHE_BYTES:
            oldest = next(iter(self._cache))
            self._cached_bytes -= _size(oldest, self._cache.pop(oldest))

    async def _parse(
        self, queries: Mapping[int, str], outcomes: Mapping[int, Answer | QueryFailed]
    ) -> tuple[dict[int, str], dict[int, dict[str, Any]]]:
        """Parse the agent's SPARQL queries that have no answer, and describe all of them.

        Args:
            queries: the agent's SPARQL queries, by index of the step.
            outcomes: the outcomes of queries that were run, by index of the step.

        Returns:
            two dicts by index of the step: why queries that were not run do not parse, and the
            facts about all queries.
        """
        invalid: dict[int, str] = {}
        facts: dict[int, dict[str, Any]] = {}
        current_time = asyncio.get_running_loop().time
        slow_queries = 0
        for index, query in queries.items():
            if self._parsers is None or len(query) > MAX_QUERY_CHARACTERS:
                continue
            # Describe the query.
            facts[index] = await asyncio.to_thread(_facts_of, query)
            form = facts[index]["form"]

            # Parse it, unless it is known to parse.
            if slow_queries >= MAX_SLOW or isinstance(outcomes.get(index), Answer):
                continue
            problem: str | None
            if form == "UPDATE":
                problem = "an update, not a query"
            else:
                start_time = current_time()
                problem = await self._parsers.parse(query)
                if current_time() - start_time >= PARSE_SECONDS:
                    slow_queries += 1
                if problem is not None and form is None:
                    problem = f"not a query: expected {', '.join(sorted(FORMS))}"

            # Keep the problem. If the query was run, its outcome says whether it is invalid.
            if problem is not None:
                facts[index]["error"] = problem
                if index not in outcomes:
                    invalid[index] = problem
        return invalid, facts

    async def aclose(self) -> None:
        """Stop all queries, and close connections and processes."""
        tasks: list[asyncio.Task[Any]] = [*self._running.values()]
        if self._opening is not None:
            tasks.append(self._opening)
        for task in tasks:
            task.cancel()
        # Their exceptions were seen by those who waited for them.
        await asyncio.gather(*tasks, return_exceptions=True)
        for engine in (self._engine, self._parsers):
            if engine is not None:
                await engine.aclose()


def _check_cypher_query(query: Query) -> None:
    """Check that a Cypher query only reads, and that all its parameters have values.

    Raises:
        QueryFailed: the query may do more than read, does not parse, or lacks a value.
    """
    names = check_cypher(query.text)
    missing_names = sorted(names - json.loads(query.parameters).keys())
    if missing_names:
        listed = ", ".join(f"${name}" for name in missing_names)
        raise QueryFailed("invalid", f"args.params has no value of {listed}")


def _size(query: Query, outcome: Answer | QueryFailed) -> int:
    """Return about how many bytes a query and its outcome take in memory."""
    # Python's objects themselves take some 500 bytes, and a character of a text up to 4.
    size = 500 + 4 * (len(query.text) + len(query.parameters))
    if isinstance(outcome, Answer):
        size += len(outcome.output)
    return size


def _facts_of(query: str) -> dict[str, Any]:
    """Return the form of a query, and its predicates, classes and other IRIs."""
    facts: dict[str, Any] = {"form": form_of(query)}
    for kind, iris in vocabulary(query).items():
        facts[kind] = iris[:MAX_LISTED]
    return facts
