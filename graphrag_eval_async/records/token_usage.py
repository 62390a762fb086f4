"""Token usage of requests to a judge."""

from __future__ import annotations

from typing import NamedTuple


class TokenUsage(NamedTuple):
    """Tokens used by one request, as counted by the server. Embeddings have no output tokens.

    Attributes:
        input_tokens: tokens of the prompt, cached ones included.
        output_tokens: tokens of the reply, those of reasoning included.
        cached_tokens: tokens of the prompt that the server read from its cache.
    """

    input_tokens: int
    output_tokens: int = 0
    cached_tokens: int = 0
