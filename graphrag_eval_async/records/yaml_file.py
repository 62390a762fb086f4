"""Reads YAML and JSON files that people write."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import orjson
import yaml

from graphrag_eval_async.records.document import without_surrogates
from graphrag_eval_async.records.yaml_errors import explain_json, explain_yaml

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
_ZIP_MAGIC = b"PK\x03\x04"
_QUOTATION = re.compile(r"""(['"]).*\1""", re.DOTALL)

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_MERGE = "tag:yaml.org,2002:merge"

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableFile(ValueError):  # noqa: N818
    """A file cannot be read or parsed.

    The message quotes only duplicate keys, since other text may be secret.

    Attributes:
        line: the line of the cause, from 1; None if it is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


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
    if contents.startswith(_ZIP_MAGIC):
        raise UnreadableFile("a ZIP or Excel file; unpack it, or save it as CSV or JSON")
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
    except orjson.JSONDecodeError as json_error:
        cure = explain_json(json_error.msg, text.decode(errors="replace"), json_error.pos)
        place = f"in line {json_error.lineno}, column {json_error.colno}"
        raise UnreadableFile(f"not JSON: {json_error.msg}, {place}{cure}") from None
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
        read_yaml(without_surrogates(text))
    except UnreadableFile as error:
        message = str(error).replace("not YAML", "not JSON")
        if "duplicate key" in message:
            return message
    return None


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
    except yaml.reader.ReaderError as error:
        raise UnreadableFile(f"not YAML: {_problem_of_characters(error, text)}") from None
    except yaml.MarkedYAMLError as error:
        raise _unreadable(error, text) from None
    except (yaml.YAMLError, RecursionError) as error:
        problem = "nests too deep" if isinstance(error, RecursionError) else str(error)
        raise UnreadableFile(f"not YAML: {problem}") from None
    except (ArithmeticError, AttributeError, LookupError, ValueError):
        # The parser raises these for a value that its tag does not fit, such as "!!bool maybe".
        problem = "a value is not of its type; put strings in quotes"
        raise UnreadableFile(f"not YAML: {problem}") from None


def _error(problem: str, node: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def _unreadable(error: yaml.MarkedYAMLError, text: bytes) -> UnreadableFile:
    """Return an error of YAML with the line and the cure, without text of the file.

    The text of a file may be secret.
    """
    problem = str(error.problem)
    if error.problem_mark is None:
        return UnreadableFile(f"not YAML: {problem}")
    # The parser raises subclasses, whose messages quote the file. The messages of `_error` quote
    # only duplicate keys, which are needed to find them.
    is_from_parser = type(error) is not yaml.MarkedYAMLError
    if is_from_parser:
        problem = _QUOTATION.sub("...", problem)
    mistake = explain_yaml(error, text.decode(errors="replace"))
    place = f"in line {mistake.line}"
    if mistake.line == error.problem_mark.line + 1:
        place += f", column {error.problem_mark.column + 1}"
    cure = f"; {mistake.cure}" if mistake.cure else ""
    return UnreadableFile(f"not YAML: {problem}, {place}{cure}", mistake.line)


def _problem_of_characters(error: yaml.reader.ReaderError, text: bytes) -> str:
    """Return which bytes of a file are no text, and what to do."""
    try:
        text.decode()
    except UnicodeDecodeError as decode_error:
        line = text[: decode_error.start].count(b"\n") + 1
        return f"not text in UTF-8, in line {line}; save the file as UTF-8"
    line = text.decode()[: error.position].count("\n") + 1
    return f"a control character, in line {line}; remove it"


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
