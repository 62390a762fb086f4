"""``plot``: a page of pictures of one run, or of two."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates.histogram import Histogram
from graphrag_eval_async.catalogue.metrics import is_score
from graphrag_eval_async.cli.files import check_distinct
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.run_summary import end, list_rejects
from graphrag_eval_async.errors import UsageError, check_extra
from graphrag_eval_async.helpers.text import one_line, percent, tell
from graphrag_eval_async.inference.confidence import confidence_sequence
from graphrag_eval_async.inference.planning import Spread
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records.snapshots import interval_of_mean, mean_of_questions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Exit, Interrupts

POINTS = 120  # of an interval that narrows
TEMPLATES = 40  # shown at most, the first ones
COLOURS = ("#08519c", "#d94801")


class Run:
    """The results of one run, in their order."""

    def __init__(self, name: str, metric: str) -> None:
        self.name = name
        self.metric = metric
        self.aggregates = RunningAggregates()
        self.spread = Spread(metric)

    def add(self, result: Mapping[str, Any]) -> None:
        self.aggregates.add(result)
        self.spread.add(result)


def run(given: Given, interrupts: Interrupts) -> Exit:
    check_extra("plot", "plot", "matplotlib")
    if len(given.results) > 2:
        raise UsageError(f"plot: one or two RESULTS, got {len(given.results)}")
    if not is_score(given.metric):
        raise UsageError(f"--metric: {given.metric!r} is no score, so it has no interval")
    check_distinct([*given.results], [given.output])
    runs = [Run(path, given.metric) for path in given.results]
    sources = [(run.name, run.add) for run in runs]
    rejects, ending = read_to_end(given, sources, interrupts)
    list_rejects(given, rejects)
    if ending.is_complete:
        for run in runs:
            run.spread.variances()  # Raises if there is nothing to show.
            run.aggregates.finish()
        ending = ending.attempt(partial(draw_page, runs, given.level, given.output))
        if ending.error is None:
            tell(sys.stdout, one_line(f"wrote {given.output}"))
    return end(ending, rejects)


def draw_page(runs: Sequence[Run], level: float, path: str) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    groups = [_groups(run, level) for run in runs]
    templates = [*dict.fromkeys(chain(*groups))][:TEMPLATES]
    pairs = len(runs) == 2
    heights = [3.0, 1.0 + 0.3 * len(templates), *([4.0] if pairs else [])]
    with (
        rc_context({"svg.hashsalt": "graphrag-eval-async", "font.size": 9}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # Of letters that the font lacks.
        figure = Figure(figsize=(7.5, sum(heights)), layout="constrained")
        axes = figure.subplots(len(heights), 1, height_ratios=heights)
        _draw_narrowing(axes[0], runs, level)
        _draw_templates(axes[1], groups, level, templates)
        if pairs:
            _draw_pairs(axes[2], runs)
        figure.savefig(path, metadata={"Date": None} if path.lower().endswith(".svg") else None)


def _groups(run: Run, level: float) -> Mapping[str, Any]:
    snapshot = run.aggregates.snapshot(detail=True, level=level)
    return {
        name: group[run.metric]
        for name, group in snapshot["per_template"].items()
        if "mean" in group.get(run.metric, {})
    }


def _draw_narrowing(axes: Axes, runs: Sequence[Run], level: float) -> None:
    """The mean of the first samples, and its confidence sequence where the score is from 0 to 1."""
    for run, colour in zip(runs, COLOURS, strict=False):
        histogram, total, count, points = Histogram(), 0.0, 0, []
        firsts = [values[0] for values in run.spread.values.values()]
        step = max(1, len(firsts) // POINTS)
        for value in firsts:
            histogram.add([value])
            total, count = total + value, count + 1
            if (count > 1 and count % step == 0) or count == len(firsts):
                weights = histogram.weights()
                ends = (
                    confidence_sequence(weights, level=level)
                    if weights is not None
                    else (None, None)
                )
                points.append((count, total / count, *ends))
        x, means, lows, highs = zip(*points, strict=True)
        axes.plot(x, means, color=colour, label=one_line(run.name, limit=60))
        if None not in lows:
            axes.fill_between(x, lows, highs, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("questions, in the order of the results")
    what = f"mean of first samples, {percent(level)} interval valid at any time"
    axes.set_title(f"{one_line(runs[0].metric)}: {what}")
    for text in axes.legend(loc="best").get_texts():
        text.set_parse_math(False)


def _draw_templates(
    axes: Axes, runs: Sequence[Mapping[str, Any]], level: float, templates: Sequence[str]
) -> None:
    """Of each run, the mean and the interval by template."""
    for number, (groups, colour) in enumerate(zip(runs, COLOURS, strict=False)):
        for place, template in enumerate(templates):
            if (stats := groups.get(template)) is None:
                continue
            y = place + 0.3 * (number - (len(runs) - 1) / 2)
            axes.plot([mean_of_questions(stats)], [y], "o", color=colour, markersize=4)
            if interval := interval_of_mean(stats):
                axes.plot([interval["low"], interval["high"]], [y, y], color=colour, linewidth=1.5)
    labels = [one_line(template, limit=40) for template in templates]
    axes.set_yticks(range(len(templates)), labels, parse_math=False)
    axes.invert_yaxis()
    axes.set_title(f"templates: mean and {percent(level)} interval, for one look")
    axes.grid(axis="x", alpha=0.3)


def _draw_pairs(axes: Axes, runs: Sequence[Run]) -> None:
    one, other = (run.spread.values for run in runs)
    shared = sorted(one.keys() & other.keys())
    x, y = ([sum(values[name]) / len(values[name]) for name in shared] for values in (one, other))
    ends = [min([*x, *y], default=0.0), max([*x, *y], default=1.0)]
    axes.plot(ends, ends, color="#999", linewidth=1)
    same = Counter(zip(x, y, strict=True))
    axes.scatter(
        [before for before, _ in same],
        [after for _, after in same],
        [min(16 * count**0.7, 1000) for count in same.values()],
        color=COLOURS[1],
        alpha=0.5,
        linewidths=0,
    )
    axes.margins(0.1)
    axes.set_xlabel(one_line(runs[0].name, limit=60), parse_math=False)
    axes.set_ylabel(one_line(runs[1].name, limit=60), parse_math=False)
    worse = sum(after < before for before, after in zip(x, y, strict=True))
    better = sum(after > before for before, after in zip(x, y, strict=True))
    axes.set_title(
        f"{len(shared)} questions in both runs: {better} better, {worse} worse; larger dots: more "
        "questions"
    )
