"""Reads a tree of mappings, lists and values into the sections of a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import date
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import orjson
from msgspec import UNSET, Struct, ValidationError, convert
from msgspec.structs import fields

from graphrag_eval_async.config.llm import ModelConfig
from graphrag_eval_async.config.secrecy import VARIABLE, FromEnvironment, expand
from graphrag_eval_async.errors import describe
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.removed import explain_removed

MAX_QUOTED = 20
"""Length of strings that errors quote. Longer ones may be secrets in the wrong place."""

SIMILARITY = 0.75
"""How similar, from 0 to 1, an unknown key of a model is to one of ours if it is a mistake."""

Report: TypeAlias = Callable[[str, str], object]
"""A function that takes a key of the configuration and what is wrong with the value there."""

_PLAIN_KEY = re.compile(r"[\w-]{1,64}\Z")


class Reader:
    """Reads values strictly, by the types of the fields of sections.

    Text from the environment may stand for a number.

    Attributes:
        problems: the first problem at each key.
    """

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}

    def report(self, key: str, problem: str) -> None:
        """Add a problem at a key, unless there is one already."""
        self.problems.setdefault(key, problem)

    def read_section(self, kind: type[Struct], value: Any, key: str = "") -> Any:
        """Return the section in a value; None after a problem.

        Args:
            kind: the class of the section.
            value: a mapping or a section.
            key: the key of the value; "" for the whole configuration.
        """
        if isinstance(value, Struct):
            value = values_by_key(value)
        if not isinstance(value, Mapping):
            self.report(key, f"expected a mapping, got {_describe_value(value, key)}")
            return None
        known_fields = {field.encode_name: field for field in fields(kind)}
        if issubclass(kind, ModelConfig):
            value = _with_our_keys(value, known_fields)

        problem_count = len(self.problems)
        for name in value:
            if name not in known_fields:
                place = join_key(key, name)
                hint = did_you_mean(str(name), known_fields)
                self.report(place, explain_removed(place) or f"unknown key; {hint}")
        arguments = {}
        for name, field in known_fields.items():
            place = join_key(key, name)
            if name in value:
                arguments[field.name] = self._read_value(field.type, value[name], place)
            elif field.required:
                self.report(place, "missing")
        if len(self.problems) > problem_count:
            return None
        return kind(**arguments)

    def _read_value(self, kind: Any, value: Any, key: str) -> Any:
        """Return a value as the type of its field requires; None after a problem.

        Args:
            kind: the type of the field. Errors say that the first type of a union is expected.
            value: the value.
            key: the key of the value.
        """
        options = (kind,)
        if get_origin(kind) in {Union, UnionType}:
            options = get_args(kind)
        expected = options[0]
        if value is None and NoneType in options:
            return None

        # The value is a section, or may be one.
        section = _section_among(options)
        is_section = section is expected or isinstance(value, Mapping | Struct)
        if section is not None and is_section:
            return self.read_section(section, value, key)

        # The value has texts in it, or is one.
        if isinstance(value, date):
            # Files keep dates as text; `yaml.safe_load` makes a date of `api_version: 2024-10-21`.
            value = value.isoformat()
        base = expected
        if get_origin(expected) is Annotated:
            base = get_args(expected)[0]
        may_hold_text = isinstance(value, str | list | tuple | Mapping)
        if base is Any and not may_hold_text and not _is_json(value):
            self.report(key, "cannot be written as JSON")
            return None
        problem_count = len(self.problems)
        value = self._read_texts_in(value, base, key)
        if len(self.problems) > problem_count:
            return None

        # Check its type.
        try:
            return convert(value, kind, strict=not isinstance(value, FromEnvironment))
        except ValidationError:
            is_number_expected = base in {int, float}
            described = _describe_value(value, key, is_number_expected=is_number_expected)
            self.report(key, f"expected {_describe_type(expected)}, got {described}")
            return None

    def _read_texts_in(self, value: Any, base: Any, key: str) -> Any:
        """Return a value in which texts are read, also those in its items.

        Items are read only if `base` has a type for them. Otherwise, the value is an error, and
        nothing in it matters.

        Args:
            value: the value.
            base: the type of the value, without annotations.
            key: the key of the value.
        """
        if isinstance(value, str):
            return self._read_text(value, key)
        if isinstance(value, list | tuple) and (base is Any or get_origin(base) is tuple):
            item_type = Any if base is Any else get_args(base)[0]
            return [
                self._read_value(item_type, item, f"{key}[{index}]")
                for index, item in enumerate(value)
            ]
        if isinstance(value, Mapping) and (base is Any or get_origin(base) is dict):
            name_type: Any = str
            item_type = Any
            if base is not Any:
                name_type, item_type = get_args(base)
            items = {}
            for name, item in value.items():
                place = join_key(key, name)
                read_name = self._read_value(name_type, name, place)
                items[read_name] = self._read_value(item_type, item, place)
            return items
        return value

    def _read_text(self, text: str, key: str) -> str:
        """Return a text; "" after a problem.

        At a key that may be secret, ``${NAME}`` is replaced by the environment variable.
        """
        try:
            # Text of a loaded configuration was replaced before.
            if _may_be_secret(key) and not isinstance(text, FromEnvironment):
                text = expand(text)
            text.encode()
        except KeyError as error:
            self.report(key, f"the environment variable {error.args[0]} is not set")
            return ""
        except UnicodeEncodeError:
            self.report(key, "expected text, got lone surrogates, which UTF-8 cannot encode")
            return ""
        return text


def values_by_key(section: Struct | Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a section or a mapping, by their keys in a file."""
    if isinstance(section, Mapping):
        return dict(section)
    values = {field.encode_name: getattr(section, field.name) for field in fields(section)}
    return {key: value for key, value in values.items() if value is not UNSET}


