"""How requests to a model are written: the format of its replies, and its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import UNSET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.judge.failures import ServerError
    from graphrag_eval_async.judge.protocol import Message

DEFAULT_TEMPERATURE = 0.0
DEFAULT_MAX_TOKENS = 4096

VARIED_TEMPERATURE = 0.3
"""Temperature of requests for several replies to the same messages, as in ragas."""

MAX_TOKENS = "max_tokens"
MAX_COMPLETION_TOKENS = "max_completion_tokens"

RENAMED = {MAX_TOKENS: MAX_COMPLETION_TOKENS}
"""Newer names of parameters."""


class Format(Enum):
    """A way to request a reply that fits a JSON Schema, the best first.

    Results record the value.
    """

    STRICT_SCHEMA = "json_schema"
    LOOSE_SCHEMA = "json_schema_loose"
    TOOL_CALL = "tool_call"
    JSON_OBJECT = "json_object"
    TEXT = "text"

    @property
    def next(self) -> Format | None:
        """The format to try if the server refuses this one; None after the last."""
        formats = [*Format]
        place = formats.index(self) + 1
        return formats[place] if place < len(formats) else None

    @property
    def is_in_words(self) -> bool:
        """Whether the messages describe the layout of the reply."""
        return self in {Format.JSON_OBJECT, Format.TEXT}


DESCRIPTIONS = {
    Format.STRICT_SCHEMA: "strict JSON Schema",
    Format.LOOSE_SCHEMA: "JSON Schema that is not strict",
    Format.TOOL_CALL: "a tool call",
    Format.JSON_OBJECT: "JSON, with the layout in words",
    Format.TEXT: "text, with the layout in words",
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How requests to a model are written, as learned from what its server refused."""

    format: Format = Format.STRICT_SCHEMA
    names: Mapping[str, str | None] = field(default_factory=dict)
    """Names under which parameters are sent instead of their own; None for those left out."""

    def sent_name(self, parameter: str) -> str | None:
        """Return the name under which a parameter is sent; None if it is left out."""
        return self.names.get(parameter, parameter)

    @property
    def departures(self) -> list[str]:
        """In what requests differ from those by default."""
        departures = [f"{name} as {sent}" for name, sent in sorted(self.names.items())]
        if self.format is not Format.STRICT_SCHEMA:
            departures.append(self.format.value)
        return departures


