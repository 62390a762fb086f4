"""Line numbers of the parts of a reference set in its YAML or JSON file."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from graphrag_eval_async.records.yaml_file import Parser

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

ROOT = "templates"

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_STARTS = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_ENDS = (yaml.SequenceEndEvent, yaml.MappingEndEvent)


def with_lines(problems: Sequence[str], source: str) -> list[str]:
    """Problems that begin with ``place: ``, each with the line number of its place, if found, added."""
    places = [[*_enclosing(problem.partition(": ")[0])] for problem in problems]
    lines = {}
    with suppress(OSError, ValueError, yaml.YAMLError):
        text = _SURROGATE.sub(rb"\\u0078", Path(source).read_bytes())  # YAML has no surrogate pairs.
        lines = _lines_of(text, {each for chain in places for each in chain})
    found = [next((lines[each] for each in chain if each in lines), None) for chain in places]
    return [
        problem if line is None else f"{problem} (line {line})"
        for problem, line in zip(problems, found, strict=True)
    ]


def _enclosing(place: str) -> Iterator[str]:
    """A place and the places that contain it, innermost first, without the root."""
    ends = [match.start() for match in re.finditer(r"[.\[]", place)]
    yield from (place[:end] for end in [len(place), *reversed(ends)] if end > len(ROOT))


def _lines_of(text: bytes, wanted: Collection[str]) -> dict[str, int]:
    """Line numbers, from 1, of the places that are found. JSON is read as YAML, which it nearly always is."""
    lines: dict[str, int] = {}
    loader = Parser(text)
    # For each open container: its place, the index or key of the next member (None before a key), and whether
    # it is a list.
    stack: list[tuple[str, int | str | None, bool]] = []
    try:
        while (event := loader.get_event()).__class__ is not yaml.StreamEndEvent:
            if isinstance(event, _ENDS):
                stack.pop()
            elif isinstance(event, yaml.NodeEvent):
                place = ROOT
                if stack:
                    parent, member, is_list = stack.pop()
                    if member is None:
                        member, following = getattr(event, "value", ""), getattr(event, "value", "")
                    else:
                        following = member + 1 if isinstance(member, int) else None
                    place = f"{parent}[{member}]" if is_list else f"{parent}.{member}"
                    stack.append((parent, following, is_list))
                if place in wanted and event.start_mark is not None:
                    lines.setdefault(place, event.start_mark.line + 1)
                if isinstance(event, _STARTS):
                    is_list = isinstance(event, yaml.SequenceStartEvent)
                    stack.append((place, 0 if is_list else None, is_list))
    finally:
        loader.dispose()
    return lines
