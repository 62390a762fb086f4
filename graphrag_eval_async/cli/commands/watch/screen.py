"""Lays out facts as lines of text for a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from graphrag_eval_async.catalogue.metrics import COST
from graphrag_eval_async.catalogue.outcomes import REASON
from graphrag_eval_async.records.snapshots import interval_of_mean, mean_of_questions
from graphrag_eval_async.reports.overview import judge_facts, quality, run_facts
from graphrag_eval_async.reports.windows import duration_name
from graphrag_eval_async.reports.wording import value_of
from graphrag_eval_async.steps.failure import NO_FAILURE, failure_counts
from graphrag_eval_async.text import by_frequency, one_line, percent
from graphrag_eval_async.text import number as long_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BARS = "▁▂▃▄▅▆▇█"
LEAST_NAME, MOST_NAME = 15, 32
LEAST_CELL, MOST_CELL = 8, 12
SHOWN_ALERTS = 3
LEAST_RESULTS = 2  # lines kept for results, with their heading
ROOMY = 10  # lines kept for results, or for templates, before intervals are shown

HEADINGS = {
    "samples": "samples",
    "errors": "errors",
    "steps_score": "steps",
    "answer_match": "match",
    "answer_f1": "F1",
    "answer_relevance": "relev.",
    "total_tokens": "tokens",
    "elapsed_sec": "sec",
    "cost": "cost",
}
"""The columns that come first; other metrics follow if there is room."""


def render(
    facts: Mapping[str, Any], width: int, height: int, address: str | None = None
) -> list[Text]:
    """At most `height` lines, none wider than `width` cells.

    The `address` of the page in the browser comes second. If not all templates fit, they lose their
    intervals first, then the trends; then only the lowest are shown. Results have what is left.
    """
    screen = _Screen(facts, width)
    paths = [_quote(path).rstrip("/") for path in facts["paths"]]
    title = f"watching {' '.join(paths)}"
    head = [
        Text(
            title
            if cell_len(title) <= width
            else f"watching {' '.join(map(os.path.basename, paths))}",
            "bold",
        ),
        *([] if address is None else [Text(address)]),
        screen.headings(),
        *screen.group("overall", facts["overall"], detail=1),
    ]
    foot = [*_alerts(facts["alerts"]), *_status(facts, width)]
    room = height - len(head) - len(foot) - min(LEAST_RESULTS, len(facts["results"]))
    trust = screen.trust(facts["overall"])
    if room - len(trust) >= min(screen.size(0) * len(facts["templates"]), ROOMY):
        head, room = head + trust, room - len(trust)
    templates = screen.templates(room)
    blank = [Text()] * (room - len(templates) > LEAST_RESULTS)
    lines = [*head, *templates, *blank, *foot, *blank, *screen.results()][: max(0, height)]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
        line.rstrip()
    return lines


class _Screen:
    """Rows of groups and of results, in columns of the same width after one of names."""

    def __init__(self, facts: Mapping[str, Any], width: int) -> None:
        self._facts = facts
        overall, window = facts["overall"], facts["window"]
        known = _values(overall)
        every = [
            *(name for name in HEADINGS if name in known),
            *(name for name in known if name not in HEADINGS),
        ]
        self._columns = every[: max(0, (width - LEAST_NAME) // LEAST_CELL)]
        self._left_out = len(every) - len(self._columns)
        self._window = (
            f"  last {window['last'] if 'last' in window else duration_name(window['seconds'])}"
        )
        # Only if the window lacks results, its means differ.
        self._has_window = bool(overall["samples"]["total"] != overall["samples"]["window"])
        names = [
            self._window,
            *facts["templates"],
            *(each["question_id"] for each in facts["results"]),
        ]
        room = width - max(
            LEAST_NAME, min(MOST_NAME, max(cell_len(_quote(name)) for name in names))
        )
        self._cell = max(LEAST_CELL, min(MOST_CELL, room // max(1, len(self._columns))))
        self._name = width - self._cell * len(self._columns)
        values = [known[column] for column in self._columns]
        sure = [value for value in values if "confidence" in value]
        level = percent(sure[0]["confidence"]["level"]) if sure else ""
        firsts = any(interval_of_mean(value, "confidence") is None for value in sure)
        self._trusted = [
            *[("  first samples", "confidence", "mean")] * firsts,
            *[(f"  {level} from", "confidence", "low"), (f"  {level} to", "confidence", "high")]
            * bool(sure),
            *[("  p95", "quantiles", "p95")] * any("quantiles" in value for value in values),
        ]

    def headings(self) -> Text:
        headings = [
            (HEADINGS.get(name) or _heading(name))[: self._cell - 1] for name in self._columns
        ]
        return self._row(f"({self._left_out} more)" if self._left_out else "", headings, "dim")

    def size(self, detail: int) -> int:
        """The lines of a group without trends (`detail` 0), with them (1), and with intervals
        (2).
        """
        return 1 + self._has_window + (detail > 0) + (detail > 1) * len(self._trusted)

    def group(self, name: str, group: Mapping[str, Any], detail: int) -> list[Text]:
        known = _values(group)
        values = [known.get(column, {}) for column in self._columns]
        means = [
            mean_of_questions(value) if "mean" in value else value.get("total") for value in values
        ]
        lines = [self._row(_quote(name), self._cells(means), "bold")]
        if self._has_window:
            lines.append(
                self._row(self._window, self._cells(value.get("window") for value in values))
            )
        if detail:
            lines.append(
                self._row("", [sparkline(value.get("trend", ())) for value in values], "cyan")
            )
        return lines + (self.trust(group) if detail > 1 else [])

    def trust(self, group: Mapping[str, Any]) -> list[Text]:
        """The confidence intervals of a group, with repeats also their means, and a high
        quantile.
        """
        known = _values(group)
        return [
            self._row(
                name,
                self._cells(known.get(each, {}).get(part, {}).get(key) for each in self._columns),
            )
            for name, part, key in self._trusted
        ]

    def templates(self, room: int) -> list[Text]:
        """As many templates as fit, the lowest first; if not all do, a line that says so."""
        groups = self._facts["templates"]
        count = len(groups)
        room -= self.size(0) * count > room
        detail = int(self.size(1) * count <= room)
        if self.size(2) * count <= room - ROOMY and all(
            "coverage" in group for group in groups.values()
        ):
            detail = 2
        fitting = max(0, room // self.size(detail))
        shown = sorted(groups, key=lambda name: quality(groups[name]))[:fitting]
        lines = [line for name in shown for line in self.group(name, groups[name], detail)]
        if len(shown) < count:
            lines.append(Text(f"{len(shown)} of {count} templates, lowest first", "dim"))
        return lines

    def results(self) -> list[Text]:
        results = self._facts["results"]
        return (
            [Text(f"{self._facts['show']} results", "dim"), *map(self._result, results)]
            if results
            else []
        )

    def _result(self, result: Mapping[str, Any]) -> Text:
        """A result with its error or, among the worst, with why it failed, in place of the last
        columns.
        """
        wrong, kept = "", len(self._columns)
        if result["status"] == "error":
            wrong, kept = _quote(result.get("error", "error")), 1
        elif self._facts["show"] == "worst" and result.get(REASON, NO_FAILURE) != NO_FAILURE:
            wrong = _quote(result[REASON])
            kept -= min(kept - 1, -(-(len(wrong) + 2) // self._cell))
        known = {**result["metrics"], "cost": result.get("cost")}
        cells = [f"#{result['sample']}", *self._cells(map(known.get, self._columns))[1:]]
        return self._row(_quote(result["question_id"]), cells[:kept]).append(
            f"  {wrong}" * bool(wrong), "red"
        )

    def _cells(self, values: Iterable[Any]) -> list[str]:
        named = zip(self._columns, values, strict=True)
        return [
            "" if each is None else price(each) if name == "cost" else number(each)
            for name, each in named
        ]

    def _row(self, name: str, cells: Iterable[str], style: str = "") -> Text:
        line = Text(name, style)
        line.truncate(self._name, overflow="ellipsis", pad=True)
        return line.append("".join(cell.rjust(self._cell) for cell in cells))


def _values(group: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of the columns of a group, by name."""
    metrics = {name: value for name, value in group["metrics"].items() if not name.endswith(COST)}
    return metrics | {name: group[name] for name in ("samples", "errors", "cost") if name in group}


