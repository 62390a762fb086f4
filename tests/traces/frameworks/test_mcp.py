from __future__ import annotations

from typing import Any

import anyio
import pytest

from graphrag_eval_async.traces import response_from_mcp, response_from_trace
from tests.traces.frameworks.support import check
from tests.traces.scenario import PROBLEM, RESULTS, STEPS

pytest.importorskip("mcp", reason="needs the extra test-traces")

from mcp import ClientSession
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.memory import create_client_server_memory_streams

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


class Recorded:
    """A stream that keeps what is sent."""

    def __init__(self, stream: Any, messages: list[Any]) -> None:
        self._stream = stream
        self._messages = messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    async def send(self, item: Any) -> None:
        self._messages.append(item.message)
        await self._stream.send(item)


async def conversation(calls: list[dict[str, Any]]) -> list[Any]:
    """The messages between a client that makes these calls and the server."""
    messages: list[Any] = []
    inner = server()._lowlevel_server
    async with create_client_server_memory_streams() as (mine, theirs), anyio.create_task_group() as tasks:
        told = Recorded(theirs[1], messages)
        tasks.start_soon(lambda: inner.run(theirs[0], told, inner.create_initialization_options()))
        async with ClientSession(mine[0], Recorded(mine[1], messages)) as session:
            await session.initialize()
            await session.list_tools()
            for call in calls:
                await session.call_tool(call["name"], call["args"])
        tasks.cancel_scope.cancel()
    return messages


FORMS: dict[str, Any] = {
    "objects": lambda messages: messages,
    "dumped": lambda messages: [
        message.model_dump(mode="json", by_alias=True, exclude_none=True) for message in messages
    ],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("read", [response_from_mcp, response_from_trace])
async def test_messages(form: str, read: Any) -> None:
    with anyio.fail_after(20):
        messages = FORMS[form](await conversation(STEPS))
    await check(read(messages), ids=False, question=False, answer=None)
