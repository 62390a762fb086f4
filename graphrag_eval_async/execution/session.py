"""Runs and checks the queries of streams: each reference query once, and those of the agent."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import ConfigError, needs
from graphrag_eval_async.execution.endpoint import Endpoint, shown_address
from graphrag_eval_async.execution.engine import Setup
from graphrag_eval_async.execution.outcomes import (
    Answer,
    Executed,
    QueryFailed,
    actual_queries,
    check_query,
    error_of,
    queries_to_check,
    reference_queries,
)
from graphrag_eval_async.execution.processes import Processes
from graphrag_eval_async.steps.queries import vocabulary
from graphrag_eval_async.steps.tokens import FORMS, MAX_QUERY_CHARACTERS, form_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.config import ExecuteConfig
    from graphrag_eval_async.execution.outcomes import Place
    from graphrag_eval_async.steps import PreparedStep

CACHE_BYTES = 32 << 20
"""Maximum bytes of results of the agent's queries that are kept, since responses repeat queries."""

# Limits of the processes that parse queries.
PARSE_SECONDS = 5.0
PARSE_MEMORY_BYTES = 512 << 20
PARSERS = 2
MAX_LISTED = 50  # Maximum predicates, classes and other IRIs listed in `query_facts`, of each.

MAX_SLOW = 4
"""After so many queries of one response that took all their time, its others are not run, or not
parsed.
"""


class Executing:
    """Runs queries as `config` says; without one, it only parses them."""

    def __init__(self, config: ExecuteConfig | None, *, checks: bool) -> None:
        """Check that the packages are there."""
        self.config, self._checks = config, checks
        wanted = [("steps.check_queries", "pyoxigraph", "rdf")] if checks else []
        if config is not None:
            wanted.append(
                ("execute", "pyoxigraph" if config.endpoint is None else "httpx", "execute")
            )
        problems = [
            f"{key}: {needs(extra)}" for key, package, extra in wanted if find_spec(package) is None
        ]
        if problems:
            raise ConfigError(problems)

    @property
    def fingerprint(self) -> list[Any]:
        """Settings that change the results of equal data."""
        config = self.config
        if config is None:
            return [self._checks]
        endpoint = None if config.endpoint is None else shown_address(config)
        source = [endpoint, config.graph, sorted(config.prefixes.items())]
        own = [
            self._checks,
            *source,
            config.actual,
            config.allow_from,
            config.max_rows,
            config.max_bytes,
        ]
        others = {"outputs stand": not config.reference, "SERVICE": config.allow_service}
        return [*own, *(name for name, is_on in others.items() if is_on)]

    def session(self) -> ExecutionSession:
        """Return a session for one stream."""
        return ExecutionSession(self.config, checks=self._checks)


