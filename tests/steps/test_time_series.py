from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.time_series import data_points_comparator, time_series_comparator
from tests.cases import each

NOW = "2025-03-01T12:00:00Z"


def series(reference: Any, actual: Any) -> float:
    return time_series_comparator({"args": reference})(ActualStep({"args": actual}))


def points(reference: Any, actual: Any, executed: Any = NOW) -> float:
    step = {"args": actual, "execution_timestamp": executed}
    return data_points_comparator({"args": reference})(ActualStep(step))


@each(
    ("reference", "actual", "expected"),
    [
        ({"mrid": "a"}, {"mrid": "a"}, 1),
        ({"mrid": "a"}, {"mrid": ["a"]}, 1),
        ({"mrid": ["a", "b"]}, {"mrid": ["b", "a", "b"]}, 1),
        ({"mrid": ["a", "b"]}, {"mrid": ["a"]}, 0),
        ({"mrid": "a"}, {"mrid": "A"}, 0),
        ({"mrid": "a"}, {"mrid": "a", "limit": 3, "query": "x"}, 1),
        ({"mrid": "a", "limit": 3}, {"mrid": "a", "limit": 3.0}, 1),
        ({"mrid": "a", "limit": 3}, {"mrid": "a"}, 0),
        ({"mrid": "a", "limit": 3}, {"mrid": "a", "limit": 4}, 0),
        ({"mrid": "a", "limit": None}, {"mrid": "a", "limit": 4}, 1),
        ({"mrid": "a"}, {"mrid": "a", "limit": "unreadable but not asked for"}, 1),
        ({"mrid": "a"}, {}, 0),
        ({"mrid": "a"}, None, 0),
        ({}, {}, 1),
        (None, {"mrid": None, "limit": None}, 1),
        ({}, {"mrid": "a"}, 0),
        ({}, {"limit": 3}, 0),
        ({"limit": 3}, {"limit": 3}, 1),
        ({"limit": 3}, {}, 0),
        ({"limit": 3}, {"limit": 3, "mrid": "a"}, 0),
    ],
)
def test_time_series(reference: Any, actual: Any, expected: float) -> None:
    assert series(reference, actual) == expected


@pytest.mark.parametrize(
    ("args", "key"),
    [
        ([], "args: "),
        ("mrid", "args: "),
        ({"mrid": 1}, r"args\.mrid: "),
        ({"mrid": ["a", []]}, r"args\.mrid: "),
        ({"mrid": {"a": 1}}, r"args\.mrid: "),
        ({"mrid": "a", "limit": True}, r"args\.limit: "),
        ({"mrid": "a", "limit": "3"}, r"args\.limit: "),
    ],
)
def test_malformed_time_series(args: Any, key: str) -> None:
    with pytest.raises(MalformedStep, match=f"^{key}"):
        time_series_comparator({"args": args})
    with pytest.raises(MalformedStep, match=f"^{key}"):
        series({"mrid": "a", "limit": 1}, args)


def test_every_problem_of_a_reference_is_reported() -> None:
    with pytest.raises(MalformedStep) as caught:
        time_series_comparator({"args": {"mrid": 1, "limit": 1.5}})
    assert [problem.partition(": ")[0] for problem in caught.value.problems] == ["args.mrid", "args.limit"]
    keys = ["external_id", "aggregates", "granularity", "limit", "start", "end"]
    with pytest.raises(MalformedStep) as caught:
        data_points_comparator({"args": dict.fromkeys(keys, True)})
    places = [problem.partition(": ")[0] for problem in caught.value.problems]
    assert places == [f"args.{key}" for key in keys]


@pytest.mark.parametrize("key", ["external_id", "aggregates"])
def test_external_ids_and_aggregates_have_no_order(key: str) -> None:
    assert points({key: "a"}, {key: ["a"]}) == 1
    assert points({key: ["a", "b"]}, {key: ["b", "a"]}) == 1
    assert points({key: ["a", "b"]}, {key: ["b"]}) == 0
    assert points({key: "a"}, {}) == points({}, {key: "a"}) == 0


def test_limits_of_data_points() -> None:
    assert points({"limit": 1}, {"limit": 1.0}) == 1
    assert points({"limit": 1}, {"limit": 2}) == points({"limit": 1}, {}) == points({}, {"limit": 1}) == 0


def test_other_args_are_not_compared() -> None:
    assert points({"external_id": "a"}, {"external_id": "a", "why": "because"}) == 1
    assert points(None, {}) == 1


SPELLINGS = [
    ["s", "1s", "sec", "second", "1 seconds", "01s"],
    ["15m", "15min", "15minute", "15minutes", "15 minutes"],
    ["h", "1h", "hr", "1hour", "hours"],
    ["60m", "60minutes"],
    ["1d", "day", "1 days"],
    ["7d", "7days"],
    ["w", "week", "1weeks"],
    ["2mo", "2month", "2months"],
    ["2m", "2minutes", "2MINUTES", "2Min"],
    ["q", "1q", "quarter", "1quarters"],
    ["3mo", "3months"],
    ["y", "1year", "years"],
]


def test_granularities_are_equal_in_any_spelling_and_never_converted() -> None:
    spelled = [(unit, spelling) for unit, spellings in enumerate(SPELLINGS) for spelling in spellings]
    for left_unit, left in spelled:
        for right_unit, right in spelled:
            score = points({"granularity": left}, {"granularity": right})
            assert score == (left_unit == right_unit), (left, right)
    assert points({"granularity": "h"}, {}) == points({}, {"granularity": "h"}) == 0


