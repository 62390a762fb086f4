"""Two finished runs, compared."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import AggregationError, UsageError
from graphrag_eval_async.resultfiles import read_results
from graphrag_eval_async.sources import JsonlFiles, read_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.records import Reject

Results = str | os.PathLike[str] | JsonlFiles | Iterable[Mapping[str, Any]]
"""A path as for `read_jsonl`, what that returns, or results as dicts."""


def compare(
    baseline: Results, candidate: Results, *, level: float = 0.95, include_errors: bool = False
) -> dict[str, Any]:
    """Compare a run with an earlier one, question by question.

    Questions are paired by their ids; the samples of a question are averaged. Files are read to their ends
    before this returns; on an event loop, call it by `asyncio.to_thread`.

    Args:
        baseline: results of the earlier run: a path as for `read_jsonl`, what that returns, or dicts.
        candidate: results of the other, likewise.
        level: of the confidence sequences and the tests, more than 0 and less than 1.
        include_errors: whether the metrics of error responses count.

    Returns:
        a dict with

        - `level`, and `results`: how many each side has;
        - `questions`: how many both sides have;
        - `overall`: by metric, a row (see below); ``error_rate`` is the share of samples that are errors;
        - `per_template`: by template and metric, a row. The template of a question is that of the baseline;
        - `worse`: by score (any metric but tokens, seconds and costs), the questions in which the candidate
          is worse, the worst first: `question_id`, `template_id`, `baseline`, `candidate` and `difference`;
        - `only_in_baseline` and `only_in_candidate`: ids of the questions that only one side has;
        - `pending`: for `baseline` and for `candidate` the ids of questions of which that side has results
          with metrics in `pending` only, as of a run in stages that broke off: they are not compared;
        - `without_pair`: by metric, for `baseline` and for `candidate` the ids of questions that both sides
          have, but a value of the metric only that side, as on the other it failed or was not asked for.
          Scores that were asked for on both sides have `p`, of the sign test over such questions with as many
          results on both sides, and by it `verdict`: "worse" if more lost their value than gained one;
        - `warnings`: what makes the two hard to compare, such as other judges or other reference data;
        - `notes`: how the verdicts come about, and what they do not say.

        A row has `direction` ("higher is better" or "lower is better"), `pairs` (questions with values on
        both sides), the means `baseline`, `candidate` and `difference` (candidate - baseline) over them, and
        `wins`, `losses` and `ties` of the candidate (a tie differs by less than a billionth, relatively).
        Metrics from 0 to 1 by definition, and ``error_rate``, have `confidence` of the mean difference, with
        `level`, `low` and `high`: it holds at all times at once. `p` is of the exact sign test, which is for
        one look at finished runs. It leaves out the `uneven` pairs, of which one side has more values than
        the other: the mean of five varies less than a single one, and so wins more or less often without any
        reason. Templates have `p_holm` besides, corrected for there being several; `tested` is false where so
        few questions changed that nothing could be decided: there it is `p`, and does not count.

        `verdict` is "better", "worse" or "undecided": overall by `confidence` or by `p`, either of which is
        enough; in templates by `p_holm`. By a p-value it is so only if the mean difference points the same
        way. Without any change, each is "worse" with a probability of at most 1 - `level`.

    Raises:
        AggregationError: something is not a result of a question; of files, the message has its place.
        SourceError: a file cannot be read.
        UsageError: an argument has a value it cannot have.
    """
    from graphrag_eval_async.inference.comparison import RunningComparison

    comparison = RunningComparison(include_errors=include_errors)
    comparison.look(level=level)  # Before anything is read: it checks the level.
    add_results(baseline, comparison.add_baseline, what="baseline")
    add_results(candidate, comparison.add, what="candidate")
    return comparison.snapshot(level=level)


def _complain(reject: Reject) -> None:
    raise AggregationError(f"{reject.path}: {reject}" if reject.path else str(reject))


def add_results(
    results: Results,
    add: Callable[[Mapping[str, Any]], object],
    *,
    what: str,
    on_reject: Callable[[Reject], object] = _complain,
) -> None:
    """Call `add` with each result, and of files `on_reject` with each line that is none.

    `what` they are goes into errors.

    Raises:
        AggregationError: something is not a result, or `add` says so.
        SourceError: a file cannot be read.
        UsageError: these are no results.
    """
    if isinstance(results, str | os.PathLike):
        results = read_jsonl(results)
    if isinstance(results, JsonlFiles):
        # In a thread, since in this one an event loop may run.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, read_results(results, add, on_reject)).result()
    elif isinstance(results, bytes | Mapping) or not isinstance(results, Iterable):
        raise UsageError(f"{what}: expected a path or an iterable of results, got {type(results).__name__}")
    else:
        for result in results:
            add(result)
