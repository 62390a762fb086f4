"""JSON text of templates, which refuses what JSON cannot represent."""

from __future__ import annotations

import json
from typing import Any

import orjson

STRICT_JSON = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""Option of orjson with which it refuses values that JSON cannot represent."""


def to_strict_json(value: Any) -> bytes:
    """Return a value as JSON.

    Raises:
        TypeError, ValueError, RecursionError: JSON cannot represent the value.
    """
    text = orjson.dumps(value, option=STRICT_JSON)
    if b"null" in text:
        # orjson writes NaN and infinite numbers as null; `json` raises an error for them.
        json.dumps(value, allow_nan=False, default=str)
    return text


def problem_as_json(value: Any) -> str | None:
    """Return why JSON cannot represent a value, and what to do; None if it can."""
    try:
        to_strict_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(value, int):
            return f"{error}; put it in quotes"
        if isinstance(value, float):
            return f"{error}; write a finite number"
        return str(error)
    return None