@each("value", ["", "15", "15x", "1.5h", "-1h", "1  h", "h1", "1h ", "٣h", "9" * 5_000 + "h", 15, ["1h"]])
def test_malformed_granularities(value: Any) -> None:
    with pytest.raises(MalformedStep, match=r"^args\.granularity: "):
        data_points_comparator({"args": {"granularity": value}})
    with pytest.raises(MalformedStep, match=r"^args\.granularity: "):
        points({}, {"granularity": value})


TIMES = [
    ("2025-01-01T00:00:00Z", "2025-01-01", 1),
    ("2025-01-01T00:00:00Z", "2025-01-01T00:00:00", 1),
    ("2025-01-01T00:00:00Z", "2025-01-01T01:00:00+01:00", 1),
    ("2025-01-01T00:00:00Z", "20250101T000000.000Z", 1),
    ("2025-01-01T00:00:00Z", "2025-W01-3", 1),
    ("2025-01-01T00:00:00Z", datetime(2025, 1, 1, tzinfo=UTC), 1),
    ("2025-01-01T00:00:00Z", date(2025, 1, 1), 1),
    ("2025-01-01T00:00:00Z", "2025-01-01T00:00:00.000001Z", 0),
    ("2025-01-01T00:00:00Z", "2025-01-01T00:00:01Z", 0),
    ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00", 1),
    ("9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59+14:00", 0),
    ("now", "now", 1),
    ("now", "0s-ago", 1),
    ("0d-ahead", "0w-ago", 1),
    ("60s-ago", "1m-ago", 1),
    ("7d-ahead", "1w-ahead", 1),
    ("24h-ago", "1d-ago", 1),
    ("1h-ago", "1h-ahead", 0),
    ("1h-ago", "3601s-ago", 0),
    ("now", NOW, 1),
    ("now", "2025-03-01T11:59:00Z", 1),
    ("now", "2025-03-01T12:01:00Z", 1),
    ("now", "2025-03-01T12:01:00.000001Z", 0),
    ("now", "2025-03-01T11:58:59.999999Z", 0),
    ("2h-ago", "2025-03-01T10:00:30Z", 1),
    ("2h-ago", "2025-03-01T12:00:00+02:00", 1),
    ("1w-ahead", "2025-03-08T12:00:00", 1),
    ("1w-ahead", "2025-03-01T12:00:00", 0),
    (NOW, "now", 0),
    ("2025-03-01T10:00:00Z", "2h-ago", 0),
    ("99999999999w-ago", "99999999999w-ago", 1),
    ("99999999999w-ago", "2025-03-01T12:00:00", 0),
    ("999999999999999999w-ahead", "9999-12-31T23:59:59.999999Z", 0),
    ("now", None, 0),
    (None, "now", 0),
    (None, None, 1),
]


@each("key", ["start", "end"])
@each(("reference", "actual", "expected"), TIMES)
def test_times(key: str, reference: Any, actual: Any, expected: float) -> None:
    assert points({key: reference}, {key: actual}) == expected
    assert (
        points({"start": NOW, "end": NOW, key: reference}, {"start": NOW, "end": NOW, key: actual})
        == expected
    )


@pytest.mark.parametrize("executed", [None, "", "now", "yesterday", 1740830400, [], {}])
def test_a_relative_time_needs_a_readable_execution_timestamp(executed: Any) -> None:
    with pytest.raises(MalformedStep, match=r"^execution_timestamp: "):
        points({"start": "now"}, {"start": NOW}, executed)
    assert points({"start": "now"}, {"start": "0s-ago"}, executed) == 1
    assert points({"start": NOW}, {"start": NOW}, executed) == 1
    assert points({"start": NOW}, {"start": "now"}, executed) == 0


HOSTILE_TIMES = [
    "",
    "Now",
    "now ",
    "yesterday",
    "2025-13-01",
    "2025-02-29",
    "2025-01-01T25:00:00",
    "2025-01-01T00:00:00+25:00",
    "10000-01-01",
    "-1s-ago",
    "1.5h-ago",
    "1mo-ago",
    "1h ago",
    "h-ago",
    "1h-later",
    "٣h-ago",
    "9" * 5_000 + "s-ago",
    "2025-01-01T00:00:00\x00",
    "2025-01-01x00:00:00",
    "2025-01-01T00:00:00 UTC",
    "\ud800",
    "2025-01-01\ud800",
    "2" * 1_000_000,
    1740830400,
    1740830400.5,
    True,
    [],
    {},
]


@each("value", HOSTILE_TIMES)
@each("key", ["start", "end"])
def test_malformed_times(key: str, value: Any) -> None:
    with pytest.raises(MalformedStep, match=rf"^args\.{key}: "):
        data_points_comparator({"args": {key: value}})
    with pytest.raises(MalformedStep, match=rf"^args\.{key}: "):
        points({key: "now"}, {key: value})


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


@given(st.text() | st.from_regex(r"[0-9T:.Z+W-]{0,30}", fullmatch=True))
def test_any_text_raises_only_malformed_step(text: str) -> None:
    args = {"start": text, "granularity": text}
    try:
        score = points(args, args, text)
    except MalformedStep:
        return
    assert score == 1
