"""Compares a watched run with a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from graphrag_eval_async.batch import add_results
from graphrag_eval_async.cli.compare import worst_table
from graphrag_eval_async.cli.table import folded
from graphrag_eval_async.errors import AggregationError, SourceError, UsageError
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.verdicts import UNDECIDED
from graphrag_eval_async.monitor.counting import SCORES
from graphrag_eval_async.monitor.wording import ends, missing, one_sided, sentences, signed
from graphrag_eval_async.records.metrics import ERROR_RATE
from graphrag_eval_async.text import one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from graphrag_eval_async.inference.verdicts import Rows

SHOWN = (ERROR_RATE, *SCORES)

WORST = 10  # how many of the questions that got worse are listed at the end
STYLES = {"better": "green", "worse": "bold red"}


def load_baseline(
    path: str, *, include_errors: bool, primary: Collection[str] | None = None
) -> RunningComparison:
    """A comparison of `primary` metrics that has the results in the file at `path` as its baseline."""
    comparison = RunningComparison(include_errors=include_errors, primary=primary)
    try:
        add_results(path, comparison.add_baseline, what="--baseline")
    except (AggregationError, SourceError) as error:
        raise UsageError(f"--baseline: {error}") from error
    return comparison


def comparison_lines(comparison: Mapping[str, Any]) -> list[Text]:
    """Lines on the screen: warnings and templates that got worse, if any, then one for each shown metric."""
    rows = comparison["overall"]
    lines = [
        Text(f"vs baseline: {metric} {_change(row)}", STYLES.get(row.get("verdict", ""), ""))
        for metric, row in rows.items()
        if metric in SHOWN
    ]
    if worse := [
        f"{one_line(template)} ({', '.join(map(one_line, metrics))})"
        for template, group in comparison["per_template"].items()
        if (metrics := [metric for metric, row in group.items() if row.get("verdict") == "worse"])
    ]:
        lines.insert(0, Text(f"vs baseline: worse in {', '.join(worse)}", STYLES["worse"]))
    lines = lines or [Text("vs baseline: no question in common yet", "dim")]
    warnings = [f"warning: {one_line(warning)}" for warning in comparison["warnings"]]
    # Those that only the baseline has may still be answered.
    strange = comparison["only_in_candidate"]
    few = f"{strange} question{'s are' if strange > 1 else ' is'} not in it"
    notes = [few] * (strange > 0) + warnings
    if noted := "; ".join(notes):
        lines.insert(0, Text(f"vs baseline: {noted}", "red" if warnings else "dim"))
    return lines


def _change(row: Mapping[str, Any]) -> str:
    interval = f" ({ends(row['confidence'])})" if "confidence" in row else ""
    counts = f"{row['wins']} better, {row['losses']} worse of {row['pairs']}"
    return f"{signed(row['difference'])}{interval}, {counts}"


def final_lines(comparison: RunningComparison, level: float) -> list[str]:
    """Return the lines printed at the end, without tests: these are not valid for a watched run."""
    live, found = comparison.live_rows(level=level), comparison.facts_of_questions()
    rows = live["overall"]
    lacking = filter(None, [missing(found)])
    warnings = folded([*lacking, *(f"warning: {warning}" for warning in found["warnings"])])
    told = ["compared with the baseline:", *warnings, *folded([*sentences(rows), *_templates(live)])]
    if not rows:
        told = ["compared with the baseline: no question in common", *warnings]
    return [*told, *worst_table(found["worse"], WORST, ""), *folded(one_sided(found))]


def _templates(live: Rows) -> Iterator[str]:
    """What is decided in templates, by metric."""
    for metric in live["overall"]:
        groups = {name: group[metric] for name, group in live["per_template"].items() if metric in group}
        verdicts = {name: row.get("verdict", UNDECIDED) for name, row in groups.items()}
        told = [f"{one_line(name)} is {each}" for name, each in verdicts.items() if each != UNDECIDED]
        if told:
            level = 100 * max(row["confidence"]["level"] for row in groups.values() if "confidence" in row)
            together = f"(intervals at {level:g} %, which all hold together)"
            yield f"{metric} by template: {', '.join(told)} {together}"
