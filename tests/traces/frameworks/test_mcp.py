from __future__ import annotations

from typing import Any

import anyio
import pytest

from graphrag_eval_async.traces import response_from_mcp, response_from_trace
from tests.traces.frameworks.support import check
from tests.traces.scenario import PROBLEM, RESULTS, STEPS

pytest.importorskip("mcp", reason="needs the extra test-traces")

from mcp import Client, JSONRPCRequest, JSONRPCResponse
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]


def server() -> MCPServer:
    made = MCPServer("kg")

    @made.tool()
    def sparql_query(query: str) -> str:
        return RESULTS

    @made.tool()
    def retrieval_search(text: str, k: int) -> str:
        raise ToolError(PROBLEM)

    return made


async def conversation() -> list[Any]:
    """The messages between a client that makes both calls and the server."""
    messages: list[Any] = []
    async with Client(server()) as client:
        for step in STEPS:
            params = {"name": step["name"], "arguments": step["args"]}
            result = await client.call_tool(*params.values())
            dumped = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            call = {"jsonrpc": "2.0", "id": len(messages)}
            messages.append(JSONRPCRequest(**call, method="tools/call", params=params))
            messages.append(JSONRPCResponse(**call, result=dumped))
    return messages


async def test_messages() -> None:
    with anyio.fail_after(20):
        messages = await conversation()
    dumped = [message.model_dump(mode="json", by_alias=True, exclude_none=True) for message in messages]
    for given in (messages, dumped):
        for read in (response_from_mcp, response_from_trace):
            await check(read(given), ids=False, question=False, answer=None)
