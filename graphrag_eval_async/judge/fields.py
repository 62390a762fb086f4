"""Fields of what judges return: objects of the package openai, or mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def get_field(value: Any, *path: str) -> Any:
    """Return the field of an object or a mapping to which `path` leads, name by name.

    The result is None if there is no such field.
    """
    for name in path:
        is_mapping = isinstance(value, Mapping)
        value = value.get(name) if is_mapping else getattr(value, name, None)
    return value


def all_fields(value: Any) -> dict[str, Any]:
    """Return the fields of an object of the SDK, or the items of a mapping, as plain JSON data.

    Any other value has no fields.
    """
    if hasattr(value, "to_dict"):
        # Servers send fields of unexpected types, which is no reason to warn.
        value = value.to_dict(warnings=False)
    if isinstance(value, Mapping):
        return dict(value)
    return {}
