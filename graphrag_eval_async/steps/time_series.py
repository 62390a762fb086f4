"""The arguments of requests for time series and for their data points."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import read_args, read_whole_number
from graphrag_eval_async.steps.differences import Agreement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.steps.actual import ActualStep, Compare

_SPELLINGS_BY_UNIT = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
    "w": ("w", "week", "weeks"),
    "mo": ("mo", "month", "months"),
    "q": ("q", "quarter", "quarters"),
    "y": ("y", "year", "years"),
}
_UNIT_BY_SPELLING = {
    spelling: unit for unit, spellings in _SPELLINGS_BY_UNIT.items() for spelling in spellings
}
_TIMEDELTA_KEYWORDS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

# The number of digits is limited, since Python refuses to read integers of more than 4,300.
_match_granularity = re.compile(r"(?P<amount>[0-9]{1,18})? ?(?P<unit>[a-z]+)").fullmatch
_match_relative_time = re.compile(
    r"(?P<amount>[0-9]{1,18})(?P<unit>[smhdw])-(?P<direction>ago|ahead)"
).fullmatch
# `datetime.fromisoformat` takes more than ISO-8601, such as any character between date and time.
_is_iso_8601 = re.compile(r"[0-9TWZ:+., -]+").fullmatch

TOLERANCE = timedelta(minutes=1)
"""How far an absolute time may be from the relative one that a reference step expects."""


class _Granularity(NamedTuple):
    """The time between two data points."""

    amount: int
    unit: str  # A key of `_SPELLINGS_BY_UNIT`. Units are never converted into others.


class _Selection(NamedTuple):
    """Which data points a step requests, except for their time."""

    external_ids: frozenset[str] | None
    aggregates: frozenset[str] | None
    granularity: _Granularity | None
    limit: int | None


class _DataPoints(NamedTuple):
    """The arguments of a request for data points. A timedelta is relative to the execution."""

    selection: _Selection
    start: datetime | timedelta | None
    end: datetime | timedelta | None


def time_series_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a function that scores an actual step 1 if it requests the same time series, else 0.

    `mrid` must be the same. `limit` must also be the same, unless the reference step has only an
    `mrid`.

    Raises:
        MalformedStep: an argument of the reference step is invalid.
    """
    reference_args = read_args(step)
    mrid = _read_texts(reference_args, "mrid")
    limit = read_whole_number(reference_args, "limit")
    compares_limit = limit is not None or mrid is None

    def compare(actual: ActualStep) -> Agreement:
        """Return 1 if the arguments of an actual step are the reference step's, else 0."""
        args = read_args(actual.step)
        if _read_texts(args, "mrid") != mrid:
            return Agreement(0.0)
        if compares_limit and read_whole_number(args, "limit") != limit:
            return Agreement(0.0)
        return Agreement(1.0)

    return compare


