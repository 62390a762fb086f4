"""A server that speaks the OpenAI protocol, replies by script and misbehaves on command.

::

    def script(request):
        return FAULTS["500"](request) if request.attempt == 0 else reply_to(request)

    async with JudgeServer(script) as server:
        ...  # a client of server.base_url
        assert server.counts.connections == 0
"""

from tests.judge_server.faults import FAULTS
from tests.judge_server.replies import (
    NEVER,
    Reply,
    Request,
    completion,
    embeddings,
    error,
    json_reply,
    reply_to,
)
from tests.judge_server.server import JudgeServer, Script

__all__ = [
    "FAULTS",
    "NEVER",
    "JudgeServer",
    "Reply",
    "Request",
    "Script",
    "completion",
    "embeddings",
    "error",
    "json_reply",
    "reply_to",
]
