"""The tokens that a request to a judge used."""

from __future__ import annotations

from typing import NamedTuple


class TokenUsage(NamedTuple):
    """The tokens that one request used, as the server counts them; a request for embeddings has no output."""

    input_tokens: int
    output_tokens: int = 0
