"""``sample-for-labels`` and ``calibrate``: how far to trust a judge."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.cli.files import check_distinct, open_lines, write_aggregates
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.run_summary import end, list_rejects
from graphrag_eval_async.helpers.text import number, one_line, percent, tell
from graphrag_eval_async.inference.calibration import Calibration
from graphrag_eval_async.inference.labels import UNUSED, LabelSample
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.reports.run_tables import ALL_RESULTS
from graphrag_eval_async.reports.tables import Table, fold, render_terminal
from graphrag_eval_async.reports.wording import mean_cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Exit, Interrupts

HEADINGS = (
    "labels",
    "agreement",
    "kappa",
    "sensitivity",
    "specificity",
    "bias",
    "corrected mean",
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
    """Return a calibration as plain text: what is known, and a table."""
    overall = snapshot["overall"]
    sentences = [
        (
            f"{snapshot['metric']}: mean {number(overall['mean_score'])} of {overall['results']} "
            f"results by the judge; {overall['labels']} of them have a label, whose mean is "
            f"{number(overall['mean_label'])}."
        ),
        _corrected_mean_in_words(overall["corrected"]),
        *_agreement_in_words(snapshot),
    ]
    for why, count in snapshot["unused_labels"].items():
        labels = "label" if count == 1 else "labels"
        sentences.append(f"not used: {count} {labels} {UNUSED[why]}")
    sentences += [f"warning: {warning}" for warning in snapshot["warnings"]]

    table = render_terminal([_calibration_table(snapshot)], sys.stdout)
    return "\n".join([*fold(sentences), "", table, "", *fold(snapshot["notes"])])


def _agreement_in_words(snapshot: Mapping[str, Any]) -> Iterator[str]:
    """Yield how well people agree with each other, and the judge with people, where known."""
    people = snapshot["people"]
    if people["items"]:
        alpha = people["alpha"]
        agreement = "not defined, since all agree" if alpha is None else f"{alpha:.3f}"
        yield (
            f"People: {people['items']} results with several labels; Krippendorff's alpha "
            f"{agreement}."
        )
    kappa = snapshot["overall"]["kappa"]
    if kappa is not None:
        yield f"Judge and people: kappa {kappa:.3f}."


def _calibration_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the agreement of judge and people by template; only templates with labels count."""
    groups = {**snapshot["per_template"], ALL_RESULTS: snapshot["overall"]}
    rows = [[name, *_cells(group)] for name, group in groups.items() if group["labels"]]
    has_several_rows = len(rows) > 1
    return Table(
        title="",
        headings=["template", *HEADINGS],
        rows=rows,
        totals=1 if has_several_rows else 0,
    )


def _corrected_mean_in_words(corrected: Mapping[str, Any]) -> str:
    """Return the mean that people would give and its interval, or why there is none."""
    if "mean" not in corrected:
        return f"Not corrected: {corrected['reason']}."
    mean = f"Corrected mean, as people would see it: {number(corrected['mean'])}; "
    if "interval" not in corrected:
        return f"{mean}{corrected['reason']}."
    interval = corrected["interval"]
    return (
        f"{mean}{percent(interval['level'])} interval {interval['low']:.3f} to "
        f"{interval['high']:.3f}."
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of a template, or of all results, below `HEADINGS`."""
    measures = [row[key] for key in ("agreement", "kappa", "sensitivity", "specificity")]
    return [
        str(row["labels"]),
        *("" if measure is None else f"{measure:.3f}" for measure in measures),
        f"{row['bias']:+.3f}",
        mean_cell(row["corrected"]),
    ]
