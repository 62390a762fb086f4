"""The seam between the metrics and an LLM: what a judge offers, and the format of its replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.records.pieces import count_values

if TYPE_CHECKING:
    from graphrag_eval_async.records.token_usage import TokenUsage

T = TypeVar("T")

MAX_VALUES = 20_000
"""How many values a reply may hold, each object, array, member and item counted; most hold a few hundred."""

Message: TypeAlias = Mapping[str, str]
"""One message of a conversation: `role` ("system", "user" or "assistant") and `content`."""


@runtime_checkable
class Judge(Protocol):
    """An LLM and an embedding model.

    Each call makes one request and waits for the reply; the caller takes care of concurrency, rate limits,
    retries, deadlines, budget and cache. Calls may overlap. A judge may have an attribute `model`, the name
    that results give it.
    """

    async def complete(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage | None]:
        """The reply to a conversation as a decoded JSON value, and the tokens used; None if unknown.

        Args:
            messages: the conversation; the last message is the user's.
            schema: a JSON Schema for the reply, with a `title`, in the form of strict structured output: all
                properties required, no others allowed. The caller checks the reply.

        Raises:
            JudgeError: there is no reply. An `OSError` or `TimeoutError` counts as a failed connection; after
                any other exception the call is not retried.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> tuple[Sequence[Sequence[float]], TokenUsage | None]:
        """One vector for each text, in their order, and the tokens used; None if unknown.

        Raises:
            JudgeError: as for `complete`.
        """
        ...


class SchemaRefused(JudgeError):  # noqa: N818
    """The server takes no schemas. The judge sends none from now on: retry the call at once."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_request", message)


def check_size(text: bytes) -> None:
    """See that the JSON text of a reply holds at most `MAX_VALUES`.

    Raises:
        ValueError: it may hold more.
    """
    if count_values(text) > MAX_VALUES:
        raise ValueError(f"the reply holds more than {MAX_VALUES} values")


class ResponseFormat(NamedTuple, Generic[T]):
    """The format of a structured reply.

    Attributes:
        schema: a JSON Schema with a title, made by `strict`.
        read: parses the decoded reply; raises `ValueError` with what is wrong.
    """

    schema: Mapping[str, Any]
    read: Callable[[Any], T]


class MetricJudge(Protocol):
    """The judge as one metric of one result calls it: within all limits, with its cost counted."""

    async def ask(
        self, prompt: Callable[[], Sequence[Message]], form: ResponseFormat[T], *, repeat: int = 0
    ) -> T:
        """The parsed reply.

        Args:
            prompt: returns the conversation; called when the call is admitted, and may raise `JudgeError`.
            form: the format of the reply.
            repeat: distinguishes calls that are equal on purpose; other equal calls are made once.

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
