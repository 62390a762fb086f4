"""Values that XML Schema has several spellings for, in tables and in graphs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.steps.support import encode, literal, query, score_of, turtle

CASES = [
    pytest.param("dateTime", "2024-03-01T10:00:00Z", "2024-03-01T10:00:00+00:00", True, id="utc"),
    pytest.param("dateTime", "2024-03-01T10:00:00Z", "2024-03-01T11:00:00+01:00", True, id="zone"),
    pytest.param(
        "dateTime", "2024-03-01T00:30:00+01:00", "2024-02-29T23:30:00Z", True, id="leap-day"
    ),
    pytest.param("dateTime", "2024-03-01T10:00:00.000Z", "2024-03-01T10:00:00Z", True, id="zeros"),
    pytest.param("dateTime", "2024-03-01T10:00:00.5Z", "2024-03-01T10:00:00.50Z", True, id="half"),
    pytest.param("dateTime", "2024-03-01T24:00:00Z", "2024-03-02T00:00:00Z", True, id="midnight"),
    pytest.param("dateTime", "-0044-03-15T00:00:00Z", "-0044-03-15T01:00:00+01:00", True, id="bc"),
    pytest.param("dateTime", "2024-03-01T10:00:00Z", "2024-03-01T10:00:00", True, id="no-zone"),
    pytest.param("dateTime", "2024-03-01T10:00:00Z", "2024-03-01T10:00:01Z", False, id="second"),
    pytest.param("dateTime", "2024-03-01T10:00:00Z", "2024-03-01T10:00:00+01:00", False, id="hour"),
    pytest.param("dateTime", "2024-02-30T10:00:00Z", "2024-03-01T10:00:00Z", False, id="no-date"),
    pytest.param("dateTime", "2024-03-01T10:00:00.1Z", "2024-03-01T10:00:00Z", False, id="tenth"),
    *(
        pytest.param("dateTime", "2024-03-01T10:00:00Z", text, True, id=f"written-{text}")
        for text in (
            "2024-03-01 10:00:00+00:00",
            "2024-03-01 10:00:00",
            "2024-03-01 10:00:00 UTC",
            "2024-03-01 11:00:00+01",
            "2024-03-01T10:00:00+0000",
            "+2024-03-01T10:00:00Z",
        )
    ),
    pytest.param("dateTime", "2024-03-01T10:00:00Z", "2024-03-01 10:00:01", False, id="blank"),
    pytest.param("date", "2024-03-01Z", "2024-03-01+00:00", True, id="date-utc"),
    pytest.param("date", "2024-03-01", "2024-03-01-05", False, id="no-zone-of-a-date"),
    pytest.param("date", "2024-03-01Z", "2024-03-01", True, id="date-no-zone"),
    pytest.param("date", "2024-03-01", "2024-03-02", False, id="another-date"),
    pytest.param("time", "10:00:00Z", "11:00:00+01:00", True, id="time-zone"),
    pytest.param("time", "10:00:00", "10:00:00.0", True, id="time-zeros"),
    pytest.param("time", "01:00:00+05:00", "01:00:00", True, id="time-no-zone"),
    pytest.param("duration", "P1D", "PT24H", True, id="day"),
    pytest.param("duration", "PT60M", "PT3600S", True, id="hour-in-seconds"),
    pytest.param("duration", "P1Y", "P12M", True, id="year"),
    pytest.param("duration", "-P1D", "-PT24H", True, id="negative"),
    pytest.param("duration", "PT1M", "P1M", False, id="minute-and-month"),
    pytest.param("duration", "P30D", "P1M", False, id="days-and-month"),
    pytest.param("dayTimeDuration", "P2DT0H", "P2D", True, id="day-time-duration"),
    pytest.param("integer", "007", "7", True, id="leading-zeros"),
    pytest.param("integer", "", "0", False, id="integer-without-text"),
    pytest.param("integer", " ", "0", False, id="blank-integer"),
    pytest.param("integer", "+", "0", False, id="integer-without-digits"),
]


@pytest.mark.parametrize(("datatype", "expected", "actual", "equal"), CASES)
def test_in_tables(datatype: str, expected: str, actual: str, equal: bool) -> None:
    for left, right in ((expected, actual), (actual, expected)):
        reference = encode([[literal(left, datatype)]], "x")
        output = encode([[literal(right, datatype)]], "x")
        assert score_of(query(reference), output) == equal
        assert score_of(query(reference, score="f1"), output) == equal
        assert score_of(query(reference, ordered=True), output) == equal


@pytest.mark.parametrize(("datatype", "expected", "actual", "equal"), CASES)
def test_in_graphs(datatype: str, expected: str, actual: str, equal: bool) -> None:
    graphs = [
        turtle(f':a :p "{text}"^^xsd:{datatype}', ":a :q _:b", f'_:b :p "{text}"^^xsd:{datatype}')
        for text in (expected, actual)
    ]
    reference = {"name": "q", "output": graphs[0], "output_media_type": "text/turtle"}
    assert score_of(reference, graphs[1]) == equal


@pytest.mark.parametrize(
    ("datatype", "expected", "actual"),
    [
        pytest.param("dateTime", "2024-03-01T10:00:00Z", "2024-03-01T11:00:00+01:00", id="moment"),
        pytest.param("date", "2024-03-01", "2024-03-01Z", id="date"),
        pytest.param("duration", "P1D", "PT24H", id="duration"),
    ],
)
@pytest.mark.parametrize(
    "write",
    [lambda text: f"x,y\n{text},1\n", lambda text: [{"x": text, "y": 1}]],
    ids=["csv", "json"],
)
def test_against_cells_without_types(datatype: str, expected: str, actual: str, write: Any) -> None:
    reference = query(encode([[literal(expected, datatype), literal("1", "integer")]], "xy"))
    assert score_of(reference, write(actual)) == 1
    assert score_of(reference, write("1999-01-01")) == 0


UNTYPED = {
    # The datatype where a side has one, two spellings, and whether they are equal.
    "time in zones": ("time", "10:00:00Z", "11:00:00+01:00", True),
    "time with zeros": ("time", "10:00:00Z", "10:00:00.0Z", True),
    "time without a zone": ("time", "10:00:00", "10:00:00.0", True),
    "time of which one has a zone": ("time", "10:00:00Z", "10:00:00", True),
    "another time": ("time", "10:00:00Z", "10:00:01Z", False),
    "another zone": ("time", "10:00:00Z", "10:00:00+01:00", False),
    "date of which one has a zone": ("date", "2020-01-01Z", "2020-01-01", True),
    "date in UTC": ("date", "2020-01-01+00:00", "2020-01-01Z", True),
    "another date": ("date", "2020-01-01Z", "2020-01-02", False),
    "moment": ("dateTime", "2020-01-01T10:00:00Z", "2020-01-01T11:00:00+01:00", True),
    "moment with a blank": ("dateTime", "2020-01-01 10:00:00", "2020-01-01T10:00:00", True),
    "duration": ("duration", "P1D", "PT24H", True),
    "year": ("gYear", "2020Z", "2020", True),
    "month": ("gMonth", "--05Z", "--05", True),
    "day": ("gDay", "---05Z", "---05", True),
}


@pytest.mark.parametrize(("datatype", "left", "right", "equal"), UNTYPED.values(), ids=UNTYPED)
def test_cells_without_types_on_each_side(
    datatype: str, left: str, right: str, equal: bool
) -> None:
    for expected, actual in ((left, right), (right, left)):
        typed_reference = query(
            encode([[literal(expected, datatype), literal("1", "integer")]], "xy")
        )
        csv_reference = {
            "name": "q",
            "output": f"x,y\n{expected},1\n",
            "output_media_type": "text/csv",
        }
        outputs: list[Any] = [
            encode([[literal(actual, datatype), literal("1", "integer")]], "xy"),
            f"x,y\n{actual},1\n",
            [{"x": actual, "y": 1}],
        ]
        for output in outputs:
            assert score_of(typed_reference, output) == equal
            assert score_of(csv_reference, output) == equal


def test_a_text_that_is_written_like_a_date_equals_it() -> None:
    text = "2024-03-01T10:00:00+00:00"
    other = "2024-03-01T10:00:00Z"
    reference = query(encode([[literal(text, "dateTime")]], "x"))
    assert score_of(reference, encode([[literal(text)]], "x")) == 1
    assert score_of(reference, encode([[literal(other)]], "x")) == 0


@pytest.mark.parametrize(
    ("expected", "actual", "equal"),
    [
        pytest.param(["true", "false"], ["1", "0"], True, id="zero-and-one"),
        pytest.param(["true", "true"], ["1", "1"], True, id="all-true"),
        pytest.param(["true", "false"], ["0", "1"], False, id="swapped"),
        pytest.param(["true", "false"], ["2", "0"], False, id="another-number"),
    ],
)
@pytest.mark.parametrize("keys", [{}, {"score": "f1"}], ids=str)
def test_integers_for_booleans(
    expected: list[str], actual: list[str], equal: bool, keys: dict[str, Any]
) -> None:
    names = ["name", "flag"]
    booleans = encode(
        [
            [literal(name), literal(text, "boolean")]
            for name, text in zip("ab", expected, strict=True)
        ],
        names,
    )
    integers = encode(
        [
            [literal(name), literal(text, "integer")]
            for name, text in zip("ab", actual, strict=True)
        ],
        names,
    )
    assert (score_of(query(booleans, **keys), integers) == 1) == equal
    assert (score_of(query(integers, **keys), booleans) == 1) == equal
    csv = "name,flag\n" + "".join(f"{n},{t}\n" for n, t in zip("ab", actual, strict=True))
    assert (score_of(query(booleans, **keys), csv) == 1) == equal


MOMENTS = st.datetimes(timezones=st.timezones().map(lambda zone: zone) | st.none())


@given(MOMENTS, MOMENTS)
def test_moments_are_equal_as_python_says(left: Any, right: Any) -> None:
    def reading(moment: Any) -> str:
        offset = moment.strftime("%z")
        zone = f"{offset[:3]}:{offset[3:5]}" if offset else ""
        return f"{moment.replace(tzinfo=None).isoformat()}{zone}"

    both_have_zones = (left.tzinfo is None) == (right.tzinfo is None)
    whole_minutes = all(
        moment.tzinfo is None or moment.utcoffset().seconds % 60 == 0 for moment in (left, right)
    )
    if both_have_zones and whole_minutes:
        reference = encode([[literal(reading(left), "dateTime")]], "x")
        output = encode([[literal(reading(right), "dateTime")]], "x")
        assert score_of(query(reference), output) == (left == right)
        same = left.astimezone(right.tzinfo) if left.tzinfo else left
        if same.tzinfo is None or same.utcoffset().seconds % 60 == 0:
            output = encode([[literal(reading(same), "dateTime")]], "x")
            assert score_of(query(reference), output) == 1


@pytest.mark.parametrize(
    ("datatype", "expected", "actual", "equal"),
    [
        ("gYear", "2020", "2020Z", True),
        ("gYear", "2020", "2020+00:00", True),
        ("gYear", "2020", "2021Z", False),
        ("gYear", "2020", "2020+05:00", False),
        ("gYearMonth", "2020-05", "2020-05Z", True),
        ("gMonth", "--05", "--05Z", True),
        ("gMonthDay", "--05-01", "--05-01Z", True),
        ("gDay", "---01", "---01Z", True),
        ("string", "2020", "2020Z", False),
    ],
)
def test_years_months_and_days_in_utc(
    datatype: str, expected: str, actual: str, equal: bool
) -> None:
    for left, right in ((expected, actual), (actual, expected)):
        reference = query(encode([[literal(left, datatype)]], "x"))
        assert score_of(reference, encode([[literal(right, datatype)]], "x")) == equal
        if datatype == "gYear":
            assert score_of(reference, [{"x": right}]) == equal
            assert score_of(reference, f"x,y\n{right},1\n") == equal
