"""Reading a tree of mappings, lists and values into the sections of a configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import orjson
from msgspec import UNSET, Struct, ValidationError, convert
from msgspec.structs import fields

from graphrag_eval_async.config.llm import ModelConfig
from graphrag_eval_async.config.secrecy import VARIABLE, FromEnvironment, expand
from graphrag_eval_async.errors import describe
from graphrag_eval_async.removed import explain_removed
from graphrag_eval_async.text import did_you_mean

MAX_QUOTED = 20  # Longer strings are not quoted in errors: they may be secrets in the wrong place.

_PLAIN_KEY = re.compile(r"[\w-]{1,64}\Z")


class Reader:
    """Reads values strictly by the types of fields; text from the environment may stand for a
    number.
    """

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}  # By key, the first that was found there.

    def problem(self, key: str, what: str) -> None:
        self.problems.setdefault(key, what)

    def section(self, kind: type[Struct], given: Any, key: str = "") -> Any:
        """The section that a mapping or a section holds; None after a problem."""
        count = len(self.problems)
        if isinstance(given, Struct):
            given = members_of(given)
        if not isinstance(given, Mapping):
            return self.problem(key, f"expected a mapping, got {_described(given, key)}")
        known = {field.encode_name: field for field in fields(kind)}
        given = _as_published(known, given) if issubclass(kind, ModelConfig) else given
        for name in given:
            if name not in known:
                place = join(key, name)
                problem = explain_removed(place) or f"unknown key; {did_you_mean(str(name), known)}"
                self.problem(place, problem)
        members = {}
        for name, field in known.items():
            if name in given:
                members[field.name] = self._value(field.type, given[name], join(key, name))
            elif field.required:
                self.problem(join(key, name), "missing")
        return None if len(self.problems) > count else kind(**members)

    def _value(self, kind: Any, value: Any, key: str) -> Any:
        """The value as an annotated type has it; None after a problem."""
        options = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
        if value is None and NoneType in options:
            return None
        section = next(
            (each for each in options if isinstance(each, type) and issubclass(each, Struct)), None
        )
        if section is not None and (section is options[0] or isinstance(value, Mapping | Struct)):
            return self.section(section, value, key)
        if isinstance(value, date):
            # Files keep dates as text; `yaml.safe_load` makes a date of `api_version: 2024-10-21`.
            value = value.isoformat()
        wanted, count = options[0], len(self.problems)
        base = get_args(wanted)[0] if get_origin(wanted) is Annotated else wanted
        if isinstance(value, str):
            value = self._text(value, key)
        elif isinstance(value, list | tuple) and (base is Any or get_origin(base) is tuple):
            of_item, *_ = get_args(base) or (Any,)
            value = [self._value(of_item, item, f"{key}[{i}]") for i, item in enumerate(value)]
        elif isinstance(value, Mapping) and (base is Any or get_origin(base) is dict):
            of_name, of_item = get_args(base) or (str, Any)
            places = {name: join(key, name) for name in value}
            value = {
                self._value(of_name, name, places[name]): self._value(of_item, item, places[name])
                for name, item in value.items()
            }
        elif base is Any and not _is_json(value):
            return self.problem(key, "cannot be written as JSON")
        if len(self.problems) > count:
            return None
        try:
            return convert(value, kind, strict=not isinstance(value, FromEnvironment))
        except ValidationError:
            described = _described(value, key, is_number=base in {int, float})
            return self.problem(key, f"expected {_wanted(wanted)}, got {described}")

    def _text(self, text: str, key: str) -> str:
        """The text; where it may be secret, with ``${NAME}`` replaced by the environment
        variable.
        """
        try:
            read = (
                expand(text)
                if _may_be_secret(key) and not isinstance(text, FromEnvironment)
                else text
            )
            read.encode()
        except KeyError as error:
            self.problem(key, f"the environment variable {error.args[0]} is not set")
        except UnicodeEncodeError:
            self.problem(key, "expected text, got lone surrogates, which UTF-8 cannot encode")
        else:
            return read
        return ""


def members_of(section: Struct | Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a section or a mapping, by their keys in a file."""
    if isinstance(section, Mapping):
        return dict(section)
    values = {field.encode_name: getattr(section, field.name) for field in fields(section)}
    return {name: value for name, value in values.items() if value is not UNSET}


def _is_json(value: Any) -> bool:
    try:
        return bool(orjson.loads(orjson.dumps(value)) == value)
    except TypeError:
        return False


def _as_published(known: Mapping[str, Any], given: Mapping[Any, Any]) -> dict[Any, Any]:
    """A model's section with the keys of the published library as ours.

    There, `api_base` is the `base_url`, and unknown keys go into each request. A key that is nearly
    one of
    ours stays, and is an error: it was probably meant to be ours.
    """
    section = dict(given)
    if "base_url" not in section and "api_base" in section:
        section["base_url"] = section.pop("api_base")
    ours = [*known, "api_base"]
    free = [
        key
        for key in section
        if key not in ours and not get_close_matches(str(key)[:64], ours, 1, 0.75)
    ]
    if free and isinstance(section.get("parameters", {}), Mapping):
        section["parameters"] = {key: section.pop(key) for key in free} | dict(
            section.get("parameters", {})
        )
    return section


def _may_be_secret(key: str) -> bool:
    """Whether strings at the key read the environment, and may be secrets."""
    return key in {"", "llm", "execute"} or key.startswith(("llm.", "execute."))


def join(key: str, name: object) -> str:
    """The key of a mapping's member; an unusual name is quoted in brackets."""
    if not isinstance(name, str):
        return f"{key}[{describe(name)}]"
    if not _PLAIN_KEY.match(name):
        return f"{key}[{name[:64]!r}]"
    return f"{key}.{name}" if key else name


def _wanted(kind: Any) -> str:
    """What a value of the type is, in words."""
    if get_origin(kind) is Annotated:
        return str(get_args(kind)[1].description)
    if get_origin(kind) is Literal:
        return " or ".join(f'"{value}"' for value in get_args(kind))
    return {str: "a string", bool: "true or false", dict: "a mapping"}.get(
        get_origin(kind) or kind, "a list"
    )


def _described(value: Any, key: str, *, is_number: bool = False) -> str:
    """A value in a few words that tell no secret; a number is quoted where one was expected."""
    if isinstance(value, FromEnvironment):
        return (
            f"text from {' and '.join(f'${{{name}}}' for name in VARIABLE.findall(value.written))}"
        )
    names = {list: "a list" if value else "an empty list", dict: "a mapping", NoneType: "nothing"}
    if _may_be_secret(key) and not is_number:
        names |= {int: "a number", float: "a number"}
    hidden = _may_be_secret(key) and not key.endswith(".provider")
    if isinstance(value, str) and (hidden or len(value) > MAX_QUOTED):
        return "a string"
    return names.get(type(value)) or describe(value)
