"""What calls make that Python's `repr` shows, such as ``neo4j.time.Date(2020, 1, 1)``.

Dates, times and durations become text in ISO 8601.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.cypher.moments import duration
from graphrag_eval_async.steps.cypher.values import Point
from graphrag_eval_async.steps.tables.temporal import SECONDS_PER_DAY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WGS_84 = {2: 4326, 3: 4979}
"""Numbers of the reference system of longitude and latitude, by the number of coordinates."""

CARTESIAN = {2: 7203, 3: 9157}
"""Numbers of the reference system of x and y, by the number of coordinates."""

SRIDS_BY_CLASS = {"WGS84Point": WGS_84, "CartesianPoint": CARTESIAN}
"""The same by the classes of points in Neo4j's driver."""

TEXT_TYPES = frozenset({"Timestamp", "Timedelta", "UUID", "Literal", "URIRef", "str"})
"""Types whose first argument is their text."""

NUMBER_TYPES = frozenset(
    {"Decimal", "int64", "int32", "float64", "float32", "bool_", "int", "float"}
)
"""Types whose first argument is a number: of Python and NumPy."""

COLLECTION_TYPES = frozenset({"frozenset", "set", "list", "tuple", "array", "dict", "OrderedDict"})
"""Types whose first argument is what they hold; empty if they have none."""

TEMPORAL_TYPES = frozenset(
    {"date", "Date", "datetime", "DateTime", "time", "Time", "timedelta", "Duration"}
    | {"FixedOffset", "timezone", "utc", "UTC", "tzutc", "ZoneInfo"}
)
"""Types of dates, times, durations and time zones."""

NANOSECONDS = 1_000_000_000
MICROSECONDS = 1_000_000

# An offset in the text of a time zone, such as +1:00 in "CET+1:00:00 STD".
_find_offset = re.compile(r"([+-])(\d+):(\d\d)").search


@dataclass(frozen=True, slots=True)
class Unknown:
    """An object in angle brackets that is no value of Cypher, such as a time zone."""

    text: str


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone.

    Attributes:
        offset: seconds by which it is ahead of UTC; None if only its name is known.
        name: its name, such as Europe/Paris; empty if only its offset is known.
    """

    offset: int | None = None
    name: str = ""


class ShownDuration(str):
    """A duration as ISO text that knows its seconds: a time zone is made of one."""

    __slots__ = ("seconds",)

    seconds: Fraction

    def __new__(cls, text: str, seconds: Fraction) -> ShownDuration:
        """Make a text with these seconds, which leave out its months."""
        shown = super().__new__(cls, text)
        shown.seconds = seconds
        return shown


def value_of_call(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Return what a call makes.

    Args:
        name: the name of the type or function, with its modules, such as ``datetime.date``.
        arguments: its arguments by position.
        keywords: its arguments by name.

    Returns:
        a value of Cypher, or a `Zone`. An unknown call with arguments by name alone gives these
        as a dict.

    Raises:
        MalformedStep: the call is unknown, or has wrong arguments.
    """
    short_name = name.rpartition(".")[2]
    if short_name in TEMPORAL_TYPES:
        try:
            return _temporal_value(short_name, arguments, keywords)
        except (TypeError, ValueError, OverflowError):
            raise MalformedStep(f"{name} with wrong arguments") from None
    if short_name in SRIDS_BY_CLASS and all(isinstance(item, int | float) for item in arguments):
        coordinates = tuple(float(number) for number in arguments)
        return Point(coordinates, SRIDS_BY_CLASS[short_name].get(len(coordinates)))
    if short_name == "point" and len(arguments) == 1:
        return arguments[0]  # Cypher's map of coordinates, which is read as a point later.
    if short_name in TEXT_TYPES and arguments and isinstance(arguments[0], str):
        return arguments[0]
    if short_name in NUMBER_TYPES and arguments:
        return _number(arguments[0])
    if short_name in COLLECTION_TYPES:
        return arguments[0] if arguments else []
    if keywords and not arguments:
        return dict(keywords)
    raise MalformedStep(f"no value: {name[:40]}(...)")


