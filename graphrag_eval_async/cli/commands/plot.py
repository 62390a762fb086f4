"""``plot``: a page of pictures of one run, or of two."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.aggregates.histogram import Histogram
from graphrag_eval_async.catalogue.metrics import is_score
from graphrag_eval_async.cli.command_table import OptionValues
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

    from graphrag_eval_async.cli.exits import Exit, Interrupts

MAX_POINTS = 120
"""Number of points at which the narrowing interval of a run is drawn, about; chosen."""

MAX_TEMPLATES = 40
"""Maximum number of templates that are drawn, the first ones; chosen."""

COLOURS = ("#08519c", "#d94801")
"""The colours of the first and of the second run."""

GREY = "#999"
"""The colour of the line on which questions have the same mean in both runs."""

MAX_NAME = 60
"""Maximum number of characters of a run's name in a picture."""


@dataclass(frozen=True, kw_only=True)
class PlotOptions(OptionValues):
    """The options of ``plot``."""

    results: list[str]
    output: str
    metric: str
    level: float


class Run:
    """The results of one run, in their order.

    Attributes:
        path: the file of the results.
        metric: the metric that is drawn.
        aggregates: the aggregates of the results.
        spread: the values of the metric by question.
    """

    def __init__(self, path: str, metric: str) -> None:
        """Start without results."""
        self.path = path
        self.metric = metric
        self.aggregates = RunningAggregates()
        self.spread = Spread(metric)

    @property
    def label(self) -> str:
        """What pictures call the run."""
        return one_line(self.path, limit=MAX_NAME)

    def add(self, result: Mapping[str, Any]) -> None:
        """Add a result."""
        self.aggregates.add(result)
        self.spread.add(result)

    def mean_of_question(self, question_id: str) -> float:
        """Return the mean of the metric over the results of a question."""
        values = self.spread.values[question_id]
        return sum(values) / len(values)

    def metric_by_template(self, level: float) -> dict[str, Mapping[str, Any]]:
        """Return the statistics of the metric in each template where it has a mean.

        Args:
            level: the confidence level of intervals.
        """
        snapshot = self.aggregates.snapshot(detail=True, level=level)
        return {
            template: group[self.metric]
            for template, group in snapshot["per_template"].items()
            if "mean" in group.get(self.metric, {})
        }


def run(options: PlotOptions, interrupts: Interrupts) -> Exit:
    """Draw the metric of one run or two, and write the picture."""
    check_extra("plot", "plot", "matplotlib")
    if len(options.results) > 2:
        raise UsageError(f"plot: one or two RESULTS, got {len(options.results)}")
    if not is_score(options.metric):
        raise UsageError(f"--metric: {options.metric!r} is no score, so it has no interval")
    check_distinct(options.results, [options.output])

    runs = [Run(path, options.metric) for path in options.results]
    rejects, ending = read_to_end([(run.path, run.add) for run in runs], interrupts)
    list_rejects(rejects, can_be_kept=False)
    if ending.is_complete:
        for run in runs:
            # It raises if no result has the metric.
            run.spread.variances()
            run.aggregates.finish()
        ending = ending.attempt(partial(draw_page, runs, options.level, options.output))
        if ending.error is None:
            tell(sys.stdout, one_line(f"wrote {options.output}"))
    return end(ending, rejects)


