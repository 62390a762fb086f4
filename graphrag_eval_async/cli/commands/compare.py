"""``compare`` and ``plan``: two runs, question by question; gates on that; how many questions it
needs.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.conditions import (
    LEAST_RIGHT_VALUES,
    CheckedGate,
    check_bound,
    to_float,
)
from graphrag_eval_async.catalogue.metrics import ERROR_RATE, range_of
from graphrag_eval_async.cli.files import check_distinct, write_aggregates
from graphrag_eval_async.cli.gates import failed_and_held
from graphrag_eval_async.cli.reading import primary_of, read_to_end, results_of_questions
from graphrag_eval_async.cli.run_summary import end, list_rejects, page_stream
from graphrag_eval_async.cli.table import draw, folded, table_of
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.planning import Spread
from graphrag_eval_async.inference.planning import plan as plan_comparison
from graphrag_eval_async.inference.verdicts import NON_INFERIOR
from graphrag_eval_async.monitor.alerts import check_known
from graphrag_eval_async.records.snapshots import tags_of
from graphrag_eval_async.reports.comparison_words import (
    change_of,
    changed_templates,
    ends,
    greatest_losses,
    headline,
    missing,
    one_sided,
    regressions,
    short_p,
    signed,
    validity,
)
from graphrag_eval_async.text import name_cell, number, percent, plural, tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.inference.pairs import Drop

HEADINGS = ("baseline", "candidate", "change", "interval", "p")


def run(given: Given, interrupts: Interrupts) -> Exit:
    check_distinct([given.baseline, given.candidate], [given.rejects, given.output])
    comparison = RunningComparison(
        primary=primary_of(given),
        non_inferior=margins_of(given),
    )
    sources = [(given.baseline, comparison.add_baseline), (given.candidate, comparison.add)]
    rejects, ending = read_to_end(given, sources, interrupts)
    list_rejects(given, rejects)
    failures: list[str] = []
    if ending.is_complete:
        snapshot = comparison.snapshot(level=given.level, by=given.by)
        failures, held = failed_and_held(check_regressions(given, comparison, snapshot))
        if given.output is not None:
            ending = ending.attempt(partial(write_aggregates, given.output, snapshot))
        page = render_comparison(snapshot, worst=given.worst, candidate=given.candidate)
        told = "\n".join(
            [page, *([""] if held else []), *folded(f"gate held: {gate}" for gate in held)]
        )
        ending = ending.attempt(partial(tell, page_stream(given), told))
    return end(ending, rejects, failures)


def render_comparison(snapshot: Mapping[str, Any], *, worst: int, candidate: str) -> str:
    """A snapshot as plain text of `WIDTH` columns; shows where the `worst` questions are in
    `candidate`.
    """
    results = ", ".join(f"{count} {side}" for side, count in snapshot["results"].items())
    shared = plural(snapshot["questions"], "question")
    parts = [
        folded([headline(snapshot)]),
        folded([f"compared: {shared} in both runs; results: {results}"]),
        folded([f"warning: {warning}" for warning in snapshot["warnings"]]),
        _overall(snapshot["overall"], snapshot["level"]),
        _groups("template", changed_templates(snapshot), snapshot["level"]),
        _groups("tag", _primary_rows(tags_of(snapshot)), snapshot["level"]),
        worst_table(snapshot, worst, candidate),
        folded(one_sided(snapshot)),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _overall(rows: Mapping[str, Mapping[str, Any]], level: float) -> list[str]:
    if not rows:
        return []
    lines = _table(
        ["overall", *HEADINGS],
        [
            [
                name_cell(metric),
                *_cells(row),
                ends(row.get("interval")),
                short_p(row.get("p_adjusted")),
            ]
            for metric, row in rows.items()
        ],
    )
    lower = [metric for metric, row in rows.items() if row["direction"].startswith("lower")]
    return lines + folded([f"Lower is better: {', '.join(lower)}. {validity(rows, level)}"])


def _primary_rows(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the rows of groups that have a verdict, which only primary metrics have."""
    return {
        name: {metric: row for metric, row in rows.items() if "verdict" in row}
        for name, rows in groups.items()
    }


