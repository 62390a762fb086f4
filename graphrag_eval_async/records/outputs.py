"""What the outputs of steps have in common, whatever returned them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

_find_empty_list = re.compile(r"\[[ \t\n\r]*\]").search
_ONLY_EMPTY_LIST = re.compile(r"[ \t\n\r]*\[[ \t\n\r]*\][ \t\n\r]*\Z")
_EMPTY_BINDINGS = re.compile(r'"bindings"[ \t\n\r]*:[ \t\n\r]*\[[ \t\n\r]*\]')


def is_empty(output: Any) -> bool:
    """Whether the output of a step, JSON text or decoded, is an empty list or SPARQL results without rows."""
    if isinstance(output, str):
        # This and what follows rule out nearly every other output, at a fraction of the cost of parsing it.
        if _find_empty_list(output) is None or not _may_be_empty(output):
            return False
        try:
            output = orjson.loads(output)
        except ValueError:
            return False
    if isinstance(output, Mapping):
        output = output.get("results")
        output = output.get("bindings") if isinstance(output, Mapping) else None
    return isinstance(output, list) and not output


def _may_be_empty(text: str) -> bool:
    return (
        "\\" in text  # by which "bindings" could be spelt otherwise
        or _ONLY_EMPTY_LIST.match(text) is not None
        or _EMPTY_BINDINGS.search(text) is not None
    )
