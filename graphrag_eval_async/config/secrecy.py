"""Reading the environment in a configuration, and hiding secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

VARIABLE = re.compile(r"\$\{([^{}]+)\}")

SDK_SECRETS = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN")
"""The variables from which the SDK takes a key that the configuration does not give."""


class FromEnvironment(str):
    """Text in which ``${NAME}`` has been replaced. Its repr is what was written, with the
    ``${NAME}``.
    """

    __slots__ = ("read", "written")

    written: str
    read: tuple[str, ...]  # What the variables held.

    def __new__(cls, text: str, written: str, read: tuple[str, ...]) -> FromEnvironment:
        self = super().__new__(cls, text)
        self.written, self.read = written, read
        return self

    def __repr__(self) -> str:
        return repr(self.written)

    def __reduce__(self) -> tuple[Any, ...]:
        return FromEnvironment, (str(self), self.written, self.read)


def expand(text: str) -> str:
    """`text` with each ``${NAME}`` replaced by the environment variable; `KeyError` if that is
    not set.
    """
    read = tuple(os.environ[name] for name in VARIABLE.findall(text))
    if not read:
        return text
    return FromEnvironment(VARIABLE.sub(lambda found: os.environ[found[1]], text), text, read)


def as_written(text: str) -> str:
    """Return text of a configuration as its author wrote it: with ``${NAME}`` instead of the
    value.
    """
    return text.written if isinstance(text, FromEnvironment) else text


def masked(name: str, value: Any) -> Any:
    """The value at a key of the configuration, to be shown: without what may be secret."""
    written = value.written if isinstance(value, FromEnvironment) else value
    is_address = name in {"base_url", "endpoint", "database"} and isinstance(written, str)
    if value is not None and (
        name in {"api_key", "password"} or (is_address and {*"@?#"} & {*written})
    ):
        return "***"
    if name in {"parameters", "extra_headers", "headers"}:
        return dict.fromkeys(value, "...")
    if isinstance(value, Mapping):
        return {key: masked(key, item) for key, item in value.items()}
    return written


def secrets(config: Struct) -> set[str]:
    """The texts to remove from a server's messages, for a loaded configuration or section.

    They are API keys, including those in the SDK's environment variables, and everything else that
    was read from the environment except names of models.
    """
    found = {*_secrets("", config), *environment_secrets()}
    return {str(text) for text in found if text}


def environment_secrets() -> set[str]:
    """Return the keys in the SDK's environment variables."""
    return {os.environ[name] for name in SDK_SECRETS if os.environ.get(name)}


def _secrets(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, FromEnvironment) and name != "model":  # All results have its name.
        yield from value.read
    if isinstance(value, str) and name in {"api_key", "password"}:
        yield value
    members = asdict(value) if isinstance(value, Struct) else value
    if isinstance(members, Mapping):
        for key, item in members.items():
            yield from _secrets("api_key" if name in {"extra_headers", "headers"} else key, item)
    elif isinstance(members, list | tuple):
        for item in members:
            yield from _secrets("", item)
