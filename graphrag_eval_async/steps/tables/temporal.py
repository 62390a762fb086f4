"""Dates, times and durations of XML Schema, which have several spellings for a value.

https://www.w3.org/TR/xmlschema11-2/#dateTime
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

from graphrag_eval_async.helpers.patterns import lazy_pattern

SECONDS_PER_DAY = 24 * 60 * 60

MONTHS_PER_YEAR = 12

LONGEST = 60
"""Characters of texts that are too long to be read: numbers of many digits take long."""

DATE_TIME, DATE, TIME, DURATION = "dateTime", "date", "time", "duration"

KIND_BY_TYPE = {
    "dateTime": DATE_TIME,
    "dateTimeStamp": DATE_TIME,
    "date": DATE,
    "time": TIME,
    "duration": DURATION,
    "dayTimeDuration": DURATION,
    "yearMonthDuration": DURATION,
}
"""What is read, by the local name of the datatype."""

_ZONE = r"(Z|[+-]\d\d:\d\d)?"

# Besides what XML Schema has, these read a plus before the year, as Wikidata writes it, and between
# date and time a blank, as Python and SQL databases do. They also write zones as UTC, +00 or +0000.
_ZONE_AFTER_TIME = r"(Z| ?UTC|[+-]\d\d(?::?\d\d)?)?"
_DATE = r"([+-]?\d{4,})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d):(\d\d(?:\.\d+)?)"
_PATTERNS = {
    DATE_TIME: lazy_pattern(f"{_DATE}[T ]{_TIME}{_ZONE_AFTER_TIME}", re.ASCII),
    DATE: lazy_pattern(f"{_DATE}{_ZONE}", re.ASCII),
    TIME: lazy_pattern(f"{_TIME}{_ZONE_AFTER_TIME}", re.ASCII),
    DURATION: lazy_pattern(
        r"(-)?P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?"
        r"(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?",
        re.ASCII,
    ),
}

_utc = re.compile(r"(?<=\d)(?:Z|[+-]00:00)$")

PARTS_OF_DATES = frozenset({"gYear", "gYearMonth", "gMonth", "gMonthDay", "gDay"})
"""The local names of the datatypes of years, months and days, which are compared as text."""

_is_part_of_date_with_zone = re.compile(
    r"(?:-?\d{4,}(?:-\d\d)?|--\d\d(?:-\d\d)?|---\d\d)(?:Z|[+-]00:00)", re.ASCII
).fullmatch


@dataclass(frozen=True, slots=True)
class Temporal:
    """A date, a time or a duration.

    Attributes:
        kind: one of those in `KIND_BY_TYPE`.
        seconds: those of a duration; else those since a fixed moment, in UTC if the zone is known.
        months: those of a duration.
        has_zone: whether its time zone is known.
        offset: that of its time zone in seconds, which does not count in comparisons.
    """

    kind: str
    seconds: int | Fraction
    months: int = 0
    has_zone: bool = False
    offset: int = field(default=0, compare=False)

    def without_zone(self) -> Temporal:
        """Return what a clock in its time zone showed."""
        seconds = self.seconds + self.offset
        return Temporal(self.kind, seconds % SECONDS_PER_DAY if self.kind == TIME else seconds)


def read_temporal(text: str, kind: str) -> Temporal | None:
    """Return the value of a date, a time or a duration; None if the text is not of that kind.

    Args:
        text: how the value is written.
        kind: one of the kinds in `KIND_BY_TYPE`.
    """
    if len(text) >= LONGEST:
        return None
    match = _PATTERNS[kind].fullmatch(text)
    if match is None:
        return None
    if kind == DURATION:
        return _read_duration(match)

    # A match has the three numbers of a date, the three of a time, or both, and then the zone.
    *numbers, zone = match.groups()
    days = _read_days(numbers[:3]) if kind != TIME else 0
    seconds = _read_seconds(numbers[-3:]) if kind != DATE else 0
    if days is None or seconds is None:
        return None
    offset = _read_offset(zone)
    all_seconds = days * SECONDS_PER_DAY + seconds - offset
    if kind == TIME:
        all_seconds %= SECONDS_PER_DAY
    return Temporal(kind, all_seconds, has_zone=zone is not None, offset=offset)


def _read_days(numbers: list[str]) -> int | None:
    """Return the days from the beginning of the year 0 to a date; None if there is no such date.

    Args:
        numbers: the digits of the year, the month and the day.
    """
    year, month, day = map(int, numbers)
    if not 1 <= month <= MONTHS_PER_YEAR:
        return None
    if not 1 <= day <= _days_in_month(year, month):
        return None
    return _days_before(year, month) + day


def _read_seconds(numbers: list[str]) -> int | Fraction | None:
    """Return the seconds from midnight to a time; None if there is no such time.

    Args:
        numbers: the digits of the hour, the minute and the second. 24:00:00 is the end of the day.
    """
    hours = int(numbers[0])
    minutes = int(numbers[1])
    seconds = _read_number(numbers[2])
    is_end_of_day = hours == 24 and minutes == 0 and seconds == 0
    if (hours > 23 and not is_end_of_day) or minutes > 59 or seconds >= 60:
        return None
    return (hours * 60 + minutes) * 60 + seconds


def _read_duration(match: re.Match[str]) -> Temporal | None:
    """Return the value of a duration; None if it has no numbers, or ends with its T."""
    sign, *numbers = match.groups()
    if not any(numbers) or match[0].endswith("T"):
        return None
    years, months, days, hours, minutes = (int(number or 0) for number in numbers[:-1])
    all_months = years * MONTHS_PER_YEAR + months
    all_seconds = ((days * 24 + hours) * 60 + minutes) * 60 + _read_number(numbers[-1] or "0")
    if sign:
        return Temporal(DURATION, -all_seconds, months=-all_months)
    return Temporal(DURATION, all_seconds, months=all_months)


def without_utc(text: str) -> str:
    """Return a year, month or day without its zone if the zone is UTC: 2020 for 2020Z.

    Without a time of day, the zone hardly matters: some tools drop it, and some stores add it.
    """
    return _utc.sub("", text.strip())


def _read_number(text: str) -> int | Fraction:
    """Return a number exactly: as an integer, or as a fraction if it has a decimal point."""
    return Fraction(text) if "." in text else int(text)


def _read_offset(text: str | None) -> int:
    """Return how many seconds a time zone such as +01:00 is ahead of UTC; 0 if there is none."""
    if text is None or text.endswith(("Z", "UTC")):
        return 0
    minutes = int(text[1:3]) * 60
    if len(text) > len("+00"):
        minutes += int(text[-2:])
    if text.startswith("-"):
        minutes = -minutes
    return minutes * 60


def _is_leap_year(year: int) -> bool:
    """Return whether a year of the Gregorian calendar has a 29th of February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days_in_month(year: int, month: int) -> int:
    """Return how many days a month of the Gregorian calendar has."""
    if month == 2:
        return 29 if _is_leap_year(year) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _days_before(year: int, month: int) -> int:
    """Return the days from the beginning of the year 0 to the beginning of a month.

    They are counted in the Gregorian calendar.
    """
    full_years = year - 1
    leap_days = full_years // 4 - full_years // 100 + full_years // 400
    days_of_months = sum(_days_in_month(year, earlier) for earlier in range(1, month))
    return year * 365 + leap_days + days_of_months


def temporal_type(text: str) -> str | None:
    """Return the local name of the datatype that a text without a type seems to have.

    None if it is no date, time or duration, and no year, month or day with a zone. Years without a
    zone are numbers or texts.
    """
    kinds: tuple[str, ...] = ()
    date_part = text.removeprefix("+")
    if date_part[4:5] == "-" and date_part[7:8] == "-":
        kinds = (DATE_TIME, DATE)
    elif text[2:3] == ":" and text[5:6] == ":":
        kinds = (TIME,)
    elif text.startswith(("P", "-P")):
        kinds = (DURATION,)
    for kind in kinds:
        if read_temporal(text, kind) is not None:
            return kind
    if len(text) < LONGEST and _is_part_of_date_with_zone(text):
        # All parts of dates are compared in the same way.
        return "gYear"
    return None
