"""Members of what judges return: objects of the package openai, or mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def member(value: Any, *path: str) -> Any:
    """Return a member of a member of an object or a mapping; None if there is none."""
    for name in path:
        is_mapping = isinstance(value, Mapping)
        value = value.get(name) if is_mapping else getattr(value, name, None)
    return value


def members(value: Any) -> dict[str, Any]:
    """Return all members of an object of the SDK or a mapping, as JSON has them; none of others."""
    if hasattr(value, "to_dict"):
        # Servers send fields of unexpected types, which is no reason to warn.
        value = value.to_dict(warnings=False)
    return dict(value) if isinstance(value, Mapping) else {}