def _groups(
    heading: str, groups: Mapping[str, Mapping[str, Mapping[str, Any]]], level: float
) -> list[str]:
    """Return a table of the verdicts on templates or tags; `heading` says which."""
    rows = [
        [
            name_cell(group),
            name_cell(metric),
            *_cells(row),
            row["verdict"],
            short_p(row["p_adjusted"]),
        ]
        for group, rows_of_group in groups.items()
        for metric, row in rows_of_group.items()
    ]
    if not rows:
        return []
    headings = [heading, "metric", "baseline", "candidate", "change", "verdict", "p"]
    note = f"Verdicts and p of {heading}s hold together, at {percent(level)}."
    return _table(headings, rows, names=2) + folded([note])


def worst_table(snapshot: Mapping[str, Any], worst: int, candidate: str) -> list[str]:
    """A table of the `worst` questions of all scores, with the lines of their results."""
    shown = greatest_losses(snapshot, worst)
    lines: dict[str, str] = {}
    for question, place, _ in results_of_questions(
        candidate, {row["question_id"] for _, row in shown}
    ):
        lines.setdefault(question, place)
    rows = [
        [name_cell(id_ := row["question_id"]), name_cell(metric), *_cells(row), lines.get(id_, "")]
        for metric, row in shown
    ]
    headings = ["got worse", "metric", "baseline", "candidate", "change", "result"]
    return _table(headings, rows, names=2) if rows else []


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [number(row["baseline"]), number(row["candidate"]), signed(row["difference"])]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> list[str]:
    return draw([table_of(headings, rows, names=names, has_lines=False)]).splitlines()


def plan(given: Given, interrupts: Interrupts) -> Exit:
    check_distinct(given.results, [])
    runs = [Spread(given.metric) for _ in given.results]
    sources = [(path, run.add) for path, run in zip(given.results, runs, strict=True)]
    rejects, ending = read_to_end(given, sources, interrupts)
    list_rejects(given, rejects)
    if ending.is_complete:
        primary = primary_of(given)
        found = plan_comparison(
            given.detect, runs, metric=given.metric, sd=given.sd, level=given.level, primary=primary
        )
        ending = ending.attempt(partial(tell, sys.stdout, render_plan(found)))
    return end(ending, rejects)


def render_plan(found: dict[str, Any]) -> str:
    """A plan as a sentence, and what it assumes if that may be wrong."""
    needed = (
        f"To see a change of {number(found['detect'])} in {found['metric']} with "
        f"{percent(found['power'])} power, ask both agents the same {found['paired']} questions "
        f"({2 * found['paired']} responses). With different questions, each agent needs "
        f"{found['unpaired']}."
    )
    lines = [needed]
    if found["assumed_correlation"] is not None:
        lines.append(
            "Assumed: the true scores of a question in two runs correlate with "
            f"{found['assumed_correlation']}; results of two runs tell."
        )
    if missing := sum(found["missing"]):
        lines.append(f"{plural(missing, 'result')} without a value did not count.")
    if not found["has_verdict"]:
        lines.append(
            f"compare gives {found['metric']} no verdict unless `primary` in a configuration "
            "names it."
        )
    return "\n".join(folded(lines))


class MaxDrop(NamedTuple):
    """A gate: the mean of a metric may get worse by at most `most`."""

    metric: str
    most: float


def parse_max_drop(text: str) -> MaxDrop:
    """Parse ``METRIC=X``; another form, or more than the metric can change, is a `ValueError`."""
    metric, _, value = text.rpartition("=")
    most = to_float(value)
    if not metric.strip() or not 0 <= most < math.inf:
        raise ValueError(
            f"{text!r}: expected METRIC=X, with X not negative, such as steps_score=0.02"
        )
    if {*":[]"} & {*metric}:
        raise ValueError(
            f"{text!r}: expected a metric without a template or tag, since all results count"
        )
    low, high = range_of(metric := metric.strip())
    check_bound(f"a change of {metric}", most, (0, high - low))
    return MaxDrop(metric, most)


