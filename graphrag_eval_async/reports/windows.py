"""Parses windows of recent results, and says them in words."""

from __future__ import annotations

from contextlib import suppress

from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.helpers.durations import parse_duration


def parse_window(text: str) -> Last | Seconds:
    """Return the window of the last n results, such as 200, or of the last seconds, such as 5m.

    Raises:
        ValueError: it is neither a number over 0 nor a duration with a unit.
    """
    # Python refuses to read numbers of thousands of digits.
    with suppress(ValueError):
        is_number = text.isascii() and text.isdecimal()
        if is_number and int(text) > 0:
            return Last(int(text))
        has_unit = text[-1:].isalpha()
        if has_unit:
            return Seconds(parse_duration(text))
    raise ValueError(
        f"{text!r}: expected a number, such as 200, or a duration with a unit, such as 5m"
    )


def window_facts(window: Last | Seconds) -> dict[str, float]:
    """Return a window as JSON has it: its number of results, or its seconds."""
    if isinstance(window, Last):
        return {"last": window.count}
    return {"seconds": window.seconds}
