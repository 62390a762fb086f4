"""Reading a tree of mappings, lists and values into the structs of a configuration, collecting problems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from msgspec import UNSET, Struct, inspect
from msgspec.structs import asdict

from graphrag_eval_async.config.secrecy import VARIABLE, FromEnvironment, expand
from graphrag_eval_async.records.copying import AmbiguousObject

MAX_DEPTH = 100
"""How deep a value of `parameters` may nest."""

MAX_QUOTED = 20
"""How long a string may be to be quoted: longer ones may be secrets at a wrong place."""

FAILED: Any = object()
"""Stands for a value with a problem."""

_BLANKS: dict[type[inspect.Type], Any] = {
    inspect.StrType: "",
    inspect.LiteralType: "",
    inspect.VarTupleType: (),
    inspect.DictType: {},
}

_NOUNS: dict[type[inspect.Type], str] = {
    inspect.StrType: "a string",
    inspect.BoolType: "true or false",
    inspect.IntType: "an integer",
    inspect.FloatType: "a number",
    inspect.VarTupleType: "a list",
    inspect.DictType: "a mapping",
    inspect.StructType: "a mapping",
}

_QUOTED: dict[type[inspect.Type], tuple[type, ...]] = {
    inspect.LiteralType: (str, int, float),
    inspect.IntType: (int, float),
    inspect.FloatType: (int, float),
}
"""Values of which types are quoted in errors under `llm`, by the type that was expected."""

_SURROGATE = re.compile("[\ud800-\udfff]")

_PLAIN_KEY = re.compile(r"[\w-]{1,64}\Z")


class Reader:
    """Reads values strictly by their types, except that text from the environment may stand for a number.

    A value with a problem leaves its default, or something empty, so that all problems can be found.

    Attributes:
        problems: by key, the first that was found there.
    """

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}

    def problem(self, key: str, what: str) -> Any:
        """Add a problem, unless there is one at the key; returns `FAILED`."""
        self.problems.setdefault(key, what)
        return FAILED

    def read(self, kind: inspect.Type, value: Any, key: str) -> Any:
        """The value as the type has it, or `FAILED`."""
        if isinstance(value, str):
            value = self._expanded(value, key)
        if value is FAILED:
            return FAILED
        match kind:
            case inspect.StructType():
                return self._struct(kind, value, key)
            case inspect.UnionType():
                return self._union(kind, value, key)
            case inspect.AnyType():
                return self._json(value, key)
            case inspect.TupleType() | inspect.VarTupleType() if isinstance(value, list | tuple):
                return self._list(kind, value, key)
            case inspect.DictType() if isinstance(value, Mapping):
                return self._mapping(kind, value, key)
        scalar = _scalar(kind, value)
        return self._unexpected(kind, value, key) if scalar is FAILED else scalar

    def _unexpected(self, kind: inspect.Type, value: Any, key: str) -> Any:
        quoted = _QUOTED.get(type(kind), ()) if _is_of_judge(key) else (str, int, float)
        return self.problem(key, f"expected {_wanted(kind)}, got {_described(value, quoted)}")

    def _expanded(self, value: str, key: str) -> Any:
        if isinstance(value, FromEnvironment):
            return value
        text = str.__str__(value)  # A subclass, as of an enum, is no text of JSON.
        try:
            if _is_of_judge(key) and not _SURROGATE.search(text):
                text = expand(text)
        except KeyError as error:
            return self.problem(key, f"the environment variable {error.args[0]} is not set")
        if _SURROGATE.search(text):
            return self.problem(key, "holds half a character: a lone surrogate")
        return text

    def _struct(self, kind: inspect.StructType, value: Any, key: str) -> Struct:
        fields = {field.name: _BLANKS[type(field.type)] for field in kind.fields if field.required}
        if isinstance(value, kind.cls):
            value = {name: item for name, item in asdict(value).items() if item is not UNSET}
        if not isinstance(value, Mapping):
            self._unexpected(kind, value, key)
            return kind.cls(**fields)
        members = dict(self._members(value, key))
        known = [field.name for field in kind.fields]
        for name in members:
            if name not in known:
                self.problem(join(key, name), _unknown(name, known))
        for field in kind.fields:
            place = join(key, field.name)
            if field.name in members:
                item = self.read(field.type, members[field.name], place)
                fields |= {} if item is FAILED else {field.name: item}
            elif field.required:
                self.problem(place, "missing")
        return kind.cls(**fields)

    def _members(self, value: Mapping[Any, Any], key: str) -> Iterator[tuple[str, Any]]:
        """The members of a mapping whose keys are strings."""
        for name in value.repeated if isinstance(value, AmbiguousObject) else ():
            self.problem(join(key, name), "stands twice")
        for name, item in value.items():
            if isinstance(name, str) and not _SURROGATE.search(name):
                yield str.__str__(name), item
            else:
                self.problem(join(key, name), "expected a string as key")

    def _union(self, kind: inspect.UnionType, value: Any, key: str) -> Any:
        members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
        if value is None and len(members) < len(kind.types):
            return None
        if len(members) > 1:  # Text or a mapping.
            members = [m for m in members if isinstance(value, str) == isinstance(m, inspect.StrType)]
            if not isinstance(value, str | Mapping | Struct):
                return self._unexpected(kind, value, key)
        return self.read(members[0], value, key)

    def _list(
        self, kind: inspect.TupleType | inspect.VarTupleType, value: list[Any] | tuple[Any, ...], key: str
    ) -> Any:
        if isinstance(kind, inspect.TupleType):
            kinds = kind.item_types
        else:
            kinds = (kind.item_type,) * max(len(value), kind.min_length or 0)
        if len(kinds) != len(value):
            return self.problem(key, f"expected {_wanted(kind)}, got one of {len(value)}")
        items = [self.read(kinds[i], item, f"{key}[{i}]") for i, item in enumerate(value)]
        return FAILED if any(item is FAILED for item in items) else tuple(items)

    def _mapping(self, kind: inspect.DictType, value: Mapping[Any, Any], key: str) -> Any:
        if len(value) < (kind.min_length or 0):
            return self.problem(key, f"expected {_wanted(kind)}")
        items = {}
        for name, item in self._members(value, key):
            place = join(key, name)
            if not _matches(kind.key_type, name):
                self.problem(place, f"expected {_wanted(kind.key_type)} as key")
            items[name] = self.read(kind.value_type, item, place)
        return {name: item for name, item in items.items() if item is not FAILED}

    def _json(self, value: Any, key: str) -> Any:
        try:
            return self._copy(value, key, MAX_DEPTH)
        except RecursionError:
            return self.problem(key, f"nests more than {MAX_DEPTH} deep, or contains itself")

    def _copy(self, value: Any, key: str, depth: int) -> Any:
        if depth < 0:
            raise RecursionError
        if isinstance(value, str):
            return self._expanded(value, key)
        if isinstance(value, Mapping):
            members = dict(self._members(value, key))
            return {name: self._copy(item, join(key, name), depth - 1) for name, item in members.items()}
        if isinstance(value, list | tuple):
            return [self._copy(item, f"{key}[{i}]", depth - 1) for i, item in enumerate(value)]
        if value is None or isinstance(value, bool):
            return value
        number = _number_of(int if isinstance(value, int) else float, value)
        return self.problem(key, "cannot be written as JSON") if number is None else number


def _is_of_judge(key: str) -> bool:
    """Whether strings at the key read the environment, and may be secrets."""
    return key == "llm" or key.startswith("llm.")


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name[:64], known, 1)
    return f"unknown key; did you mean {close[0]}?" if close else f"unknown key; known are {', '.join(known)}"


def _scalar(kind: inspect.Type, value: Any) -> Any:
    """The value, if it is of the type and within its range, else `FAILED`."""
    match kind:
        case inspect.IntType() | inspect.FloatType():
            number = _number_of(int if isinstance(kind, inspect.IntType) else float, value)
            return number if number is not None and _is_within(kind, number) else FAILED
        case inspect.LiteralType() if value in kind.values:
            return str(value)
        case inspect.StrType() if isinstance(value, str) and (value.strip() or not kind.min_length):
            return value if _matches(kind, value) else FAILED
        case inspect.BoolType() if isinstance(value, bool):
            return value
    return FAILED


def _matches(kind: inspect.Type, text: str) -> bool:
    pattern = kind.pattern if isinstance(kind, inspect.StrType) else None
    return pattern is None or re.search(pattern, text) is not None


def _number_of(kind: type[int] | type[float], value: Any) -> int | float | None:
    """An int, or a float that may be given as an int, or text from the environment that stands for one."""
    if isinstance(value, bool) or not isinstance(value, FromEnvironment | int | kind):
        return None
    try:
        number = kind(value)
    except (ValueError, OverflowError):
        return None
    return number if (_fits(number) if isinstance(number, int) else isfinite(number)) else None


def _is_within(kind: inspect.IntType | inspect.FloatType, number: float) -> bool:
    return (
        (kind.gt is None or number > kind.gt)
        and (kind.ge is None or number >= kind.ge)
        and (kind.le is None or number <= kind.le)
    )


def _fits(number: int) -> bool:
    """Whether an integer is one of 64 bits, signed or not."""
    return -(2**63) <= number < 2**64


def join(key: str, name: Any) -> str:
    """The key of a mapping's member; a name that reads badly stands in brackets."""
    if not isinstance(name, str) or not _PLAIN_KEY.match(name):
        return f"{key}[{repr(name[:64]) if isinstance(name, str) else _described(name, (int, float))}]"
    return f"{key}.{name}" if key else name


