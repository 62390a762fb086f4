"""Times of traces."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def to_seconds(value: Any) -> float | None:
    """Seconds since 1970 of an ISO 8601 text, or of a number of seconds; None if it is neither."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


def seconds_between(starts: Iterable[Any], ends: Iterable[Any]) -> float | None:
    """Seconds from the first start to the last end, as far as they are known."""
    begun = [seconds for value in starts if (seconds := to_seconds(value)) is not None]
    ended = [seconds for value in ends if (seconds := to_seconds(value)) is not None]
    return max(0.0, max(ended) - min(begun)) if begun and ended else None
