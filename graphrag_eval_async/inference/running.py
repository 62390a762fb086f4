"""Running aggregates with confidence sequences."""

from __future__ import annotations

from typing import Any

from graphrag_eval_async.aggregates import Aggregates
from graphrag_eval_async.errors import UsageError, describe


class RunningAggregates(Aggregates):
    __doc__ = Aggregates.__doc__

    __slots__ = ()

    def snapshot(self, *, detail: bool = False, level: float = 0.95) -> dict[str, Any]:
        """`per_template`, `micro` and `macro` over the results that count; the dict is the caller's own.

        A metric without values is absent, and so is a `sum` beyond the largest double.

        Args:
            detail: whether there is more to each metric, and each metric that applies, even without a value:

                - `coverage`: how many samples it is `applied` to, or retrieval steps, and how many of these
                  have `values`, `failed` (by kind), or are `pending`;
                - if it is from 0 to 1 by definition, `bounds`: the mean (`low`, `high`) if each that failed
                  had been 0, and if it had been 1; for macro, too;
                - `quantiles`: p50, p90, p95 and p99, exact, between two values by their distances from it;
                - if it is from 0 to 1 by definition, a `confidence` sequence: `low` and `high`, between which
                  its mean is with a probability of `level` at all times at once, however often one looks, as
                  long as values come with the same mean all the time (those that are quick to judge may have
                  another, so while results still come, a stream should be `ordered`); over a window, at any
                  one time. Each takes about half a millisecond.

                And whether there is `failure`: how often there was which reason of failure. A template is
                there even if all of its results are `pending`.
            level: more than 0 and less than 1.

        Raises:
            UsageError: `level` is not that.
        """
        if not isinstance(level, float) or not 0 < level < 1:
            raise UsageError(f"level: expected a number between 0 and 1, got {describe(level)}")
        if not detail:
            return super().snapshot()
        from graphrag_eval_async.inference.confidence import show_confidence  # Takes long to import.

        return self._details(lambda sums: show_confidence(sums, level))
