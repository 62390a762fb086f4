"""The LLM side: the seam, the client behind it, limits, prices, cache and counts."""

from graphrag_eval_async.judge.protocol import Judge, Message
from graphrag_eval_async.judge.usage import JudgeUsage
from graphrag_eval_async.records.token_usage import TokenUsage

__all__ = ["Judge", "JudgeUsage", "Message", "TokenUsage"]
