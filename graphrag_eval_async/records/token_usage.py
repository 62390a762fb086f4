"""Token usage of requests to a judge."""

from __future__ import annotations

from typing import NamedTuple


class TokenUsage(NamedTuple):
    """Tokens used by one request, as counted by the server. Embeddings have no output tokens."""

    input_tokens: int
    output_tokens: int = 0
