"""Dates, times and durations of XML Schema, which have several spellings for a value.

https://www.w3.org/TR/xmlschema11-2/#dateTime
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

SECONDS_PER_DAY = 24 * 60 * 60

MONTHS_PER_YEAR = 12

LONGEST = 60
"""Characters from which a text is not read: its numbers would take long."""

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
    DATE_TIME: re.compile(f"{_DATE}[T ]{_TIME}{_ZONE_AFTER_TIME}", re.ASCII),
    DATE: re.compile(f"{_DATE}{_ZONE}", re.ASCII),
    TIME: re.compile(f"{_TIME}{_ZONE_AFTER_TIME}", re.ASCII),
    DURATION: re.compile(
        r"(-)?P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?"
        r"(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?",
        re.ASCII,
    ),
}

_utc = re.compile(r"(?<=\d)(?:Z|[+-]00:00)$")

PARTS_OF_DATES = frozenset({"gYear", "gYearMonth", "gMonth", "gMonthDay", "gDay"})
"""The local names of the datatypes of years, months and days, which are compared as text."""

_is_year_with_zone = re.compile(r"-?\d{4,}(?:-\d\d)?(?:Z|[+-]00:00)", re.ASCII).fullmatch


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
    """Return the value of a text of this kind, one of those in `KIND_BY_TYPE`; None if it has
    none.
    """
    if len(text) >= LONGEST:
        return None
    match = _PATTERNS[kind].fullmatch(text)
    if match is None:
        return None
    if kind == DURATION:
        return _read_duration(match)
    parts = list(match.groups())
    zone = parts.pop()
    offset = _read_offset(zone)
    days = 0
    if kind != TIME:
        year, month, day = (int(part) for part in parts[:3])
        if not 1 <= month <= MONTHS_PER_YEAR or not 1 <= day <= _days_in_month(year, month):
            return None
        days = _days_before(year, month) + day
    seconds: int | Fraction = 0
    if kind != DATE:
        hours, minutes, rest = int(parts[-3]), int(parts[-2]), _read_number(parts[-1])
        is_end_of_day = (hours, minutes, rest) == (24, 0, 0)
        if (hours > 23 and not is_end_of_day) or minutes > 59 or rest >= 60:
            return None
        seconds = (hours * 60 + minutes) * 60 + rest
    seconds += days * SECONDS_PER_DAY - offset
    if kind == TIME:
        seconds %= SECONDS_PER_DAY
    return Temporal(kind, seconds, has_zone=zone is not None, offset=offset)


def _read_duration(match: re.Match[str]) -> Temporal | None:
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
    """Return a year, month or day without a zone if that is UTC, as `2020Z` has it.

    Such values have no time of day, so tools drop the zone, and stores add it.
    """
    return _utc.sub("", text.strip())


def _read_number(text: str) -> int | Fraction:
    return Fraction(text) if "." in text else int(text)


def _read_offset(text: str | None) -> int:
    """Return the offset of a time zone in seconds; 0 if there is none."""
    if text is None or text.endswith(("Z", "UTC")):
        return 0
    minutes = int(text[1:3]) * 60
    if len(text) > len("+00"):
        minutes += int(text[-2:])
    if text.startswith("-"):
        minutes = -minutes
    return minutes * 60


def _is_leap_year(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days_in_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if _is_leap_year(year) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _days_before(year: int, month: int) -> int:
    """Return the days from the beginning of the year 0 to that of a month, in the Gregorian
    calendar.
    """
    before = year - 1
    days = year * 365 + before // 4 - before // 100 + before // 400
    return days + sum(_days_in_month(year, each) for each in range(1, month))


def temporal_type(text: str) -> str | None:
    """Return the local name of the datatype that a text without a type seems to have; None if it
    is no date, time or duration.

    Times and numbers alone are left as text.
    """
    kinds: tuple[str, ...] = ()
    date = text.removeprefix("+")
    if date[4:5] == "-" and date[7:8] == "-":
        kinds = (DATE_TIME, DATE)
    elif text.startswith(("P", "-P")):
        kinds = (DURATION,)
    for kind in kinds:
        if read_temporal(text, kind) is not None:
            return kind
    if len(text) < LONGEST and _is_year_with_zone(text):
        return "gYear"
    return None
