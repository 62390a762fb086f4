from __future__ import annotations

import random

import pytest

from tests.fuzz.seeds import repeat, spoil


def test_a_failing_seed_is_named_and_can_be_repeated_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def fails_at_some(rng: random.Random) -> None:
        seen.append(rng.random())
        assert seen[-1] < 0.9

    with pytest.raises(AssertionError) as caught:
        repeat(fails_at_some, 1000)
    [note] = [note for note in caught.value.__notes__ if note.startswith("seed ")]
    monkeypatch.setenv("FUZZ_SEED", note.rpartition("=")[2])
    with pytest.raises(AssertionError):
        repeat(fails_at_some, 1000)
    assert seen[-1] == seen[-2]


def test_what_is_spoilt_is_a_copy_and_the_same_for_the_same_seed() -> None:
    value = {"a": [1, {"b": 2}], "c": "d"}
    spoilt = [repr(spoil(value, random.Random(seed), times=3)) for seed in range(50)]
    assert value == {"a": [1, {"b": 2}], "c": "d"}
    assert spoilt == [repr(spoil(value, random.Random(seed), times=3)) for seed in range(50)]
    assert len({*spoilt}) > 25
