from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.inference.agreement import cohen_kappa, krippendorff_alpha

if TYPE_CHECKING:
    from random import Random

RATINGS = st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=5), max_size=20)
PAIRS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), max_size=30)

# Krippendorff (2011), sections A to C; a dot is a missing value.
BINARY = ("0100000010", "1110010000")
NOMINAL = ("aabbdcccedda", "babbbccceddd")
FOUR = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")


def items(raters: tuple[str, ...]) -> list[list[str]]:
    return [[value for value in column if value != "."] for column in zip(*raters, strict=True)]


def test_kappa_of_a_textbook() -> None:
    """Fleiss, Levin and Paik (2003), "Statistical Methods for Rates and Proportions", table 18.1."""
    table = {"pp": 75, "pn": 1, "po": 4, "np": 5, "nn": 4, "no": 1, "oo": 10}
    pairs = [(cell[0], cell[1]) for cell, count in table.items() for _ in range(count)]
    assert cohen_kappa(pairs) == pytest.approx((0.89 - 0.66) / (1 - 0.66))


@pytest.mark.parametrize(("raters", "alpha"), [(BINARY, 0.095), (NOMINAL, 0.692), (FOUR, 0.743)])
def test_alpha_of_krippendorffs_examples(raters: tuple[str, ...], alpha: float) -> None:
    assert krippendorff_alpha(items(raters)) == pytest.approx(alpha, abs=5e-4)


def test_alpha_of_numbers() -> None:
    """Section E of the same paper."""
    numbers = [[float(value) for value in item] for item in items(FOUR)]
    assert krippendorff_alpha(numbers, "interval") == pytest.approx(0.849, abs=5e-4)


@pytest.mark.parametrize("ratings", [[], [[]], [[1.0]], [[1.0], [0.0]], [[1.0, 1.0], [1.0, 1.0]]])
def test_undefined(ratings: list[list[float]]) -> None:
    assert krippendorff_alpha(ratings) is None
    assert krippendorff_alpha(ratings, "interval") is None
    assert cohen_kappa([(each[0], each[1]) for each in ratings if len(each) == 2]) is None


def test_opposites() -> None:
    assert cohen_kappa([("a", "b"), ("b", "a")]) == -1


@given(PAIRS)
def test_raters_and_items_of_kappa_can_be_permuted(pairs: list[tuple[str, str]]) -> None:
    kappa = cohen_kappa(pairs)
    assert cohen_kappa([(other, one) for one, other in reversed(pairs)]) == kappa
    assert kappa is None or -1 <= kappa <= 1
    if len({one for one, _ in pairs}) > 1:
        assert cohen_kappa([(one, one) for one, _ in pairs]) == 1


@given(RATINGS, st.randoms(use_true_random=False), st.sampled_from(["nominal", "interval"]))
def test_raters_and_items_of_alpha_can_be_permuted(
    ratings: list[list[float]], random: Random, kind: str
) -> None:
    alpha = krippendorff_alpha(ratings, kind)  # type: ignore[arg-type]
    mixed = [random.sample(item, len(item)) for item in random.sample(ratings, len(ratings))]
    assert krippendorff_alpha(mixed, kind) == pytest.approx(alpha)  # type: ignore[arg-type]
    equal = [[item[0]] * 3 for item in ratings if item]
    if len({item[0] for item in equal}) > 1:
        assert krippendorff_alpha(equal, kind) == 1  # type: ignore[arg-type]


@given(RATINGS)
def test_alpha_of_0_and_1_does_not_depend_on_the_kind(ratings: list[list[float]]) -> None:
    binary = [[float(value >= 0.5) for value in item] for item in ratings]
    nominal, interval = krippendorff_alpha(binary), krippendorff_alpha(binary, "interval")
    assert nominal == (pytest.approx(interval) if interval is not None else None)
