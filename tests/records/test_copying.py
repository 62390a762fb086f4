from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.records.copying import copy_json

JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=3)
    ),
    max_leaves=10,
)


def containers(value: Any) -> list[int]:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [id(value)] * isinstance(value, dict | list) + [i for child in children for i in containers(child)]


@given(JSON.filter(lambda value: isinstance(value, dict | list)))
def test_copies(value: Any) -> None:
    first, second = copy_json(value), copy_json(value)
    assert first == second == value
    assert not {*containers(first)} & {*containers(second)}
    assert not {*containers(first)} & {*containers(value)}
    assert repr(first) == repr(value)
