"""Reading YAML and JSON files that may be hostile."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from pathlib import Path
from typing import Any, cast

import orjson
import yaml

from graphrag_eval_async.records.decoding import MAX_DEPTH
from graphrag_eval_async.records.question_copy import AmbiguousObject

MAX_EXPANSION = 10
"""How many times longer a YAML file may get when its aliases are expanded; 1 MB is always allowed."""

_QUOTATION = re.compile(r"""'.'|(['"]).*\1""", re.DOTALL)

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Parser):  # type: ignore[misc]
    """Safe YAML, but dates and times stay the text they are in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Parser.yaml_implicit_resolvers.items()
}


class UnreadableFile(ValueError):  # noqa: N818
    """The message says why; of the text, which may hold secrets, it quotes only keys that stand twice."""


def read_file(path: str) -> Any:
    """What a YAML file holds, or a JSON file where the suffix is ``.json``.

    Raises:
        UnreadableFile: it cannot be read or parsed, repeats a key in YAML, or is built to explode.
    """
    is_json = path.endswith(".json")
    try:
        text = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise UnreadableFile(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        return _read_json(text.removeprefix(BOM_UTF8)) if is_json else _read_yaml(text)
    except ValueError as error:
        raise UnreadableFile(f"not JSON: {error}") from None
    except yaml.YAMLError as error:
        raise UnreadableFile(f"not YAML: {_without_quotations(error)}") from None


def _without_quotations(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    problem, mark = str(error.problem), error.problem_mark
    if type(error) is not yaml.MarkedYAMLError:  # PyYAML's, not one of `_error`
        problem = _QUOTATION.sub(lambda found: found[0] if len(found[0]) == 3 else "...", problem)
    return f"{problem}, in line {mark.line + 1}, column {mark.column + 1}"


def _read_json(text: bytes) -> Any:
    """The value with integers of any length, and with an `AmbiguousObject` for each with repeated keys."""
    orjson.loads(text)  # Is the stricter of the two, but makes floats of integers beyond 64 bits.
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError(f"nests more than {MAX_DEPTH} deep") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    times = Counter(key for key, _ in pairs)
    return AmbiguousObject(members, [key for key in members if times[key] > 1])


def _read_yaml(text: bytes) -> Any:
    _check_depth(text)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _Survey(MAX_EXPANSION * len(text) + 1_000_000).size(node)
        return loader.construct_document(node)
    except (LookupError, AttributeError, ValueError):  # PyYAML's own, as for "!!bool maybe" or "!!int ''"
        raise yaml.YAMLError("a value is not what its tag says, or has too many digits") from None
    finally:
        loader.dispose()


def _check_depth(text: bytes) -> None:
    """Composing nodes recurses, so nesting is measured on the flat events first."""
    depth = 0
    for event in yaml.parse(text, Loader=_Parser):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _error(f"nests more than {MAX_DEPTH} deep", event)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Survey:
    """Measures each node with its aliases expanded, without expanding them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[int, int] = {}

    def size(self, node: yaml.Node) -> int:
        if id(node) in self._sizes:
            if not self._sizes[id(node)]:
                raise _error("an alias stands inside what it names", node)
            return self._sizes[id(node)]
        self._sizes[id(node)] = 0
        own = len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        size = 1 + own + sum(map(self.size, self._children(node)))
        if size > self._limit:
            raise _error(f"aliases make it longer than {self._limit} characters", node)
        self._sizes[id(node)] = size
        return size

    def _children(self, node: yaml.Node) -> list[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            return cast(list[yaml.Node], node.value)
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if (key.tag, key.value) in seen:
                        raise _error(f"the key {key.value!r} stands twice in one mapping", key)
                    seen.add((key.tag, key.value))
            return [child for pair in node.value for child in pair]
        return []


def _error(problem: str, at: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)
