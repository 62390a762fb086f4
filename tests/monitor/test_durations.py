from __future__ import annotations

import pytest

from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.monitor.windows import parse_duration, parse_window
from tests.cases import each


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30), ("30s", 30), ("5m", 300), ("1h", 3600), ("500ms", 0.5), ("1.5h", 5400), ("0.25", 0.25)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


BAD = ["", "0", "0s", "-1", "5 m", "5d", "s", "1e3", "nan", "inf", "1.", ".5", "5m30s", "\u0663"]


@each("text", [*BAD, "9" * 400])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration over 0"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "window"), [("200", Last(200)), ("1", Last(1)), ("5m", Seconds(300))])
def test_windows(text: str, window: Last | Seconds) -> None:
    assert parse_window(text) == window


@each("text", [*BAD, "1.5", "9" * 400 + "s", "9" * 5000])
def test_invalid_windows(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number, such as 200, or a duration with a unit"):
        parse_window(text)
