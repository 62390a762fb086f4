"""A process that runs Cypher queries on a file of Ladybug.

Some queries crash Ladybug, such as `RETURN nodes(null)` in 0.22. So it runs in a process, where a
query can do no harm.
"""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.execution.cypher_values import CypherResultWriter, typed_by_ladybug
from graphrag_eval_async.execution.outcomes import QueryFailed
from graphrag_eval_async.execution.worker import Reply, Request, Setup, serve, short_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.execution.outcomes import Kind

MIN_MAPPED_BYTES = 1 << 26
"""Minimum size that a database may have, in bytes. Ladybug reserves that much address space."""

FAILURES: dict[str, Kind] = {
    "Parser exception": "invalid",
    # A name that does not exist, or a type that does not fit.
    "Binder exception": "invalid",
    "Catalog exception": "invalid",
    "Connection exception: Cannot execute write operations": "refused",
}
"""How a query failed, by the beginning of Ladybug's message. With another message, it "failed"."""

INTERRUPTED = "Interrupted."
"""Ladybug's message after its timeout."""


def main() -> None:
    """Open the file, and answer requests until the end of the input."""
    serve(_open)


def _open(setup: Setup) -> Callable[[Request], Reply]:
    """Open the file read-only, and return a function that runs a query on it.

    Raises:
        RuntimeError: Ladybug cannot open it.
    """
    import ladybug

    assert setup.graph is not None  # noqa: S101
    # Without these limits, Ladybug reserves 8 TB of address space and most of the memory. The size
    # must be a power of 2.
    mapped_bytes = MIN_MAPPED_BYTES
    while mapped_bytes < 2 * os.path.getsize(setup.graph):
        mapped_bytes *= 2
    database = ladybug.Database(
        setup.graph,
        read_only=True,
        max_db_size=mapped_bytes,
        buffer_pool_size=max(setup.max_memory_bytes // 2, MIN_MAPPED_BYTES),
        # Several processes run at a time, so each gets one thread.
        max_num_threads=1,
    )
    connection = ladybug.Connection(database, num_threads=1)
    # Let it open and allocate all that it needs, since no file can be opened later.
    _run(connection, setup, Request("RETURN 1"))
    return partial(_answer, connection, setup)


def _answer(connection: Any, setup: Setup, request: Request) -> Reply:
    """Run a query, and return the reply with its result or its failure."""
    try:
        return Reply(_run(connection, setup, request))
    except QueryFailed as failed:
        return Reply(failed.message, failure=failed.kind)
    except MemoryError:
        return Reply("it needs too much memory", failure="failed")
    except RuntimeError as error:
        return _failure(short_message(error), setup)


def _run(connection: Any, setup: Setup, request: Request) -> str:
    """Run a query, and return its result as typed JSON text.

    Raises:
        QueryFailed: the query returns too much, or is more than one statement.
        RuntimeError: Ladybug cannot run it.
    """
    connection.set_query_timeout(round(1000 * setup.seconds))
    result = connection.execute(request.query, json.loads(request.parameters))
    if isinstance(result, list):
        raise QueryFailed("refused", "it has more than one statement")
    with result:
        writer = CypherResultWriter(
            result.get_column_names(),
            typed_by_ladybug,
            max_rows=setup.max_rows,
            max_bytes=setup.max_bytes,
        )
        while result.has_next():
            writer.add(result.get_next())
    return writer.text()


def _failure(message: str, setup: Setup) -> Reply:
    """Return the reply to a query that Ladybug could not run.

    Args:
        message: Ladybug's message, by which failures are distinguished.
        setup: the settings of the process.
    """
    if message.startswith(INTERRUPTED):
        return Reply(f"it took more than {setup.seconds:g} s", failure="failed", is_slow=True)
    if "bad_alloc" in message or message.startswith("Buffer manager exception"):
        return Reply("it needs too much memory", failure="failed")
    for beginning, kind in FAILURES.items():
        if message.startswith(beginning):
            return Reply(message, failure=kind)
    return Reply(message, failure="failed")


if __name__ == "__main__":
    main()
