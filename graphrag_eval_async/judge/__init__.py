"""The LLM side: the seam, the client behind it, limits, prices, cache and counts."""

from graphrag_eval_async.errors import TokenUsage
from graphrag_eval_async.judge.protocol import Judge, Message
from graphrag_eval_async.judge.session import JudgeSession
from graphrag_eval_async.judge.usage import JudgeUsage

__all__ = ["Judge", "JudgeSession", "JudgeUsage", "Message", "TokenUsage"]
