"""The form of a structured reply: the schema that is sent, and the reading of what comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.judge.protocol import Message

T = TypeVar("T")


class Form(NamedTuple, Generic[T]):
    """What a reply must look like.

    Attributes:
        schema: a JSON Schema with a title, as `strict` makes it.
        read: turns the decoded reply into what it stands for; raises `ValueError` that says what is wrong.
    """

    schema: Mapping[str, Any]
    read: Callable[[Any], T]


class Asking(Protocol):
    """A judge as one metric of one result sees it: behind all limits, with its cost counted."""

    async def ask(self, prompt: Callable[[], Sequence[Message]], form: Form[T], *, repeat: int = 0) -> T:
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


def form_of(kind: type[T]) -> Form[T]:
    """The form of replies that are a msgspec struct."""

    def read(reply: Any) -> T:
        try:
            return msgspec.convert(reply, kind)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None

    schema = msgspec.json.schema(kind)
    definitions = schema["$defs"]
    root = definitions.pop(schema["$ref"].rpartition("/")[2])
    return Form(strict(root | ({"$defs": definitions} if definitions else {})), read)


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
