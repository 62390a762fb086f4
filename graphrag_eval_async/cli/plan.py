"""``plan``: how many questions a comparison needs."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.files import check_distinct
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.report import end, list_rejects
from graphrag_eval_async.cli.table import draw, folded, table_of
from graphrag_eval_async.config.load import load_primary
from graphrag_eval_async.inference.planning import POWERS, Spread, plan
from graphrag_eval_async.records.conditions import to_float
from graphrag_eval_async.text import number, percent, tell

if TYPE_CHECKING:
    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.options import Given


def parse_positive(text: str) -> float:
    value = to_float(text)
    if not 0 < value < 1e300:
        raise ValueError(f"{text!r}: expected a number above 0, such as 0.05")
    return value


def run(given: Given, interrupts: Interrupts) -> Exit:
    check_distinct(given.results, [])
    runs = [Spread(given.metric) for _ in given.results]
    sources = [(path, run.add) for path, run in zip(given.results, runs, strict=True)]
    rejects, ending = read_to_end(sources, interrupts, max_line_bytes=given.max_line_bytes)
    list_rejects(rejects)
    if ending.error is None and not interrupts.came:  # Half of a file would mislead.
        primary = None if given.config is None else load_primary(given.config)
        found = plan(given.detect, runs, metric=given.metric, sd=given.sd, level=given.level, primary=primary)
        ending = ending.attempt(partial(tell, sys.stdout, render_plan(found)))
    return end(ending, rejects)


def render_plan(found: dict[str, Any]) -> str:
    """A plan as plain text: what is known, a table, and what it says in a sentence."""
    known = f"{found['metric']}: standard deviation {found['sd']:.3g}"
    if found["within_sd"] is not None:
        known += f", of samples of the same question {found['within_sd']:.3g}"
    if "questions" in found:
        known += f" ({' and '.join(map(str, found['questions']))} questions"
        missing = sum(found["missing"])
        known += f", {missing} results without a value)" if missing else ")"
    lines = [known + "."]
    if found["assumed_correlation"] is not None:
        lines.append(
            "Assumed: the true scores of a question in two runs correlate with "
            f"{found['assumed_correlation']}; results of two runs tell."
        )
    if others := [metric for metric in found["primary"] if metric != found["metric"]]:
        lines.append(f"The error budget is shared with {', '.join(others)}.")
    if not found["has_verdict"]:
        lines.append(
            f"compare gives {found['metric']} no verdict unless `primary` in a configuration names it."
        )
    if found["within_sd"] is None:
        lines.append("Repeats: what they would save is not known, since no question was asked twice.")
    by_repeats: dict[int, list[str]] = {}
    for row in found["rows"]:
        cells = by_repeats.setdefault(row["repeats"], [str(row["repeats"])])
        cells += [str(row["paired"]), str(row["unpaired"])]
    headings = ["repeats"]
    for power in POWERS:
        headings += [f"paired,\n{percent(power)} power", f"unpaired,\n{percent(power)} power"]
    table = draw([table_of(headings, [*by_repeats.values()])], sys.stdout)
    first = found["rows"][0]
    said = (
        f"To see a change of {number(found['detect'])} in {found['metric']} with {percent(first['power'])} "
        f"power, ask both agents the same {first['paired']} questions ({2 * first['paired']} responses). "
        f"With different questions, each agent needs {first['unpaired']}."
    )
    return "\n".join([*folded(lines), "", table, "", *folded([said])])
