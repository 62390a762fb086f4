"""Reading a tree of mappings, lists and values into the structs of a configuration, collecting problems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import UNSET, ValidationError, convert
from msgspec.structs import asdict, fields

from graphrag_eval_async.config.llm import EmbeddingConfig, GenerationConfig, Section
from graphrag_eval_async.config.model import Config
from graphrag_eval_async.config.secrecy import VARIABLE, FromEnvironment, expand
from graphrag_eval_async.errors import describe
from graphrag_eval_async.records.shapes import did_you_mean

MAX_DEPTH = 100

MAX_QUOTED = 20
"""Longer strings are not quoted in errors: they may be secrets in the wrong place."""

FAILED: Any = object()
"""Stands for a value with a problem."""

MODELS = (GenerationConfig, EmbeddingConfig)

_PLAIN_KEYS = ("llm.limits.", "llm.pricing.", "execute.max_", "execute.timeout_")
"""Prefixes of the keys of values that are not secret."""

_PLAIN_KEY = re.compile(r"[\w-]{1,64}\Z")


class Reader:
    """Reads values strictly by their types, except that text from the environment may stand for a number.

    Attributes:
        problems: by key, the first that was found there.
    """

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}

    def problem(self, key: str, what: str) -> Any:
        """Add a problem, unless there is one at the key; returns `FAILED`."""
        self.problems.setdefault(key, what)
        return FAILED

    def has_problem(self, key: str) -> bool:
        """Whether there is a problem with the value at the key, with a part of it, or with what holds it."""
        return any(f"{key}.".startswith(f"{each}.") or each.startswith(f"{key}.") for each in self.problems)

    def read(self, given: Any) -> Config:
        """The configuration; a section with a problem is left at its default."""
        try:
            value = self._plain(given, "", MAX_DEPTH)
        except RecursionError:
            value = self.problem("", f"nests more than {MAX_DEPTH} deep, or contains itself")
        config = self._value(Config, value, "")
        return Config() if config is FAILED else config

    def _plain(self, value: Any, key: str, depth: int) -> Any:
        """A copy as JSON has it; where `_may_be_secret`, ``${NAME}`` in strings becomes the variable."""
        if depth < 0:
            raise RecursionError
        if isinstance(value, Section):
            items = asdict(value)
            value = {
                field.encode_name: items[field.name]
                for field in fields(value)
                if items[field.name] is not UNSET
            }
        match value:
            case FromEnvironment() | None | bool() | int() | float():
                return value
            case str():
                return self._text(value, key)
            case list() | tuple():
                return [self._plain(item, f"{key}[{i}]", depth - 1) for i, item in enumerate(value)]
            case Mapping():
                return self._plain_mapping(value, key, depth)
        return self.problem(key, f"expected a value that JSON can hold, got {describe(value)}")

    def _text(self, text: str, key: str) -> Any:
        """The text, with what the environment holds; all that is made of it is written as UTF-8."""
        try:
            text.encode()
            read = expand(text) if _may_be_secret(key) else text
            read.encode()
        except KeyError as error:
            return self.problem(key, f"the environment variable {error.args[0]} is not set")
        except UnicodeEncodeError:
            return self.problem(key, "expected text, got lone surrogates, which UTF-8 cannot encode")
        return read

    def _plain_mapping(self, value: Mapping[Any, Any], key: str, depth: int) -> dict[str, Any]:
        members = {}
        for name, item in value.items():
            if isinstance(name, str):
                members[name] = self._plain(item, join(key, name), depth - 1)
            else:
                self.problem(key, f"expected strings as keys, got {describe(name)}")
        return members

    def _value(self, kind: Any, value: Any, key: str) -> Any:
        """The value as an annotated type has it, or `FAILED`."""
        if value is FAILED:
            return FAILED
        options = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
        if value is None and NoneType in options:
            return None
        sections = [each for each in options if isinstance(each, type) and issubclass(each, Section)]
        if sections and (len(options) == 1 or isinstance(value, dict) or NoneType in options):
            return self._section(sections[0], value, key)
        read = self._items(options[0], value, key)
        if read is FAILED:
            return FAILED
        try:
            return convert(read, kind, strict=not isinstance(value, FromEnvironment))
        except ValidationError:
            return self.problem(key, f"expected {_wanted(options[0])}, got {_described(value, key)}")

    def _section(self, kind: type[Section], value: Any, key: str) -> Any:
        if not isinstance(value, dict):
            return self.problem(key, f"expected a mapping, got {_described(value, key)}")
        known = {field.encode_name: field for field in fields(kind)}
        value = as_published(kind, value)
        for name in value:
            if name not in known:
                self.problem(join(key, name), f"unknown key; {did_you_mean(name, known)}")
        members = {}
        for name, field in known.items():
            if name in value:
                members[name] = self._value(field.type, value[name], join(key, name))
            elif field.required:
                members[name] = self.problem(join(key, name), "missing")
        usable = {known[name].name: item for name, item in members.items() if item is not FAILED}
        if issubclass(kind, MODELS):  # So that its address and key are checked, too.
            usable = {"provider": "", "model": ""} | usable
        can_be_made = all(field.name in usable or not field.required for field in known.values())
        return kind(**usable) if can_be_made else FAILED

    def _items(self, kind: Any, value: Any, key: str) -> Any:
        """A list or a mapping with its items as they should be; anything else as it is."""
        base = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        if get_origin(base) is tuple and isinstance(value, list):
            item_kind = get_args(base)[0]
            items = [self._value(item_kind, item, f"{key}[{i}]") for i, item in enumerate(value)]
            return FAILED if FAILED in items else items
        if get_origin(base) is dict and isinstance(value, dict):
            name_kind, item_kind = get_args(base)
            members = {}
            for name, item in value.items():
                place = join(key, name)
                if self._value(name_kind, name, place) is not FAILED:
                    members[name] = item if item_kind is Any else self._value(item_kind, item, place)
            return FAILED if FAILED in members.values() or len(members) < len(value) else members
        return value


def as_published(kind: type[Section], value: dict[str, Any]) -> dict[str, Any]:
    """A model's section with the keys of the published library as ours.

    There, `api_base` is the `base_url`, and unknown keys go into each request. A key that is nearly one of
    ours stays, and is an error: it was probably meant to be ours.
    """
    if not issubclass(kind, MODELS):
        return value
    value = dict(value)
    if "base_url" not in value and "api_base" in value:
        value["base_url"] = value.pop("api_base")
    known = [field.encode_name for field in fields(kind)]
    ours = [*known, "api_base"]
    free = [key for key in value if key not in ours and not get_close_matches(key[:64], ours, 1, 0.75)]
    if free and isinstance(value.get("parameters", {}), dict):
        value["parameters"] = {key: value.pop(key) for key in free} | value.get("parameters", {})
    return value


def _may_be_secret(key: str) -> bool:
    """Whether strings at the key read the environment, and may be secrets."""
    return key in {"llm", "execute"} or key.startswith(("llm.", "execute."))


def join(key: str, name: str) -> str:
    """The key of a mapping's member; an unusual name is quoted in brackets."""
    if not _PLAIN_KEY.match(name):
        return f"{key}[{name[:64]!r}]"
    return f"{key}.{name}" if key else name


def _wanted(kind: Any) -> str:
    """What a value of the type is, in words."""
    if get_origin(kind) is Annotated:
        return str(get_args(kind)[1].description)
    if get_origin(kind) is Literal:
        return " or ".join(f'"{value}"' for value in get_args(kind))
    return {str: "a string", bool: "true or false", dict: "a mapping"}.get(get_origin(kind) or kind, "a list")


def _described(value: Any, key: str) -> str:
    """A value in a few words that tell no secret."""
    if isinstance(value, FromEnvironment):
        return f"text from {' and '.join(f'${{{name}}}' for name in VARIABLE.findall(value.written))}"
    is_hidden = _may_be_secret(key) and not key.endswith(".provider")
    if isinstance(value, str) and (is_hidden or len(value) > MAX_QUOTED):
        return "a string"
    names = {list: "a list" if value else "an empty list", dict: "a mapping", NoneType: "nothing"}
    plain = key.startswith(_PLAIN_KEYS) or key.endswith((".max_tokens", ".temperature"))
    if _may_be_secret(key) and not plain:
        names |= {int: "a number", float: "a number"}
    return names.get(type(value)) or describe(value)
