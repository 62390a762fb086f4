"""Reads environment variables that a configuration names, and hides secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

VARIABLE = re.compile(r"\$\{([^{}]+)\}")
"""Stands for an environment variable in the text of a configuration."""

SDK_SECRETS = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN")
"""The variables from which the SDK takes a key that the configuration does not give."""

KEYS_OF_SECRETS = frozenset({"api_key", "password"})
"""Keys of a configuration whose values are secrets."""

KEYS_OF_ADDRESSES = frozenset({"base_url", "endpoint", "database"})
"""Keys of a configuration whose values are addresses."""

KEYS_OF_HEADERS = frozenset({"extra_headers", "headers"})
"""Keys of a configuration whose values are HTTP headers, which may be secrets."""


class FromEnvironment(str):
    """Text in which each ``${NAME}`` was replaced. Its repr has ``${NAME}``, as it was written.

    Attributes:
        written: the text as it was written.
        values: the values of the variables.
    """

    __slots__ = ("values", "written")

    written: str
    values: tuple[str, ...]

    def __new__(cls, text: str, written: str, values: tuple[str, ...]) -> FromEnvironment:
        self = super().__new__(cls, text)
        self.written = written
        self.values = values
        return self

    def __repr__(self) -> str:
        return repr(self.written)

    def __reduce__(self) -> tuple[Any, ...]:
        return FromEnvironment, (str(self), self.written, self.values)


def expand(text: str) -> str:
    """Return text in which each ``${NAME}`` is replaced by the environment variable.

    Text without ``${NAME}`` is returned as it is, other text as `FromEnvironment`.

    Raises:
        KeyError: a variable is not set.
    """
    values = tuple(os.environ[name] for name in VARIABLE.findall(text))
    if not values:
        return text
    expanded = VARIABLE.sub(lambda variable: os.environ[variable[1]], text)
    return FromEnvironment(expanded, text, values)


def as_written(text: str) -> str:
    """Return text of a configuration as its author wrote it: with ``${NAME}`` instead of the
    value.
    """
    if isinstance(text, FromEnvironment):
        return text.written
    return text


def masked(name: str, value: Any) -> Any:
    """Return the value at a key of the configuration as it may be shown, without secrets.

    Args:
        name: the key; for a value in a mapping, the last part of its key.
        value: the value.
    """
    if name in KEYS_OF_SECRETS and value is not None:
        return "***"
    if name == "parameters" or name in KEYS_OF_HEADERS:
        return dict.fromkeys(value, "...")
    if isinstance(value, Mapping):
        return {key: masked(key, item) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    written = as_written(value)
    # A user, a password or a key may be in an address.
    if name in KEYS_OF_ADDRESSES and not {*"@?#"}.isdisjoint(written):
        return "***"
    return written


def secrets(config: Struct) -> set[str]:
    """Return the texts that are secret in a loaded configuration or section.

    They are removed from messages of servers. They are API keys, including those in the SDK's
    environment variables, and everything else that was read from the environment except names of
    models.
    """
    texts = {*_secrets_in("", config), *environment_secrets()}
    return {str(text) for text in texts if text}


def environment_secrets() -> set[str]:
    """Return the keys in the SDK's environment variables."""
    return {os.environ[name] for name in SDK_SECRETS if os.environ.get(name)}


def _secrets_in(name: str, value: Any) -> Iterator[str]:
    """Yield the secrets in a value of a configuration, and in everything inside it.

    Args:
        name: the key of the value in its mapping; "" for an item of a list, and for a whole
            configuration or section.
        value: the value.
    """
    # The names of models are no secrets: all results have them.
    if isinstance(value, FromEnvironment) and name != "model":
        yield from value.values
    if isinstance(value, str) and name in KEYS_OF_SECRETS:
        yield value

    if isinstance(value, Struct):
        value = asdict(value)
    if isinstance(value, Mapping):
        for key, item in value.items():
            # Each header may be a secret, as a key of an API is.
            key_of_item = "api_key" if name in KEYS_OF_HEADERS else key
            yield from _secrets_in(key_of_item, item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets_in("", item)
