"""Reading of YAML and JSON files that people write."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_EXPANSION = 10
"""Maximum factor by which expanding aliases may lengthen a YAML file, plus 1 million characters."""

CHECKED_BYTES = 1 << 20
"""JSON text on one line, as programs write it, is searched for duplicate keys only so far."""

_QUOTATION = re.compile(r"""(['"]).*\1""", re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_TIMESTAMP, _MERGE = "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:merge"

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableFile(ValueError):  # noqa: N818
    """A file that cannot be read or parsed. The message quotes only duplicate keys: text may be
    secret.
    """


def read_bytes(path: str) -> bytes:
    """The contents of a file without a byte-order mark; raises `UnreadableFile`."""
    try:
        text = Path(path).read_bytes().removeprefix(BOM_UTF8)
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise UnreadableFile(
            f"cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error
    if text.startswith(b"\x1f\x8b"):
        raise UnreadableFile("compressed by gzip; unpack it first")
    return text


def read_file(path: str) -> Any:
    """The contents of a YAML file, or of a JSON file if the suffix is ``.json``; raises
    `UnreadableFile`.
    """
    text = read_bytes(path)
    if not path.endswith(".json"):
        return read_yaml(text)
    check_keys(text)
    return read_json(text)


def read_json(text: bytes) -> Any:
    """The value of JSON text, with integers of any length; raises `UnreadableFile`."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        problem: Exception = error
    try:
        orjson.loads(text)
    except ValueError as error:
        problem = error  # It says in which line.
    raise UnreadableFile(f"not JSON: {problem}")


def check_keys(text: bytes) -> None:
    """Raise `UnreadableFile` if an object in JSON text has a key twice. Other mistakes pass."""
    beginning = text[:CHECKED_BYTES]
    checked = text if b"\n" in beginning else beginning
    try:
        json.loads(checked.decode(errors="replace"), object_pairs_hook=_check_object, parse_int=str)
    except UnreadableFile as duplicate:
        try:
            read_yaml(_SURROGATE.sub(rb"\\u0078", text))  # It says in which line.
        except UnreadableFile as error:
            found = str(error).replace("not YAML", "not JSON")
            raise UnreadableFile(found if "duplicate key" in found else str(duplicate)) from None
        raise
    except (ValueError, RecursionError):
        return


def _check_object(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        raise UnreadableFile(
            f"not JSON: duplicate key {max(names, key=names.count)!r} in an object"
        )


def read_yaml(text: bytes) -> Any:
    """The value of the only document in YAML text, None if there is none; raises
    `UnreadableFile`.
    """
    try:
        loader = _Loader(text)
        try:
            if (node := loader.get_single_node()) is None:
                return None
            if _size(node, {}) > MAX_EXPANSION * len(text) + 1_000_000:
                raise _error("aliases expand too far, or are inside their own value", node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableFile(f"not YAML: {_without_quotations(error)}") from None
    except (ArithmeticError, AttributeError, LookupError, ValueError):  # As for "!!bool maybe".
        raise UnreadableFile(
            "not YAML: a value is not of its type; put strings in quotes"
        ) from None


def _error(problem: str, node: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _without_quotations(error: Exception) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return "nests too deep" if isinstance(error, RecursionError) else str(error)
    is_own = type(error) is yaml.MarkedYAMLError
    problem = str(error.problem) if is_own else _QUOTATION.sub("...", str(error.problem))
    return (
        f"{problem}, in line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
    )


def _size(node: Any, sizes: dict[int, float]) -> float:
    """The number of characters of a node with its aliases expanded; a duplicate key is an error."""
    if isinstance(node, yaml.ScalarNode):
        return 1 + len(node.value)
    if id(node) not in sizes:
        sizes[id(node)] = inf  # Until it is known: an alias of this value would be inside it.
        members = node.value
        if isinstance(node, yaml.MappingNode):
            members, names = [*chain.from_iterable(members)], set()
            for key in members[::2]:
                if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                    if (key.tag, key.value) in names:
                        raise _error(f"duplicate key {key.value!r} in a mapping", key)
                    names.add((key.tag, key.value))
        sizes[id(node)] = 1 + sum(_size(member, sizes) for member in members)
    return sizes[id(node)]


class _Loader(_Parser):  # type: ignore[misc]
    """Safe YAML whose dates and times stay strings, as in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in _Parser.yaml_implicit_resolvers.items()
}


def with_lines(problems: Sequence[str], path: Path) -> list[str]:
    """Problems that begin with a place such as ``templates[0].questions: ``, each with its line in
    a file.

    If a place is not found, it is the line of what holds it. JSON is read as YAML, which it nearly
    always is.
    """
    try:
        # YAML has no surrogate pairs.
        root = yaml.compose(_SURROGATE.sub(rb"\\u0078", path.read_bytes()), _Parser)
    except (OSError, yaml.YAMLError, RecursionError):
        return [*problems]
    return [f"{problem}{_line_of(problem.partition(': ')[0], root)}" for problem in problems]


def _line_of(place: str, node: Any) -> str:
    line = ""
    for key, index in re.findall(r"\.([^.\[]+)|\[([0-9]+)\]", place):
        if isinstance(node, yaml.MappingNode):
            found = [pair for pair in node.value if pair[0].value == key]
        else:
            items = node.value if isinstance(node, yaml.SequenceNode) and index else []
            found = [(item, item) for item in items[int(index or 0) :][:1]]
        if not found:
            break
        line, node = f" (line {found[0][0].start_mark.line + 1})", found[0][1]
    return line
