"""Parses windows of recent results, and says them in words."""

from __future__ import annotations

from contextlib import suppress

from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.helpers.durations import parse_duration


def parse_window(text: str) -> Last | Seconds:
    """Return the window that a user asks for: the last results, such as 200, or a time, such as 5m.

    Raises:
        ValueError: `text` is neither a number above 0 nor a duration with a unit.
    """
    # Both `int`, which refuses thousands of digits, and `parse_duration` raise a `ValueError` that
    # does not name both ways to write a window.
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