class ExecutionSession:
    """Runs and parses queries for the results of one stream; opened with the first."""

    def __init__(self, config: ExecuteConfig | None, *, checks: bool) -> None:
        self._config = config
        self._engine: Endpoint | Processes | None = None
        self._source: dict[str, str] = {}
        if config is not None and config.endpoint is not None:
            self._engine = Endpoint(config)
            self._source = {"endpoint": shown_address(config)}
        elif config is not None:
            graph, prefixes = (
                str(config.graph),
                {name: str(iri) for name, iri in config.prefixes.items()},
            )
            limits = config.timeout_sec, config.max_rows, config.max_bytes, config.max_memory_bytes
            setup = Setup(graph, prefixes, *limits)
            self._engine = Processes(setup, config.max_in_flight, f"execute.graph: {config.graph}")
            self._source = {"graph": graph}
        parsing = Setup(None, {}, PARSE_SECONDS, 1, 1, PARSE_MEMORY_BYTES)
        self._parsers = Processes(parsing, PARSERS, "steps.check_queries") if checks else None
        self._opening: asyncio.Task[None] | None = None
        self._running: dict[tuple[str, bool], asyncio.Task[Answer | QueryFailed]] = {}
        # Of reference queries, for the whole stream.
        self._expected: dict[str, Answer | QueryFailed] = {}
        self._cache: dict[str, Answer | QueryFailed] = {}
        self._cached_bytes = 0

    async def run(
        self, groups: Sequence[Sequence[PreparedStep]], steps: Sequence[Mapping[str, Any]]
    ) -> Executed:
        """Run the reference queries that have not run yet, and the queries of a response."""
        replace = self._config is None or self._config.reference
        queries, references = (
            actual_queries(groups, steps),
            reference_queries(groups, replace=replace),
        )
        to_check = queries_to_check(groups, steps) if self._parsers is not None else {}
        if references or queries or to_check:
            if self._opening is None:
                self._opening = asyncio.create_task(
                    self._open(), name="graphrag-eval-async queries"
                )
            await asyncio.shield(self._opening)
        expected, error = await self._fetch(references)
        runs = self._config is not None and self._config.actual and error is None
        succeeded = {
            i: query for i, query in queries.items() if runs and steps[i].get("status") != "error"
        }
        outcomes = await self._outcomes(succeeded)
        failed = {i: outcome for i, outcome in outcomes.items() if isinstance(outcome, QueryFailed)}
        unavailable = (i for i, outcome in failed.items() if outcome.kind == "unavailable")
        if (index := next(unavailable, None)) is not None:
            error = error_of(f"actual_steps[{index}]", failed[index])
        invalid, facts = await self._check(to_check, outcomes)
        invalid |= {
            i: outcome.message for i, outcome in failed.items() if outcome.kind == "invalid"
        }
        at = min((answer.at for answer in expected.values()), default=None)
        provenance = None if at is None else {**self._source, "at": at}
        return Executed(expected, outcomes, invalid, facts, error, provenance)

    async def _open(self) -> None:
        for engine in (self._engine, self._parsers):
            if engine is not None:
                await engine.open()

    async def _fetch(self, queries: Mapping[Place, str]) -> tuple[dict[Place, Answer], str | None]:
        """Return what the reference queries return, and why one of them has no answer."""
        expected: dict[Place, Answer] = {}
        for (group, index), query in queries.items() if self._engine is not None else ():
            outcome = await self._outcome(query, of_agent=False)
            if isinstance(outcome, QueryFailed):
                return {}, error_of(f"reference_steps[{group}][{index}]", outcome)
            expected[group, index] = outcome
        return expected, None

    async def _outcomes(self, queries: Mapping[int, str]) -> dict[int, Answer | QueryFailed]:
        """The outcomes of the agent's queries, equal ones run once."""
        at_once, slow = asyncio.Semaphore(MAX_SLOW), 0

        async def outcome(text: str) -> Answer | QueryFailed:
            nonlocal slow
            async with at_once:
                if slow >= MAX_SLOW:
                    return QueryFailed(
                        "failed", f"not run, as {slow} queries of the response took too long"
                    )
                found = await self._outcome(text, of_agent=True)
                slow += isinstance(found, QueryFailed) and found.is_slow
                return found

        async with asyncio.TaskGroup() as tasks:
            running = {
                text: tasks.create_task(outcome(text)) for text in dict.fromkeys(queries.values())
            }
        return {index: running[text].result() for index, text in queries.items()}

    async def _outcome(self, query: str, *, of_agent: bool) -> Answer | QueryFailed:
        """The answer to a query, or why it has none; a query that is running is not run again."""
        if (known := (self._cache if of_agent else self._expected).get(query)) is not None:
            return known
        key = query, of_agent
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(query, of_agent), name="graphrag-eval-async query")
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        return await asyncio.shield(task)

    async def _ask(self, query: str, of_agent: bool) -> Answer | QueryFailed:
        assert self._engine is not None and self._config is not None  # noqa: PT018, S101
        outcome: Answer | QueryFailed
        try:
            if of_agent:
                config = self._config
                allow_from = config.allow_from or config.graph is not None
                await asyncio.to_thread(
                    check_query, query, allow_from=allow_from, allow_service=config.allow_service
                )
            outcome = await self._engine.run(query, of_agent=of_agent)
        except QueryFailed as failed:
            outcome = failed.with_traceback(None)
        if not of_agent and not (
            isinstance(outcome, QueryFailed) and outcome.kind == "unavailable"
        ):
            self._expected[query] = outcome
        elif of_agent and (isinstance(outcome, Answer) or outcome.kind == "invalid"):
            self._cache[query] = outcome
            self._cached_bytes += _size(query, outcome)
            while self._cached_bytes > CACHE_BYTES:
                oldest = next(iter(self._cache))
                self._cached_bytes -= _size(oldest, self._cache.pop(oldest))
        return outcome

    async def _check(
        self, queries: Mapping[int, str], outcomes: Mapping[int, Answer | QueryFailed]
    ) -> tuple[dict[int, str], dict[int, dict[str, Any]]]:
        """Why queries that were not run do not parse, and what all consist of, by index of the
        step.
        """
        invalid: dict[int, str] = {}
        facts: dict[int, dict[str, Any]] = {}
        slow, time = 0, asyncio.get_running_loop().time
        for index, query in queries.items():
            if self._parsers is None or len(query) > MAX_QUERY_CHARACTERS:
                continue
            facts[index] = await asyncio.to_thread(_facts_of, query)
            if slow >= MAX_SLOW or isinstance(outcomes.get(index), Answer):
                continue
            problem: str | None = "an update, not a query"
            if facts[index]["form"] != "UPDATE":
                began = time()
                problem = await self._parsers.parse(query)
                slow += time() - began >= PARSE_SECONDS
                if problem is not None and facts[index]["form"] is None:
                    problem = f"not a query: expected {', '.join(sorted(FORMS))}"
            if problem is not None:
                facts[index]["error"] = problem
                invalid |= {} if index in outcomes else {index: problem}
        return invalid, facts

    async def aclose(self) -> None:
        """Stop all queries, and close connections and processes."""
        tasks = [*self._running.values(), *filter(None, [self._opening])]
        for task in tasks:
            task.cancel()
        # They were seen by those who waited for them.
        await asyncio.gather(*tasks, return_exceptions=True)
        for engine in (self._engine, self._parsers):
            if engine is not None:
                await engine.aclose()


def _size(query: str, outcome: Answer | QueryFailed) -> int:
    return 500 + 4 * len(query) + (len(outcome.output) if isinstance(outcome, Answer) else 0)


def _facts_of(query: str) -> dict[str, Any]:
    """The form of a query, and its predicates, classes and other IRIs."""
    listed = {kind: iris[:MAX_LISTED] for kind, iris in vocabulary(query).items()}
    return {"form": form_of(query)} | listed
