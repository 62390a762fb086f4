"""How problems of a configuration name keys, what is expected there, and what is found instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import inspect

from graphrag_eval_async.config.secrecy import VARIABLE, FromEnvironment

MAX_QUOTED = 20
"""How long a string may be to be quoted: longer ones may be secrets at a wrong place."""

NOUNS: dict[type[inspect.Type], str] = {
    inspect.StrType: "a string",
    inspect.BoolType: "true or false",
    inspect.IntType: "an integer",
    inspect.FloatType: "a number",
    inspect.VarTupleType: "a list",
    inspect.DictType: "a mapping",
    inspect.StructType: "a mapping",
}

_PLAIN_KEY = re.compile(r"[\w-]{1,64}\Z")


def fits(number: int) -> bool:
    """Whether an integer is one of 64 bits, signed or not."""
    return -(2**63) <= number < 2**64


def join(key: str, name: Any) -> str:
    """The key of a mapping's member; a name that reads badly stands in brackets."""
    if not isinstance(name, str) or not _PLAIN_KEY.match(name):
        return f"{key}[{repr(name[:64]) if isinstance(name, str) else described(name, (int, float))}]"
    return f"{key}.{name}" if key else name


def wanted(kind: inspect.Type) -> str:
    """What a value of the type is."""
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(f'"{value}"' for value in kind.values)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(map(wanted, kind.types))
    if isinstance(kind, inspect.TupleType):
        return f"a list of {len(kind.item_types)}, each {wanted(kind.item_types[0])}"
    if getattr(kind, "pattern", None):  # There is one.
        return "1 to 64 letters, digits, _ and -"
    suffix = _range(kind) if isinstance(kind, inspect.IntType | inspect.FloatType) else ""
    return NOUNS[type(kind)] + (" that is not empty" if getattr(kind, "min_length", None) else suffix)


def _range(kind: inspect.IntType | inspect.FloatType) -> str:
    if kind.gt is not None:
        return f" above {kind.gt:g}" + ("" if kind.le is None else f", at most {kind.le:g}")
    if kind.ge is not None:
        return f" of {kind.ge:g} or more" if kind.le is None else f" from {kind.ge:g} to {kind.le:g}"
    return ""


def described(value: Any, quote: tuple[type, ...] = ()) -> str:
    """A value in a few words; itself if it is short and of a type in `quote`, but never the environment's."""
    if isinstance(value, FromEnvironment):
        return f"text from {' and '.join(f'${{{name}}}' for name in VARIABLE.findall(value.written))}"
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return repr(value) if str in quote and len(value) <= MAX_QUOTED else "a string"
    if isinstance(value, int):
        return (
            "an integer beyond 64 bits" if not fits(value) else str(value) if int in quote else "an integer"
        )
    if isinstance(value, float):
        return str(value) if float in quote else "a number"
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else f"a {type(value).__name__}"
