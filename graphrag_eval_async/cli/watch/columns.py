"""The columns of the view: which there are, how wide they are, and how numbers and trends look."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, fsum, log10
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from graphrag_eval_async.records.metrics import COST
from graphrag_eval_async.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-:=+*#"  # for encodings without `BARS`
LEAST_NAME, MOST_NAME = 12, 32
LEAST_CELL, ROOMY_CELL, MOST_CELL = 5, 8, 12

HEADINGS = {
    "steps_score": "steps",
    "answer_f1": "F1",
    "answer_relevance": "relev.",
    "total_tokens": "tokens",
    "elapsed_sec": "sec",
}
"""The headings of the metrics that come first."""

MORE_HEADINGS = {
    "query_similarity": "query",
    "input_tokens": "in tok",
    "output_tokens": "out tok",
    "answer_recall": "recall",
    "answer_precision": "precis.",
    "ragas_answer_correctness": "ragas",
    "retrieval_answer_recall": "ra rec",
    "retrieval_answer_precision": "ra prec",
    "retrieval_answer_f1": "ra F1",
    "retrieval_context_recall": "rc rec",
    "retrieval_context_precision": "rc prec",
    "retrieval_context_f1": "rc F1",
}
"""The headings of metrics that are shown if there is room; others have their names, cut off."""


@dataclass(frozen=True, slots=True)
class Column:
    """`path` leads to its values in the facts of a group or a result; `show` makes text of one."""

    path: tuple[str, ...]
    heading: str
    show: Callable[[Any], str]
    width: int

    def of(self, facts: Mapping[str, Any]) -> Any:
        """The value at the path, or None."""
        place: Any = facts
        for key in self.path:
            place = None if place is None else place.get(key)
        return place

    def text(self, value: Any) -> str:
        return "" if value is None else self.show(value)


@dataclass(frozen=True, slots=True)
class Grid:
    """A column of names, and the columns that fit beside it; `left_out` counts those that do not."""

    name_width: int
    gap: int
    columns: Sequence[Column]
    left_out: int


def lay_out(overall: Mapping[str, Any], names: Sequence[str], width: int) -> Grid:
    """The grid for groups that have the metrics of `overall`, and for the names before them."""
    columns = _first(overall)
    gap = 2 if _taken(columns, 2) + LEAST_NAME <= width else 1
    fitting = len(columns)
    while _taken(columns[:fitting], gap) + LEAST_NAME > width and fitting:
        fitting -= 1
    left_out = len(columns) - fitting
    columns = columns[:fitting]
    if not left_out:
        columns += _more(overall, columns, width)
    room = width - _taken(columns, gap)
    name_width = min(room, max(LEAST_NAME, min(MOST_NAME, max(map(cell_len, names)))))
    each = (room - name_width) // max(1, len(columns))
    wider = [
        replace(column, width=max(column.width, min(MOST_CELL, column.width + each))) for column in columns
    ]
    return Grid(width - _taken(wider, gap), gap, wider, left_out)


def _first(overall: Mapping[str, Any]) -> list[Column]:
    metrics = [name for name in HEADINGS if name in overall["metrics"]]
    columns = [Column(("samples",), "samples", count, 7), Column(("errors",), "errors", count, 6)]
    columns += [_of_metric(name, HEADINGS[name], LEAST_CELL) for name in metrics]
    if "cost" in overall:
        columns.append(Column(("cost",), "cost", price, 7))
    return columns


def _more(overall: Mapping[str, Any], columns: Sequence[Column], width: int) -> list[Column]:
    """The other metrics, as long as all cells may be roomy."""
    names = [name for name in overall["metrics"] if name not in HEADINGS and not name.endswith(COST)]
    room = width - LEAST_NAME - sum(max(column.width, ROOMY_CELL) + 2 for column in columns)
    return [
        _of_metric(name, MORE_HEADINGS.get(name, one_line(name)[:ROOMY_CELL]), ROOMY_CELL)
        for name in names[: max(0, room // (ROOMY_CELL + 2))]
    ]


def _of_metric(name: str, heading: str, width: int) -> Column:
    return Column(("metrics", name), heading, number, max(len(heading), width))


def _taken(columns: Sequence[Column], gap: int) -> int:
    return sum(column.width + gap for column in columns)


def count(value: int) -> str:
    """A count in at most 7 characters."""
    return str(value) if value < 1e7 else number(value)


def number(value: float) -> str:
    """A number in about 5 characters."""
    if abs(value) <= 1:
        return f"{value:.3f}"
    for unit in ("", "k", "M", "G", "T"):
        if abs(value) < 1000:
            digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
            return f"{value:.{digits}f}{unit}"
        value /= 1000
    return f"{value * 1000**5:.0e}"


def price(dollars: float) -> str:
    """An amount in US dollars in about 7 characters."""
    if dollars <= 0 or dollars >= 1:
        return f"${number(dollars)}" if dollars else "$0"
    if dollars < 0.0001:
        return f"${dollars:.1e}".replace("e-0", "e-")
    digits = 1 - floor(log10(dollars))
    return f"${dollars:.{digits}f}".replace("$0.", "$.")


def sparkline(points: Sequence[float | None], width: int, bars: str = BARS) -> str:
    """Points as bars from the lowest to the highest of them, at most `width`, the latest on the right.

    If there are more points, a bar stands for several. Gaps are blank; equal points are half as high.
    """
    width = min(width, len(points))
    groups = [points[len(points) * i // width : len(points) * (i + 1) // width] for i in range(width)]
    means = [_mean([value for value in group if value is not None]) for group in groups]
    known = [value for value in means if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if low == high:
        return "".join(" " if value is None else bars[len(bars) // 2 - 1] for value in means)
    top = len(bars) - 1
    return "".join(
        " " if value is None else bars[round((value - low) / (high - low) * top)] for value in means
    )


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None
