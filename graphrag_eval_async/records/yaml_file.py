"""Reading of YAML and JSON files that may be hostile."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import yaml

from graphrag_eval_async.records.decoding import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

MAX_EXPANSION = 10
"""Maximum factor by which expanding aliases may lengthen a YAML file, plus 1 million characters."""

MAX_NUMBER = 4300
"""Maximum length of a number in characters; 1:30:00 is a number too. Python reads no more digits."""

_QUOTATION = re.compile(r"""'.'|(['"]).*\1""", re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_ROOT = "templates"
_TAG = "tag:yaml.org,2002:"

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableFile(ValueError):  # noqa: N818
    """A file that cannot be read or parsed. The message quotes only duplicate keys and anchors: text may be
    secret."""


def read_bytes(path: str) -> bytes:
    """The contents of a file without a byte-order mark; raises `UnreadableFile`."""
    try:
        return Path(path).read_bytes().removeprefix(BOM_UTF8)
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise UnreadableFile(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def read_file(path: str) -> Any:
    """The contents of a YAML file, or of a JSON file if the suffix is ``.json``.

    Raises:
        UnreadableFile: the file cannot be read or parsed, or has a duplicate key or aliases that expand too
            far.
    """
    text = read_bytes(path)
    if not path.endswith(".json"):
        return read_yaml(text)
    read_json(text)  # Stricter than json.
    try:
        return json.loads(text, object_pairs_hook=_object)
    except ValueError as error:
        raise UnreadableFile(f"not JSON: {error}") from None


def read_json(text: bytes) -> Any:
    """The value of JSON text, with integers of any length; raises `UnreadableFile`."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise UnreadableFile(f"not JSON: nests more than {MAX_DEPTH} deep") from None
    except ValueError as error:
        found = error
        try:
            orjson.loads(text)  # It says in which line.
        except ValueError as better:
            found = better
        raise UnreadableFile(f"not JSON: {found}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key {max(names, key=names.count)!r} in an object")
    return members


def read_yaml(text: bytes) -> Any:
    """The value of the only document in YAML text, None if there is none; raises `UnreadableFile`."""
    try:
        loader = _Loader(text)
        try:
            if (node := loader.get_single_node()) is None:
                return None
            _size(node, MAX_EXPANSION * len(text) + 1_000_000, {})
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableFile(f"not YAML: {_without_quotations(error)}") from None


def with_lines(problems: Sequence[str], path: Path) -> list[str]:
    """Problems that begin with a place such as ``templates[0].questions: ``, each with its line in a file.

    If a place is not found, it is the line of what holds it. JSON is read as YAML, which it nearly always is.
    """
    ways = [[*_enclosing(problem.partition(": ")[0])] for problem in problems]
    lines: dict[str, int] = {}
    with suppress(OSError, yaml.YAMLError):  # YAML has no surrogate pairs.
        text = _SURROGATE.sub(rb"\\u0078", path.read_bytes())
        lines = _lines_of(text, {place for way in ways for place in way})
    found = [next((lines[place] for place in way if place in lines), None) for way in ways]
    return [
        problem if line is None else f"{problem} (line {line})"
        for problem, line in zip(problems, found, strict=True)
    ]


def _enclosing(place: str) -> Iterator[str]:
    """A place and the places that hold it, innermost first, without the root."""
    ends = [found.start() for found in re.finditer(r"[.\[]", place)]
    yield from (place[:end] for end in [len(place), *reversed(ends)] if end > len(_ROOT))


def _lines_of(text: bytes, wanted: Collection[str]) -> dict[str, int]:
    """The lines of the places that are found. Nothing is built: large files have millions of nodes."""
    lines: dict[str, int] = {}
    # Of each open container: its place, and the index or the key of the next member, None before a key.
    stack: list[list[Any]] = []
    loader = _Parser(text)
    try:
        while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.CollectionEndEvent):
                stack.pop()
            elif isinstance(event, yaml.NodeEvent):
                place = _place(stack[-1], event) if stack else _ROOT
                if place in wanted and event.start_mark is not None:
                    lines.setdefault(place, event.start_mark.line + 1)
                if isinstance(event, yaml.CollectionStartEvent):
                    stack.append([place, 0 if isinstance(event, yaml.SequenceStartEvent) else None])
    finally:
        loader.dispose()
    return lines


def _place(parent: list[Any], event: Any) -> str:
    """The place of a member, which is a key or a value of a mapping. Moves to the next member."""
    place, member = parent
    if isinstance(member, int):
        parent[1] += 1
        return f"{place}[{member}]"
    parent[1] = str(getattr(event, "value", "")) if member is None else None
    return f"{place}.{parent[1] if member is None else member}"


def _size(node: Any, limit: int, sizes: dict[int, int], depth: int = 0) -> int:
    """The number of characters of a node with its aliases expanded.

    Raises:
        yaml.MarkedYAMLError: they are more than the limit, or the node nests too deep.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1 + len(node.value)
    size = sizes.get(id(node))
    if size is None:
        if depth >= MAX_DEPTH:
            raise _error(f"nests more than {MAX_DEPTH} deep", node)
        sizes[id(node)] = 0  # Until it is known: an alias of this value would be inside it.
        is_mapping = isinstance(node, yaml.MappingNode)
        members = chain.from_iterable(node.value) if is_mapping else node.value
        size = sizes[id(node)] = 1 + sum(_size(member, limit, sizes, depth + 1) for member in members)
    if size == 0:
        raise _error("alias inside the value that it refers to", node)
    if size > limit:
        raise _error(f"aliases expand to more than {limit} characters", node)
    return size


class _Loader(_Parser):  # type: ignore[misc]
    """Safe YAML without duplicate keys, whose dates and times stay strings, as in JSON."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        if isinstance(node, yaml.MappingNode):
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if len({(key.tag, key.value) for key in keys}) < len(keys):
                self._refuse_duplicate(keys)
        return super().construct_mapping(node, deep)

    def _refuse_duplicate(self, keys: Sequence[Any]) -> None:
        met = set()
        for key in keys:
            if (key.tag, key.value) in met and key.tag != f"{_TAG}merge":
                raise _error(f"duplicate key {key.value!r} in a mapping", key)
            met.add((key.tag, key.value))


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
    for first, resolvers in _Parser.yaml_implicit_resolvers.items()
}


def _checked(tag: str, construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The constructor of a type of scalars, with an error for what is not such a value."""

    def construct_checked(loader: Any, node: Any) -> Any:
        if tag in {"int", "float"} and len(node.value) > MAX_NUMBER:
            raise _error(f"number longer than {MAX_NUMBER} characters; put strings in quotes", node)
        try:
            return construct(loader, node)
        except (ArithmeticError, AttributeError, LookupError, ValueError):  # As for "!!bool maybe".
            raise _error(f"not a value of type {tag!r}; put strings in quotes", node) from None

    return construct_checked


for _tag in ("bool", "int", "float", "timestamp"):
    _Loader.add_constructor(_TAG + _tag, _checked(_tag, _Parser.yaml_constructors[_TAG + _tag]))


def _error(problem: str, node: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _without_quotations(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return f"nests more than {MAX_DEPTH} deep"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    problem, mark = str(error.problem), error.problem_mark
    if "maximum nesting depth" in problem:  # libyaml's own limit comes first.
        problem = f"nests more than {MAX_DEPTH} deep"
    if type(error) is not yaml.MarkedYAMLError:  # raised by PyYAML, not made by `_error`
        problem = _QUOTATION.sub(lambda found: found[0] if len(found[0]) == 3 else "...", problem)
    return f"{problem}, in line {mark.line + 1}, column {mark.column + 1}"
