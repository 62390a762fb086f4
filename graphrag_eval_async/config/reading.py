"""Reading a tree of mappings, lists and values into the structs of a configuration, problem by problem."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from msgspec import UNSET, Struct, inspect
from msgspec.structs import asdict

from graphrag_eval_async.config.secrecy import FromEnvironment, expand
from graphrag_eval_async.config.wording import described, fits, join, wanted
from graphrag_eval_async.records.question_copy import AmbiguousObject

MAX_DEPTH = 100
"""How deep a value of `parameters` may nest."""

FAILED: Any = object()
"""Stands for a value with a problem."""

_BLANKS: dict[type[inspect.Type], Any] = {
    inspect.StrType: "",
    inspect.LiteralType: "",
    inspect.VarTupleType: (),
    inspect.DictType: {},
}


class Reader:
    """Reads values as types say: strictly, but what was read from the environment may stand for a number.

    A value with a problem leaves its default, or something empty, so that all problems can be found.

    Attributes:
        problems: by key, the first that was found there.
    """

    def __init__(self) -> None:
        self.problems: dict[str, str] = {}
        self._readers: dict[type[inspect.Type], Callable[[Any, Any, str], Any]] = {
            inspect.StructType: self._struct,
            inspect.UnionType: self._union,
            inspect.LiteralType: self._literal,
            inspect.StrType: self._text,
            inspect.BoolType: self._boolean,
            inspect.IntType: self._number,
            inspect.FloatType: self._number,
            inspect.TupleType: self._list,
            inspect.VarTupleType: self._list,
            inspect.DictType: self._mapping,
            inspect.AnyType: self._json,
        }

    def problem(self, key: str, what: str) -> Any:
        """Add a problem, unless there is one at the key; returns `FAILED`."""
        self.problems.setdefault(key, what)
        return FAILED

    def read(self, kind: inspect.Type, value: Any, key: str) -> Any:
        """The value as the type has it, or `FAILED`."""
        if isinstance(value, str):
            value = self._expanded(value, key)
        return value if value is FAILED else self._readers[type(kind)](kind, value, key)

    def _unexpected(self, kind: inspect.Type, value: Any, key: str, *quote: type) -> Any:
        quote = quote if _is_of_judge(key) else (str, int, float)
        return self.problem(key, f"expected {wanted(kind)}, got {described(value, quote)}")

    def _expanded(self, value: str, key: str) -> Any:
        if isinstance(value, FromEnvironment):
            return value
        text = str.__str__(value)  # A subclass, as of an enum, is no text of JSON.
        try:
            if _is_unicode(text) and _is_of_judge(key):
                text = expand(text)
        except KeyError as error:
            return self.problem(key, f"the environment variable {error.args[0]} is not set")
        return text if _is_unicode(text) else self.problem(key, "holds half a character: a lone surrogate")

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
            if isinstance(name, str) and _is_unicode(name):
                yield str.__str__(name), item
            else:
                self.problem(join(key, name), "expected a string as key")

    def _union(self, kind: inspect.UnionType, value: Any, key: str) -> Any:
        members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
        if value is None and len(members) < len(kind.types):
            return None
        if len(members) == 1:
            return self.read(members[0], value, key)
        # Text or a mapping.
        if not isinstance(value, str | Mapping | Struct):
            return self._unexpected(kind, value, key)
        is_text = isinstance(value, str)
        return self.read(next(m for m in members if isinstance(m, inspect.StrType) == is_text), value, key)

    def _literal(self, kind: inspect.LiteralType, value: Any, key: str) -> Any:
        if isinstance(value, str) and value in kind.values:
            return str(value)
        return self._unexpected(kind, value, key, str, int, float)

    def _text(self, kind: inspect.StrType, value: Any, key: str) -> Any:
        if isinstance(value, str) and (value.strip() or not kind.min_length) and _matches(kind, value):
            return value
        return self._unexpected(kind, value, key)

    def _boolean(self, kind: inspect.BoolType, value: Any, key: str) -> Any:
        return value if isinstance(value, bool) else self._unexpected(kind, value, key)

    def _number(self, kind: inspect.IntType | inspect.FloatType, value: Any, key: str) -> Any:
        number = _number_of(int if isinstance(kind, inspect.IntType) else float, value)
        if number is not None and _is_within(kind, number):
            return number
        return self._unexpected(kind, value, key, int, float)

    def _list(self, kind: inspect.TupleType | inspect.VarTupleType, value: Any, key: str) -> Any:
        if not isinstance(value, list | tuple):
            return self._unexpected(kind, value, key)
        if isinstance(kind, inspect.TupleType):
            kinds: Sequence[inspect.Type] = kind.item_types
            right_length = len(value) == len(kinds)
        else:
            kinds = [kind.item_type] * len(value)
            right_length = len(value) >= (kind.min_length or 0)
        if not right_length:
            return self.problem(key, f"expected {wanted(kind)}, got one of {len(value)}")
        items = [self.read(kinds[i], item, f"{key}[{i}]") for i, item in enumerate(value)]
        return FAILED if any(item is FAILED for item in items) else tuple(items)

    def _mapping(self, kind: inspect.DictType, value: Any, key: str) -> Any:
        if not isinstance(value, Mapping):
            return self._unexpected(kind, value, key)
        if len(value) < (kind.min_length or 0):
            return self.problem(key, f"expected {wanted(kind)}")
        items = {}
        for name, item in self._members(value, key):
            place = join(key, name)
            if not _matches(kind.key_type, name):
                self.problem(place, f"expected {wanted(kind.key_type)} as key")
            items[name] = self.read(kind.value_type, item, place)
        return {name: item for name, item in items.items() if item is not FAILED}

    def _json(self, _: inspect.AnyType, value: Any, key: str) -> Any:
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


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name[:64], known, 1)
    return f"unknown key; did you mean {close[0]}?" if close else f"unknown key; known are {', '.join(known)}"


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
    return number if (fits(number) if isinstance(number, int) else isfinite(number)) else None


def _is_within(kind: inspect.IntType | inspect.FloatType, number: float) -> bool:
    return (
        (kind.gt is None or number > kind.gt)
        and (kind.ge is None or number >= kind.ge)
        and (kind.le is None or number <= kind.le)
    )
