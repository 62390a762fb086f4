"""The seam between the metrics and an LLM: what a judge offers, and the format of its replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from graphrag_eval_async.errors import JudgeError, TokenUsage

T = TypeVar("T")

Message: TypeAlias = Mapping[str, str]
"""One message of a conversation: `role` ("system", "user" or "assistant") and `content`."""


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


class ResponseFormat(NamedTuple, Generic[T]):
    """What a reply must look like.

    Attributes:
        schema: a JSON Schema with a title, as `strict` makes it.
        read: turns the decoded reply into what it stands for; raises `ValueError` that says what is wrong.
    """

    schema: Mapping[str, Any]
    read: Callable[[Any], T]


class MetricJudge(Protocol):
    """A judge as one metric of one result sees it: behind all limits, with its cost counted."""

    async def ask(
        self, prompt: Callable[[], Sequence[Message]], form: ResponseFormat[T], *, repeat: int = 0
    ) -> T:
        """What the judge replies.

        Args:
            prompt: returns the conversation, when it is the call's turn; it may raise `JudgeError`.
            form: what the reply must look like.
            repeat: tells apart calls that are equal on purpose; others are made once.

        Raises:
            JudgeError: there is no usable reply.
        """
        ...

    async def embed(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text: finite, not zero, all of one length.

        Raises:
            JudgeError: there are none.
        """
        ...


def format_of(kind: type[T]) -> ResponseFormat[T]:
    """The form of replies that are a msgspec struct."""

    def read(reply: Any) -> T:
        try:
            return msgspec.convert(reply, kind)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None

    schema = msgspec.json.schema(kind)
    definitions = schema["$defs"]
    root = definitions.pop(schema["$ref"].rpartition("/")[2])
    return ResponseFormat(strict(root | ({"$defs": definitions} if definitions else {})), read)


def strict(schema: Any) -> Any:
    """A JSON Schema in which every property of every object is required, and no others are allowed.

    That is the subset that the strict mode of OpenAI's structured output takes:
    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items() if key not in {"default", "properties"}}
    if (properties := schema.get("properties")) is not None:
        result["properties"] = {name: strict(value) for name, value in properties.items()}
        result |= {"required": list(properties), "additionalProperties": False}
    return result
