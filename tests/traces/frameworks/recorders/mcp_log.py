"""MCP: the messages between a client and a server in Python."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from mcp.server import MCPServer

from tests.traces.frameworks.recorders.scenario import CALLS, Recording, framework
from tests.traces.scenario import PROBLEM, RESULTS

CLIENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "c", "version": "1"},
}


def serve() -> None:
    """Run the server on standard input and output."""
    server = MCPServer("grid")

    @server.tool()
    def sparql_query(query: str) -> str:
        """Run a query."""
        return RESULTS

    @server.tool()
    def retrieval_search(text: str, k: int) -> str:
        """Search texts."""
        raise ConnectionError(PROBLEM)

    server.run()


async def record() -> list[Recording]:
    """Return the recorded histories."""
    requests: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": CLIENT},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    for number, (_, name, args) in enumerate(CALLS, start=1):
        params = {"name": name, "arguments": args}
        requests.append({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})

    messages = []
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for request in requests:
            messages.append(request)
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
            if "id" in request:
                messages.append(json.loads(server.stdout.readline()))
        server.stdin.close()
    return [Recording(framework("mcp"), "mcp", "messages of JSON-RPC", messages)]


if __name__ == "__main__":
    serve()
