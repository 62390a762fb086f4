"""Copies of JSON values."""

from typing import Any


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in value.items()}
    return [*map(copy_json, value)] if type(value) is list else value
