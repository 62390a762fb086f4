"""A server that speaks the OpenAI protocol, replies by script and misbehaves on command.

::

    def script(request):
        return FAULTS["500"](request) if request.attempt == 0 else reply_to(request)

    async with JudgeServer(script) as server:
        ...  # a client of server.base_url
        assert server.counts.connections == 0

``python -m tests.judge_server`` runs it in a process of its own.
"""

from tests.judge_server.faults import CHAT_FAULTS, EMBEDDING_FAULTS, FAULTS, HTTP_FAULTS, random_faults
from tests.judge_server.messages import CutOff, Drip, Fault, Never, Once, Reply, Request, Reset
from tests.judge_server.replies import completion, embeddings, error, json_reply, reply_to, sample
from tests.judge_server.server import Counts, JudgeServer, Script

__all__ = [
    "CHAT_FAULTS",
    "EMBEDDING_FAULTS",
    "FAULTS",
    "HTTP_FAULTS",
    "Counts",
    "CutOff",
    "Drip",
    "Fault",
    "JudgeServer",
    "Never",
    "Once",
    "Reply",
    "Request",
    "Reset",
    "Script",
    "completion",
    "embeddings",
    "error",
    "json_reply",
    "random_faults",
    "reply_to",
    "sample",
]
