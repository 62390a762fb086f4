"""``sample-for-labels`` and ``calibrate``: how far to trust a judge."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import orjson

from graphrag_eval_async.batch import MAX_RESULT_BYTES
from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.cli.files import check_distinct, open_lines, output_path, write_aggregates
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.report import end, list_rejects
from graphrag_eval_async.cli.table import ALL_RESULTS, draw, folded, table_of
from graphrag_eval_async.inference.calibration import Calibration
from graphrag_eval_async.inference.labels import UNUSED, LabelSample
from graphrag_eval_async.monitor.wording import mean_cell
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.text import name_cell, number, one_line, percent, tell

RESULTS = options.input_argument(metavar="RESULTS", help="Results, JSONL; - for standard input.")
HEADINGS = ("labels", "agree-\nment", "kappa", "sensi-\ntivity", "speci-\nficity", "bias", "corrected\nmean")


@dataclass(frozen=True, kw_only=True)
class SampleForLabels:
    """Draw results at random, for people to label.

    People put a number from 0 to 1, true or false, into `value` of each line. `calibrate` reads the file.
    """

    example: ClassVar = "sample-for-labels results.jsonl -n 100 --seed 7 -o labels.jsonl"

    results: Annotated[str, RESULTS]
    n: Annotated[int, options.input_option("-n", min=1, metavar="N", help="How many to draw.")] = 100
    seed: Annotated[
        int,
        options.input_option(
            "--seed",
            metavar="SEED",
            help="The same SEED draws the same results; a larger N then only adds to them.",
        ),
    ] = 0
    metric: Annotated[
        str,
        options.input_option(
            "--metric", metavar="METRIC", help="Draw from the results that have this score."
        ),
    ] = "answer_correctness"
    output: Annotated[
        str,
        options.output_option(
            "--output",
            "-o",
            parser=output_path,
            metavar="FILE",
            help="Write the lines to label here, as JSONL; - is standard output.",
        ),
    ] = "-"
    max_line_bytes: options.MaxResultBytes = MAX_RESULT_BYTES

    def run(self, interrupts: Interrupts) -> Exit:
        check_distinct([self.results], [self.output])
        sample = LabelSample(self.n, metric=self.metric, seed=self.seed)
        source = (self.results, sample.add)
        rejects, ending = read_to_end([source], interrupts, max_line_bytes=self.max_line_bytes)
        list_rejects(rejects)
        if ending.error is None and not interrupts.came:  # Half of a file is no random sample of it.
            labels = sample.labels()
            lines = b"".join(orjson.dumps(label, option=orjson.OPT_APPEND_NEWLINE) for label in labels)
            with open_lines(self.output, interrupts) as file:
                ending = ending.attempt(partial(file.write, lines))
            told = f"drawn: {len(labels)} of {sample.total} results with {self.metric}"
            tell(sys.stderr, one_line(told))
        return end(ending, rejects)


@dataclass(frozen=True, kw_only=True)
class Calibrate:
    """Compare a judge's scores with labels of people.

    Shows how often both agree, how the judge errs and, from 100 randomly chosen labels on, the mean that
    people would give all results.
    """

    example: ClassVar = "calibrate results.jsonl labels.jsonl"

    results: Annotated[str, RESULTS]
    labels: Annotated[
        str,
        options.input_argument(metavar="LABELS", help="Labels, JSONL, such as sample-for-labels draws."),
    ]
    metric: Annotated[
        str | None,
        options.input_option(
            "--metric", metavar="METRIC", help="The judge's score.  [default: that of the labels]"
        ),
    ] = None
    chosen_at_random: Annotated[
        bool,
        options.input_option(
            "--chosen-at-random",
            help="Declare that the labelled results were chosen at random, if not by sample-for-labels.",
        ),
    ] = False
    output: options.OutputComparison = None
    level: options.Level = "0.95"
    max_line_bytes: options.MaxResultBytes = MAX_RESULT_BYTES

    def run(self, interrupts: Interrupts) -> Exit:
        check_distinct([self.results, self.labels], [self.output])
        found = Calibration(self.metric, level=self.level, chosen_at_random=self.chosen_at_random)
        rejected = Rejects()
        for path, add in ((self.labels, found.add_label), (self.results, found.add_result)):
            rejects, ending = read_to_end([(path, add)], interrupts, max_line_bytes=self.max_line_bytes)
            list_rejects(rejects)
            rejected.counts.update(rejects.counts)
            if ending.error is not None or interrupts.came:  # Half of a file would mislead.
                return end(ending, rejected)
            found.metric()  # Raises before results are read.
        snapshot = found.snapshot()
        if self.output is not None:
            ending = ending.attempt(partial(write_aggregates, self.output, snapshot))
        ending = ending.attempt(partial(tell, sys.stdout, render_calibration(snapshot)))
        return end(ending, rejected)


def render_calibration(snapshot: Mapping[str, Any]) -> str:
    """A calibration as plain text: what is known, and a table."""
    overall, metric, people = snapshot["overall"], snapshot["metric"], snapshot["people"]
    lines = [_corrected(overall["corrected"])]
    known = (
        f"{metric}: mean {number(overall['mean_score'])} of {overall['results']} results by the judge; "
        f"{overall['labels']} of them have a label, whose mean is {number(overall['mean_label'])}."
    )
    if people["items"]:
        alpha = "not defined, since all agree" if people["alpha"] is None else number(people["alpha"])
        lines.append(f"People: {people['items']} results with several labels; Krippendorff's alpha {alpha}.")
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
    return f"{told}{percent(interval['level'])} interval {interval['low']:.3f} to {interval['high']:.3f}."


def _cells(row: Mapping[str, Any]) -> list[str]:
    shares = [row[key] for key in ("agreement", "kappa", "sensitivity", "specificity")]
    return [
        str(row["labels"]),
        *("" if share is None else f"{share:.3f}" for share in shares),
        f"{row['bias']:+.3f}",
        mean_cell(row["corrected"]),
    ]
