"""``sample-for-labels`` and ``calibrate``: how far to trust a judge."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.cli.files import check_distinct, open_lines, write_aggregates
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.run_summary import end, list_rejects
from graphrag_eval_async.cli.table import ALL_RESULTS, draw, folded, table_of
from graphrag_eval_async.inference.calibration import Calibration
from graphrag_eval_async.inference.labels import UNUSED, LabelSample
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.reports.wording import mean_cell
from graphrag_eval_async.text import name_cell, number, one_line, percent, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Exit, Interrupts

HEADINGS = (
    "labels",
    "agree-\nment",
    "kappa",
    "sensi-\ntivity",
    "speci-\nficity",
    "bias",
    "corrected\nmean",
)


def sample(given: Given, interrupts: Interrupts) -> Exit:
    check_distinct([given.results], [given.output])
    drawn = LabelSample(given.n, metric=given.metric, seed=given.seed)
    rejects, ending = read_to_end(given, [(given.results, drawn.add)], interrupts)
    list_rejects(given, rejects)
    if ending.is_complete:  # Half of a file is no random sample of it.
        labels = drawn.labels()
        lines = b"".join(orjson.dumps(label, option=orjson.OPT_APPEND_NEWLINE) for label in labels)
        with open_lines(given.output, interrupts) as file:
            ending = ending.attempt(partial(file.write, lines))
        tell(
            sys.stderr,
            one_line(f"drawn: {len(labels)} of {drawn.total} results with {given.metric}"),
        )
    return end(ending, rejects)


def run(given: Given, interrupts: Interrupts) -> Exit:
    check_distinct([given.results, given.labels], [given.output])
    found = Calibration(given.metric, level=given.level, chosen_at_random=given.chosen_at_random)
    rejected = Rejects()
    # People write labels: a last line that is not JSON is a mistake.
    labels = (given.labels, found.add_label, False)
    results = (given.results, found.add_result, True)
    for path, add, may_grow in (labels, results):
        rejects, ending = read_to_end(given, [(path, add)], interrupts, may_grow=may_grow)
        list_rejects(given, rejects)
        rejected.counts.update(rejects.counts)
        if not ending.is_complete:
            return end(ending, rejected)
        found.metric()  # Raises before results are read.
    snapshot = found.snapshot()
    if given.output is not None:
        ending = ending.attempt(partial(write_aggregates, given.output, snapshot))
    ending = ending.attempt(partial(tell, sys.stdout, render_calibration(snapshot)))
    return end(ending, rejected)


def render_calibration(snapshot: Mapping[str, Any]) -> str:
    """A calibration as plain text: what is known, and a table."""
    overall, metric, people = snapshot["overall"], snapshot["metric"], snapshot["people"]
    lines = [_corrected(overall["corrected"])]
    known = (
        f"{metric}: mean {number(overall['mean_score'])} of {overall['results']} results by the "
        f"judge; {overall['labels']} of them have a label, whose mean is "
        f"{number(overall['mean_label'])}."
    )
    if people["items"]:
        told = (
            "not defined, since all agree" if people["alpha"] is None else f"{people['alpha']:.3f}"
        )
        lines.append(
            f"People: {people['items']} results with several labels; Krippendorff's alpha {told}."
        )
    if overall["kappa"] is not None:
        lines.append(f"Judge and people: kappa {overall['kappa']:.3f}.")
    lines += [
        f"not used: {count} {'label' if count == 1 else 'labels'} {UNUSED[why]}"
        for why, count in snapshot["unused_labels"].items()
    ]
    lines += [f"warning: {warning}" for warning in snapshot["warnings"]]
    groups = {**snapshot["per_template"], ALL_RESULTS: overall}
    rows = [[name_cell(name), *_cells(row)] for name, row in groups.items() if row["labels"]]
    table = draw([table_of(["template", *HEADINGS], rows, apart=1)], sys.stdout)
    return "\n".join([*folded([known, *lines]), "", table, "", *folded(snapshot["notes"])])


def _corrected(found: Mapping[str, Any]) -> str:
    if "mean" not in found:
        return f"Not corrected: {found['reason']}."
    told = f"Corrected mean, as people would see it: {number(found['mean'])}; "
    if "interval" not in found:
        return f"{told}{found['reason']}."
    interval = found["interval"]
    return (
        f"{told}{percent(interval['level'])} interval {interval['low']:.3f} to "
        f"{interval['high']:.3f}."
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    shares = [row[key] for key in ("agreement", "kappa", "sensitivity", "specificity")]
    return [
        str(row["labels"]),
        *("" if share is None else f"{share:.3f}" for share in shares),
        f"{row['bias']:+.3f}",
        mean_cell(row["corrected"]),
    ]