def _section_among(types: Collection[Any]) -> type[Struct] | None:
    """Return the first class of a section among types; None if there is none."""
    for kind in types:
        if isinstance(kind, type) and issubclass(kind, Struct):
            return kind
    return None


def _is_json(value: Any) -> bool:
    """Return whether JSON can represent a value exactly."""
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except TypeError:
        return False


def _with_our_keys(section: Mapping[Any, Any], our_keys: Collection[str]) -> dict[Any, Any]:
    """Return the section of a model, written for the library graphrag-eval, with our keys.

    There, `api_base` is the `base_url`, and each unknown key is a field of each request; here, such
    fields are in `parameters`. A key that is nearly one of ours stays, and is an error later: it is
    probably a mistake.
    """
    renamed = dict(section)
    if "base_url" not in renamed and "api_base" in renamed:
        renamed["base_url"] = renamed.pop("api_base")
    known_keys = [*our_keys, "api_base"]
    request_keys = [
        key
        for key in renamed
        if key not in known_keys
        and not get_close_matches(str(key)[:64], known_keys, n=1, cutoff=SIMILARITY)
    ]
    parameters = renamed.get("parameters", {})
    if request_keys and isinstance(parameters, Mapping):
        request_fields = {key: renamed.pop(key) for key in request_keys}
        # What `parameters` says counts for more.
        renamed["parameters"] = request_fields | dict(parameters)
    return renamed


def _may_be_secret(key: str) -> bool:
    """Return whether texts at a key may be secrets, and may name environment variables."""
    return key in {"", "llm", "execute"} or key.startswith(("llm.", "execute."))


def join_key(key: str, name: object) -> str:
    """Return the key of a value in a mapping, such as ``llm.limits`` or ``llm.judges['a b']``.

    Args:
        key: the key of the mapping; "" for the whole configuration.
        name: the name of the value in the mapping. An unusual one is in brackets.
    """
    if not isinstance(name, str):
        return f"{key}[{describe(name)}]"
    if not _PLAIN_KEY.match(name):
        return f"{key}[{name[:64]!r}]"
    if not key:
        return name
    return f"{key}.{name}"


def _describe_type(kind: Any) -> str:
    """Return in words which values the type of a field allows, such as "a string"."""
    if get_origin(kind) is Annotated:
        return str(get_args(kind)[1].description)
    if get_origin(kind) is Literal:
        return " or ".join(f'"{value}"' for value in get_args(kind))
    names = {str: "a string", bool: "true or false", dict: "a mapping"}
    return names.get(get_origin(kind) or kind, "a list")


def _describe_value(value: Any, key: str, *, is_number_expected: bool = False) -> str:
    """Return a value in a few words for an error, which must not tell a secret.

    Args:
        value: the value.
        key: its key.
        is_number_expected: whether the key is for a number. Then a number is no secret.
    """
    if isinstance(value, FromEnvironment):
        variables = [f"${{{name}}}" for name in VARIABLE.findall(value.written)]
        return f"text from {' and '.join(variables)}"
    may_be_secret = _may_be_secret(key)
    if isinstance(value, str):
        is_hidden = may_be_secret and not key.endswith(".provider")
        if is_hidden or len(value) > MAX_QUOTED:
            return "a string"
    elif value is None:
        return "nothing"
    elif type(value) is list:
        return "a list" if value else "an empty list"
    elif type(value) is dict:
        return "a mapping"
    elif type(value) in {int, float} and may_be_secret and not is_number_expected:
        return "a number"
    return describe(value)
