"""Cypher queries on a database that speaks Bolt, by Neo4j's driver.

Sessions have read access, but some servers ignore that; `cypher_clauses` refuses what does more
than read.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
from time import monotonic
from typing import TYPE_CHECKING

from graphrag_eval_async.catalogue.media_types import CYPHER_RESULTS
from graphrag_eval_async.config import as_written, secrets
from graphrag_eval_async.errors import ExecutionUnavailable
from graphrag_eval_async.execution.attempts import (
    MAX_CONNECT_SECONDS,
    PAUSES,
    PROBE_SECONDS,
    TIMEOUT_WORDS,
)
from graphrag_eval_async.execution.cypher_values import CypherResultWriter, typed_by_driver
from graphrag_eval_async.execution.outcomes import Answer, Query, QueryFailed, now
from graphrag_eval_async.helpers.threads import SLICE_SECONDS
from graphrag_eval_async.judge.scrubber import Scrubber
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    import neo4j
    from neo4j.exceptions import Neo4jError

    from graphrag_eval_async.config import ExecuteConfig

PROBE = Query("RETURN 1")
"""A query that takes no time, to ask whether the database answers."""

ROWS_AT_A_TIME = 100
"""Number of rows to fetch at a time. The driver decodes them without a pause for other tasks."""

MAX_REASON = 400
"""Maximum number of characters that are quoted of a database's message."""

SYNTAX_TITLES = frozenset({"SyntaxError", "SemanticError", "ParameterMissing", "ProcedureNotFound"})
"""Last parts of Neo4j's status codes of queries that do not parse, or name what does not exist."""

SYNTAX_WORDS = ("syntax error", "mismatched input", "no viable alternative", "extraneous input")
"""What databases without codes of Neo4j say, in lower case, if a query does not parse."""

REFUSAL_TITLES = frozenset({"Forbidden", "ForbiddenOnReadOnlyDatabase", "AccessMode"})
"""Last parts of Neo4j's status codes of queries that the account or the session may not run."""

TIMEOUT_TITLES = frozenset(
    {
        "TransactionTimedOut",
        "TransactionTimedOutClientConfiguration",
        "TransactionTerminated",
        "Terminated",
    }
)
"""Last parts of Neo4j's status codes of queries that took too long for the server."""