def data_points_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a function that scores an actual step 1 if it requests the same data points, else 0.

    Raises:
        MalformedStep: an argument of the reference step is invalid.
    """
    reference = _read_data_points(read_args(step))

    def compare(actual: ActualStep) -> Agreement:
        """Return 1 if an actual step requests the data points of `reference`, else 0."""
        points = _read_data_points(read_args(actual.step))
        if points.selection != reference.selection:
            return Agreement(0.0)
        for reference_time, time in (
            (reference.start, points.start),
            (reference.end, points.end),
        ):
            if not _is_same_time(reference_time, time, actual.step):
                return Agreement(0.0)
        return Agreement(1.0)

    return compare


def _read_data_points(args: Mapping[str, Any]) -> _DataPoints:
    """Read the arguments of a request for data points.

    Raises:
        MalformedStep: an argument is invalid.
    """
    selection = _Selection(
        external_ids=_read_texts(args, "external_id"),
        aggregates=_read_texts(args, "aggregates"),
        granularity=_read_granularity(args, "granularity"),
        limit=read_whole_number(args, "limit"),
    )
    return _DataPoints(
        selection=selection,
        start=_read_time(args, "start"),
        end=_read_time(args, "end"),
    )


def _read_texts(args: Mapping[str, Any], key: str) -> frozenset[str] | None:
    """Return the strings under a key; None if it is absent or null.

    The key holds one string or a list of strings.

    Raises:
        MalformedStep: the value is something else.
    """
    value = args.get(key)
    if value is None:
        return None
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise MalformedStep(f"args.{key}: must be a string or a list of strings")
    return frozenset(texts)


def _read_granularity(args: Mapping[str, Any], key: str) -> _Granularity | None:
    """Return the amount and unit under a key, as in "15m"; None if it is absent or null.

    Without an amount, as in "hour", the amount is 1. Upper and lower case are the same.

    Raises:
        MalformedStep: the value is something else.
    """
    value = args.get(key)
    if value is None:
        return None
    if isinstance(value, str):
        match = _match_granularity(value.lower())
        if match is not None and match["unit"] in _UNIT_BY_SPELLING:
            return _Granularity(
                amount=int(match["amount"] or 1), unit=_UNIT_BY_SPELLING[match["unit"]]
            )
    raise MalformedStep(f"args.{key}: must be a number and a unit of time, such as 15m or 1 hour")


def _read_time(args: Mapping[str, Any], key: str) -> datetime | timedelta | None:
    """Return the time under a key; None if it is absent or null.

    Returns:
        A datetime for an absolute time. For a relative time such as "now", "2h-ago" or "2h-ahead",
        how long after the execution of the step it is.

    Raises:
        MalformedStep: the value is something else.
    """
    value = args.get(key)
    if value is None:
        return None
    if value == "now":
        return timedelta(0)
    match = _match_relative_time(value) if isinstance(value, str) else None
    if match is None:
        return _read_instant(value, place=f"args.{key}")

    keyword = _TIMEDELTA_KEYWORDS[match["unit"]]
    try:
        distance = timedelta(**{keyword: int(match["amount"])})
    except OverflowError:
        raise MalformedStep(
            f"args.{key}: must be less than {timedelta.max.days:,} days away"
        ) from None
    if match["direction"] == "ago":
        return -distance
    return distance


def _read_instant(value: Any, place: str) -> datetime:
    """Return an ISO-8601 date or time as a datetime, in UTC unless it has another time zone.

    Args:
        value: text, or a date or datetime, which YAML makes of text that is not in quotes.
        place: where the value stands, for the error.

    Raises:
        MalformedStep: the value is something else.
    """
    text = value.isoformat() if isinstance(value, date) else value
    instant = None
    if isinstance(text, str) and _is_iso_8601(text):
        # The text may look like a date that does not exist, such as 2021-02-30.
        with suppress(ValueError):
            instant = datetime.fromisoformat(text)
    if instant is None:
        raise MalformedStep(f"{place}: must be an ISO-8601 time, now, or like 30s-ago, 2h-ahead")
    if instant.tzinfo is None:
        return instant.replace(tzinfo=UTC)
    return instant


def _is_same_time(
    reference: datetime | timedelta | None,
    actual: datetime | timedelta | None,
    step: Mapping[str, Any],
) -> bool:
    """Return whether an argument of an actual step is the time that the reference step has.

    A timedelta is relative to the time when the step was executed. Where the reference step has
    one, the actual step may have the absolute time that it means.

    Args:
        reference: the argument of the reference step.
        actual: the argument of the actual step.
        step: the actual step.

    Raises:
        MalformedStep: the time of execution is needed, and the actual step has none that is valid.
    """
    if isinstance(reference, timedelta) and isinstance(actual, datetime):
        executed = _read_instant(step.get("execution_timestamp"), place="execution_timestamp")
        return abs(actual - executed - reference) <= TOLERANCE
    return reference == actual
