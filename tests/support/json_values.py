"""Any JSON value, and a value of which one part is another."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

TEXT = st.text(max_size=5) | st.sampled_from(["{", "[1]"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def replaced(value: Any, path: list[int], by: Any) -> Any:
    """A value with one part of it replaced: the path counts members at each level."""
    if not path or not isinstance(value, list | dict) or not value:
        return by
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = keys[path[0] % len(value)]
    changed = copy.copy(value)
    changed[key] = replaced(value[key], path[1:], by)
    return changed
