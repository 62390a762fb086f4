"""The interface between metrics and an LLM: the `Judge` protocol and the format of replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

import msgspec

from graphrag_eval_async.records.decoding import count_values

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from graphrag_eval_async.records.token_usage import TokenUsage

T = TypeVar("T")

MAX_VALUES = 20_000
"""Maximum values in a reply, counting objects, arrays, members and items; most have a few
hundred.
"""

Message: TypeAlias = Mapping[str, str]
"""One message of a conversation: `role` ("system", "user" or "assistant") and `content`."""


@runtime_checkable
class Judge(Protocol):
    """An LLM and an embedding model.

    Each call makes one request and waits for the reply. The caller handles concurrency, rate
    limits, retries, deadlines, the budget and the cache. Calls may overlap. A judge may have an
    attribute `model`: its name in results. Its `complete` may take a keyword `variation`: an
    integer above 0 asks for another reply to the same messages.
    """

    async def complete(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage | None]:
        """Return the reply as a decoded JSON value, and the tokens used.

        The tokens may be the `usage` of an OpenAI reply; None if they are unknown.

        Args:
            messages: the conversation; the last message is the user's.
            schema: a JSON Schema for the reply, with a `title`, for strict structured output: all
                properties required, no others allowed. The caller checks the reply.

        Raises:
            JudgeError: there is no reply. `OSError` and `TimeoutError` count as failed connections.
                Any other exception prevents a retry.
        """
        ...

    async def embed(
        self, texts: Sequence[str]
    ) -> tuple[Sequence[Sequence[float]], TokenUsage | None]:
        """Return one vector for each text, in order, and the tokens used; None if unknown.

        Raises:
            JudgeError: there are no vectors. Other exceptions count as for `complete`.
        """
        ...


GivenJudge: TypeAlias = "Judge | AsyncOpenAI | str"
"""What a user gives for a judge: a judge, a client of the package openai whose model is configured,
or the name of a model, such as "openai/gpt-4o-mini".
"""


def check_size(text: bytes) -> None:
    """Check that the JSON text of a reply holds at most `MAX_VALUES` values.

    Raises:
        ValueError: the text holds more values.
    """
    if count_values(text) > MAX_VALUES:
        raise ValueError(f"the reply has more than {MAX_VALUES} values")


class ResponseFormat(NamedTuple, Generic[T]):
    """The format of a structured reply."""

    schema: Mapping[str, Any]
    """Has a title; made by `strict`."""
    read: Callable[[Any], T]
    """Parses the decoded reply; raises a `ValueError` that describes the problem."""


def format_of(kind: type[T]) -> ResponseFormat[T]:
    """Return the format of replies that hold an object of a msgspec struct.

    Args:
        kind: the class of the struct. The name of the class is the title of the schema.
    """

    def read_struct(reply: Any) -> T:
        """Return a decoded reply as a `kind`; raise a `ValueError` if the reply does not fit."""
        try:
            return msgspec.convert(reply, kind)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None

    # Msgspec puts the schema of every class into `$defs`, and refers to the one of `kind`, such as
    # "#/$defs/AnswerClaims". Servers want that schema itself at the top.
    schema = msgspec.json.schema(kind)
    definitions = schema["$defs"]
    name = schema["$ref"].rpartition("/")[2]
    schema_of_kind = definitions.pop(name)
    if definitions:
        schema_of_kind = schema_of_kind | {"$defs": definitions}
    return ResponseFormat(strict(schema_of_kind), read_struct)


def strict(schema: Any) -> Any:
    """Return a copy of a JSON Schema in which objects require all properties and allow no others.

    This applies to objects at any depth. Default values are dropped, since strict structured
    outputs do not allow them:
    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema

    # Properties are copied below: their names may be any text, even "default".
    result = {}
    for key, value in schema.items():
        if key not in {"default", "properties"}:
            result[key] = strict(value)
    properties = schema.get("properties")
    if properties is not None:
        result["properties"] = {name: strict(value) for name, value in properties.items()}
        result["required"] = list(properties)
        result["additionalProperties"] = False
    return result
