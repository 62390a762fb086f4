"""Fields of what judges return: objects of the package openai, or mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def get_field(value: Any, *path: str) -> Any:
    """Return a field of an object or a mapping, or a field of a field, and so on.

    The names in `path` are followed from the outermost to the innermost. The result is None if
    there is no such field.
    """
    for name in path:
        is_mapping = isinstance(value, Mapping)
        value = value.get(name) if is_mapping else getattr(value, name, None)
    return value


def all_fields(value: Any) -> dict[str, Any]:
    """Return the fields of an object of the SDK, or of a mapping, as a dict of JSON data.

    The result is empty for any other value.
    """
    if hasattr(value, "to_dict"):
        # The SDK would warn of fields that have unexpected types, which servers do send.
        value = value.to_dict(warnings=False)
    if isinstance(value, Mapping):
        return dict(value)
    return {}
