"""The LLM judge: protocol, client, limits, prices, cache and usage counts."""

from graphrag_eval_async.judge.protocol import Judge, Message
from graphrag_eval_async.judge.usage import JudgeUsage
from graphrag_eval_async.records.token_usage import TokenUsage

__all__ = ["Judge", "JudgeUsage", "Message", "TokenUsage"]
