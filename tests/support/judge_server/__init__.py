"""A server that speaks the OpenAI protocol, replies by script and misbehaves on command."""

from tests.support.judge_server.faults import FAULTS
from tests.support.judge_server.replies import (
    NEVER,
    Reply,
    Request,
    completion,
    embeddings,
    error,
    json_reply,
    reply_to,
)
from tests.support.judge_server.server import JudgeServer, Script

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
