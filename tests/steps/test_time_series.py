from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.time_series import data_points_comparator, time_series_comparator
from tests.support.cases import each

NOW = "2025-03-01T12:00:00Z"


def series(reference: Any, actual: Any) -> float:
    return time_series_comparator({"args": reference})(ActualStep({"args": actual})).score


def points(reference: Any, actual: Any, executed: Any = NOW) -> float:
    step = {"args": actual, "execution_timestamp": executed}
    return data_points_comparator({"args": reference})(ActualStep(step)).score


@each(
    ("reference", "actual", "expected"),
    [
        ({"mrid": "a"}, {"mrid": "a"}, 1),
        ({"mrid": ["a", "b"]}, {"mrid": ["b", "a", "b"]}, 1),
        ({"mrid": ["a", "b"]}, {"mrid": ["a"]}, 0),
        ({"mrid": "a", "limit": 3}, {"mrid": "a", "limit": 3.0}, 1),
        ({"mrid": "a", "limit": 3}, {"mrid": "a", "limit": 4}, 0),
        (None, {"mrid": None, "limit": None}, 1),
    ],
)
def test_time_series(reference: Any, actual: Any, expected: float) -> None:
    assert series(reference, actual) == expected


def test_granularities_are_equal_in_any_spelling_and_never_converted() -> None:
    spellings = [["h", "1h", "hr", "1hour", "1 Hours"], ["60m", "60MINUTES"], ["2mo", "2months"], ["2m"]]
    spelled = [(unit, text) for unit, texts in enumerate(spellings) for text in texts]
    for (unit, left), (other, right) in product(spelled, spelled):
        assert points({"granularity": left}, {"granularity": right}) == (unit == other), (left, right)
    assert points({"granularity": "h"}, {}) == points({}, {"granularity": "h"}) == 0


TIMES = [
    ("2025-01-01T00:00:00Z", "2025-01-01", 1),
    ("2025-01-01T00:00:00Z", "2025-01-01T01:00:00+01:00", 1),
    ("2025-01-01T00:00:00Z", datetime(2025, 1, 1, tzinfo=UTC), 1),
    ("2025-01-01T00:00:00Z", date(2025, 1, 1), 1),
    ("9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59+14:00", 0),
    ("now", "0s-ago", 1),
    ("7d-ahead", "1w-ahead", 1),
    (NOW, "now", 0),
    ("now", None, 0),
    (None, None, 1),
]


@each("key", ["start", "end"])
@each(("reference", "actual", "expected"), TIMES)
def test_times(key: str, reference: Any, actual: Any, expected: float) -> None:
    assert points({key: reference}, {key: actual}) == expected


MALFORMED = {
    "mrid": [1, ["a", []]],
    "limit": [True, "3"],
    "granularity": ["", "15", "15x", "1.5h", "٣h", "9" * 5_000 + "h", 15],
    "start": ["", "yesterday", "2025-13-01", "1mo-ago", "1h-later", "9" * 18 + "w-ago", "\ud800", 5, []],
}


@each(("key", "value"), [(key, value) for key, values in MALFORMED.items() for value in values])
def test_malformed_arguments(key: str, value: Any) -> None:
    comparator = time_series_comparator if key == "mrid" else data_points_comparator
    step = {"args": {key: value}, "execution_timestamp": NOW}
    with pytest.raises(MalformedStep, match=rf"^args\.{key}: "):
        comparator(step)
    with pytest.raises(MalformedStep, match=rf"^args\.{key}: "):
        comparator({"args": {}})(ActualStep(step))


def test_a_relative_time_needs_a_readable_execution_timestamp() -> None:
    with pytest.raises(MalformedStep, match=r"^execution_timestamp: "):
        points({"start": "now"}, {"start": NOW}, "yesterday")
    assert points({"start": NOW}, {"start": NOW}, None) == 1


@given(
    st.datetimes(timezones=st.sampled_from([UTC])),
    st.integers(0, 10**5),
    st.sampled_from("smhdw"),
    st.booleans(),
    st.integers(-61 * 10**6, 61 * 10**6),
)
def test_relative_against_absolute_agrees_with_datetime_arithmetic(
    executed: datetime, amount: int, unit: str, ahead: bool, drift: int
) -> None:
    words = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
    offset = timedelta(**{words[unit]: amount}) * (1 if ahead else -1)
    try:
        actual = executed + offset + timedelta(microseconds=drift)
    except OverflowError:
        return
    reference = f"{amount}{unit}-{'ahead' if ahead else 'ago'}"
    score = points({"end": reference}, {"end": actual.isoformat()}, executed.isoformat())
    assert score == (abs(drift) <= 60 * 10**6)
