"""Alerts and their windows."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from fractions import Fraction
from itertools import accumulate
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.aggregates import Last, Seconds
from graphrag_eval_async.catalogue.conditions import OPERATORS
from graphrag_eval_async.helpers.durations import parse_duration
from graphrag_eval_async.monitor.alerts import Alert, Change, message, parse_alert
from graphrag_eval_async.monitor.watched import Alerts, Watched
from graphrag_eval_async.reports.windows import parse_window
from graphrag_eval_async.reports.wording import value_of
from tests.support.summaries import seen

if TYPE_CHECKING:
    from collections.abc import Sequence

PARSED = [
    pytest.param("steps_score<0.8", (None, "steps_score", "<", 0.8, None, None), id="plain"),
    pytest.param(
        " elapsed_sec >= 1e2 over 5m ",
        (None, "elapsed_sec", ">=", 100.0, Seconds(300), None),
        id="seconds",
    ),
    pytest.param(
        "lines: answer_f1 <= 0.5 over 30",
        ("lines", "answer_f1", "<=", 0.5, Last(30), None),
        id="template and last results",
    ),
    pytest.param(
        "a: b < 1: x over: y < 1",
        ("a: b < 1: x over", "y", "<", 1.0, None, None),
        id="colons in the template",
    ),
    pytest.param(" no  lines for 10m ", (None, "no lines", ">=", 600.0, None, None), id="no lines"),
    pytest.param("p99 x>30 over 5m", (None, "x", ">", 30.0, Seconds(300), 99), id="percentile"),
    pytest.param(
        "a: p5 b > 2: p90 x < 1",
        ("a: p5 b > 2", "x", "<", 1.0, None, 90),
        id="percentile of a template",
    ),
    pytest.param("p95 p95 > 3", (None, "p95", ">", 3.0, None, 95), id="metric named p95"),
]


@pytest.mark.parametrize(("text", "parts"), PARSED)
def test_parsing(text: str, parts: tuple[Any, ...]) -> None:
    alert = parse_alert(text)
    assert alert == (text.strip(), *parts)


INVALID = [
    "",
    "no lines for ever",
    "steps_score = 0.8",
    "x < nan",
    "x < 1 over 0",
    "x<1 over",
    "over",
    " over ",
    "x < 1 over 5 m",
    "< 0.8",
]
INVALID += ["p95 error_rate > 1", "p9x x > 1"]
BAD = ["", "0", "0s", "-1", "5 m", "5d", "s", "1e3", "nan", "inf", "1.", ".5", "5m30s", "\u0663"]


def test_durations_and_windows_and_what_is_none() -> None:
    for text in INVALID:
        with pytest.raises(ValueError, match=r"expected|finite|no quantiles"):
            parse_alert(text)
    texts = ["30", "30s", "5m", "1h", "500ms", "1.5h", "0.25"]
    assert [*map(parse_duration, texts)] == [30, 30, 300, 3600, 0.5, 5400, 0.25]
    assert [*map(parse_window, ["200", "1", "5m"])] == [Last(200), Last(1), Seconds(300)]
    for text in [*BAD, "9" * 400]:
        with pytest.raises(ValueError, match="expected a duration over 0"):
            parse_duration(text)
    for text in [*BAD, "1.5", "9" * 400 + "s", "9" * 5000]:
        with pytest.raises(
            ValueError, match="expected a number, such as 200, or a duration with a unit"
        ):
            parse_window(text)


@pytest.mark.parametrize("name", ["p0", "p42", "p95.0", "p99.9", "p101"])
def test_other_quantiles_are_refused_with_those_that_exist(name: str) -> None:
    with pytest.raises(
        ValueError, match=f"no quantile {re.escape(name)}, only p50, p90, p95 and p99"
    ):
        parse_alert(f"a: {name} elapsed_sec > 3 over 200")


# The oracle: all that ever came, looked at anew each time.


def statistic_of(alert: Alert, values: Sequence[float]) -> float:
    """The mean, or the quantile in exact fractions."""
    if alert.percent is None:
        return float(statistics.mean(values))
    ordered = sorted(map(Fraction, values))
    place = Fraction((len(ordered) - 1) * alert.percent, 100)
    low = ordered[int(place)]
    high = ordered[min(int(place) + 1, len(ordered) - 1)]
    exact = low + (high - low) * (place - int(place))
    return float(exact)


def expected(
    alert: Alert, size: float, looks: Sequence[tuple[float, float, float | None]]
) -> list[tuple[str, float | None]]:
    """The state and the value after each look: its position, where the window it fills begins, a
    value.
    """
    found: list[tuple[str, float | None]] = []
    held, active, ended = list[tuple[float, bool]](), False, None
    for i, (position, _, _) in enumerate(looks):
        came = [(at, begin, value) for at, begin, value in looks[: i + 1] if value is not None]
        recent = [value for at, _, value in came if at > position - size]
        full = bool(came) and position - (came[0][1] if ended is None else ended) >= size
        value, state = statistic_of(alert, recent) if recent else None, ""
        is_met = value is not None and full and OPERATORS[alert.operator](value, alert.bound)
        held.append((position, is_met))
        if held[-1][1] and not active:
            active, state = True, "started"
        elif active and not any(was for at, was in held if position - at < size):
            active, state, ended = False, "ended", position
        found.append((state, value if state else None))
    return found


CONDITIONS = st.sampled_from(["< 0.5", "<= 0.5", "> 0.5", ">= 0.5", "< 0.1"])
STATISTICS = st.sampled_from(["", "p50", "p95", "p99"])
VALUES = (
    st.sampled_from([0, 1, 0.5, 0.1, 0.2, 0.3, 0.7])
    | st.floats(-1e308, 1e308)
    | st.integers(0, 2**64 - 1)
)
MOVES = st.lists(st.tuples(st.integers(0, 4), st.none() | VALUES), max_size=40)


@given(CONDITIONS, STATISTICS, st.integers(1, 5), MOVES, st.booleans())
def test_changes_against_the_oracle(
    condition: str, statistic: str, size: int, moves: list[tuple[int, float | None]], timed: bool
) -> None:
    alert = parse_alert(f"{statistic} steps_score {condition}")
    watch = Watched(alert, Seconds(size) if timed else Last(size))
    if timed:
        times = [*accumulate(float(pause) for pause, _ in moves)]
        looks = [(now, now, value) for now, (_, value) in zip(times, moves, strict=True)]
    else:
        values = [value for _, value in moves if value is not None]
        looks = [(i + 1.0, float(i), value) for i, value in enumerate(values)]
    changes = [
        watch.look(now) if value is None else watch.add(value, now) for now, _, value in looks
    ]
    found = [
        ("", None) if change is None else (change["state"], change["value"]) for change in changes
    ]
    assert found == expected(alert, size, looks)


@given(
    st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from([0.0, 0.1, 1.0]))), st.integers(1, 9)
)
def test_a_mean_is_over_the_questions_in_the_window(
    values: list[tuple[str, float]], size: int
) -> None:
    watch = Watched(parse_alert("steps_score >= 0"), Last(size))
    for count, (question, value) in enumerate(values, 1):
        watch.add(value, 0.0, question)
        own: defaultdict[str, list[float]] = defaultdict(list)
        for name, score in values[max(0, count - size) : count]:
            own[name].append(score)
        shown = pytest.approx(fmean(map(fmean, own.values()))) if count >= size else None
        assert watch.change("started")["value"] == shown


def test_alerts_count_only_their_values() -> None:
    changes: list[Change] = []
    texts = ["error_rate >= 0.5 over 2", "a: x < 1 over 1", "a: error_rate > 0 over 1", "x < 1"]
    alerts = Alerts(map(parse_alert, [*texts, "y < 1 over 1"]), Last(3))
    alerts.on_change = changes.append
    alerts.add(seen({"x": 0.0}, "b"), 0.0)
    assert not changes
    for value in (0.5, 0.75):
        alerts.add(seen({"x": value}, "a"), 0.0)
    assert [(each["alert"], each["value"]) for each in changes] == [
        (texts[1], 0.5),
        (texts[3], 1.25 / 3),
    ]
    facts = {**changes[0]}
    assert message(changes[0]) == f"{facts.pop('time')} alert started: a: x < 1 over 1: 0.5"
    assert (
        facts.items()
        >= {"state": "started", "template": "a", "metric": "x", "statistic": "mean"}.items()
    )
    assert (facts["bound"], facts["window"], facts["samples"]) == (1.0, {"last": 1}, 1)
    del changes[:]
    alerts.add(seen(None, "a"), 0.0)
    assert [change["alert"] for change in changes] == [texts[0], texts[2]]
    assert [facts["alert"] for facts in alerts.facts()] == texts


def test_silence() -> None:
    alerts = Alerts([parse_alert("no lines for 10s")], Last(3))
    changes: list[Change] = []
    alerts.on_change = changes.append
    for now, lines in ((100.0, 5), (109.9, 5), (110.0, 6), (119.0, 6)):
        alerts.look(now, lines)
    assert not changes
    alerts.look(120.5, 6)
    alerts.look(190.0, 6)
    assert [(change["state"], change["value"], change["bound"]) for change in changes] == [
        ("started", 10.5, 10.0)
    ]
    assert alerts.facts()[0]["value"] == 80.0
    alerts.look(191.0, 7)
    assert [change["state"] for change in changes] == ["started", "ended"]
    assert not alerts.facts()


@pytest.mark.parametrize("window", ["3", "3s"])
def test_after_a_restart_alerts_that_were_on_stay_listed_and_windows_are_empty(window: str) -> None:
    """Such an alert ends if its condition does not hold again within a window; others are as in
    a new run.
    """
    text, changes = f"x < 0.5 over {window}", list[Change]()
    first, second, new = (Alerts([parse_alert(text)], Last(3)) for _ in range(3))
    for now in range(4):
        first.add(seen({"x": 0.0}), float(now))
    [kept] = first.facts()
    second.on_change = changes.append
    second.resume({text: kept, "another": kept}, 0.0)
    assert second.facts() == [kept | {"value": None, "samples": 0, "holds": False}]
    new.resume({}, 0.0)
    for now, value in enumerate([0.0, 1.0, 0.5, 1.0], 1):
        assert not changes
        assert not new.facts()
        for alerts in (second, new):
            alerts.add(seen({"x": value}), float(now))
        if now < 3:
            # The mean of 0.0 is below 0.5, that of 0.0 and 1.0 is not.
            expected = {"value": None, "samples": now, "holds": now == 1}
            assert second.facts() == [kept | expected]
            assert value_of(second.facts()[0]) == "window not full yet"
    assert value_of({"value": None}) == "no values"  # Of a restored change, which has no `samples`.
    [ended] = changes
    assert (ended["state"], ended["samples"], second.facts()) == ("ended", 3, [])
