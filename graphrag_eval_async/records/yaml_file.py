"""Reads YAML and JSON files that people write."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from itertools import chain
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import orjson
import yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_EXPANSION = 10
"""Maximum factor by which expanding aliases may lengthen a YAML file.

The limit protects against files that expand to gigabytes.
"""

FREE_EXPANSION = 1_000_000
"""Characters by which expanding aliases may lengthen any YAML file, in addition to the factor."""

CHECKED_BYTES = 1 << 20
"""How many bytes are searched for duplicate keys in JSON text on one line.

Such text is written by programs, which do not repeat keys.
"""

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
    """Return the value of JSON text, in which integers may have any length.

    Raises:
        UnreadableFile: the text is not JSON.
    """
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        problem: Exception = error
    # Unlike msgspec, orjson says in which line the problem is. It can read fewer integers.
    try:
        orjson.loads(text)
    except ValueError as error:
        problem = error
    raise UnreadableFile(f"not JSON: {problem}")


def check_keys(text: bytes) -> None:
    """Check that no object in JSON text has a key twice, which parsers silently accept.

    Text that is not JSON passes; `read_json` says what is wrong with it.

    Raises:
        UnreadableFile: an object has a key twice.
    """
    checked = text
    has_lines = b"\n" in text[:CHECKED_BYTES]
    if not has_lines:
        checked = text[:CHECKED_BYTES]
    try:
        json.loads(checked.decode(errors="replace"), object_pairs_hook=_check_object, parse_int=str)
    except UnreadableFile as duplicate_error:
        message = _duplicate_with_line(text) or str(duplicate_error)
        raise UnreadableFile(message) from None
    except (ValueError, RecursionError):
        return


def _check_object(pairs: list[tuple[str, Any]]) -> None:
    """Check that an object has no key twice, given its keys and values in the order of the text."""
    has_duplicates = len(dict(pairs)) < len(pairs)
    if has_duplicates:
        names = [name for name, _ in pairs]
        most_frequent = max(names, key=names.count)
        raise UnreadableFile(f"not JSON: duplicate key {most_frequent!r} in an object")


def _duplicate_with_line(text: bytes) -> str | None:
    """Return a message about a duplicate key in JSON text that says in which line it is.

    Parsers of JSON do not tell the line of a key, so the text is parsed as YAML, of which JSON is
    nearly a subset.

    Returns:
        None if the parser of YAML finds no duplicate key, or stops at something else before it.
    """
    try:
        read_yaml(_without_surrogates(text))
    except UnreadableFile as error:
        message = str(error).replace("not YAML", "not JSON")
        if "duplicate key" in message:
            return message
    return None


def _without_surrogates(json_text: bytes) -> bytes:
    """Replace the escaped surrogates of JSON text, which YAML lacks, by other characters.

    The length of its lines does not change.
    """
    return _SURROGATE.sub(rb"\\u0078", json_text)


def read_yaml(text: bytes) -> Any:
    """Return the value of YAML text with one document; None if it has no document.

    Raises:
        UnreadableFile: the text is not YAML, or its aliases expand too far.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            # Check the size before any value is built.
            max_size = MAX_EXPANSION * len(text) + FREE_EXPANSION
            if _expanded_size(node, sizes={}) > max_size:
                raise _error("aliases expand too far, or are inside their own value", node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableFile(f"not YAML: {_without_quotations(error)}") from None
    except (ArithmeticError, AttributeError, LookupError, ValueError):
        # The parser raises these for a value that its tag does not fit, such as "!!bool maybe".
        problem = "a value is not of its type; put strings in quotes"
        raise UnreadableFile(f"not YAML: {problem}") from None


def _error(problem: str, node: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _without_quotations(error: Exception) -> str:
    """Return the message of an error of YAML, without text of the file, which may be secret."""
    if isinstance(error, RecursionError):
        return "nests too deep"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    problem = str(error.problem)
    # The parser raises subclasses, whose messages quote the file. The messages of `_error` quote
    # only duplicate keys, which are needed to find them.
    is_from_parser = type(error) is not yaml.MarkedYAMLError
    if is_from_parser:
        problem = _QUOTATION.sub("...", problem)
    mark = error.problem_mark
    return f"{problem}, in line {mark.line + 1}, column {mark.column + 1}"


def _expanded_size(node: Any, sizes: dict[int, float]) -> float:
    """Return how many characters a node would have if all its aliases were expanded.

    This also checks the keys of all mappings.

    Args:
        node: the node.
        sizes: the sizes of nodes that were computed before, by `id` of the node. The sizes of this
            node and of all nodes inside it are added.

    Returns:
        infinity if the node has an alias of itself inside.

    Raises:
        yaml.YAMLError: a mapping has a key twice.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1 + len(node.value)
    if id(node) in sizes:
        return sizes[id(node)]
    # If the node occurs again while its size is computed, it is inside itself.
    sizes[id(node)] = inf
    children = node.value
    if isinstance(node, yaml.MappingNode):
        _check_mapping(node)
        children = chain.from_iterable(node.value)
    sizes[id(node)] = 1 + sum(_expanded_size(child, sizes) for child in children)
    return sizes[id(node)]


def _check_mapping(node: yaml.MappingNode) -> None:
    """Check that a mapping has no key twice.

    Raises:
        yaml.YAMLError: it has a key twice.
    """
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
    """Return the problems of a file, each with the line in which it is.

    Args:
        problems: messages that begin with a place such as ``templates[0].questions: ``.
        path: the file.

    Returns:
        the same messages without lines if the file cannot be read.
    """
    root = compose_document(path)
    if root is None:
        return [*problems]
    messages = []
    for problem in problems:
        place = problem.partition(": ")[0]
        messages.append(problem + _line_of(place, root))
    return messages


def compose_document(path: str | Path) -> Any:
    """Return the node of the document in a file, which knows its lines; None if there is none.

    JSON is read as YAML, of which it is nearly a subset. It is None, too, if the file cannot be
    read.
    """
    try:
        return yaml.compose(_without_surrogates(Path(path).read_bytes()), _Parser)
    except (OSError, yaml.YAMLError, RecursionError):
        return None


def _line_of(place: str, root: Any) -> str:
    """Return the line of a place in a document as text, such as " (line 3)".

    If the place does not exist, it is the line of the innermost value that should contain it. It is
    empty if there is no such value either.

    Args:
        place: keys and indices, such as ``templates[0].questions``.
        root: the node of the whole document.
    """
    line = ""
    node = root
    for key, index in _PLACE_PART.findall(place):
        child = _child(node, key, index)
        if child is None:
            break
        node = child.value
        line = f" (line {child.start.start_mark.line + 1})"
    return line


class _Child(NamedTuple):
    """A value in a mapping or a sequence.

    Attributes:
        start: the node at which it starts: the key in a mapping, the value itself in a sequence.
        value: the node of the value.
    """

    start: Any
    value: Any


def _child(node: Any, key: str, index: str) -> _Child | None:
    """Return a value in a mapping or a sequence; None if it is not there.

    Args:
        node: the node of the mapping or of the sequence.
        key: the key in a mapping; empty if `index` is given.
        index: the index in a sequence, in digits; empty if `key` is given.
    """
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if key_node.value == key:
                return _Child(start=key_node, value=value_node)
    elif isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
        item = node.value[int(index)]
        return _Child(start=item, value=item)
    return None
