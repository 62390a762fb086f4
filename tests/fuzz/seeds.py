"""Checks repeated over seeds: few in the suite, many by `pytest -m soak`, one by `FUZZ_SEED=7
pytest ...`.
"""

from __future__ import annotations

import json
import os
import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support.cpu import affordable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

JUNK: list[Any] = [None, True, False, 0, -1, 2**53 + 1, 2**61 - 1, 2**64, 10**400, 0.5, -0.0, 1e308]
JUNK += [float("nan"), float("inf"), "", " ", "\0", "\ud800", "\u202e", "\x1b[2J"]
JUNK += ["0" * 400 + "+", "1:" * 500 + "1.5", "x" * 5000, "[]", "{", "null", [], {}, [[]], [None]]
JUNK += [{"": None}, {1: 2}, [{}], {"value": 1}, ("a",), b"\xff", {1}, object()]

sizes = pytest.mark.parametrize(
    "count", [100, pytest.param(20_000, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)


def repeat(check: Callable[[random.Random], object], count: int) -> None:
    """Call `check` with generators of so many seeds; a failure names its seed."""
    for seed in seeds(count):
        with name_seed(seed):
            check(random.Random(seed))


@contextmanager
def name_seed(seed: int) -> Iterator[None]:
    """Add the seed to what the block raises, so that the failure can be repeated."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"FUZZ_SEED={seed}")
        raise


def seeds(count: int) -> Sequence[int]:
    """So many, or the only one that is to be repeated."""
    only = os.environ.get("FUZZ_SEED")
    return range(count) if only is None else [int(only)]


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


def load_spoilt(
    make: Callable[[random.Random], Any], load: Callable[[Any], object], count: int, folder: Path
) -> None:
    """Load spoilt objects, and files of JSON and YAML with other bytes in them."""

    def check(rng: random.Random) -> None:
        spoilt: Any = spoil(make(rng), rng, times=rng.randint(0, 4))
        size = 1
        if rng.random() < 0.5:
            path = folder / rng.choice(["file.json", "file.yaml"])
            text = json.dumps(spoilt, default=str, skipkeys=True)
            if path.suffix == ".yaml" and rng.random() < 0.7:
                text = yaml.safe_dump(json.loads(text), allow_unicode=True)
            data = bytearray(text.encode("utf-8", "surrogatepass"))
            for _ in range(rng.choice([0, 0, 1, 3])):
                data[rng.randrange(len(data))] = rng.choice(b"\0\xff&*!<:\"'{[]}$-1\n")
            size = path.write_bytes(data)
            spoilt = str(path)
        with affordable(size):
            load(spoilt)

    repeat(check, count)


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