def _temporal_value(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Return the ISO text of a date, time or duration, or a time zone.

    Args:
        name: one of `TEMPORAL_TYPES`.
        arguments: the arguments of the call by position.
        keywords: its arguments by name.

    Raises:
        TypeError, ValueError, OverflowError: the arguments are wrong.
    """
    if name in ("date", "Date"):
        return _date_text(*arguments)
    if name in ("datetime", "DateTime", "time", "Time"):
        return _clock_text(name, arguments, keywords.get("tzinfo"))
    if name in ("timedelta", "Duration"):
        return _duration_text(arguments, keywords)
    return _zone(name, arguments, keywords)


def _date_text(year: int, month: int, day: int) -> str:
    """Return a date in ISO 8601."""
    return f"{year:04}-{month:02}-{day:02}"


def _clock_text(name: str, arguments: Sequence[int], zone: Any) -> str:
    """Return the ISO text of a time of day, or of a date with a time.

    Args:
        name: the name of its type, of Python's `datetime` or of Neo4j's `neo4j.time`.
        arguments: its parts, from the year or the hour to the fraction of a second.
        zone: its time zone; None if it has none.
    """
    numbers = [*arguments]
    date = ""
    if name.lower() == "datetime":
        date = _date_text(*numbers[:3])
        numbers = numbers[3:]
    hours, minutes, seconds, fraction = [*numbers, 0, 0, 0, 0][:4]
    digits = 9 if name in ("DateTime", "Time") else 6  # Neo4j counts nanoseconds.
    clock = f"{hours:02}:{minutes:02}:{seconds:02}.{fraction:0{digits}}"
    separator = "T" if date else ""
    return f"{date}{separator}{clock}{_offset_text(_offset(zone, date, clock))}"


def _offset_text(seconds: int | None) -> str:
    """Return an offset from UTC, such as ``+01:00``; empty if it is None, which means unknown."""
    if seconds is None:
        return ""
    sign = "-" if seconds < 0 else "+"
    hours, minutes = divmod(abs(seconds) // 60, 60)
    return f"{sign}{hours:02}:{minutes:02}"


def _offset(zone: Any, date: str, clock: str) -> int | None:
    """Return the offset of a time zone from UTC in seconds; None if it is not known.

    Args:
        zone: a `Zone`, or an object of a library for time zones, whose text may tell the offset.
        date: the date at which the offset counts; empty for a time of day.
        clock: the time at which it counts.
    """
    if isinstance(zone, Unknown):
        return _offset_in_text(zone.text)
    if not isinstance(zone, Zone):
        return None
    if zone.offset is None and date:
        hours_to_seconds = clock.partition(".")[0]
        return _offset_at(zone.name, f"{date}T{hours_to_seconds}")
    return zone.offset


def _offset_in_text(text: str) -> int | None:
    """Return the offset from UTC in seconds that a text such as ``<DstTzInfo 'Europe/Paris'
    CET+1:00:00 STD>`` tells; None if it tells none.
    """
    match = _find_offset(text)
    if match is None:
        return 0 if "UTC" in text else None
    sign, hours, minutes = match.groups()
    seconds = int(hours) * 3600 + int(minutes) * 60
    return -seconds if sign == "-" else seconds


def _offset_at(zone_name: str, local_time: str) -> int | None:
    """Return the offset of a named time zone at a local time in seconds; None if it is unknown."""
    try:
        moment = datetime.fromisoformat(local_time).replace(tzinfo=ZoneInfo(zone_name))
    except (ValueError, OSError, KeyError):
        return None
    offset = moment.utcoffset()
    return None if offset is None else int(offset.total_seconds())


def _zone(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Zone:
    """Return the time zone that a call makes: of pytz, dateutil, zoneinfo or datetime."""
    if name == "FixedOffset":
        return Zone(offset=int(arguments[0]) * 60)  # In minutes.
    if name == "ZoneInfo":
        return Zone(name=str(keywords.get("key") or arguments[0]))
    if name == "timezone" and arguments and isinstance(arguments[0], ShownDuration):
        return Zone(offset=int(arguments[0].seconds))
    return Zone(offset=0)


def _duration_text(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> ShownDuration:
    """Return the ISO text of a `datetime.timedelta` or a `neo4j.time.Duration`.

    Args:
        arguments: days, seconds and microseconds, as far as they are given by position.
        keywords: the same and months and nanoseconds by name.
    """
    parts = dict(zip(("days", "seconds", "microseconds"), arguments, strict=False))
    parts.update(keywords)
    all_seconds = Fraction(parts.get("days", 0)) * SECONDS_PER_DAY
    all_seconds += Fraction(parts.get("seconds", 0))
    all_seconds += Fraction(parts.get("microseconds", 0)) / MICROSECONDS
    all_seconds += Fraction(parts.get("nanoseconds", 0)) / NANOSECONDS
    months = int(parts.get("months", 0))
    return ShownDuration(duration(months=months, seconds=all_seconds).text, all_seconds)


def _number(value: Any) -> Any:
    """Return a number that a call shows as a number, or in quotes as `Decimal` does."""
    if isinstance(value, int | float):
        return value
    text = str(value)
    try:
        if text.lstrip("+-").isdigit():
            return int(text)
        return float(text)
    except ValueError:
        raise MalformedStep(f"no number: {text[:20]!r}") from None