def _heading(metric: str) -> str:
    """A short form of a name, such as "inp tok" or "ra reca"."""
    *words, last = one_line(metric).removeprefix("answer_").removesuffix("_score").split("_")
    first = words[0][:3] if len(words) == 1 else "".join(word[:1] for word in words)
    return f"{first} {last[: 6 - len(first)]}" if words else last


def number(value: float) -> str:
    """A number in about 5 characters."""
    text = f"{value:.3f}" if isinstance(value, float) and abs(value) <= 1 else long_number(value)
    return text if len(text) < LEAST_CELL else f"{value:.1e}"


def price(value: float) -> str:
    """An amount in US dollars in about 7 characters."""
    return f"${value:.2f}" if value >= 1 else f"${value:.2g}".replace("e-0", "e-")


def sparkline(points: Sequence[float | None]) -> str:
    """The latest points as bars from the lowest to the highest of them; gaps are blank."""
    points = points[2 - LEAST_CELL :]
    known = [point for point in points if point is not None]
    low, span = min(known, default=0.0), max(known, default=0.0) - min(known, default=0.0)
    top = len(BARS) - 1
    places = [
        None if each is None else round((each - low) / span * top) if span else top // 2
        for each in points
    ]
    return "".join(" " if place is None else BARS[place] for place in places)


def _alerts(alerts: Sequence[Mapping[str, Any]]) -> list[Text]:
    told = [f"ALERT {_quote(each['alert'])}: {value_of(each)}" for each in alerts]
    more = [f"... and {len(told) - SHOWN_ALERTS} more alerts"] * (len(told) > SHOWN_ALERTS)
    return [Text(line, "bold red") for line in told[:SHOWN_ALERTS] + more]


def _status(facts: Mapping[str, Any], width: int) -> list[Text]:
    """How far the run and its judge are, as on pages, and why answers failed."""
    minutes, seconds = divmod(int(facts["elapsed_sec"]), 60)
    clock = f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    told = [("time", clock), *run_facts(facts), *judge_facts(facts["judge"])]
    if wrong := failure_counts(facts["overall"]):
        told.append(("failures", by_frequency(wrong)))
    lines = [Text()]
    for name, value in told:
        part = Text.assemble((f"{name} ", "dim"), _quote(value))
        if lines[-1] and lines[-1].cell_len + 3 + part.cell_len > width:
            lines.append(part)
        else:
            lines[-1].append("   " * bool(lines[-1])).append_text(part)
    return lines


def _quote(text: str) -> str:
    return one_line(text, limit=300)  # More than a line has.
