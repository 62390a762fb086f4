"""A server of ArcadeDB of a test's own, which speaks Bolt; from the extra `test-bolt`.

It ignores that a session is for reading, ignores timeouts, and reads local files.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

USER = "root"
PASSWORD = "a-word-of-the-test"  # noqa: S105
DATABASE = "films"

SECONDS = 60.0
"""Maximum time until the server answers."""


@dataclass(frozen=True)
class ArcadeServer:
    """Where the server is."""

    address: str

    def write(self, statements: Sequence[str]) -> None:
        """Run statements that write, in a session for reading."""
        import neo4j

        auth = (USER, PASSWORD)
        with neo4j.GraphDatabase.driver(self.address, auth=auth) as driver:
            access = neo4j.READ_ACCESS
            with driver.session(database=DATABASE, default_access_mode=access) as session:
                for statement in statements:
                    session.run(neo4j.Query(statement)).consume()


@contextmanager
def arcade_server(directory: Path) -> Iterator[ArcadeServer]:
    """Run a server with its data in a directory.

    Skips the test where ArcadeDB is not installed.
    """
    package = pytest.importorskip("arcadedb_embedded", reason="needs the extra test-bolt")
    root = Path(package.__file__).parent
    port = free_port()
    settings = {
        "arcadedb.server.rootPath": directory,
        "arcadedb.server.rootPassword": PASSWORD,
        "arcadedb.server.defaultDatabases": f"{DATABASE}[{USER}]",
        "arcadedb.server.httpIncomingHost": "127.0.0.1",
        "arcadedb.server.httpIncomingPort": free_port(),
        "arcadedb.server.plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
        "arcadedb.bolt.host": "127.0.0.1",
        "arcadedb.bolt.port": port,
    }
    command = [
        f"{root / 'jre' / 'bin' / 'java'}",
        "-Xmx400m",
        "--add-modules",
        "jdk.incubator.vector",
        *(f"-D{name}={value}" for name, value in settings.items()),
        "-cp",
        f"{root / 'jars'}/*",
        "com.arcadedb.server.ArcadeDBServer",
    ]
    (directory / "log").mkdir()
    with open(directory / "server.log", "wb") as log:
        process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=subprocess.STDOUT)
    try:
        server = ArcadeServer(f"bolt://127.0.0.1:{port}")
        _wait_until_it_answers(server, process)
        yield server
    finally:
        process.kill()
        process.wait(SECONDS)


def _wait_until_it_answers(server: ArcadeServer, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server answers a query."""
    from neo4j.exceptions import DriverError, Neo4jError

    end = time.monotonic() + SECONDS
    while True:
        assert process.poll() is None, "ArcadeDB ended"
        assert time.monotonic() < end, "ArcadeDB does not answer"
        try:
            server.write(["RETURN 1"])
        except (DriverError, Neo4jError):
            time.sleep(0.1)
        else:
            return
