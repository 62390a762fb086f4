"""The arguments of requests for time series and for their data points."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.actual import read_args, read_whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from graphrag_eval_async.steps.actual import ActualStep, Score

    Reader: TypeAlias = Callable[[Mapping[str, Any], str], Any]

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_UNITS = {
    spelling: unit
    for unit, spellings in {
        "s": "s sec secs second seconds",
        "m": "m min mins minute minutes",
        "h": "h hr hrs hour hours",
        "d": "d day days",
        "w": "w week weeks",
        "mo": "mo month months",
        "q": "q quarter quarters",
        "y": "y year years",
    }.items()
    for spelling in spellings.split()
}
# Bounded digits: Python refuses to read an integer of more than 4,300.
_GRANULARITY = re.compile(r"([0-9]{1,18})? ?([a-z]+)")
_OFFSET = re.compile(r"([0-9]{1,18})([smhdw])-(ago|ahead)")

# `datetime.fromisoformat` takes more than ISO-8601, such as any character between date and time.
_ISO_8601 = re.compile(r"[0-9TWZ:+., -]+")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TOLERANCE = 60 * 10**6


class _Time(NamedTuple):
    """Microseconds after the epoch, or for a relative time, after the execution of its step."""

    is_relative: bool
    microseconds: int


def time_series_comparator(step: Mapping[str, Any]) -> Score:
    """Return a comparator: 1 if `mrid` is the same, and `limit` is too, if the reference sets one."""
    mrid, limit = _read_each(read_args(step), {"mrid": _read_texts, "limit": read_whole_number})

    def score(actual: ActualStep) -> float:
        args = read_args(actual.step)
        any_limit = limit is None and mrid is not None
        same = _read_texts(args, "mrid") == mrid
        return float(same and (any_limit or read_whole_number(args, "limit") == limit))

    return score


def data_points_comparator(step: Mapping[str, Any]) -> Score:
    """Return a comparator: 1 if the actual step requests the same data points over the same time."""
    *selection, start, end = _read_each(
        read_args(step), _SELECTION | {"start": _read_time, "end": _read_time}
    )

    def score(actual: ActualStep) -> float:
        args = read_args(actual.step)
        return float(
            [read(args, key) for key, read in _SELECTION.items()] == selection
            and _same_time(start, _read_time(args, "start"), actual)
            and _same_time(end, _read_time(args, "end"), actual)
        )

    return score


def _read_each(args: Mapping[str, Any], readers: Mapping[str, Reader]) -> list[Any]:
    """Return each argument as read by its reader; raise one `MalformedStep` for all that are malformed."""
    values: list[Any] = []
    problems: list[str] = []
    for key, read in readers.items():
        try:
            values.append(read(args, key))
        except MalformedStep as error:
            problems += error.problems
    if problems:
        raise MalformedStep(*problems)
    return values


def _read_texts(args: Mapping[str, Any], key: str) -> frozenset[str] | None:
    value = args.get(key)
    if value is None:
        return None
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise MalformedStep(f"args.{key}: must be a string or a list of strings")
    return frozenset(texts)


def _read_granularity(args: Mapping[str, Any], key: str) -> tuple[int, str] | None:
    """The amount and the unit, which may be in any case. Amounts are never converted to another unit."""
    value = args.get(key)
    if value is None:
        return None
    match = _GRANULARITY.fullmatch(value.lower()) if isinstance(value, str) else None
    unit = _UNITS.get(match[2]) if match else None
    if match is None or unit is None:
        raise MalformedStep(f"args.{key}: must be a number and a unit of time, such as 15m or 1 hour")
    return int(match[1] or 1), unit


_SELECTION: dict[str, Reader] = {
    "external_id": _read_texts,
    "aggregates": _read_texts,
    "granularity": _read_granularity,
    "limit": read_whole_number,
}


def _read_time(args: Mapping[str, Any], key: str) -> _Time | None:
    value = args.get(key)
    if value is None:
        return None
    if value == "now":
        return _Time(is_relative=True, microseconds=0)
    if isinstance(value, str) and (match := _OFFSET.fullmatch(value)):
        seconds = int(match[1]) * _SECONDS[match[2]]
        return _Time(is_relative=True, microseconds=(seconds if match[3] == "ahead" else -seconds) * 10**6)
    return _Time(is_relative=False, microseconds=_read_instant(value, f"args.{key}"))


def _read_instant(value: Any, where: str) -> int:
    """Microseconds after the epoch of an ISO-8601 date or time, in UTC unless it says otherwise."""
    if isinstance(value, date):  # YAML decodes times that are not in quotes.
        value = value.isoformat()
    try:
        instant = datetime.fromisoformat(value if _ISO_8601.fullmatch(value) else "")
    except (TypeError, ValueError):
        raise MalformedStep(f"{where}: must be an ISO-8601 time, now, or like 30s-ago, 2h-ahead") from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return (instant - _EPOCH) // _MICROSECOND


def _same_time(reference: _Time | None, actual: _Time | None, step: ActualStep) -> bool:
    if reference is None or actual is None or reference.is_relative == actual.is_relative:
        return reference == actual
    if actual.is_relative:
        return False
    executed = _read_instant(step.step.get("execution_timestamp"), "execution_timestamp")
    return abs(executed + reference.microseconds - actual.microseconds) <= _TOLERANCE
