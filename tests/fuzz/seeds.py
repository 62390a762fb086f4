"""Checks repeated over seeds: few in the suite, many by `pytest -m soak`, one by `FUZZ_SEED=7 pytest ...`."""

from __future__ import annotations

import os
import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

JUNK: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        2**53 + 1,
        2**61 - 1,
        2**64,
        10**400,
        0.5,
        -0.0,
        1e308,
        float("nan"),
        float("inf"),
    ),
    *(
        "",
        " ",
        "\0",
        "\ud800",
        "\u202e",
        "\x1b[2J",
        "0" * 400 + "+",
        "1:" * 500 + "1.5",
        "x" * 5000,
        "[]",
        "{",
        "null",
    ),
    *([], {}, [[]], [None], {"": None}, {1: 2}, [{}], {"value": 1}, ("a",), b"\xff", {1}, object()),
]

sizes = pytest.mark.parametrize(
    "count", [100, pytest.param(20_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)


def repeat(check: Callable[[random.Random], object], count: int) -> None:
    """Call `check` with generators of so many seeds; a failure names its seed."""
    for seed in seeds(count):
        with naming(seed):
            check(random.Random(seed))


def seeds(count: int) -> Sequence[int]:
    """So many, or the only one that is to be repeated."""
    only = os.environ.get("FUZZ_SEED")
    return range(count) if only is None else [int(only)]


@contextmanager
def naming(seed: int) -> Iterator[None]:
    """Name the seed in what the block raises."""
    try:
        yield
    except Exception as error:
        error.add_note(f"seed {seed}; to repeat it alone, set FUZZ_SEED={seed}")
        raise


def spoil(value: Any, rng: random.Random, *, times: int = 1) -> Any:
    """A copy of nested lists and dicts in which so many parts are junk, missing or repeated."""
    copied = _copy(value)
    for _ in range(times):
        places = [*_places(copied)]
        if not places:
            return rng.choice(JUNK)
        container, key = rng.choice(places)
        match rng.randrange(4):
            case 0:
                del container[key]
            case 1 if isinstance(container, list):
                container.insert(key, container[key])
            case 2 if isinstance(container, dict):
                container[str(rng.choice(JUNK[:20]))] = container.pop(key)
            case _:
                container[key] = _copy(rng.choice(JUNK))
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(part) for key, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Each container in a value with each of its keys or indices."""
    places, pending = [], [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict | list):
            keys = [*part] if isinstance(part, dict) else range(len(part))
            places += [(part, key) for key in keys]
            pending += [part[key] for key in keys]
    return places