def _wanted(kind: inspect.Type) -> str:
    """What a value of the type is."""
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(f'"{value}"' for value in kind.values)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(map(_wanted, kind.types))
    if isinstance(kind, inspect.TupleType):
        return f"a list of {len(kind.item_types)}, each {_wanted(kind.item_types[0])}"
    if getattr(kind, "pattern", None):  # There is one.
        return "1 to 64 letters, digits, _ and -"
    suffix = _range(kind) if isinstance(kind, inspect.IntType | inspect.FloatType) else ""
    return _NOUNS[type(kind)] + (" that is not empty" if getattr(kind, "min_length", None) else suffix)


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.gt is not None:
        return f" above {kind.gt:g}" + ("" if kind.le is None else f", at most {kind.le:g}")
    if kind.ge is not None:
        return f" of {kind.ge:g} or more" if kind.le is None else f" from {kind.ge:g} to {kind.le:g}"
    return ""


def _described(value: Any, quote: tuple[type, ...] = ()) -> str:
    """A value in a few words; itself if it is short and of a type in `quote`, but never the environment's."""
    if isinstance(value, FromEnvironment):
        return f"text from {' and '.join(f'${{{name}}}' for name in VARIABLE.findall(value.written))}"
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, int) and not _fits(value):
        return "an integer beyond 64 bits"
    if isinstance(value, quote) and not (isinstance(value, str) and len(value) > MAX_QUOTED):
        return repr(value) if isinstance(value, str) else str(value)
    nouns = {str: "a string", int: "an integer", float: "a number", Mapping: "a mapping", list: "a list"}
    nouns[tuple] = "a list"
    return next(
        (noun for kind, noun in nouns.items() if isinstance(value, kind)), f"a {type(value).__name__}"
    )
