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
        """The format to try if the server refuses this one; None if this is the last format."""
        formats: list[Format] = [*Format]
        if self is formats[-1]:
            return None
        index_of_next = formats.index(self) + 1
        return formats[index_of_next]

    @property
    def is_in_words(self) -> bool:
        """Whether the messages describe the layout of the reply in words."""
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
        """The ways in which requests differ from the default, such as "temperature as None".

        None stands for a parameter that is left out.
        """
        departures = [f"{name} as {sent_name}" for name, sent_name in sorted(self.names.items())]
        if self.format is not Format.STRICT_SCHEMA:
            departures.append(self.format.value)
        return departures


@dataclass(slots=True)
class Parameters:
    """The parameters of the requests to a model.

    Attributes:
        defaults: our value or the user's value of each parameter that is sent unless the server
            refuses it; by the name that all servers once knew.
        optional: the parameters that the user did not configure, so that they may be left out.
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
        """Return the parameters of requests for completions.

        Args:
            model: the name of the model.
            temperature: a number; None for the server's default, UNSET for our default.
            max_tokens: a number; None for the server's default, UNSET for our default. Not sent if
                `others` limits the length of the reply.
            others: fields to add to the body of each request.
        """
        defaults: dict[str, Any] = {}
        # A seed has no default: it is only sent with requests for another reply to equal messages.
        optional = {"seed"}

        if temperature is UNSET:
            defaults["temperature"] = DEFAULT_TEMPERATURE
            optional.add("temperature")
        elif temperature is not None:
            defaults["temperature"] = temperature

        others_limit_reply = MAX_TOKENS in others or MAX_COMPLETION_TOKENS in others
        if max_tokens is UNSET and not others_limit_reply:
            defaults[MAX_TOKENS] = DEFAULT_MAX_TOKENS
            optional.add(MAX_TOKENS)
        elif max_tokens is not None and not others_limit_reply:
            defaults[MAX_TOKENS] = max_tokens

        return cls(
            defaults=defaults,
            optional=optional - others.keys(),
            fixed={"model": model, **others},
        )

    @classmethod
    def of_embeddings(cls, model: str, others: Mapping[str, Any]) -> Parameters:
        """Return the parameters of requests for embeddings."""
        # By default, the SDK asks for vectors in base64, which not every server supports.
        fixed = {"model": model, "encoding_format": "float", **others}
        return cls(defaults={}, optional=set(), fixed=fixed)

    @property
    def reply_limit(self) -> str:
        """The name of the parameter that limits the length of a reply, as the user writes it."""
        if MAX_COMPLETION_TOKENS in self.fixed:
            return MAX_COMPLETION_TOKENS
        return MAX_TOKENS

    def write(
        self, dialect: Dialect, *, variation: int = 0, prompt_characters: int = 0
    ) -> dict[str, Any]:
        """Return the parameters of one request, by the names under which they are sent.

        Args:
            dialect: which parameters are renamed or left out for the server.
            variation: 0; a higher number asks for another reply to the same messages, by a seed
                and a higher temperature.
            prompt_characters: the length of the prompt in characters. With a prompt that is too
                long, the default `max_tokens` is left out.
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
        has_user_seed = type(self.fixed.get("seed")) is int
        if has_user_seed:
            # The first reply gets the user's seed, and each further reply the next number.
            request["seed"] += variation
        return request

    def try_to_shorten(
        self, request: Mapping[str, Any], dialect: Dialect, prompt_characters: int
    ) -> bool:
        """Leave the default `max_tokens` out of later requests whose prompts are as long or longer.

        Nothing changes if the request was too long without the default.

        Args:
            request: the request that was too long.
            dialect: how the request was written.
            prompt_characters: the length of the request's prompt in characters.

        Returns:
            whether the request had the default, so that it may fit without.
        """
        had_default = MAX_TOKENS in self.optional and dialect.sent_name(MAX_TOKENS) in request
        if had_default:
            self.shortest_too_long = min(self.shortest_too_long, prompt_characters)
        return had_default

    def find_refused(
        self, error: ServerError, request: Mapping[str, Any], dialect: Dialect
    ) -> str | None:
        """Return the name of the parameter that a server refuses; None if the error names none.

        If the parameter was sent under a newer name, the result is the original name.

        Args:
            error: the server's error.
            request: the refused request.
            dialect: how the request was written.
        """
        if not error.may_name_parameter:
            return None
        # Parameters with default values. Any mention counts, as their names are no everyday words.
        for name in sorted(self.optional | self.defaults.keys()):
            sent_name = dialect.sent_name(name)
            if sent_name is None or sent_name not in request:
                continue
            if error.mentions(sent_name) or error.mentions(name):
                return name

        # Parameters that the user added. The name of the model is in many errors.
        for name in sorted(self.fixed.keys() - {"model"}):
            names = [name]
            # The server may name the parameter by its older name.
            names += [older for older, newer in RENAMED.items() if newer == name]
            if any(error.is_about_parameter(any_name) for any_name in names):
                return name
        return None

    def rename(self, parameter: str, dialect: Dialect) -> Dialect | None:
        """Return a dialect in which a refused parameter has its newer name, or is left out.

        The result is None if neither is possible, because the parameter has no newer name and the
        user configured it.

        Args:
            parameter: the name of the parameter.
            dialect: how the refused request was written.
        """
        newer_name = None
        sent_name = dialect.sent_name(parameter)
        if sent_name is not None:
            newer_name = RENAMED.get(sent_name)
        can_be_renamed = parameter in self.defaults and newer_name is not None
        can_be_left_out = parameter in self.optional
        if not can_be_renamed and not can_be_left_out:
            return None
        # If there is no newer name, the name None leaves the parameter out.
        return Dialect(dialect.format, {**dialect.names, parameter: newer_name})


def write_messages(
    format: Format,  # noqa: A002
    messages: Sequence[Message],
    schema: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the fields of a request that hold its messages and ask for a reply in a format.

    Args:
        format: the way to ask for a reply that fits the schema.
        messages: the conversation.
        schema: the JSON Schema that the reply must fit.
    """
    title = schema["title"]
    match format:
        case Format.STRICT_SCHEMA:
            json_schema = {"name": title, "schema": schema, "strict": True}
            response_format = {"type": "json_schema", "json_schema": json_schema}
            return {"messages": messages, "response_format": response_format}
        case Format.LOOSE_SCHEMA:
            json_schema = {"name": title, "schema": schema}
            response_format = {"type": "json_schema", "json_schema": json_schema}
            return {"messages": messages, "response_format": response_format}
        case Format.TOOL_CALL:
            return {
                "messages": messages,
                "tools": [{"type": "function", "function": {"name": title, "parameters": schema}}],
                "tool_choice": {"type": "function", "function": {"name": title}},
            }
        case Format.JSON_OBJECT:
            response_format = {"type": "json_object"}
            return {
                "messages": _add_layout(messages, schema),
                "response_format": response_format,
            }
        case Format.TEXT:
            return {"messages": _add_layout(messages, schema)}


def _add_layout(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Return the messages with the JSON Schema of the reply added to the first message.

    The schema is no message of its own, since not every model accepts system messages, or several
    of them.
    """
    schema_text = orjson.dumps(schema).decode()
    layout = f"Reply with a JSON object that fits this JSON Schema:\n{schema_text}"
    first, *others = messages
    if first["role"] == "system":
        content = f"{layout}\n\n{first['content']}"
    else:
        content = f"{first['content']}\n\n{layout}"
    return [{**first, "content": content}, *others]
