from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.cli.watch.columns import count, lay_out, number, price
from tests.cases import each
from tests.cli.watch.support import group, value

NUMBERS = [
    (0, "0.000"),
    (1, "1.000"),
    (0.83119, "0.831"),
    (-0.5, "-0.500"),
    (7.126, "7.13"),
    (61.25, "61.2"),
    (999.4, "999"),
    (1234, "1.23k"),
    (15814.5, "15.8k"),
    (158145, "158k"),
    (2.5e6, "2.50M"),
    (2**64, "2e+19"),
    (-1.5e300, "-2e+300"),
]


@each(("number_", "text"), NUMBERS)
def test_numbers(number_: float, text: str) -> None:
    assert number(number_) == text


@pytest.mark.parametrize(("samples", "text"), [(0, "0"), (1234567, "1234567"), (12345678, "12.3M")])
def test_counts(samples: int, text: str) -> None:
    assert count(samples) == text


PRICES = [
    (0, "$0"),
    (0.00001234, "$1.2e-5"),
    (0.000123, "$.00012"),
    (0.0012, "$.0012"),
    (0.05, "$.050"),
    (0.5, "$.50"),
    (1, "$1.000"),
    (12.345, "$12.3"),
]


@each(("dollars", "text"), PRICES)
def test_prices(dollars: float, text: str) -> None:
    assert price(dollars) == text


def headings(width: int, *names: str, **metrics: float) -> list[str]:
    overall = group(10, 5, 0.5, judged=False)
    overall["metrics"] = {name: value(mean) for name, mean in metrics.items()}
    grid = lay_out(overall, names or ("name",), width)
    return [column.heading for column in grid.columns]


def test_metrics_without_values_take_no_room() -> None:
    assert headings(80) == ["samples", "errors"]
    assert headings(80, answer_f1=0.5) == ["samples", "errors", "F1"]


def test_other_metrics_fill_the_room() -> None:
    metrics = {"own_score": 0.5, "a_metric_with_a_name": 0.5, "input_tokens": 5, "x_cost": 1.0}
    assert headings(80, steps_score=0.5, **metrics) == [
        *("samples", "errors", "steps", "own_scor", "a_metric", "in tok")
    ]
    assert headings(50, steps_score=0.5, **metrics) == ["samples", "errors", "steps"]


@given(st.integers(0, 200), st.lists(st.text(max_size=60), min_size=1, max_size=3), st.booleans())
def test_columns_fill_the_width_and_no_more(width: int, names: list[str], judged: bool) -> None:
    grid = lay_out(group(10, 5, 0.5, judged=judged), names, width)
    assert grid.name_width >= min(width, 12)
    assert grid.name_width + sum(grid.gap + column.width for column in grid.columns) == width
    assert grid.left_out == 0 or width < 80
