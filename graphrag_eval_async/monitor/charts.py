"""Lines of values as SVG, drawn so that a strict content security policy allows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

SPARK_POINTS = 32
SPARK_WIDTH, SPARK_HEIGHT = 96, 20
CHART_WIDTH, CHART_HEIGHT = 320, 90
LEAST_SPAN = 0.2
"""The least height of a sparkline, so that noise of a few hundredths looks flat."""


def sparkline(points: Sequence[float | None]) -> Markup | str:
    """The recent values of a metric, the latest on the right; nothing if there are less than two."""
    from markupsafe import Markup

    known = [value for value in points if value is not None]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    span = max(high - low, LEAST_SPAN if high <= 1 else abs(high) * LEAST_SPAN)
    low = (low + high - span) / 2
    line = _line(thin(points, SPARK_POINTS), low, low + span, SPARK_WIDTH, SPARK_HEIGHT)
    return Markup('<svg class="spark" viewBox="0 0 {} {}" aria-hidden="true"><path d="{}"/></svg>').format(
        SPARK_WIDTH, SPARK_HEIGHT, line
    )


def chart(
    name: str,
    means: Sequence[float | None],
    recent: Sequence[float | None],
    ends: Sequence[tuple[float, float] | None],
) -> Markup | str:
    """A metric since the start of the run: its mean with its interval, and the mean of the window."""
    from markupsafe import Markup

    known = [value for value in (*means, *recent) if value is not None]
    if len(means) < 2 or not known:
        return ""
    low, high = min(known), max(known)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low == high:
        low, high = low - 1, high + 1
    width, height = CHART_WIDTH, CHART_HEIGHT
    label = (
        f"{name} from the start of the run until now, from {low:.3g} at the bottom to {high:.3g} at the top"
    )
    return Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" role="img" aria-label="{label}">'
        '<path class="grid" d="M0 .5H{w}M0 {m}H{w}M0 {b}H{w}"/>'
        '<path class="band" d="{band}"/><path class="mean" d="{means}"/>'
        '<path class="recent" d="{recent}"/></svg>'
    ).format(
        w=width,
        h=height,
        m=height / 2,
        b=height - 0.5,
        label=label,
        band=_band(ends, low, high),
        means=_line(means, low, high, width, height),
        recent=_line(recent, low, high, width, height),
    )


def thin(points: Sequence[float | None], count: int) -> list[float | None]:
    """At most `count` of the points, evenly spaced, the last included."""
    if len(points) <= count:
        return [*points]
    return [points[(len(points) - 1) * i // (count - 1)] for i in range(count)]


def _line(points: Sequence[float | None], low: float, high: float, width: int, height: int) -> str:
    """The path through the points; gaps interrupt it."""
    path, is_down = [], False
    for i, value in enumerate(points):
        if value is None:
            is_down = False
            continue
        path.append(f"{'L' if is_down else 'M'}{_x(i, len(points), width)} {_y(value, low, high, height)}")
        is_down = True
    return "".join(path)


def _band(ends: Sequence[tuple[float, float] | None], low: float, high: float) -> str:
    """The area between the ends, where they are known."""
    known = [(_x(i, len(ends), CHART_WIDTH), each) for i, each in enumerate(ends) if each is not None]
    if len(known) < 2:
        return ""
    above = [f"{x} {_y(end, low, high, CHART_HEIGHT)}" for x, (_, end) in known]
    below = [f"{x} {_y(end, low, high, CHART_HEIGHT)}" for x, (end, _) in known]
    return f"M{'L'.join([*above, *reversed(below)])}Z"


def _x(place: int, count: int, width: int) -> str:
    return f"{place / max(1, count - 1) * width:.0f}"


def _y(value: float, low: float, high: float, height: int) -> str:
    share = min(1.0, max(0.0, (value - low) / (high - low)))
    return f"{1 + (1 - share) * (height - 2):.0f}"
