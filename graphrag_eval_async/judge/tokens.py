"""Counts of tokens: as servers give them, or estimated."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, TypeGuard

import orjson

from graphrag_eval_async.judge.fields import get_field
from graphrag_eval_async.records.token_usage import TokenUsage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.judge.protocol import Message

MESSAGE_TOKENS = 4
"""Tokens that delimit a message."""

MAX_TOKENS = 2**53
"""More than any count of tokens can be; greater numbers are mistakes of a server."""

ASCII = bytes(range(128))


def read_token_usage(usage: Any) -> TokenUsage | None:
    """Return the token counts that a judge reports for a reply; None if it reports no valid counts.

    Args:
        usage: a `TokenUsage` or a tuple of its counts; or the `usage` of OpenAI's Chat Completions,
            Embeddings or Responses API, as an object of the SDK or as a mapping.
    """
    if isinstance(usage, tuple | list):
        return _usage_of_counts(usage)

    input_tokens = get_field(usage, "prompt_tokens")
    if input_tokens is not None:
        # Embeddings have no output.
        output_tokens = get_field(usage, "completion_tokens") or 0
        input_details = get_field(usage, "prompt_tokens_details")
    else:
        # The Responses API uses other names.
        input_tokens = get_field(usage, "input_tokens")
        output_tokens = get_field(usage, "output_tokens")
        input_details = get_field(usage, "input_tokens_details")
    if not _is_count(input_tokens) or not _is_count(output_tokens):
        return None

    # Some servers count reasoning only in the total, not in the tokens of the completion.
    reasoning_tokens = get_field(usage, "completion_tokens_details", "reasoning_tokens")
    if _is_count(reasoning_tokens):
        total_with_reasoning = input_tokens + output_tokens + reasoning_tokens
        if get_field(usage, "total_tokens") == total_with_reasoning:
            output_tokens += reasoning_tokens

    cached_tokens = get_field(input_details, "cached_tokens")
    if not _is_count(cached_tokens):
        cached_tokens = 0
    return TokenUsage(input_tokens, output_tokens, min(cached_tokens, input_tokens))


def _usage_of_counts(counts: Sequence[Any]) -> TokenUsage | None:
    """Return token counts as a `TokenUsage`; None if a count is invalid.

    Args:
        counts: the numbers of input, output and cached tokens; the last two may be missing.
    """
    try:
        usage = TokenUsage(*counts)
        are_in_range = all(0 <= count < MAX_TOKENS for count in usage)
        if not are_in_range or usage.cached_tokens > usage.input_tokens:
            return None
    except TypeError:
        # There are too few or too many counts, or one is no number.
        return None
    return usage


def _is_count(value: Any) -> TypeGuard[int]:
    """Return whether a value is a valid number of tokens."""
    return type(value) is int and 0 <= value < MAX_TOKENS


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens of a text, rounded up.

    Four ASCII characters count as one token, and so do three UTF-8 bytes of other characters.
    """
    return _estimate_bytes(text.encode("utf-8", "surrogatepass"))


def estimate_prompt(messages: Sequence[Message], schema: Mapping[str, Any]) -> int:
    """Return an estimate of the tokens of a conversation and the JSON Schema of its reply."""
    message_tokens = sum(
        estimate_tokens(message["content"]) + MESSAGE_TOKENS for message in messages
    )
    return message_tokens + _estimate_bytes(orjson.dumps(schema))


def estimate_reply(reply: Any) -> int:
    """Return an estimate of the tokens of a reply; 0 if the reply is not JSON."""
    try:
        return _estimate_bytes(orjson.dumps(reply))
    except TypeError:
        return 0


def _estimate_bytes(text: bytes) -> int:
    """Return an estimate of the tokens of a text in UTF-8; see `estimate_tokens`."""
    other_bytes = len(text.translate(None, ASCII))
    ascii_characters = len(text) - other_bytes
    # A quarter of a token for an ASCII character, a third for another byte.
    twelfths = 3 * ascii_characters + 4 * other_bytes
    return ceil(twelfths / 12)
