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
from graphrag_eval_async.steps.cypher.moments import SECONDS_PER_HOUR, duration
from graphrag_eval_async.steps.cypher.values import Point
from graphrag_eval_async.steps.tables.temporal import SECONDS_PER_DAY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WGS_84 = {2: 4326, 3: 4979}
"""Numbers of the reference system of longitude and latitude, by the number of coordinates."""

CARTESIAN = {2: 7203, 3: 9157}
"""Numbers of the reference system of x and y, by the number of coordinates."""

SRIDS_BY_CLASS = {"WGS84Point": WGS_84, "CartesianPoint": CARTESIAN}
"""`WGS_84` and `CARTESIAN` by the classes of points in Neo4j's driver."""

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
        """Make a text that knows its seconds, to which its months do not contribute."""
        shown = super().__new__(cls, text)
        shown.seconds = seconds
        return shown


def value_of_call(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Return the value that a call in a text stands for.

    Args:
        name: the name of the type or function, with its modules, such as ``datetime.date``.
        arguments: its arguments by position.
        keywords: its arguments by name.

    Returns:
        a value of Cypher, or a `Zone`. For an unknown call whose arguments all have names, a dict
        of these arguments.

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
        # The argument is Cypher's map of coordinates, which is read as a point later.
        return arguments[0]
    if short_name in TEXT_TYPES and arguments and isinstance(arguments[0], str):
        return arguments[0]
    if short_name in NUMBER_TYPES and arguments:
        return _number(arguments[0])
    if short_name in COLLECTION_TYPES:
        if not arguments:
            return []
        return arguments[0]
    if keywords and not arguments:
        return dict(keywords)
    raise MalformedStep(f"no value: {name[:40]}(...)")


def _temporal_value(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Return the ISO text of a date, time or duration, or the `Zone` of a time zone.

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
    # The date comes first, if there is one.
    numbers = [*arguments]
    date = ""
    if name.lower() == "datetime":
        date = _date_text(*numbers[:3])
        numbers = numbers[3:]

    # Parts at the end are left out if they are zero.
    hours, minutes, seconds, fraction = [*numbers, 0, 0, 0, 0][:4]
    # Python counts microseconds, Neo4j nanoseconds.
    digits = 6
    if name in ("DateTime", "Time"):
        digits = 9
    clock = f"{hours:02}:{minutes:02}:{seconds:02}.{fraction:0{digits}}"

    offset = _offset_text(_offset(zone, date, clock))
    if date:
        return f"{date}T{clock}{offset}"
    return f"{clock}{offset}"


def _offset_text(seconds: int | None) -> str:
    """Return an offset from UTC, such as ``+01:00``; empty text if it is None, for unknown."""
    if seconds is None:
        return ""
    sign = "-" if seconds < 0 else "+"
    hours, minutes = divmod(abs(seconds) // 60, 60)
    return f"{sign}{hours:02}:{minutes:02}"


def _offset(zone: Any, date: str, clock: str) -> int | None:
    """Return the offset of a time zone from UTC in seconds; None if it is unknown.

    Args:
        zone: a `Zone`; an `Unknown` object, whose text may have the offset; or any other value,
            which is no time zone.
        date: the date for which the offset is asked; empty for a time of day.
        clock: the time of day for which the offset is asked.
    """
    if isinstance(zone, Unknown):
        return _offset_in_text(zone.text)
    if not isinstance(zone, Zone):
        return None
    if zone.offset is None and date:
        # The offset of a named time zone depends on the date.
        hours_to_seconds = clock.partition(".")[0]
        return _offset_at(zone.name, f"{date}T{hours_to_seconds}")
    return zone.offset


def _offset_in_text(text: str) -> int | None:
    """Return the offset from UTC in seconds in the text of a time zone; None if it has none.

    Such a text is ``<DstTzInfo 'Europe/Paris' CET+1:00:00 STD>``.
    """
    match = _find_offset(text)
    if match is None:
        if "UTC" in text:
            return 0
        return None
    sign, hours, minutes = match.groups()
    seconds = int(hours) * SECONDS_PER_HOUR + int(minutes) * 60
    if sign == "-":
        return -seconds
    return seconds


def _offset_at(zone_name: str, local_time: str) -> int | None:
    """Return the offset of a named time zone from UTC at a local time, in seconds.

    Returns:
        None if the zone is unknown, or there is no such time, as 25:00.
    """
    try:
        moment = datetime.fromisoformat(local_time).replace(tzinfo=ZoneInfo(zone_name))
    except (ValueError, OSError, KeyError):
        return None
    offset = moment.utcoffset()
    if offset is None:
        return None
    return int(offset.total_seconds())


def _zone(name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Zone:
    """Return the time zone that a call of pytz, dateutil, zoneinfo or datetime stands for."""
    if name == "FixedOffset":
        # The argument is in minutes.
        return Zone(offset=int(arguments[0]) * 60)
    if name == "ZoneInfo":
        return Zone(name=str(keywords.get("key") or arguments[0]))
    if name == "timezone" and arguments and isinstance(arguments[0], ShownDuration):
        return Zone(offset=int(arguments[0].seconds))
    # All others are UTC.
    return Zone(offset=0)


def _duration_text(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> ShownDuration:
    """Return the ISO text of a `datetime.timedelta` or a `neo4j.time.Duration`.

    Args:
        arguments: by position, any first ones of days, seconds and microseconds.
        keywords: by name, any of months, days, seconds, microseconds and nanoseconds.
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
    """Return the number in the argument of a call, which may be a text, as for `Decimal`.

    Raises:
        MalformedStep: the argument is no number.
    """
    if isinstance(value, int | float):
        return value
    text = str(value)
    try:
        if text.lstrip("+-").isdigit():
            return int(text)
        return float(text)
    except ValueError:
        raise MalformedStep(f"no number: {text[:20]!r}") from None
