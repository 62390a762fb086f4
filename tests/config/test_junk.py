from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.config import Config, load_config, secrets
from graphrag_eval_async.config.model import METRICS
from graphrag_eval_async.errors import ConfigError
from tests.config.support import EVERYTHING

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.sampled_from(
        ["${", "${HOME}", "${NOT_SET_ANYWHERE}", "openai", "azure", "question", "http://a", b"x", 10**400]
    )
    | st.sampled_from([msgspec.UNSET, {1}, object(), Ellipsis])
)
KEYS = (
    st.sampled_from([*EVERYTHING, "generation", "limits", "enabled", "name", "outputs", "parameters"])
    | st.text()
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS | st.integers() | st.none() | st.tuples(st.floats()), inner, max_size=4)
    ),
    max_leaves=12,
)


def check(config: Any) -> None:
    for judge in (False, True):
        try:
            loaded = load_config(config, judge=judge)
        except ConfigError as caught:
            error = caught
        else:
            everything_is_off = not loaded.custom_evaluations and not any(
                getattr(loaded, name) for name in METRICS
            )
            assert (judge and everything_is_off) or load_config(loaded, judge=judge) == loaded
            repr(loaded)
            secrets(loaded)
            continue
        assert error.problems
        assert all(problem.encode() for problem in error.problems)


@given(st.dictionaries(KEYS, JUNK, max_size=4) | JUNK.filter(lambda value: not isinstance(value, str)))
def test_junk_is_an_error_that_says_so(config: Any) -> None:
    check(config)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all that is inside a tree of mappings and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in [(*path, key), *places(item, (*path, key))]]


@given(st.sampled_from(places(EVERYTHING)), JUNK)
def test_junk_at_any_place(place: tuple[Any, ...], junk: Any) -> None:
    config: Any = copy.deepcopy(EVERYTHING)
    section = config
    for key in place[:-1]:
        section = section[key]
    section[place[-1]] = junk
    check(config)
    check(Config(**config))
