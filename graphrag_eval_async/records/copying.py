"""Copies of JSON values; what there is to copy in one is found out once, unlike in `copy.deepcopy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast


def copier(value: Any) -> Callable[[], Any]:
    """A function that copies an array or object of JSON; finding out what to copy is done once."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    nested = [(key, copier(item)) for key, item in items if isinstance(item, dict | list)]
    if not nested:
        return cast(Callable[[], Any], value.copy)

    def copy() -> Any:
        new = value.copy()
        for key, copy_item in nested:
            new[key] = copy_item()
        return new

    return copy


def copy_json(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if type(value) is dict:
        return {key: copy_json(item) for key, item in value.items()}
    return [*map(copy_json, value)] if type(value) is list else value
