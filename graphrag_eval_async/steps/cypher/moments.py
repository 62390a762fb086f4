"""Dates, times and durations as databases with Cypher, drivers and Python write them as text.

Neo4j writes ISO 8601, with signs inside durations (``P1DT-30M``), with nine digits of a second, or
without seconds, and with the name of a time zone in brackets (``[Europe/Paris]``). Python writes a
space in place of the T, and ``3 days, 2:00:00`` for a duration.

https://neo4j.com/docs/cypher-manual/current/values-and-types/temporal/
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from graphrag_eval_async.steps.tables.temporal import (
    DATE,
    DATE_TIME,
    DURATION,
    MONTHS_PER_YEAR,
    SECONDS_PER_DAY,
    TIME,
    Temporal,
    read_temporal,
)

LONGEST = 80
"""Characters from which a text is no date, time or duration."""

SECONDS_PER_HOUR = 3600
SECONDS_PER_MINUTE = 60
DAYS_PER_WEEK = 7

_DATE = r"(?P<date>-?\d{4,}-\d\d-\d\d)"
_CLOCK = r"(?P<clock>\d\d:\d\d)(?::(?P<seconds>\d\d)(?:\.(?P<fraction>\d+))?)?"
_ZONE = r"(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?(?:\[[\w/+\-]+\])?"
_is_date = re.compile(_DATE, re.ASCII).fullmatch
_is_date_time = re.compile(f"{_DATE}[T ]{_CLOCK}{_ZONE}", re.ASCII).fullmatch
_is_time = re.compile(f"{_CLOCK}{_ZONE}", re.ASCII).fullmatch

_NUMBER = r"([+-]?\d+(?:\.\d+)?)"
_is_iso_duration = re.compile(
    rf"(-)?P(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?"
    rf"(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?",
    re.ASCII,
).fullmatch
_is_python_duration = re.compile(
    r"(-?\d+) days?(?:,? ([+-]?)(\d\d?):(\d\d):(\d\d(?:\.\d+)?))?", re.ASCII
).fullmatch


@dataclass(frozen=True, slots=True)
class Moment:
    """A date, time or duration, as it is compared, and as text in one spelling.

    Attributes:
        value: the date, time or duration as cells of tables compare it.
        text: the date, time or duration in the notation of XML Schema, with its own time zone.
        utc_text: `text` in UTC; equal to `text` if there is no time zone.
        local_text: `text` without the time zone.
    """

    value: Temporal
    text: str
    utc_text: str
    local_text: str


def read_moment(text: str) -> Moment | None:
    """Return the date, time or duration that a text is; None if it is something else."""
    # Most texts are none of these, which is quickly found out.
    if len(text) >= LONGEST or not ("-" in text or ":" in text or "P" in text or "day" in text):
        return None
    if text.startswith(("P", "-P")):
        return _read_iso_duration(text)
    if "day" in text:
        return _read_python_duration(text)
    if _is_date(text):
        value = read_temporal(text, DATE)
        return None if value is None else Moment(value, text, text, text)
    match = _is_date_time(text)
    if match is not None:
        return _read_clock(match, DATE_TIME)
    match = _is_time(text)
    if match is not None:
        return _read_clock(match, TIME)
    return None


def duration(*, months: int, seconds: int | Fraction) -> Moment:
    """Return the duration that is the sum of some months and seconds."""
    text = _duration_text(months, Fraction(seconds))
    return Moment(Temporal(DURATION, seconds, months=months), text, text, text)


def _read_clock(match: re.Match[str], kind: str) -> Moment | None:
    """Return the time, or the date with a time, that a pattern matched.

    Args:
        match: a match of the pattern of times or of that of dates with a time.
        kind: `TIME` or `DATE_TIME`, by the pattern.

    Returns:
        None if no such date or time exists, such as 25:00.
    """
    date = ""
    if kind == DATE_TIME:
        date = match["date"]
    clock = f"{match['clock']}:{match['seconds'] or '00'}"
    fraction = (match["fraction"] or "").rstrip("0")
    if fraction:
        fraction = f".{fraction}"
    zone = _zone_text(match["zone"])

    separator = "T" if date else ""
    local_text = f"{date}{separator}{clock}{fraction}"
    value = read_temporal(local_text + zone, kind)
    if value is None:
        return None
    text = local_text + zone
    utc_text = _in_utc(date=date, clock=clock, fraction=fraction, value=value)
    if utc_text is None:
        utc_text = text
    return Moment(value=value, text=text, utc_text=utc_text, local_text=local_text)


def _zone_text(zone: str | None) -> str:
    """Return a time zone as XML Schema writes it, such as ``+01:00``; empty if there is none."""
    if zone is None:
        return ""
    if zone == "Z":
        return zone
    hours = zone[:3]
    minutes = zone[3:].removeprefix(":") or "00"
    if hours[1:] == "00" and minutes == "00":
        return "Z"
    return f"{hours}:{minutes}"


def _in_utc(*, date: str, clock: str, fraction: str, value: Temporal) -> str | None:
    """Convert a time to UTC; None if it has no zone, or if Python cannot represent its year.

    Args:
        date: its date; empty for a time of day.
        clock: its hours, minutes and seconds.
        fraction: the fraction of its second, with the point; empty if it has none.
        value: the whole time as a value, which has the offset of the zone.
    """
    if not value.has_zone:
        return None
    try:
        # A time of day needs some date for this, since in UTC, it may be on another day.
        local = datetime.fromisoformat(f"{date or '2000-01-02'}T{clock}")
        utc = local - timedelta(seconds=value.offset)
    except (ValueError, OverflowError):
        return None
    if date:
        return f"{utc.isoformat()}{fraction}Z"
    return f"{utc.time().isoformat()}{fraction}Z"


def _read_iso_duration(text: str) -> Moment | None:
    """Read a duration in ISO 8601, whose parts may have signs; None if the text is no duration."""
    match = _is_iso_duration(text)
    if match is None or text.endswith(("P", "T")):
        return None
    sign, *texts = match.groups()
    numbers = [Fraction(number or 0) for number in texts]
    years, months, weeks, days, hours, minutes, seconds = numbers
    all_months = years * MONTHS_PER_YEAR + months
    if all_months.denominator != 1:
        # A part of a month has no fixed length.
        return None
    all_days = weeks * DAYS_PER_WEEK + days
    all_seconds = (
        all_days * SECONDS_PER_DAY
        + hours * SECONDS_PER_HOUR
        + minutes * SECONDS_PER_MINUTE
        + seconds
    )
    if sign:
        return duration(months=-int(all_months), seconds=-all_seconds)
    return duration(months=int(all_months), seconds=all_seconds)


def _read_python_duration(text: str) -> Moment | None:
    """Read a duration such as ``3 days, 2:00:00`` or, of pandas, ``-1 days +23:00:00``.

    Returns:
        None if the text is no such duration.
    """
    match = _is_python_duration(text)
    if match is None:
        return None
    days, sign, hours, minutes, seconds = match.groups()
    clock_seconds = Fraction(seconds or 0)
    clock_seconds += int(hours or 0) * SECONDS_PER_HOUR
    clock_seconds += int(minutes or 0) * SECONDS_PER_MINUTE
    if sign == "-":
        clock_seconds = -clock_seconds
    return duration(months=0, seconds=int(days) * SECONDS_PER_DAY + clock_seconds)


def _duration_text(months: int, seconds: Fraction) -> str:
    """Return a duration in ISO 8601, such as ``P14M3DT3600.5S``, without parts that are zero."""
    # This rounds towards zero, so that days and seconds of a negative duration are both negative.
    days = int(seconds / SECONDS_PER_DAY)
    rest = seconds - days * SECONDS_PER_DAY
    text = "P"
    if months:
        text += f"{months}M"
    if days:
        text += f"{days}D"
    if rest:
        decimal = f"{float(rest):.9f}".rstrip("0").rstrip(".")
        text += f"T{decimal}S"
    if text == "P":
        # ISO 8601 requires at least one part.
        return "PT0S"
    return text
