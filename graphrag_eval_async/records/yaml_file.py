"""Reading of YAML and JSON files that may be hostile."""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from graphrag_eval_async.errors import ReferenceDataError
from graphrag_eval_async.records.decoding import MAX_DEPTH
from graphrag_eval_async.records.json_file import read_json, split_templates

MAX_EXPANSION = 10
"""Maximum factor by which expanding aliases may lengthen a YAML file, plus 1 million characters."""

MAX_NUMBER = 4300
"""Maximum length of a number in characters; 1:30:00 is a number too. Python reads no more digits."""

_QUOTATION = re.compile(r"""'.'|(['"]).*\1""", re.DOTALL)

Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(Parser):  # type: ignore[misc]
    """Safe YAML, except that dates and times stay strings, as in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in Parser.yaml_implicit_resolvers.items()
}


class UnreadableFile(ValueError):  # noqa: N818
    """A file that cannot be read or parsed. The message quotes only duplicate keys and anchors: text may be
    secret."""


def read_file(path: str, *, raw_templates: bool = False) -> Any:
    """The contents of a YAML file, or of a JSON file if the suffix is ``.json``.

    With `raw_templates`, the members of a JSON list stay `msgspec.Raw`, for `decode_template`.

    Raises:
        UnreadableFile: the file cannot be read or parsed or, in YAML, has a duplicate key or aliases that
            expand too far.
    """
    is_json = path.endswith(".json")
    try:
        text = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        raise UnreadableFile(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        if not is_json:
            return _read_yaml(text)
        text = text.removeprefix(BOM_UTF8)
        if raw_templates:
            with suppress(ValueError, RecursionError):
                return split_templates(text)
        return read_json(text)
    except ValueError as error:
        raise UnreadableFile(f"not JSON: {error}") from None
    except yaml.YAMLError as error:
        raise UnreadableFile(f"not YAML: {_without_quotations(error)}") from None


def _without_quotations(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error)
    problem, mark = str(error.problem), error.problem_mark
    if "maximum nesting depth" in problem:  # libyaml reads ahead, so its own limit may come first.
        problem = f"nests more than {MAX_DEPTH} deep"
    if type(error) is not yaml.MarkedYAMLError:  # raised by PyYAML, not made by `_error`
        problem = _QUOTATION.sub(lambda found: found[0] if len(found[0]) == 3 else "...", problem)
    return f"{problem}, in line {mark.line + 1}, column {mark.column + 1}"


_NONE_YET = object()
_STRING = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_SEQUENCE, _MAPPING = "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"


class _Frame:
    """A sequence or mapping that is being read. `size` is its length in characters with aliases expanded."""

    __slots__ = ("anchor", "container", "key", "merged", "size")

    def __init__(self, container: Any, anchor: str | None) -> None:
        self.container = container
        self.anchor = anchor
        self.key: Any = _NONE_YET
        self.merged: list[Any] = []
        self.size = 1


def _read_yaml(text: bytes) -> Any:
    loader = _Loader(text)
    try:
        return _Builder(loader, MAX_EXPANSION * len(text) + 1_000_000).build()
    finally:
        loader.dispose()


class _Builder:
    """Builds values from parser events, without recursion. Faster than PyYAML, which builds nodes first."""

    def __init__(self, loader: Any, limit: int) -> None:
        self._loader = loader
        self._limit = limit
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        self._stack: list[_Frame] = []
        self._value: Any = _NONE_YET

    def build(self) -> Any:
        """The value of the only document; None if there is no document."""
        documents = 0
        maybe_typed = self._loader.yaml_implicit_resolvers
        while (event := self._loader.get_event()).__class__ is not yaml.StreamEndEvent:
            kind = event.__class__
            if kind is yaml.ScalarEvent:
                value, implicit = event.value, event.implicit
                if (implicit[1] or (implicit[0] and value[:1] not in maybe_typed)) and event.anchor is None:
                    self._put(value, 1 + len(value), event)  # A string, like nearly all scalars.
                    continue
                self._put(self._scalar(event), 1 + len(event.value), event)
            elif kind is yaml.SequenceStartEvent or kind is yaml.MappingStartEvent:
                self._open([] if kind is yaml.SequenceStartEvent else {}, event)
            elif kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
                self._close(event)
            elif kind is yaml.AliasEvent:
                self._put(*self._named(event), event)
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise _error("expected a single document", event)
        return None if self._value is _NONE_YET else self._value

    def _scalar(self, event: Any) -> Any:
        tag, (is_plain, is_quoted) = event.tag, event.implicit
        if is_plain:
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        elif is_quoted or tag == "!":
            tag = _STRING
        if tag == _STRING:
            value = event.value
        elif tag == _MERGE and self._is_key():
            value = _MERGE_KEY
        else:
            value = self._construct(tag, event)
        self._name(event, value, 1 + len(event.value))
        return value

    def _construct(self, tag: str, event: Any) -> Any:
        if tag in _NUMBERS and len(event.value) > MAX_NUMBER:
            raise _error(f"number longer than {MAX_NUMBER} characters; put strings in quotes", event)
        try:
            node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
            return self._loader.construct_object(node, deep=True)
        except (ArithmeticError, AttributeError, LookupError, ValueError):  # As for "!!bool maybe".
            kind = tag.rpartition(":")[2]
            raise _error(f"not a value of type {kind!r}; put strings in quotes", event) from None

    def _is_key(self) -> bool:
        top = self._stack[-1] if self._stack else None
        return top is not None and type(top.container) is dict and top.key is _NONE_YET

    def _name(self, event: Any, value: Any, size: int) -> None:
        if event.anchor is not None:
            if event.anchor in self._anchors:
                raise _error(f"duplicate anchor {event.anchor!r}", event)
            self._anchors[event.anchor] = None if value is _NONE_YET else (value, size)

    def _named(self, event: Any) -> tuple[Any, int]:
        try:
            found = self._anchors[event.anchor]
        except KeyError:
            raise _error("alias of an undefined anchor", event) from None
        if found is None:
            raise _error("alias inside the value that it refers to", event)
        return found

    def _open(self, container: Any, event: Any) -> None:
        if event.tag not in (None, "!", _SEQUENCE if type(container) is list else _MAPPING):
            raise _error("unknown tag on a sequence or mapping", event)
        if len(self._stack) >= MAX_DEPTH:
            raise _error(f"nests more than {MAX_DEPTH} deep", event)
        self._name(event, _NONE_YET, 0)
        self._stack.append(_Frame(container, event.anchor))

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        value = frame.container
        if frame.merged:
            merged: dict[Any, Any] = {}
            for other in frame.merged:
                merged.update(other)
            value = merged | value
        if frame.anchor is not None:
            self._anchors[frame.anchor] = value, frame.size
        self._put(value, frame.size, event)

    def _put(self, value: Any, size: int, event: Any) -> None:
        if not self._stack:
            self._value = value
            return
        frame = self._stack[-1]
        frame.size += size
        if frame.size > self._limit:
            raise _error(f"aliases expand to more than {self._limit} characters", event)
        container, key = frame.container, frame.key
        if type(container) is list:
            container.append(value)
        elif key is _NONE_YET:
            frame.key = _key(value, container, event)
        else:
            if key is _MERGE_KEY:
                frame.merged += _mappings(value, event)
            else:
                container[key] = value
            frame.key = _NONE_YET


_MERGE_KEY = object()


def _key(value: Any, mapping: dict[Any, Any], event: Any) -> Any:
    try:
        if value in mapping:
            raise _error(f"duplicate key {event.value!r} in a mapping", event)
    except TypeError:
        raise _error("a key must be a scalar", event) from None
    return value


def _mappings(value: Any, event: Any) -> list[Any]:
    """The mappings to merge, the one that takes precedence last."""
    mappings = value[::-1] if type(value) is list else [value]
    if not all(type(mapping) is dict for mapping in mappings):
        raise _error("expected a mapping or a list of mappings to merge", event)
    return mappings


def _error(problem: str, at: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def read_templates(path: str | os.PathLike[str], *, raw_templates: bool = False) -> Any:
    """The templates in a file; raises ReferenceDataError where `read_file` raises UnreadableFile."""
    source = os.fspath(path)
    try:
        return read_file(source, raw_templates=raw_templates)
    except UnreadableFile as error:
        raise ReferenceDataError([str(error)], source) from error