def draw_page(runs: Sequence[Run], level: float, path: str) -> None:
    """Draw one run or two, and write the pictures to a file, below each other.

    Args:
        runs: the runs.
        level: the confidence level of intervals.
        path: the file, whose suffix says in which format.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    groups_by_run = [run.metric_by_template(level) for run in runs]
    all_templates = dict.fromkeys(chain(*groups_by_run))
    templates = list(all_templates)[:MAX_TEMPLATES]

    # In inches: the mean over time, the templates, and for two runs, the questions.
    heights = [3.0, 1.0 + 0.3 * len(templates)]
    if len(runs) == 2:
        heights.append(4.0)

    # Without a date and with a fixed salt, equal results give equal files.
    metadata = {"Date": None} if path.lower().endswith(".svg") else None
    with (
        rc_context({"svg.hashsalt": "graphrag-eval-async", "font.size": 9}),
        warnings.catch_warnings(),
    ):
        # Matplotlib warns of letters that the font lacks.
        warnings.simplefilter("ignore")
        figure = Figure(figsize=(7.5, sum(heights)), layout="constrained")
        axes = figure.subplots(len(heights), 1, height_ratios=heights)
        _draw_narrowing(axes[0], runs, level)
        _draw_templates(axes[1], groups_by_run, templates, level)
        if len(runs) == 2:
            _draw_questions(axes[2], *runs)
        figure.savefig(path, metadata=metadata)


def _draw_narrowing(axes: Axes, runs: Sequence[Run], level: float) -> None:
    """Draw how the mean of each run moved with the number of questions.

    The first value of each question counts. Scores from 0 to 1 also have a confidence sequence: an
    interval that holds at any time.
    """
    for run, colour in zip(runs, COLOURS, strict=False):
        points = _narrowing_points(run, level)
        questions = [point.questions for point in points]
        means = [point.mean for point in points]
        axes.plot(questions, means, color=colour, label=run.label)
        if all(point.interval is not None for point in points):
            lows = [point.interval[0] for point in points if point.interval is not None]
            highs = [point.interval[1] for point in points if point.interval is not None]
            axes.fill_between(questions, lows, highs, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("questions, in the order of the results")
    values = f"mean of first samples, {percent(level)} interval valid at any time"
    axes.set_title(f"{one_line(runs[0].metric)}: {values}")
    # A name may hold "$", which would begin a formula.
    for text in axes.legend(loc="best").get_texts():
        text.set_parse_math(False)


class NarrowingPoint(NamedTuple):
    """The mean of the first questions of a run.

    Attributes:
        questions: number of questions.
        mean: their mean.
        interval: the ends of its confidence sequence; None for a score that can exceed 1.
    """

    questions: int
    mean: float
    interval: tuple[float, float] | None


def _narrowing_points(run: Run, level: float) -> list[NarrowingPoint]:
    """Return the mean of the first questions for about `MAX_POINTS` numbers of questions."""
    first_values = [values[0] for values in run.spread.values.values()]
    step = max(1, len(first_values) // MAX_POINTS)
    histogram = Histogram()
    total = 0.0
    points = []
    for count, value in enumerate(first_values, start=1):
        histogram.add([value])
        total += value
        # One value has no interval, unless there is no other.
        is_drawn = count > 1 and count % step == 0
        if not is_drawn and count < len(first_values):
            continue
        weights = histogram.weights()
        interval = None
        if weights is not None:
            interval = confidence_sequence(weights, level=level)
        points.append(NarrowingPoint(count, total / count, interval))
    return points


def _draw_templates(
    axes: Axes,
    groups_by_run: Sequence[Mapping[str, Mapping[str, Any]]],
    templates: Sequence[str],
    level: float,
) -> None:
    """Draw the mean and the interval of each template, for each run.

    Args:
        axes: where to draw.
        groups_by_run: for each run, the statistics of the metric by template.
        templates: the templates, from top to bottom.
        level: the confidence level of the intervals, for the title.
    """
    middle = (len(groups_by_run) - 1) / 2
    for run_number, (groups, colour) in enumerate(zip(groups_by_run, COLOURS, strict=False)):
        for row, template in enumerate(templates):
            if template not in groups:
                continue
            statistics = groups[template]
            # The runs stand close below each other.
            y = row + 0.3 * (run_number - middle)
            axes.plot([mean_of_questions(statistics)], [y], "o", color=colour, markersize=4)
            interval = interval_of_mean(statistics)
            if interval:
                ends = [interval["low"], interval["high"]]
                axes.plot(ends, [y, y], color=colour, linewidth=1.5)
    labels = [one_line(template, limit=40) for template in templates]
    axes.set_yticks(range(len(templates)), labels, parse_math=False)
    axes.invert_yaxis()
    axes.set_title(f"templates: mean and {percent(level)} interval, for one look")
    axes.grid(axis="x", alpha=0.3)


def _draw_questions(axes: Axes, baseline: Run, candidate: Run) -> None:
    """Draw a dot for each question of two runs: left to right its mean in the first run, upwards
    that in the second.
    """
    question_ids = sorted(baseline.spread.values.keys() & candidate.spread.values.keys())
    before = [baseline.mean_of_question(question_id) for question_id in question_ids]
    after = [candidate.mean_of_question(question_id) for question_id in question_ids]

    lowest = min([*before, *after], default=0.0)
    highest = max([*before, *after], default=1.0)
    axes.plot([lowest, highest], [lowest, highest], color=GREY, linewidth=1)

    # Questions with the same means share a dot, which is larger.
    count_by_place = Counter(zip(before, after, strict=True))
    axes.scatter(
        [x for x, _ in count_by_place],
        [y for _, y in count_by_place],
        [min(16 * count**0.7, 1000) for count in count_by_place.values()],
        color=COLOURS[1],
        alpha=0.5,
        linewidths=0,
    )
    axes.margins(0.1)
    axes.set_xlabel(baseline.label, parse_math=False)
    axes.set_ylabel(candidate.label, parse_math=False)
    worse = sum(y < x for x, y in zip(before, after, strict=True))
    better = sum(y > x for x, y in zip(before, after, strict=True))
    axes.set_title(
        f"{len(question_ids)} questions in both runs: {better} better, {worse} worse; larger dots: "
        "more questions"
    )
