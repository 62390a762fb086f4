"""Checks that apply to the outputs of all steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from graphrag_eval_async.records.pieces import loads

_find_empty_list = re.compile(r"\[[ \t\n\r]*\]").search
_ONLY_EMPTY_LIST = re.compile(r"[ \t\n\r]*\[[ \t\n\r]*\][ \t\n\r]*\Z")
_BINDINGS = '"bindings"'


def is_empty(output: Any) -> bool:
    """Whether the output of a step, JSON text or decoded, is an empty list or SPARQL results without rows."""
    if type(output) is str or isinstance(output, str):
        if not _may_be_empty(output):  # True of nearly all outputs, and much cheaper than parsing.
            return False
        try:
            output = loads(output)
        except ValueError:
            return False
    if type(output) is not dict and not isinstance(output, Mapping):
        return isinstance(output, list) and not output
    results = output.get("results")
    if type(results) is not dict and not isinstance(results, Mapping):
        return False
    rows = results.get("bindings")
    return isinstance(rows, list) and not rows


def _may_be_empty(text: str) -> bool:
    place = text.find(_BINDINGS)
    if place < 0 and "\\" not in text:
        return _ONLY_EMPTY_LIST.match(text) is not None
    while place >= 0:
        row = text.find("{", place)
        if row < 0 or text.find("]", place, row) >= 0:  # The list ends before any row begins.
            return True
        place = text.find(_BINDINGS, row)  # Earlier ones would find the same row first.
    # "bindings" may be written with escapes.
    return "\\" in text and _find_empty_list(text) is not None
