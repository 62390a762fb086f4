"""The lines of a YAML or JSON file in which its values are."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

_PLACE_PART = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


class _Child(NamedTuple):
    """A value in a mapping or a sequence.

    Attributes:
        start: the node at which it starts: the key in a mapping, the value itself in a sequence.
        value: the node of the value.
    """

    start: Any
    value: Any


class Document:
    """A file in YAML or JSON, which is nearly a subset of YAML, with the places of its values.

    A place is written as ``templates[0].questions``. The text before its first dot or bracket
    stands for the whole file.
    """

    def __init__(self, source: Path | bytes, *, is_json: bool = False) -> None:
        """Take the path of the file, or its contents; it is parsed when a place is first used."""
        self._source = source
        self.is_json = is_json

    @cached_property
    def root(self) -> Any:
        """The node of the whole file, as PyYAML composes it; None if it cannot be read."""
        # YAML takes long to import.
        import yaml

        parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            text = self._source.read_bytes() if isinstance(self._source, Path) else self._source
            return yaml.compose(without_surrogates(text), parser)
        except (OSError, yaml.YAMLError, RecursionError):
            return None

    def line_of(self, place: str) -> int | None:
        """Return the line of a place.

        If the place does not exist, it is the line of the innermost value that should contain it.

        Returns:
            None if there is no such value either, or if the file cannot be read.
        """
        children = self._path_to(place)
        if not children:
            return None
        line: int = children[-1].start.start_mark.line + 1
        return line

    def is_folded(self, place: str) -> bool:
        """Return whether a text in YAML has several lines that become one.

        So it is with all texts of several lines but those that begin with ``|``, and never in JSON.
        """
        if self.is_json:
            return False
        node = self._node_at(place)
        is_text = isinstance(getattr(node, "value", None), str)
        if not is_text or node.style == "|":
            return False
        # A block begins with a line that has only its mark, and ends where the next line begins.
        lines_of_mark = 2 if node.style == ">" else 0
        return bool(node.end_mark.line - node.start_mark.line > lines_of_mark)

    def scalar_at(self, place: str) -> str | None:
        """Return how a text, number or boolean is written in the file; None if there is none."""
        node = self._node_at(place)
        is_scalar = isinstance(getattr(node, "value", None), str)
        return str(node.value) if is_scalar else None

    def _node_at(self, place: str) -> Any:
        """Return the node at a place; None if the place does not exist."""
        children = self._path_to(place)
        part_count = len(_PLACE_PART.findall(place))
        return children[-1].value if children and len(children) == part_count else None

    def _path_to(self, place: str) -> list[_Child]:
        """Return the values from the outermost to that at a place, as far as they exist."""
        children: list[_Child] = []
        node = self.root
        for key, index in _PLACE_PART.findall(place):
            child = _child(node, key, index)
            if child is None:
                break
            children.append(child)
            node = child.value
        return children


def without_surrogates(json_text: bytes) -> bytes:
    """Replace the escaped surrogates of JSON text, which YAML lacks, by other characters.

    The length of its lines does not change.
    """
    return _SURROGATE.sub(rb"\\u0078", json_text)


def _child(node: Any, key: str, index: str) -> _Child | None:
    """Return a value in a mapping or a sequence; None if it is not there.

    Args:
        node: the node of the mapping or of the sequence.
        key: the key in a mapping; empty if `index` is given.
        index: the index in a sequence, in digits; empty if `key` is given.
    """
    values = getattr(node, "value", None)
    if not isinstance(values, list):
        return None  # A scalar has no values.
    is_mapping = node.id == "mapping"
    if is_mapping:
        for key_node, value_node in values:
            if key_node.value == key:
                return _Child(start=key_node, value=value_node)
    elif index and int(index) < len(values):
        item = values[int(index)]
        return _Child(start=item, value=item)
    return None
