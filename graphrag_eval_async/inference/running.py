"""Running aggregates with confidence intervals."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from graphrag_eval_async.aggregates import Aggregates
from graphrag_eval_async.aggregates.histogram import count_of
from graphrag_eval_async.errors import UsageError, describe
from graphrag_eval_async.inference.confidence import check_level, show_confidence
from graphrag_eval_async.inference.notebook import aggregates_html
from graphrag_eval_async.inference.one_look import one_look
from graphrag_eval_async.records.tabular import STATISTICS, statistics_of

if TYPE_CHECKING:
    import pandas

    from graphrag_eval_async.aggregates.histogram import Weights
    from graphrag_eval_async.aggregates.questions import Clusters

Interval: TypeAlias = Literal["one_look", "anytime"]
"""The kind of a confidence interval: for one look at a finished run, or valid however often you
look.
"""


class RunningAggregates(Aggregates):
    __doc__ = Aggregates.__doc__

    def snapshot(
        self, *, detail: bool = False, level: float = 0.95, interval: Interval | None = None
    ) -> dict[str, Any]:
        """Return `per_template`, `micro` and `macro` over the results that count, as a new dict.

        `mean` is over all values. `mean_of_questions` is the mean of the questions' means, which
        are over samples. Pages, gates and comparisons use it. It is absent if some results do not
        name their question. Omits metrics without values, and a `sum` beyond the largest double.

        Args:
            detail: adds `number_of_questions`, unless some results do not name their question;
                counts by reason of `failure`, templates whose results are all `pending`,
                metrics that apply even without a value, `repeats` if a question has two samples
                (``pass@k`` and ``pass^k``, unbiased, over the ``questions@k`` with k samples or
                more, for k up to 100), and to each metric:

                - `questions`: the number of questions that have a value, if all results name their
                  question;
                - `coverage`: the number of samples (or retrieval steps) that the metric is
                  `applied` to, and how many of these have `values`, `failed`, or are `pending`.
                  `failed` is by kind: that of a `JudgeError`, or "response_error", "no_answer" or
                  "no_steps" of the agent, "not_run" (a query), "metric_error" (in code),
                  "not_scored" or "text" (by another program) or "other";
                - `bounds`, for metrics from 0 to 1 by definition: the mean if every failed value
                  were 0 (`low`) or 1 (`high`); also in macro;
                - `variance`, for metrics of repeated questions: unbiased estimates `between`
                  questions, which may be below 0, and `within` questions, between samples of one;
                - `quantiles`: exact p50, p90, p95 and p99, linearly interpolated between two
                  values;
                - `interval`, for metrics of two questions or more: a confidence interval, and the
                  `mean` that it is about. "one_look" is about `mean_of_questions`; "anytime" is the
                  sequence below;
                - `se`, for metrics of two questions or more: the standard error of
                  `mean_of_questions`. Like `interval`, it takes time proportional to the number of
                  questions;
                - `confidence`, for metrics from 0 to 1 by definition: a confidence sequence. With a
                  probability of `level`, it contains the true mean at all times, however often you
                  look, if questions arrive with a constant mean, as in an `ordered` stream. Only
                  the first sample of each question counts; `mean` is over these. Over a window, it
                  is valid at a single time.
            level: confidence level, between 0 and 1.
            interval: kind of `interval`: "one_look" or "anytime". Default: "one_look" after
                `finish` and over a window, otherwise "anytime".

        Raises:
            UsageError: `level` is not between 0 and 1, or `interval` is unknown.
        """
        check_level(level)
        if interval not in ("one_look", "anytime", None):
            raise UsageError(
                f'interval: expected "one_look" or "anytime", got {describe(interval)}'
            )
        if not detail:
            return super().snapshot()
        # A window has other results at each look, so that earlier looks do not matter.
        is_for_one_look = self._is_finished or self._sliding is not None
        default: Interval = "one_look" if is_for_one_look else "anytime"
        return self._detailed_snapshot(partial(_intervals, level=level, kind=interval or default))

    def to_rows(
        self, *, detail: bool = False, level: float = 0.95, interval: Interval | None = None
    ) -> list[dict[str, Any]]:
        """Return a flat row for each number of a snapshot with these options.

        The keys are `scope` ("template", "tag", "micro" or "macro"), `template` (its name, that of
        the tag, such as "hops=2", or None), `metric`, `statistic` (such as "mean", or with `detail`
        "quantiles.p95"; "count" for numbers of samples) and `value`.
        """
        return statistics_of(self.snapshot(detail=detail, level=level, interval=interval))

    def to_pandas(
        self, *, detail: bool = False, level: float = 0.95, interval: Interval | None = None
    ) -> pandas.DataFrame:
        """Return the rows of `to_rows` as a DataFrame.

        Raises:
            UsageError: pandas is not installed, or `level` is not between 0 and 1.
        """
        try:
            import pandas
        except ModuleNotFoundError:
            raise UsageError("to_pandas needs pandas: pip install pandas") from None
        rows = self.to_rows(detail=detail, level=level, interval=interval)
        return pandas.DataFrame(rows, columns=[*STATISTICS])

    def __repr__(self) -> str:
        results, errors = self._counts()
        window = "" if self._sliding is None else " in the window"
        return f"<RunningAggregates: {results} results{window}, {errors} of them errors>"

    def _repr_html_(self) -> str:
        return aggregates_html(self.snapshot(detail=True))

    def _counts(self) -> tuple[int, int]:
        """Return the number of results that count, and the number of errors among them."""
        self._flush()
        total = self._total()
        return total.errors + total.successes, total.errors


def _intervals(
    weights: Weights | None,
    stats: Clusters | None,
    bounded: bool,
    *,
    level: float,
    kind: Interval,
) -> dict[str, Any]:
    """Return the uncertainty of the mean of a score, for a detailed snapshot.

    Args:
        weights: the histogram of the first samples; None if the metric is not from 0 to 1.
        stats: statistics of the questions' means; None if some results do not name their question.
        bounded: whether the metric is from 0 to 1.
        level: confidence level.
        kind: the kind of interval to prefer.

    Returns:
        a dict with `se`, `confidence` and `interval`; a key is missing if its value is not known.
    """
    shown: dict[str, Any] = {}
    interval: dict[str, Any] | None = None
    if stats is not None and stats.se is not None:
        shown["se"] = stats.se
    if stats is not None and kind == "one_look":
        interval = _one_look_interval(stats, level, bounded=bounded)
    if weights is not None:
        shown["confidence"] = show_confidence(weights, level)
        questions = count_of(weights)
        # The confidence sequence also stands in for an interval for one look that is not known.
        if interval is None and questions > 1:
            interval = {**shown["confidence"], "kind": "anytime", "questions": questions}
    if interval is not None:
        shown["interval"] = {**interval, "level": level}
    return shown


def _one_look_interval(stats: Clusters, level: float, *, bounded: bool) -> dict[str, Any] | None:
    """Return the interval for one look in the layout of a snapshot; None if there is none."""
    ends = one_look(stats, level, bounded=bounded)
    if ends is None:
        return None
    low, high = ends
    return {
        "level": level,
        "low": low,
        "high": high,
        "mean": stats.mean,
        "kind": "one_look",
        "questions": stats.questions,
    }
