"""Facts as lines of text for a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal
from rich.text import Text

from graphrag_eval_async.cli.watch.baseline import comparison_lines
from graphrag_eval_async.cli.watch.browsing import Browsing
from graphrag_eval_async.cli.watch.columns import BARS, lay_out, sparkline
from graphrag_eval_async.monitor.captions import backlog_facts
from graphrag_eval_async.monitor.windows import duration_name
from graphrag_eval_async.records.metrics import mean_of_questions, own_interval
from graphrag_eval_async.records.outcomes import REASON, RESPONSE_ERROR
from graphrag_eval_async.steps.failure import NO_FAILURE, failure_counts
from graphrag_eval_async.text import by_frequency, counts, dollars, one_line, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GAP = "   "
GAP_OF_REASON = 2

SHOWN_ALERTS = 3
SHOWN_PATHS = 3  # of those that are not there yet
LEAST_TEMPLATES = 8
"""Lines kept for templates, if there are as many, before `overall` gets its lines of trust."""

LEAST_RESULTS = 2  # lines kept for results, with their heading, before templates get more
TRUSTED_LINES = 6  # lines of a template with its intervals and quantile
ROOMY_RESULTS = 10  # lines kept for results, with a blank one, before templates get their intervals
HIGH_QUANTILE = "p95"

SHOWN_CHARACTERS = 300  # the limit of anything quoted: more than a line has


def render(
    facts: Mapping[str, Any], width: int, height: int, bars: str = BARS, browsing: Browsing | None = None
) -> list[Text]:
    """At most `height` lines, none wider than `width` cells.

    A group of results has a line of means so far, one of the means of the window, one of their trends, and
    lines of confidence intervals and a high quantile. The line of the window is left out where the window has
    all results. If not all templates fit, they lose the intervals and quantiles first, then the trends; then
    `browsing` says which of them are shown. A comparison has at most a third of that room, and results have
    what is left.
    """
    screen = _Screen(facts, width, bars, browsing or Browsing())
    head = [screen.title(), screen.headings(), *screen.group("overall", facts["overall"], trends=True)]
    foot = [*screen.alerts(), *_status(facts, width)]
    results = screen.results()
    trust = screen.trust(facts["overall"])
    room = height - len(head) - len(foot)
    comparison = facts["comparison"]
    compared = [] if comparison is None else comparison_lines(comparison)[: max(0, room // 3)]
    room -= len(compared)
    if room - len(trust) >= min(screen.least_lines, LEAST_TEMPLATES) + LEAST_RESULTS:
        head += trust
        room -= len(trust)
    templates = screen.templates(room - min(LEAST_RESULTS, len(results)))
    spare = room - len(templates) - min(LEAST_RESULTS, len(results))
    # More results come after blank lines between the parts.
    first, second, third = ([Text()] if spare > i else [] for i in range(3))
    lines = [head[0], *third, *head[1:], *templates, *first, *compared, *foot, *second, *results]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
        line.rstrip()
    return lines[: max(0, height)]


class _Screen:
    def __init__(self, facts: Mapping[str, Any], width: int, bars: str, browsing: Browsing) -> None:
        self._facts = facts
        self._browsing = browsing
        self._width = width
        self._bars = bars
        self._templates = [(_quote(name), group) for name, group in browsing.sort(facts["templates"])]
        self._questions = [_quote(result["question_id"]) for result in facts["results"]]
        self._window = f"  last {_window_name(facts['window'])}"
        names = [self._window, *(name for name, _ in self._templates), *self._questions]
        self._grid = lay_out(facts["overall"], names, width)

    def title(self) -> Text:
        facts = self._facts
        right = f"  {facts['results_per_sec']:.1f} results/s  {_clock(facts['elapsed_sec'])}"
        room = max(0, self._width - len(right))
        left = Text(f"watching {' '.join(map(_quote, facts['paths']))}", "bold")
        if left.cell_len > room:
            names = (os.path.basename(path.rstrip("/")) for path in facts["paths"])
            left = Text(f"watching {' '.join(map(_quote, names))}", "bold")
        left.truncate(room, overflow="ellipsis", pad=True)
        return left.append(right, "dim")

    def headings(self) -> Text:
        grid = self._grid
        more = f"({grid.left_out} more)" if grid.left_out else ""
        return self._row(more, [column.heading for column in grid.columns], "dim")

    def group(self, name: str, group: Mapping[str, Any], *, trends: bool) -> list[Text]:
        values = [column.of(group) or {} for column in self._grid.columns]
        means = self._cells(
            [mean_of_questions(value) if "mean" in value else value.get("total") for value in values]
        )
        recent = self._cells([value.get("window") for value in values])
        lines = [self._row(name, means, "bold")]
        if _differs(group):
            lines.append(self._row(self._window, recent))
        if trends:
            pairs = zip(self._grid.columns, values, strict=True)
            bars = [sparkline(value.get("trend", ()), column.width, self._bars) for column, value in pairs]
            lines.append(self._row("", bars, "cyan"))
        return lines

    def trust(self, group: Mapping[str, Any]) -> list[Text]:
        """The confidence intervals of a group, with repeats also their means, and a high quantile."""
        values = [column.of(group) or {} for column in self._grid.columns]
        levels = [value["confidence"]["level"] for value in values if "confidence" in value]
        level = percent(levels[0]) if levels else ""
        firsts = any("confidence" in value and not own_interval(value, "confidence") for value in values)
        rows = [
            *([("  first answers", "confidence", "mean")] if firsts else []),
            (f"  {level} from", "confidence", "low"),
            (f"  {level} to", "confidence", "high"),
            (f"  {HIGH_QUANTILE}", "quantiles", HIGH_QUANTILE),
        ]
        return [
            self._row(name, self._cells([value.get(part, {}).get(key) for value in values]))
            for name, part, key in rows
            if any(part in value for value in values)
        ]

    def _cells(self, values: Sequence[Any]) -> list[str]:
        return [column.text(value) for column, value in zip(self._grid.columns, values, strict=True)]

    @property
    def least_lines(self) -> int:
        """How many lines all templates take, without what is left out first."""
        return sum(_least_lines(group) for _, group in self._templates)

    def templates(self, room: int) -> list[Text]:
        """As many templates as fit, and how many others there are or, if keys are read, what they do."""
        browsing, total = self._browsing, len(self._templates)
        needed = [_least_lines(group) for _, group in self._templates]
        if browsing.has_keys or sum(needed) > room:
            room -= 1
        trends = sum(needed) + total <= room
        shown = browsing.fit(needed, room)
        trusted = TRUSTED_LINES * len(shown) <= room - ROOMY_RESULTS
        lines: list[Text] = []
        for name, group in self._templates[shown.start : shown.stop]:
            lines += self.group(name, group, trends=trends) + (self.trust(group) if trusted else [])
        if total and browsing.has_keys:
            return [*lines, Text(browsing.note(shown, total), "dim")]
        return lines + _more(total - len(shown), "template", "dim")

    def alerts(self) -> list[Text]:
        alerts = self._facts["alerts"]
        lines = []
        for alert in alerts[:SHOWN_ALERTS]:
            value = "no values" if alert["value"] is None else f"{alert['value']:.4g}"
            lines.append(Text(f"ALERT {_quote(alert['alert'])}: {value}", "bold red"))
        return lines + _more(len(alerts) - len(lines), "alert", "bold red")

    def results(self) -> list[Text]:
        results = self._facts["results"]
        if not results:
            return []
        heading = Text(f"{self._facts['show']} results", "dim")
        return [heading, *map(self._result, self._questions, results)]

    def _result(self, question: str, result: Mapping[str, Any]) -> Text:
        columns = self._grid.columns
        number = f"#{result['sample']}"
        if result["status"] == "error":
            error = _quote(result.get("error", "error"))
            return self._row(question, [number][: len(columns)], "red").append(f"  {error}")
        cells = [number, *(column.text(column.of(result)) for column in columns[1:])]
        reason = result.get(REASON, NO_FAILURE)
        if self._facts["show"] != "worst" or reason == NO_FAILURE:
            return self._row(question, cells[: len(columns)])
        # In place of the last columns, those of tokens, seconds and cost.
        reason, room, kept = _quote(reason), 0, len(columns)
        while kept > 1 and room < len(reason) + GAP_OF_REASON:
            kept -= 1
            room += columns[kept].width + self._grid.gap
        return self._row(question, cells[:kept]).append(f"{' ' * GAP_OF_REASON}{reason}", "red")

    def _row(self, name: str, cells: Sequence[str], style: str = "") -> Text:
        grid = self._grid
        line = Text(name, style)
        line.truncate(grid.name_width, overflow="ellipsis", pad=True)
        for column, cell in zip(grid.columns, cells, strict=False):
            line.append(cell.rjust(column.width + grid.gap))
        return line


def _differs(group: Mapping[str, Any]) -> bool:
    """Whether the window lacks results of a group: only then do its means differ."""
    samples = group["samples"]
    return bool(samples["total"] != samples["window"])


def _least_lines(group: Mapping[str, Any]) -> int:
    return 2 if _differs(group) else 1


def _more(count: int, what: str, style: str) -> list[Text]:
    return [Text(f"... and {count} more {what}{'s' * (count > 1)}", style)] if count else []


def _window_name(window: Mapping[str, float]) -> str:
    return str(window["last"]) if "last" in window else duration_name(window["seconds"])


def _quote(text: str) -> str:
    return one_line(text, limit=SHOWN_CHARACTERS)


def _status(facts: Mapping[str, Any], width: int) -> list[Text]:
    """Return lines about the progress of the work."""
    lines = [Text(f"not there yet: {_quote(path)}", "bold red") for path in facts["not_found"][:SHOWN_PATHS]]
    lines += [*_more(len(facts["not_found"]) - len(lines), "path", "bold red"), Text()]
    for name, value in _parts(facts):
        part = Text.assemble((f"{name} ", "dim"), value)
        gap = GAP if lines[-1] else ""
        if gap and lines[-1].cell_len + len(gap) + part.cell_len > width:
            lines.append(part)
        else:
            lines[-1].append(gap).append_text(part)
    return lines


def _parts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values; in this order, they fill three lines of 80 columns."""
    judge, lag, journal = facts["judge"], facts["lag"], facts["journal"]
    if judge is not None:
        spent = "not known" if judge["dollars"] is None else dollars(judge["dollars"])
        budget = "" if judge["budget_usd"] is None else f" of {dollars(judge['budget_usd'])}"
        yield "judge", f"{judge['calls_per_sec']:.1f} calls/s"
        yield "concurrency", f"{judge['concurrency']} of {judge['max_concurrency']}"
        yield "queued", str(judge["waiting"])
        yield "spent", spent + budget
        if judge["paused_sec"]:
            yield "paused for", f"{judge['paused_sec']:.0f} s"
        yield "retries", counts(judge["retries"]) or "none"
        if judge["errors"]:
            yield "failed", counts(judge["errors"])
    yield "in flight", str(facts["in_flight"])
    if lag is not None:
        since = f"{lag['seconds']:.1f} s" if lag["seconds"] < 60 else _clock(lag["seconds"])
        yield "behind", f"{decimal(lag['bytes'])}, {since}"
    if facts["backlog"] is not None:
        yield from backlog_facts(facts["backlog"])
    yield "rejects", counts(facts["rejects"]) or "none"
    yield "unanswered", f"{facts['missing']} of {facts['questions']}"
    yield from _without_values(facts["overall"]["coverage"])
    if wrong := failure_counts(facts["overall"]):
        yield "failures", one_line(by_frequency(wrong))
    if journal is not None:
        yield "restored", str(journal["restored"])
    if facts["skipped"]:
        yield "skipped", str(facts["skipped"])


def _without_values(coverage: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Metrics that failed although the agent had not; those that failed alike are together."""
    alike: dict[str, list[str]] = {}
    for metric, covered in coverage.items():
        failed = {kind: total for kind, total in covered["failed"].items() if kind != RESPONSE_ERROR}
        if failed:
            alike.setdefault(one_line(counts(failed)), []).append(one_line(metric))
    for kinds, metrics in alike.items():
        yield f"without {', '.join(metrics)}", kinds


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"