def margins_of(given: Given) -> dict[str, float]:
    """The margins by metric."""
    margins = dict(given.non_inferior)
    if len(margins) < len(given.non_inferior):
        raise UsageError("--non-inferior: a metric is given twice; expected one margin for each")
    return margins


def check_regressions(
    given: Given, comparison: RunningComparison, snapshot: Mapping[str, Any]
) -> list[CheckedGate]:
    """Check the gates on the comparison with a baseline."""
    gates = [_check_drop(gate, comparison, snapshot["overall"]) for gate in given.max_drop]
    margins = snapshot.get("non_inferior", {})
    gates += [
        _check_margin(metric, row, comparison.drop(metric)) for metric, row in margins.items()
    ]
    if given.max_regressions is not None:
        gates.append(_check_count(given.max_regressions, comparison, snapshot))
    if given.fail_on_regression:
        name, reasons = "--fail-on-regression", regressions(snapshot)
        gates += [CheckedGate(name, False, reason) for reason in reasons]
        gates += [CheckedGate(name, True, "no significant regression")] * (not reasons)
    if given.allow_missing or not (lacking := missing(snapshot)):
        return gates
    return [
        gate._replace(holds=False, explanation=f"{lacking}; {gate.explanation}")
        if gate.holds
        else gate
        for gate in gates
    ]


def _check_drop(gate: MaxDrop, comparison: RunningComparison, known: Iterable[str]) -> CheckedGate:
    """Check a gate; `known` are the metrics on both sides."""
    name = f"--max-drop {gate.metric}={number(gate.most)}"
    drop = comparison.drop(gate.metric)
    if (means := drop.means) is None:
        check_known("--max-drop", None, gate.metric, (), comparison.metrics)
        others = ", ".join(known) or "none"
        told = f"{gate.metric}: no question has it on both sides; metrics on both sides: {others}"
        return CheckedGate(name, False, told)
    told = f"{gate.metric} {change_of(means)}: may get worse by at most {number(gate.most)}"
    told += _errors(gate.metric, drop)
    worse = means["difference"] if drop.lower_is_better else -means["difference"]
    lacking = drop.lacking(gate.metric)
    return CheckedGate(name, worse <= gate.most + 1e-12 and not lacking, lacking + told)


def _check_margin(metric: str, row: Mapping[str, Any], drop: Drop) -> CheckedGate:
    """Return whether a metric is shown to be worse by less than its margin.

    Args:
        metric: name of the metric.
        row: its row of `non_inferior` in a snapshot.
        drop: how it changed.
    """
    margin = number(row["margin"])
    is_shown = row["verdict"] == NON_INFERIOR
    explanation = metric
    if "difference" in row:
        explanation += f" {change_of(row)}"
    if "interval" in row:
        explanation += f", {percent(row['level'])} interval {ends(row['interval'])}"
    if "interval_note" in row:
        explanation += f" ({row['interval_note']})"
    explanation += f": {'not' if is_shown else 'may be'} worse by more than {margin}"
    if "reason" in row:
        explanation += f"; {row['reason']}"
    explanation += _errors(metric, drop)
    return CheckedGate(f"--non-inferior {metric}={margin}", is_shown, explanation)


def _errors(metric: str, drop: Drop) -> str:
    """How many errors a drop counts or leaves out."""
    if metric == ERROR_RATE or not any(drop.errors):
        return ""
    told = f"; errors {'count as 0' if drop.fills else 'are left out'}, "
    return told + "{} in the baseline and {} in the candidate".format(*drop.errors)


def _check_count(
    most: int, comparison: RunningComparison, snapshot: Mapping[str, Any]
) -> CheckedGate:
    told = f"{plural(count := len(snapshot['regressions']), 'regression')}, at most {most} allowed"
    if not (decided := LEAST_RIGHT_VALUES.keys() & snapshot["overall"].keys()):
        told = (
            f"no question has any of these on both sides: {', '.join(LEAST_RIGHT_VALUES)}; {told}"
        )
    lacking = "".join(comparison.drop(metric).lacking(metric) for metric in LEAST_RIGHT_VALUES)
    return CheckedGate(
        "--max-regressions", count <= most and bool(decided) and not lacking, lacking + told
    )
