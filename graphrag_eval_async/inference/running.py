"""Running aggregates with confidence sequences."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates import Aggregates
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.confidence import check_level, show_confidence
from graphrag_eval_async.records.tabular import STATISTICS, means_table, statistics_of

if TYPE_CHECKING:
    import pandas


class RunningAggregates(Aggregates):
    __doc__ = Aggregates.__doc__

    __slots__ = ()

    def snapshot(self, *, detail: bool = False, level: float = 0.95) -> dict[str, Any]:
        """Return `per_template`, `micro` and `macro` over the results that count, as a new dict.

        Omits metrics without values, and a `sum` beyond the largest double.

        Args:
            detail: adds more to each metric, and shows each metric that applies even without a value:

                - `coverage`: the number of samples (or retrieval steps) that the metric is `applied` to, and
                  how many of these have `values`, `failed` (by kind), or are `pending`;
                - `bounds`, for metrics from 0 to 1 by definition: the mean if every failed value were 0
                  (`low`) or 1 (`high`); also in macro;
                - `quantiles`: exact p50, p90, p95 and p99, linearly interpolated between two values;
                - `confidence`, for metrics from 0 to 1 by definition: a confidence sequence from `low` to
                  `high`. With a probability of `level`, it contains the mean at all times, however often one
                  looks, provided that values arrive with a constant mean. Results that are quick to judge may
                  have a different mean, so for a look at an unfinished stream, make it `ordered`. Over a
                  window, the interval is valid only at any single time. Each takes about half a millisecond.

                Also adds `failure`: counts by reason of failure. Shows templates even if all their results
                are `pending`.
            level: confidence level, between 0 and 1.

        Raises:
            UsageError: `level` is not between 0 and 1.
        """
        check_level(level)
        if not detail:
            return super().snapshot()
        return self._details(partial(show_confidence, level=level))

    def to_rows(self, *, detail: bool = False, level: float = 0.95) -> list[dict[str, Any]]:
        """Return a flat row for each number of a snapshot.

        The keys are `scope` ("template", "micro" or "macro"), `template` (None unless the scope is
        "template"), `metric`, `statistic` (such as "mean", or with `detail` "quantiles.p95"; "count" for
        numbers of samples) and `value`.

        Args:
            detail: whether to add rows of quantiles, coverage, bounds and confidence.
            level: confidence level, between 0 and 1.

        Raises:
            UsageError: `level` is not between 0 and 1.
        """
        return statistics_of(self.snapshot(detail=detail, level=level))

    def to_pandas(self, *, detail: bool = False, level: float = 0.95) -> pandas.DataFrame:
        """Return the rows of `to_rows` as a DataFrame.

        Raises:
            UsageError: pandas is not installed, or `level` is not between 0 and 1.
        """
        try:
            import pandas
        except ModuleNotFoundError:
            raise UsageError("to_pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame(self.to_rows(detail=detail, level=level), columns=[*STATISTICS])

    def __repr__(self) -> str:
        results, errors = self._counts()
        window = "" if self._sliding is None else " in the window"
        return f"<RunningAggregates: {results} results{window}, {errors} of them errors>"

    def _repr_html_(self) -> str:
        return means_table(self.snapshot())

    def _counts(self) -> tuple[int, int]:
        """Return the number of results that count, and the number of errors among them."""
        if self._sliding is not None:
            self._flush()
        errors = sum(group.errors for group in self._groups.values())
        results = errors + sum(group.successes for group in self._groups.values())
        for (_, failed, *_), rows in self._waiting.items():
            results += len(rows)
            errors += len(rows) if failed else 0
        return results, errors