class BoltDatabase:
    """Runs Cypher queries on a database that speaks Bolt."""

    def __init__(self, config: ExecuteConfig) -> None:
        """Prepare to run queries, without connecting."""
        assert config.database is not None  # noqa: S101
        self._config = config
        self._address = config.database
        self._scrub = Scrubber(secrets(config))
        self._slots = asyncio.Semaphore(config.max_in_flight)
        self._driver: neo4j.AsyncDriver | None = None

    async def open(self) -> None:
        """Prepare the driver, and check that the database answers.

        Raises:
            ExecutionUnavailable: the database does not answer.
        """
        if self._driver is None:
            # The import takes some 0.3 s.
            await asyncio.to_thread(_import_driver)
            self._driver = self._new_driver()
        try:
            await self._probe()
        except QueryFailed as failed:
            place = f"execute.database: {as_written(self._address)}"
            raise ExecutionUnavailable(f"{place}: {failed.message}") from None

    def _new_driver(self) -> neo4j.AsyncDriver:
        """Return a driver with the settings of the configuration; it is not connected yet."""
        import neo4j

        config = self._config
        auth = None
        if config.username is not None:
            auth = neo4j.basic_auth(str(config.username), str(config.password))
        return neo4j.AsyncGraphDatabase.driver(
            str(self._address),
            auth=auth,
            user_agent=f"graphrag-eval-async/{version()}",
            # This ends before the time of the query does. Otherwise, the query would be to blame if
            # no connection can be made.
            connection_timeout=min(MAX_CONNECT_SECONDS, config.timeout_sec / 2),
            # One more connection is for probes.
            max_connection_pool_size=config.max_in_flight + 1,
            telemetry_disabled=True,
        )

    async def run(self, query: Query, *, of_agent: bool = False) -> Answer:  # noqa: ARG002
        """Run a query, and try again if the database says that it fails only for the moment.

        `of_agent` makes no difference.

        Raises:
            QueryFailed: the query has no answer. It is only to blame for taking too long if the
                database answers a probe afterwards.
        """
        start_time = now()
        async with self._slots:
            failed = None
            for pause in (0.0, *PAUSES):
                await asyncio.sleep(pause)
                try:
                    text = await self._attempt(query, self._config.timeout_sec)
                except QueryFailed as error:
                    failed = error.with_traceback(None)
                else:
                    return Answer(text, CYPHER_RESULTS, start_time)
                can_succeed_later = failed.wait is not None
                if not can_succeed_later:
                    break
            assert failed is not None  # noqa: S101
            if failed.is_slow or failed.is_suspect:
                failed = await self._blame(failed)
        raise failed

    async def _blame(self, failed: QueryFailed) -> QueryFailed:
        """Decide who is to blame for the failure of a query that may take too much time or memory.

        Returns:
            the failure, of the kind "failed" if the database answers a probe, so that the query is
            to blame; otherwise of the kind "unavailable".
        """
        try:
            await self._probe()
        except QueryFailed:
            message = f"{failed.message}, and the database does not answer {PROBE.text}"
            return QueryFailed("unavailable", message)
        return QueryFailed("failed", failed.message, is_slow=failed.is_slow)

    async def _probe(self) -> None:
        """Check that the database answers a query that takes no time.

        Raises:
            QueryFailed: it does not.
        """
        await self._attempt(PROBE, min(PROBE_SECONDS, self._config.timeout_sec))

    async def _attempt(self, query: Query, seconds: float) -> str:
        """Run a query once, and return its result as typed JSON text.

        Raises:
            QueryFailed: the query has no result, or none within `seconds`.
        """
        import neo4j
        from neo4j.exceptions import DriverError, Neo4jError

        assert self._driver is not None  # noqa: S101
        config = self._config
        database_name = None if config.database_name is None else str(config.database_name)
        session = self._driver.session(
            database=database_name,
            default_access_mode=neo4j.READ_ACCESS,
            fetch_size=ROWS_AT_A_TIME,
        )
        is_finished = False
        try:
            # The driver sends a timeout, too, but some servers ignore it.
            async with asyncio.timeout(seconds):
                text = await self._fetch(session, query, seconds)
                await session.close()
            is_finished = True
        except TimeoutError:
            raise QueryFailed("failed", f"it took more than {seconds:g} s", is_slow=True) from None
        except (DriverError, Neo4jError, OSError, ValueError) as error:
            raise self._failure(error) from None
        finally:
            if not is_finished:
                # This closes the connection at once, without waiting for the rest of the result.
                session.cancel()
                await session.close()
        return text

    async def _fetch(self, session: neo4j.AsyncSession, query: Query, seconds: float) -> str:
        """Run a query in a session, and return its result as typed JSON text.

        Raises:
            QueryFailed: the result is too large.
        """
        import neo4j

        statement = neo4j.Query(query.text, timeout=seconds)
        result = await session.run(statement, json.loads(query.parameters))
        writer = CypherResultWriter(
            result.keys(),
            typed_by_driver,
            max_rows=self._config.max_rows,
            max_bytes=self._config.max_bytes,
        )
        slice_end = monotonic() + SLICE_SECONDS
        async for record in result:
            writer.add(record.values())
            # Rows that have arrived already are returned without a pause, so let other tasks run.
            if monotonic() >= slice_end:
                await asyncio.sleep(0)
                slice_end = monotonic() + SLICE_SECONDS
        return writer.text()

    def _failure(self, error: Exception) -> QueryFailed:
        """Return the failure that an exception of Neo4j's driver means."""
        from neo4j.exceptions import Neo4jError, ServiceUnavailable, SessionExpired

        reason = self._scrub(str(getattr(error, "message", None) or error), limit=MAX_REASON)
        if isinstance(error, Neo4jError):
            return _failure_of_database(error, reason)
        if isinstance(error, ServiceUnavailable | SessionExpired | OSError):
            message = f"it cannot be reached: {_reason_without_address(error)}"
            return QueryFailed("unavailable", message, wait=0)
        return QueryFailed("unavailable", f"{type(error).__name__}: {reason}")

    async def aclose(self) -> None:
        """Close all connections."""
        driver = self._driver
        self._driver = None
        if driver is not None:
            await driver.close()


def _failure_of_database(error: Neo4jError, reason: str) -> QueryFailed:
    """Return the failure that an error of a database means, by its status code and message.

    Args:
        error: the error. Neo4j's status codes are like Neo.ClientError.Statement.SyntaxError; other
            databases have other codes.
        reason: the message of the database, without secrets.
    """
    from neo4j.exceptions import TransientError

    category, _, title = str(error.code).removeprefix("Neo.").rpartition(".")
    lowered = reason.lower()
    says_syntax = any(words in lowered for words in SYNTAX_WORDS)
    says_timeout = any(words in lowered for words in TIMEOUT_WORDS)
    if title in REFUSAL_TITLES:
        return QueryFailed("refused", f"the database refuses it: {reason}")
    if category == "ClientError.Security":
        return QueryFailed("unavailable", f"{reason}; check username and password")
    if category == "ClientError.Database":
        return QueryFailed("unavailable", f"{reason}; check database_name")
    if title in SYNTAX_TITLES or says_syntax:
        return QueryFailed("invalid", reason)
    if title in TIMEOUT_TITLES or says_timeout:
        return QueryFailed("failed", f"it took too long: {reason}", is_slow=True)
    if isinstance(error, TransientError):
        message = f"the database is overloaded: {reason}"
        # A query may take all the memory, for which the database blames itself.
        is_suspect = "OutOfMemory" in title
        return QueryFailed("unavailable", message, wait=0, is_suspect=is_suspect)
    return QueryFailed("failed", reason)


def _reason_without_address(error: BaseException) -> str:
    """Return why a database cannot be reached, such as "Connection refused".

    The messages of the driver hold addresses, which may be secret. So only the name of the
    exception is used, or what the operating system or TLS say.
    """
    cause: BaseException | None = error
    # The first cause of these types is used.
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed: {cause.reason or type(cause).__name__}"
        if isinstance(cause, socket.gaierror):
            return "the host is unknown"
        if isinstance(cause, OSError) and cause.errno is not None:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def _import_driver() -> None:
    """Import Neo4j's driver, so that later imports of it take no time."""
    import neo4j  # noqa: F401
