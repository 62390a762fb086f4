"""Compares a watched run with a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from graphrag_eval_async.batch import add_results
from graphrag_eval_async.cli.compare import worst_table
from graphrag_eval_async.cli.table import folded
from graphrag_eval_async.errors import AggregationError, SourceError, UsageError
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.monitor.counting import SCORES
from graphrag_eval_async.monitor.wording import ends, missing, one_sided, sentences, signed
from graphrag_eval_async.records.metrics import ERROR_RATE
from graphrag_eval_async.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.cli.commands import Given
    from graphrag_eval_async.config import Config

SHOWN = (ERROR_RATE, *SCORES)

WORST = 10  # how many of the questions that got worse are listed at the end
STYLES = {"better": "green", "worse": "bold red"}


def load_baseline(given: Given, config: Config | None) -> RunningComparison:
    """A comparison that has the results in the file of --baseline as its baseline."""
    primary = None if config is None else config.primary
    comparison = RunningComparison(include_errors=given.include_errors, primary=primary)
    try:
        add_results(given.baseline, comparison.add_baseline, what="--baseline")
    except (AggregationError, SourceError) as error:
        raise UsageError(f"--baseline: {error}") from error
    return comparison


def comparison_lines(comparison: Mapping[str, Any]) -> list[Text]:
    """Lines on the screen: warnings and templates that got worse, if any, then one for each shown metric."""
    lines, strange, warnings = [], comparison["only_in_candidate"], comparison["warnings"]
    # Those that only the baseline has may still be answered.
    notes = [f"{strange} question{'s are' if strange > 1 else ' is'} not in it"] * (strange > 0)
    if noted := "; ".join([*notes, *(f"warning: {one_line(warning)}" for warning in warnings)]):
        lines.append(Text(noted, "red" if warnings else "dim"))
    if worse := _templates(comparison, "worse"):
        lines.append(Text(worse, STYLES["worse"]))
    rows = {metric: row for metric, row in comparison["overall"].items() if metric in SHOWN}
    for metric, row in rows.items():
        interval = f" ({ends(row['confidence'])})" if "confidence" in row else ""
        counts = f"{row['wins']} better, {row['losses']} worse of {row['pairs']}"
        told = f"{metric} {signed(row['difference'])}{interval}, {counts}"
        lines.append(Text(told, STYLES.get(row.get("verdict", ""), "")))
    if not rows:
        lines.append(Text("no question in common yet", "dim"))
    return [Text("vs baseline: ", line.style).append_text(line) for line in lines]


def final_lines(comparison: RunningComparison, level: float) -> list[str]:
    """Return the lines printed at the end, without tests: these are not valid for a watched run."""
    live, found = comparison.live_rows(level=level), comparison.facts_of_questions()
    rows = live["overall"]
    lacking = filter(None, [missing(found)])
    templates = filter(None, [_templates(live, verdict) for verdict in STYLES])
    warnings = folded([*lacking, *(f"warning: {warning}" for warning in found["warnings"])])
    told = ["compared with the baseline:", *warnings, *folded([*sentences(rows), *templates])]
    if not rows:
        told = ["compared with the baseline: no question in common", *warnings]
    return [*told, *worst_table(found | live, WORST, ""), *folded(one_sided(found))]


def _templates(rows: Mapping[str, Any], verdict: str) -> str:
    """The templates with a verdict, and by which metrics; empty if there are none."""
    found = {
        one_line(template): [
            one_line(metric) for metric, row in group.items() if row.get("verdict") == verdict
        ]
        for template, group in rows["per_template"].items()
    }
    told = [f"{template} ({', '.join(metrics)})" for template, metrics in found.items() if metrics]
    return f"{verdict} in {', '.join(told)}" if told else ""
