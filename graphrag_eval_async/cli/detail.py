"""How far the means of all results can be trusted, and how the values are spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.costs import by_frequency
from graphrag_eval_async.cli.table import NAME_CHARACTERS, draw, heading, number, plain_table
from graphrag_eval_async.cli.text import one_line, percent
from graphrag_eval_async.records.outcomes import REASON

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TextIO

    from rich.table import Table


INTERVALS = 3
"""Beside each other in a table, so that there is room for the names of templates."""


def render_detail(snapshot: Mapping[str, Any], stream: TextIO) -> str:
    """Tables: of all results the coverage, bounds and confidence, of templates the latter, and quantiles."""
    metrics = {
        metric: stats
        for metric, stats in snapshot["micro"].items()
        if isinstance(stats, dict) and "coverage" in stats
    }
    tables = [_trust(metrics), *_intervals(snapshot, metrics), _spread(metrics)]
    tables = [table for table in tables if table.row_count]
    return "\n\n".join(draw([table], stream) for table in tables)


def failure_reasons(snapshot: Mapping[str, Any]) -> list[str]:
    """How often there was which reason of failure, in a line, if there was any."""
    reasons = snapshot["micro"].get(REASON)
    return [one_line(f"failure: {by_frequency(reasons)}")] if reasons else []


def _trust(metrics: Mapping[str, Mapping[str, Any]]) -> Table:
    """Metrics from 0 to 1, and all others of which something is missing."""
    table = plain_table("of all results")
    levels = {stats["confidence"]["level"] for stats in metrics.values() if "confidence" in stats}
    interval = "\n".join([percent(level) for level in levels] + ["interval"])
    for lines in ("values", interval, "if failed\nwere 0 or 1"):
        table.add_column(lines, justify="right", no_wrap=True)
    table.add_column("missing", no_wrap=True)
    for metric, stats in metrics.items():
        coverage = stats["coverage"]
        missing = {**coverage["failed"], **({"pending": coverage["pending"]} if coverage["pending"] else {})}
        if missing or "confidence" in stats:
            cells = [str(coverage["values"]), _range(stats.get("confidence")), ""]
            if coverage["failed"]:
                cells[2] = _range(stats.get("bounds"))
            # One below the other, since they are many words where a judge is in trouble.
            table.add_row(
                _name(metric), *cells, "\n".join(f"{n} {one_line(kind)}" for kind, n in missing.items())
            )
    return table


def _intervals(snapshot: Mapping[str, Any], metrics: Mapping[str, Mapping[str, Any]]) -> Iterable[Table]:
    """The confidence of each template; some metrics in each table, as many as fit."""
    bounded = [metric for metric, stats in metrics.items() if "confidence" in stats]
    level = "".join(percent(metrics[metric]["confidence"]["level"]) for metric in bounded[:1])
    for start in range(0, len(bounded), INTERVALS):
        part = bounded[start : start + INTERVALS]
        table = plain_table(f"{level} interval")
        for metric in part:
            table.add_column("\n".join(heading(metric)), justify="right", no_wrap=True)
        for template, group in snapshot["per_template"].items():
            table.add_row(
                _name(template), *(_range(group.get(metric, {}).get("confidence")) for metric in part)
            )
        yield table


def _spread(metrics: Mapping[str, Mapping[str, Any]]) -> Table:
    spread = {metric: stats["quantiles"] for metric, stats in metrics.items() if "quantiles" in stats}
    table = plain_table("of all results")
    for quantile in _keys(spread.values()):
        table.add_column(quantile, justify="right", no_wrap=True)
    for metric, quantiles in spread.items():
        table.add_row(_name(metric), *map(number, quantiles.values()))
    return table


def _keys(dicts: Iterable[Mapping[str, Any]]) -> list[str]:
    return [*next(iter(dicts), {})]


def _name(metric: str) -> str:
    return one_line(metric, limit=NAME_CHARACTERS)


def _range(ends: Mapping[str, float] | None) -> str:
    return "" if ends is None else f"{ends['low']:.3f} to {ends['high']:.3f}"
