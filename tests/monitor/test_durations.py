from __future__ import annotations

import pytest

from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.monitor.windows import parse_duration, parse_window

BAD = ["", "0", "0s", "-1", "5 m", "5d", "s", "1e3", "nan", "inf", "1.", ".5", "5m30s", "\u0663", "9" * 400]


def test_durations_and_windows() -> None:
    texts = ["30", "30s", "5m", "1h", "500ms", "1.5h", "0.25"]
    assert [*map(parse_duration, texts)] == [30, 30, 300, 3600, 0.5, 5400, 0.25]
    assert [*map(parse_window, ["200", "1", "5m"])] == [Last(200), Last(1), Seconds(300)]
    for text in BAD:
        with pytest.raises(ValueError, match="expected a duration over 0"):
            parse_duration(text)
    for text in [*BAD[:-1], "1.5", "9" * 400 + "s", "9" * 5000]:
        with pytest.raises(ValueError, match="expected a number, such as 200, or a duration with a unit"):
            parse_window(text)
