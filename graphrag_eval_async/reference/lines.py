"""Where the questions of a reference set are in its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from graphrag_eval_async.records.document import Document

MAX_BYTES = 50_000_000
"""Size of the largest file that is searched, which takes about ten seconds."""


def lines_of_questions(path: str) -> dict[str, int]:
    """Return the line in which each question of a reference set begins, by the question's id.

    Questions that cannot be found are left out: all of a file that cannot be read or is larger
    than `MAX_BYTES`.

    Args:
        path: a YAML or JSON file in the layout of a reference set.
    """
    if Path(path).stat().st_size > MAX_BYTES:
        return {}
    root = Document(Path(path)).root
    lines: dict[str, int] = {}
    for template in _items(root):
        for question in _items(_value(template, "questions")):
            question_id = _value(question, "id")
            if isinstance(question_id, yaml.ScalarNode):
                lines[question_id.value] = question.start_mark.line + 1
    return lines


def _items(node: Any) -> list[Any]:
    """Return the nodes in a sequence; [] of any other node."""
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _value(node: Any, key: str) -> Any:
    """Return the node of the value of a key in a mapping of YAML; None if there is no such key."""
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if key_node.value == key:
                return value_node
    return None
