"""The arguments of requests for time series and for their data points."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import read_args, read_whole_number
from graphrag_eval_async.steps.differences import Agreement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.steps.actual import ActualStep, Compare

_SPELLINGS = (
    *(
        "s sec secs second seconds",
        "m min mins minute minutes",
        "h hr hrs hour hours",
        "d day days",
    ),
    *("w week weeks", "mo month months", "q quarter quarters", "y year years"),
)
_UNITS = {spelling: each.split()[0] for each in _SPELLINGS for spelling in each.split()}
_OFFSETS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
# Bounded digits: Python refuses to read an integer of more than 4,300.
_granularity = re.compile(r"([0-9]{1,18})? ?([a-z]+)").fullmatch
_offset = re.compile(r"([0-9]{1,18})([smhdw])-(ago|ahead)").fullmatch
# `datetime.fromisoformat` takes more than ISO-8601, such as any character between date and time.
_iso_8601 = re.compile(r"[0-9TWZ:+., -]+").fullmatch
_TOLERANCE = timedelta(minutes=1)


def time_series_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a comparator: 1 if `mrid` is the same, and `limit` is too, if the reference sets
    one.
    """
    args = read_args(step)
    mrid, limit = _read_texts(args, "mrid"), read_whole_number(args, "limit")

    def compare(actual: ActualStep) -> Agreement:
        args = read_args(actual.step)
        any_limit = limit is None and mrid is not None
        same = _read_texts(args, "mrid") == mrid
        return Agreement(float(same and (any_limit or read_whole_number(args, "limit") == limit)))

    return compare


def data_points_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a comparator: 1 if the actual step requests the same data points over the same
    time.
    """
    selection, *times = _read_points(read_args(step))

    def compare(actual: ActualStep) -> Agreement:
        found, *others = _read_points(read_args(actual.step))
        pairs = zip(times, others, strict=True)
        return Agreement(
            float(found == selection and all(_same_time(*pair, actual.step) for pair in pairs))
        )

    return compare


def _read_points(args: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what is selected, the start and the end."""
    selection = _read_texts(args, "external_id"), _read_texts(args, "aggregates")
    amount = _read_granularity(args, "granularity"), read_whole_number(args, "limit")
    return (*selection, *amount), _read_time(args, "start"), _read_time(args, "end")


def _read_texts(args: Mapping[str, Any], key: str) -> frozenset[str] | None:
    value = args.get(key)
    if value is None:
        return None
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise MalformedStep(f"args.{key}: must be a string or a list of strings")
    return frozenset(texts)


def _read_granularity(args: Mapping[str, Any], key: str) -> tuple[int, str] | None:
    """The amount and the unit, which may be in any case. Amounts are never converted to another
    unit.
    """
    value = args.get(key)
    if value is None:
        return None
    match = _granularity(value.lower()) if isinstance(value, str) else None
    if match is None or match[2] not in _UNITS:
        raise MalformedStep(
            f"args.{key}: must be a number and a unit of time, such as 15m or 1 hour"
        )
    return int(match[1] or 1), _UNITS[match[2]]


def _read_time(args: Mapping[str, Any], key: str) -> datetime | timedelta | None:
    """The time; if it is relative, its distance from the execution of the step."""
    value = args.get(key)
    if value is None or value == "now":
        return value and timedelta(0)
    match = _offset(value) if isinstance(value, str) else None
    if match is None:
        return _read_instant(value, f"args.{key}")
    try:
        distance = timedelta(**{_OFFSETS[match[2]]: int(match[1])})
    except OverflowError:
        raise MalformedStep(
            f"args.{key}: must be less than {timedelta.max.days:,} days away"
        ) from None
    return distance if match[3] == "ahead" else -distance


def _read_instant(value: Any, where: str) -> datetime:
    """An ISO-8601 date or time, in UTC unless it says otherwise."""
    if isinstance(value, date):  # YAML decodes times that are not in quotes.
        value = value.isoformat()
    try:
        instant = datetime.fromisoformat(value if _iso_8601(value) else "")
    except (TypeError, ValueError):
        raise MalformedStep(
            f"{where}: must be an ISO-8601 time, now, or like 30s-ago, 2h-ahead"
        ) from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _same_time(
    reference: datetime | timedelta | None,
    actual: datetime | timedelta | None,
    step: Mapping[str, Any],
) -> bool:
    """Whether both are the same time; a relative one of the reference may be absolute in the
    actual step.
    """
    if not isinstance(reference, timedelta) or not isinstance(actual, datetime):
        return reference == actual
    executed = _read_instant(step.get("execution_timestamp"), "execution_timestamp")
    return abs(actual - executed - reference) <= _TOLERANCE
