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
"""Maximum factor by which expanding aliases may lengthen a YAML file, plus `FREE_EXPANSION`."""

FREE_EXPANSION = 1_000_000
"""Characters by which expanding aliases may lengthen any YAML file."""

CHECKED_BYTES = 1 << 20
"""JSON text on one line, as programs write it, is searched for duplicate keys only so far."""

_GZIP_MAGIC = b"\x1f\x8b"
_QUOTATION = re.compile(r"""(['"]).*\1""", re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_PLACE_PART = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]")

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_MERGE = "tag:yaml.org,2002:merge"

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableFile(ValueError):  # noqa: N818
    """A file cannot be read or parsed.

    The message quotes only duplicate keys, since other text may be secret.
    """


def read_bytes(path: str) -> bytes:
    """Return the contents of a file without a byte-order mark.

    Raises:
        UnreadableFile: the file cannot be read, or is compressed.
    """
    try:
        contents = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have.
        reason = getattr(error, "strerror", None) or error
        raise UnreadableFile(f"cannot be read: {reason}") from error
    contents = contents.removeprefix(BOM_UTF8)
    if contents.startswith(_GZIP_MAGIC):
        raise UnreadableFile("compressed by gzip; unpack it first")
    return contents


def read_file(path: str) -> Any:
    """Return the value in a YAML file, or in a JSON file if the suffix is ``.json``.

    Raises:
        UnreadableFile: the file cannot be read or parsed.
    """
    text = read_bytes(path)
    if not path.endswith(".json"):
        return read_yaml(text)
    check_keys(text)
    return read_json(text)


def read_json(text: bytes) -> Any:
    """Return the value of JSON text, with integers of any length.

    Raises:
        UnreadableFile: the text is not JSON.
    """
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        problem: Exception = error
    # orjson says in which line the problem is.
    try:
        orjson.loads(text)
    except ValueError as error:
        problem = error
    raise UnreadableFile(f"not JSON: {problem}")


def check_keys(text: bytes) -> None:
    """Check that no object in JSON text has a key twice. Other mistakes pass.

    Raises:
        UnreadableFile: an object has a key twice.
    """
    beginning = text[:CHECKED_BYTES]
    checked = text if b"\n" in beginning else beginning
    try:
        json.loads(checked.decode(errors="replace"), object_pairs_hook=_check_object, parse_int=str)
    except UnreadableFile as duplicate:
        raise UnreadableFile(_duplicate_with_line(text) or str(duplicate)) from None
    except (ValueError, RecursionError):
        return


def _check_object(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        most_frequent = max(names, key=names.count)
        raise UnreadableFile(f"not JSON: duplicate key {most_frequent!r} in an object")


def _duplicate_with_line(text: bytes) -> str | None:
    """Return a message about a duplicate key in JSON text with its line, which only YAML tells."""
    try:
        read_yaml(_without_surrogates(text))
    except UnreadableFile as error:
        message = str(error).replace("not YAML", "not JSON")
        return message if "duplicate key" in message else None
    return None


def _without_surrogates(json_text: bytes) -> bytes:
    """Return JSON text that is YAML of the same lines: YAML has no surrogate pairs."""
    return _SURROGATE.sub(rb"\\u0078", json_text)


def read_yaml(text: bytes) -> Any:
    """Return the value of the only document in YAML text; None if there is none.

    Raises:
        UnreadableFile: the text is not YAML, or expands too far.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            if _expanded_size(node, {}) > MAX_EXPANSION * len(text) + FREE_EXPANSION:
                raise _error("aliases expand too far, or are inside their own value", node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableFile(f"not YAML: {_without_quotations(error)}") from None
    except (ArithmeticError, AttributeError, LookupError, ValueError):  # As for "!!bool maybe".
        problem = "a value is not of its type; put strings in quotes"
        raise UnreadableFile(f"not YAML: {problem}") from None


def _error(problem: str, node: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _without_quotations(error: Exception) -> str:
    """Return what is wrong and where, without the text that the parser quotes."""
    if isinstance(error, RecursionError):
        return "nests too deep"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    problem = str(error.problem)
    # The parser's own errors are of subclasses; those of `_error` quote duplicate keys only.
    if type(error) is not yaml.MarkedYAMLError:
        problem = _QUOTATION.sub("...", problem)
    mark = error.problem_mark
    return f"{problem}, in line {mark.line + 1}, column {mark.column + 1}"


def _expanded_size(node: Any, sizes: dict[int, float]) -> float:
    """Return the number of characters of a node with its aliases expanded.

    Args:
        node: the node.
        sizes: the sizes of nodes that are known, by identity. This adds those of the node and its
            children.

    Raises:
        yaml.YAMLError: a mapping has a key twice.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1 + len(node.value)
    if id(node) in sizes:
        return sizes[id(node)]
    # Until the size is known: an alias of this value would be inside it.
    sizes[id(node)] = inf
    children = node.value
    if isinstance(node, yaml.MappingNode):
        _check_mapping(node)
        children = chain.from_iterable(node.value)
    sizes[id(node)] = 1 + sum(_expanded_size(child, sizes) for child in children)
    return sizes[id(node)]


def _check_mapping(node: yaml.MappingNode) -> None:
    """Raise an error of YAML if a mapping has a key twice."""
    keys: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
            continue
        if (key.tag, key.value) in keys:
            raise _error(f"duplicate key {key.value!r} in a mapping", key)
        keys.add((key.tag, key.value))


class _Loader(_Parser):  # type: ignore[misc]
    """Safe YAML whose dates and times stay strings, as in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in _Parser.yaml_implicit_resolvers.items()
}


def with_lines(problems: Sequence[str], path: Path) -> list[str]:
    """Add to each problem its line in a file.

    Args:
        problems: messages that begin with a place such as ``templates[0].questions: ``. If the
            place is not found, the line is that of what should hold it.
        path: the file. JSON is read as YAML, which it nearly always is.
    """
    try:
        root = yaml.compose(_without_surrogates(path.read_bytes()), _Parser)
    except (OSError, yaml.YAMLError, RecursionError):
        return [*problems]
    return [f"{problem}{_line_of(problem.partition(': ')[0], root)}" for problem in problems]


def _line_of(place: str, root: Any) -> str:
    """Return the line of a place in a document, such as " (line 3)"; empty if it is not found."""
    line = ""
    node = root
    for key, index in _PLACE_PART.findall(place):
        child = _child(node, key, index)
        if child is None:
            break
        start, node = child
        line = f" (line {start.start_mark.line + 1})"
    return line


def _child(node: Any, key: str, index: str) -> tuple[Any, Any] | None:
    """Return where a value in a mapping or a sequence starts, and the value; None if it is not
    there.

    The value in a mapping starts with its key. Either `key` or `index` is empty.
    """
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if key_node.value == key:
                return key_node, value_node
    elif isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
        item = node.value[int(index)]
        return item, item
    return None
