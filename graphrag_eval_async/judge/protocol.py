"""The seam between the metrics and an LLM: what a judge has to offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from graphrag_eval_async.errors import JudgeError

Message: TypeAlias = Mapping[str, str]
"""One message of a conversation: `role` ("system", "user" or "assistant") and `content`."""


class TokenUsage(NamedTuple):
    """The tokens that one request used, as the server counts them; a request for embeddings has no output."""

    input_tokens: int
    output_tokens: int = 0


@runtime_checkable
class Judge(Protocol):
    """An LLM, and a model of embeddings, as the metrics see them.

    Each call makes one request and waits for it; concurrency, rate limits, retries, deadlines, budget and
    cache are the business of its caller. A method may be called again while earlier calls are still waiting.
    A judge may also have an attribute `model`, the name that results give it.
    """

    async def complete(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage | None]:
        """The reply to a conversation, as a decoded JSON value, and the tokens used, where that is known.

        Args:
            messages: the conversation; the last message is the user's.
            schema: a JSON Schema that the reply should fit, with a `title`, in the form that strict
                structured output asks for: all properties required, no others allowed. The caller checks it.

        Raises:
            JudgeError: there is no reply. An `OSError` or `TimeoutError` is taken for a connection that
                failed, any other exception for a judge that cannot answer this call.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> tuple[Sequence[Sequence[float]], TokenUsage | None]:
        """One vector for each text, in their order, and the tokens used, where that is known.

        Raises:
            JudgeError: as for `complete`.
        """
        ...


class SchemaRefused(JudgeError):  # noqa: N818
    """The server takes no schemas, which the judge now knows: the same call can be made again at once."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_request", message)
