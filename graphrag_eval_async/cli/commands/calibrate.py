"""``sample-for-labels`` and ``calibrate``: how far to trust a judge."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.cli.command_table import OptionValues
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
"""The headings of the columns of numbers in the table of a calibration."""


@dataclass(frozen=True, kw_only=True)
class SampleOptions(OptionValues):
    """The options of ``sample-for-labels``."""

    results: str
    n: int
    seed: int
    metric: str
    output: str


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(OptionValues):
    """The options of ``calibrate``."""

    results: str
    labels: str
    metric: str | None
    chosen_at_random: bool
    output: str | None
    level: float


def sample(options: SampleOptions, interrupts: Interrupts) -> Exit:
    """Draw results at random, and write them as labels without values, for people to fill in."""
    check_distinct([options.results], [options.output])
    label_sample = LabelSample(options.n, metric=options.metric, seed=options.seed)
    rejects, ending = read_to_end([(options.results, label_sample.add)], interrupts)
    list_rejects(rejects, can_be_kept=False)

    # A sample from a part of the file would not be random.
    if ending.is_complete:
        labels = label_sample.labels()
        lines = b"".join(orjson.dumps(label, option=orjson.OPT_APPEND_NEWLINE) for label in labels)
        with open_lines(options.output, interrupts) as file:
            ending = ending.attempt(partial(file.write, lines))
        drawn = f"drawn: {len(labels)} of {label_sample.total} results with {options.metric}"
        tell(sys.stderr, one_line(drawn))
    return end(ending, rejects)


def run(options: CalibrateOptions, interrupts: Interrupts) -> Exit:
    """Compare the results of a judge with the labels of people, and print how well they agree."""
    check_distinct([options.results, options.labels], [options.output])
    calibration = Calibration(
        options.metric, level=options.level, chosen_at_random=options.chosen_at_random
    )

    # People write labels, so that a last line that is not JSON is a mistake.
    label_rejects, ending = read_to_end(
        [(options.labels, calibration.add_label)], interrupts, may_grow=False
    )
    list_rejects(label_rejects, can_be_kept=False)
    if not ending.is_complete:
        return end(ending, label_rejects)
    # It raises if the labels do not name a single metric.
    calibration.metric()

    result_rejects, ending = read_to_end([(options.results, calibration.add_result)], interrupts)
    list_rejects(result_rejects, can_be_kept=False)
    all_rejects = Rejects()
    all_rejects.counts.update(label_rejects.counts)
    all_rejects.counts.update(result_rejects.counts)
    if not ending.is_complete:
        return end(ending, all_rejects)

    snapshot = calibration.snapshot()
    if options.output is not None:
        ending = ending.attempt(partial(write_aggregates, options.output, snapshot))
    ending = ending.attempt(partial(tell, sys.stdout, render_calibration(snapshot)))
    return end(ending, all_rejects)


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
