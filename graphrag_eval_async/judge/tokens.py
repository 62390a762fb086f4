"""Counts of tokens: as servers give them, or estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import orjson

from graphrag_eval_async.judge.members import member
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.judge.protocol import Message

MESSAGE_TOKENS = 4
"""Tokens that delimit a message."""

MAX_TOKENS = 2**53
"""What no count of tokens reaches; other numbers are mistakes."""

ASCII = bytes(range(128))


def token_usage(usage: Any) -> TokenUsage | None:
    """Return the tokens that a judge says it used; None if it does not say, or gives no counts.

    Args:
        usage: a `TokenUsage` or a tuple of its counts; or the `usage` of OpenAI's Chat Completions,
            Embeddings or Responses API, as an object of the SDK or as a mapping.
    """
    if isinstance(usage, tuple | list):
        return _usage_of_counts(usage)
    input_tokens = member(usage, "prompt_tokens")
    output_tokens = member(usage, "completion_tokens") or 0  # Embeddings have none.
    details = "prompt_tokens_details"
    if input_tokens is None:
        input_tokens = member(usage, "input_tokens")
        output_tokens = member(usage, "output_tokens")
        details = "input_tokens_details"
    if not _is_count(input_tokens) or not _is_count(output_tokens):
        return None

    # Some servers do not count reasoning among the tokens of the completion, only in the total.
    reasoning = member(usage, "completion_tokens_details", "reasoning_tokens")
    if _is_count(reasoning):
        total = input_tokens + output_tokens + reasoning
        if member(usage, "total_tokens") == total:
            output_tokens += reasoning

    cached = member(usage, details, "cached_tokens")
    cached_tokens = min(cached, input_tokens) if _is_count(cached) else 0
    return TokenUsage(input_tokens, output_tokens, cached_tokens)


def _usage_of_counts(counts: Sequence[Any]) -> TokenUsage | None:
    """Return counts as a `TokenUsage`, if they are one."""
    try:
        usage = TokenUsage(*counts)
        is_valid = all(0 <= count < MAX_TOKENS for count in usage)
        is_valid = is_valid and usage.cached_tokens <= usage.input_tokens
    except TypeError:  # Too many of them, or no numbers.
        return None
    return usage if is_valid else None


def _is_count(value: Any) -> TypeGuard[int]:
    """Whether a value is a number of tokens."""
    return type(value) is int and 0 <= value < MAX_TOKENS


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for 4 ASCII characters or for 3 bytes of others, rounded
    up.
    """
    return _estimate(text.encode("utf-8", "surrogatepass"))


def estimate_prompt(messages: Sequence[Message], schema: Mapping[str, Any]) -> int:
    """Estimate the tokens of a conversation, including the schema of the reply."""
    texts = sum(estimate_tokens(message["content"]) + MESSAGE_TOKENS for message in messages)
    return texts + _estimate(orjson.dumps(schema))


def estimate_reply(reply: Any) -> int:
    """Estimate the tokens of a reply; 0 if it is not JSON."""
    try:
        return _estimate(orjson.dumps(reply))
    except TypeError:
        return 0


def _estimate(data: bytes) -> int:
    """Estimate the tokens of a text in UTF-8."""
    other = len(data.translate(None, ASCII))
    ascii_characters = len(data) - other
    twelfths = 3 * ascii_characters + 4 * other
    return -(-twelfths // 12)