@dataclass(slots=True)
class Parameters:
    """The parameters of the requests to a model.

    Attributes:
        defaults: ours or the user's value of each parameter that is sent unless the server refuses
            it; by the name that all servers once knew.
        optional: those that the user did not configure, so that they may be left out.
        fixed: the other parameters, which are sent as they are.
    """

    defaults: dict[str, Any]
    optional: set[str]
    fixed: dict[str, Any]
    shortest_too_long: float = inf
    """Length of the shortest prompt that was too long for the model together with the default
    `max_tokens`, in characters. Prompts of this length or more are sent without it.
    """

    @classmethod
    def of_completions(
        cls, model: str, temperature: Any, max_tokens: Any, others: Mapping[str, Any]
    ) -> Parameters:
        """Return the parameters of completions.

        Args:
            model: the name of the model.
            temperature: a number; None leaves it to the server, UNSET to us.
            max_tokens: a number; None leaves it to the server, UNSET to us.
            others: fields to add to the body of each request.
        """
        if MAX_TOKENS in others or MAX_COMPLETION_TOKENS in others:
            max_tokens = None
        defaults: dict[str, Any] = {}
        optional = {"seed"}
        for name, configured, default in (
            ("temperature", temperature, DEFAULT_TEMPERATURE),
            (MAX_TOKENS, max_tokens, DEFAULT_MAX_TOKENS),
        ):
            if configured is UNSET:
                defaults[name] = default
                optional.add(name)
            elif configured is not None:
                defaults[name] = configured
        return cls(defaults, optional - others.keys(), {"model": model, **others})

    @classmethod
    def of_embeddings(cls, model: str, others: Mapping[str, Any]) -> Parameters:
        """Return the parameters of embeddings."""
        # The SDK asks for base64 by default, which not every server knows.
        return cls({}, set(), {"model": model, "encoding_format": "float", **others})

    @property
    def reply_limit(self) -> str:
        """The parameter that limits the length of a reply, as the user knows it."""
        return MAX_COMPLETION_TOKENS if MAX_COMPLETION_TOKENS in self.fixed else MAX_TOKENS

    def write(
        self, dialect: Dialect, *, variation: int = 0, prompt_characters: int = 0
    ) -> dict[str, Any]:
        """Return the parameters of a request.

        Args:
            dialect: how the model's server wants them.
            variation: above 0 for another reply to the same messages.
            prompt_characters: the length of the prompt.
        """
        values = dict(self.defaults)
        if variation and "seed" in self.optional:
            values["seed"] = variation
        if variation and "temperature" in self.optional:
            values["temperature"] = VARIED_TEMPERATURE
        if prompt_characters >= self.shortest_too_long and MAX_TOKENS in self.optional:
            del values[MAX_TOKENS]

        request: dict[str, Any] = {}
        for name, value in values.items():
            sent_name = dialect.sent_name(name)
            if sent_name is not None:
                request[sent_name] = value
        request |= self.fixed
        # A seed of the user is that of the first of several replies.
        if type(self.fixed.get("seed")) is int:
            request["seed"] += variation
        return request

    def shorten(self, request: Mapping[str, Any], dialect: Dialect, prompt_characters: int) -> bool:
        """Leave the default `max_tokens` out of requests with prompts of this length.

        Returns:
            Whether the refused request had it, so that another may succeed without it.
        """
        if MAX_TOKENS not in self.optional or dialect.sent_name(MAX_TOKENS) not in request:
            return False
        self.shortest_too_long = min(self.shortest_too_long, prompt_characters)
        return True

    def find_refused(
        self, error: ServerError, request: Mapping[str, Any], dialect: Dialect
    ) -> str | None:
        """Return the name of the parameter that a server refuses; None if it is about no
        parameter.
        """
        if not error.may_name_parameter:
            return None
        for name in sorted(self.optional | self.defaults.keys()):
            sent_name = dialect.sent_name(name)
            if sent_name is None or sent_name not in request:
                continue
            if error.mentions(sent_name) or error.mentions(name):
                return name
        for name in sorted(self.fixed.keys() - {"model"}):
            older_names = [older for older, newer in RENAMED.items() if newer == name]
            if any(error.mentions(each, anywhere=False) for each in (name, *older_names)):
                return name
        return None

    def rename(self, parameter: str, dialect: Dialect) -> Dialect | None:
        """Return the dialect with another name for a refused parameter, or without it; None if it
        is the user's, and has no other name.
        """
        newer_name = RENAMED.get(dialect.sent_name(parameter) or "")
        is_renamable = parameter in self.defaults and newer_name is not None
        if not is_renamable and parameter not in self.optional:
            return None
        return Dialect(dialect.format, {**dialect.names, parameter: newer_name})


def write_messages(
    format: Format,  # noqa: A002
    messages: Sequence[Message],
    schema: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the part of a request that asks for a reply that fits a schema."""
    title = schema["title"]
    if format is Format.STRICT_SCHEMA or format is Format.LOOSE_SCHEMA:
        json_schema: dict[str, Any] = {"name": title, "schema": schema}
        if format is Format.STRICT_SCHEMA:
            json_schema["strict"] = True
        response_format = {"type": "json_schema", "json_schema": json_schema}
        return {"messages": messages, "response_format": response_format}
    if format is Format.TOOL_CALL:
        return {
            "messages": messages,
            "tools": [{"type": "function", "function": {"name": title, "parameters": schema}}],
            "tool_choice": {"type": "function", "function": {"name": title}},
        }
    request: dict[str, Any] = {"messages": _with_layout(messages, schema)}
    if format is Format.JSON_OBJECT:
        request["response_format"] = {"type": "json_object"}
    return request


def _with_layout(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Return messages that describe the layout of the reply.

    The description joins the first message: not every model knows system messages, or two of them.
    """
    text = orjson.dumps(schema).decode()
    layout = f"Reply with a JSON object that fits this JSON Schema:\n{text}"
    first, *others = messages
    if first["role"] == "system":
        content = f"{layout}\n\n{first['content']}"
    else:
        content = f"{first['content']}\n\n{layout}"
    return [{**first, "content": content}, *others]
