"""Functions for finished sets: evaluate responses, aggregate results, compare and plan runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, Unpack
from warnings import warn

from graphrag_eval_async.errors import (
    AggregationError,
    GraphragEvalWarning,
    MissingResponses,
    RejectedResponses,
    UsageError,
)
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records import Line, LongLine
from graphrag_eval_async.records.decoding import (
    MAX_DEPTH,
    InvalidRecord,
    load,
    nests_deeper,
    too_deep,
)
from graphrag_eval_async.records.line import MAX_RESULT_BYTES
from graphrag_eval_async.records.misnamed import kind_of_no_result
from graphrag_eval_async.records.reject import reject, reject_unread
from graphrag_eval_async.records.results import observe, with_outputs
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.removed import without_removed
from graphrag_eval_async.sources import JsonlFiles
from graphrag_eval_async.sources.reading import read_result_files
from graphrag_eval_async.stream import MAX_IN_FLIGHT, EvaluationStream
from graphrag_eval_async.stream.options import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.evaluator import EvaluatorOptions
    from graphrag_eval_async.inference.compared import Comparison
    from graphrag_eval_async.inference.running import Interval
    from graphrag_eval_async.records import Record, Reject
    from graphrag_eval_async.reference import Reference, Templates
    from graphrag_eval_async.sources import Responses
    from graphrag_eval_async.stream.options import OnReject

Results = str | os.PathLike[str] | JsonlFiles | Iterable[Mapping[str, Any]]
"""A path as for `read_jsonl`, or of a Parquet file; the return value of `read_jsonl`; or results as
dicts.

Files may still grow: an unfinished last line is skipped with a warning.
"""


@without_removed("max_line_bytes")
async def run_evaluation(
    reference: str | os.PathLike[str] | Templates | Reference | None,
    responses: Responses | Mapping[str, Mapping[str, Any]],
    *,
    missing: Literal["raise", "skip"] = "raise",
    on_reject: OnReject = "raise",
    max_in_flight: int = MAX_IN_FLIGHT,
    **options: Unpack[EvaluatorOptions],
) -> list[dict[str, Any]]:
    """Evaluate a finished set of responses.

    Args:
        reference: a path to YAML or JSON, a list of template dicts, or a `Reference`; or None, as
            for `evaluate_stream`.
        responses: a path to JSONL, an iterable of responses, as for `evaluate_stream`, or a dict
            from question id to response.
        missing: "raise" requires a response to every question, "skip" accepts missing ones.
        on_reject: "raise" raises one error that lists all rejects, "collect" skips rejected
            responses, and a callable gets each reject.
        max_in_flight: how many responses may be in progress at once, 1 or more.
        options: as in `Evaluator`.

    Returns:
        the results in the order of the reference set, if there is one; samples of one question, and
        results without a reference set, in the order of the input. Values inside reference steps,
        such as `args`, belong to the reference set and must not be changed.

    Raises:
        RejectedResponses: responses could not be evaluated.
        MissingResponses: questions have no response that could be evaluated.
        GraphragEvalError: as `evaluate_stream` does.
    """
    if missing not in ("raise", "skip"):
        raise UsageError(f'missing: expected "raise" or "skip", got {missing!r}')
    source = responses
    if isinstance(responses, Mapping):
        source = list(_with_question_ids(responses))

    # Evaluate all responses. With "raise", the rejects are collected, to raise them together.
    stream_options = StreamOptions(
        ordered=reference is None,
        max_in_flight=max_in_flight,
        on_reject="collect" if on_reject == "raise" else on_reject,
    )
    stream = EvaluationStream(Evaluator(reference, **options), source, stream_options)
    # A stream whose rejects are read before its end does not log them.
    rejects = stream.rejects
    async with stream:
        results = [result async for result in stream]

    # Check that nothing is missing.
    if on_reject == "raise" and rejects.total:
        raise RejectedResponses(rejects, rejects.total)
    if missing == "raise" and stream.missing:
        raise MissingResponses(stream.missing)

    if reference is None:
        return results
    positions = {
        question_id: position for position, question_id in enumerate(stream.reference.questions)
    }
    return sorted(results, key=lambda result: (positions[result["question_id"]], result["sample"]))


def _with_question_ids(responses: Mapping[str, Any]) -> Iterator[Any]:
    """Yield responses, each with the id of its question as `question_id`.

    Args:
        responses: the responses by id of their question.

    Raises:
        UsageError: a response names another question.
    """
    for question_id, response in responses.items():
        if not isinstance(response, Mapping):
            # The stream rejects it.
            yield response
            continue
        named_id = response.get("question_id")
        if named_id not in (None, question_id):
            raise UsageError(f"responses[{question_id!r}]: its question_id is {named_id!r}")
        yield {**response, "question_id": question_id}


def compute_aggregates(
    results: Iterable[Mapping[str, Any]],
    *,
    reference: str | os.PathLike[str] | Templates | Reference | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | Config | None = None,
    include_errors: bool = False,
    detail: bool = False,
    level: float = 0.95,
    interval: Interval = "one_look",
) -> dict[str, Any]:
    """Aggregate results, in the layout of `RunningAggregates.snapshot`.

    Counts all results before it returns; on an event loop, call it by `asyncio.to_thread`.

    Args:
        results: result dicts, of this or of other runs.
        reference: gives the order of the templates; without it they are sorted by name.
        config: names the outputs of custom evaluations in results that do not say it themselves,
            such as those of another program.
        include_errors: whether the metrics of error responses count.
        detail: whether metrics also have `coverage`, `bounds`, `quantiles`, `se` and intervals.
        level: confidence level, between 0 and 1.
        interval: kind of `interval`: "one_look", or "anytime" if the run was stopped by looking at
            it.

    Raises:
        AggregationError: a result cannot be aggregated.
        UsageError: `results` is no iterable of results, or `level` is not between 0 and 1.
        ReferenceDataError: the reference set is invalid.
    """
    # A path is iterable, too, and so is a single result.
    if isinstance(results, str | bytes | Mapping) or not isinstance(results, Iterable):
        raise UsageError(f"results: expected an iterable of results, got {type(results).__name__}")
    aggregates = RunningAggregates()
    if reference is not None:
        loaded_reference = load_reference(reference)
        aggregates.order_templates(loaded_reference.templates)
        aggregates.expect_steps(loaded_reference.step_names)
    outputs_by_kind = {}
    if config is not None:
        outputs_by_kind = _outputs_by_kind(config)
    for result in results:
        described = result
        if outputs_by_kind:
            described = with_outputs(result, outputs_by_kind)
        if include_errors:
            aggregates._count(observe(described, include_errors=True))
        else:
            aggregates.add(described)
    return aggregates.snapshot(detail=detail, level=level, interval=interval)


def _outputs_by_kind(
    config: str | os.PathLike[str] | Mapping[str, Any] | Config,
) -> dict[str, list[str]]:
    """Return the outputs of custom evaluations and metrics of ragas in a configuration.

    They are by key of `judge` in a result, such as "outputs".
    """
    from graphrag_eval_async.config import load_config
    from graphrag_eval_async.metrics import kinds_of_outputs

    # No model is called, so it is not checked whether the configuration has all models.
    checked = load_config(config, judge=True)
    outputs_by_kind = kinds_of_outputs(checked.custom_evaluations)
    if checked.ragas:
        outputs_by_kind["outputs"] = [*outputs_by_kind.get("outputs", ()), *checked.ragas]
    return outputs_by_kind


@without_removed("include_errors", "labels")
def compare(
    baseline: Results,
    candidate: Results,
    *,
    level: float = 0.95,
    primary: Sequence[str] | None = None,
    non_inferior: Mapping[str, float] | None = None,
    by: str | None = None,
) -> Comparison:
    """Compare a run with an earlier one, question by question.

    Questions are paired by their ids; the samples of a question are averaged. On an event loop,
    call it by `asyncio.to_thread`.

    A question is right if its first k samples are right. k is the number of samples in the run that
    has fewer. A metric that one side lacks because its judge failed does not count. A missing
    answer is wrong.

    Primary metrics share the error evenly (Bonferroni). So do the rows of templates, and those of
    tags. A metric takes no share if the questions in which it differs are too few for any verdict
    (Tarone). With three shares at 95%, p is multiplied by 3 and intervals are at 98.33%. In
    simulated comparisons of 40 questions, one of these three intervals missed in 3.5%. A verdict
    needs a small p and an interval that excludes 0; if only one of them says so, the other is
    adapted.

    Args:
        baseline: results of the earlier run.
        candidate: results of the other run.
        level: confidence level of intervals and verdicts, between 0 and 1.
        primary: the metrics that are decided; default: ``error_rate``, `steps_score`, the judged
            metrics of answers, and outputs of custom evaluations and metrics in code that are from
            0 to 1.
        non_inferior: by metric, a margin above 0: is the candidate shown to be worse by less?
        by: key of a tag, whose values are compared, too; "tags" for all keys.

    Returns:
        a dict, which a notebook shows as a table. Its keys:

        - `overall`, `per_template` and, with `by`, `per_tag`: rows by metric;
        - `questions`: how many both runs have; `results`: how many each side has; `level`;
        - `regressions`, `improvements`: ids of questions that were right and are not, and the
          reverse;
        - `worse`: by metric, the questions that fell, largest drop first;
        - `missing`: ids of questions of the baseline without a complete result of the candidate;
        - `only_in_baseline`, `only_in_candidate`; `pending`: by side, ids of questions without a
          complete result;
        - `without_pair`: by metric and side, ids of questions with a value on that side only; for
          primary metrics also `p` and `verdict`: did more questions lose their value than gain one?
        - `non_inferior`: by metric, the `verdict` ("non_inferior" or "undecided", which may have a
          `reason`), `margin`, `interval`, means and number of `pairs`; errors count as 0 in metrics
          up to 1. An `interval_note` says why the interval is not that of the metric's row;
        - `warnings`, and `notes` on how verdicts are made.

        A row has `direction`, the number of `pairs`, the means `baseline` and `candidate` over
        them, their `difference`, the candidate's `wins`, `losses` and `ties`, and the `interval` of
        the difference. Rows of primary metrics also have `p`, `p_adjusted`, whether they are
        `decidable`, `verdict` ("better", "worse", "undecided", or "no_change" if no question
        differs), and `detectable`: the change that so many questions show with a power of 80%, None
        if there is none. Metrics from 0 to 1 have `confidence`, an interval that is valid at any
        time.

    Raises:
        AggregationError: something is not a result of a question; of files, the message has its
            place.
        SourceError: a file cannot be read.
        UsageError: an argument has an invalid value.
    """
    from graphrag_eval_async.inference.compared import Comparison
    from graphrag_eval_async.inference.comparison import RunningComparison
    from graphrag_eval_async.inference.confidence import check_level

    # Check the arguments before anything is read.
    _check_primary(primary)
    comparison = RunningComparison(primary=primary, non_inferior=non_inferior)
    check_level(level)

    add_results(baseline, comparison.add_baseline, what="baseline")
    add_results(candidate, comparison.add, what="candidate")
    return Comparison(comparison.snapshot(level=level, by=by))


def plan_questions(
    detect: float,
    *results: Results,
    metric: str = "steps_score",
    sd: float | None = None,
    level: float = 0.95,
    primary: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Plan how many questions are needed to see a change of the mean of a metric between two runs.

    Args:
        detect: the change to be seen, above 0, in units of the metric.
        results: results of one run, or of two runs of the same questions.
        metric: name of the metric.
        sd: standard deviation of the metric over questions, in place of results.
        level: confidence level of the comparison, between 0 and 1.
        primary: the metrics that the comparison decides; see `compare`.

    Returns:
        a dict with the number of questions, each asked once, if they are `paired`, the same in both
        runs, or `unpaired`, for a `power` of 80%. Its other keys are what the plan assumes. In
        1,000 simulated comparisons each, of as many questions as planned, falls of 0.15, 0.1 and
        0.05 were found in 79, 76 and 80%.

    Raises:
        AggregationError: something is not a result; of files, the message has its place.
        SourceError: a file cannot be read.
        UsageError: an argument has an invalid value, or the results tell nothing.
    """
    from graphrag_eval_async.inference.planning import Spread, plan

    _check_primary(primary)
    runs = [Spread(metric) for _ in results]
    for number, (source, run) in enumerate(zip(results, runs, strict=True), 1):
        add_results(source, run.add, what=f"results {number}")
    return plan(detect, runs, metric=metric, sd=sd, level=level, primary=primary)


def _check_primary(primary: Sequence[str] | None) -> None:
    """Check that primary metrics are not a string, whose letters would be taken for metrics.

    Raises:
        UsageError: they are a string.
    """
    if isinstance(primary, str):
        raise UsageError(f"primary: expected a list of metrics, got {primary!r}")


def calibrate(
    results: Results,
    labels: Results,
    *,
    metric: str | None = None,
    level: float = 0.95,
    chosen_at_random: bool = False,
) -> dict[str, Any]:
    """Compare a judged metric with labels that people gave, and correct its mean.

    A label has `question_id`, `metric`, and `value`: a number from 0 to 1, true or false, or None
    if there is none yet. Of a question with several samples, it also needs `sample` or `sha256`,
    that of its line. A label with the `sha256` of another line is not used: the result was judged
    again, or is another one. Several labels of one result are averaged.

    The mean is corrected if 100 results or more are labelled and were drawn at random. Its interval
    is for one look, and clustered by question. In 3,000 simulated runs with 100 labels of 150 to
    5,000 results, at least 94.5% of intervals at 95% contained the truth. They were 0.157 to 0.132
    wide; with the labels alone, 0.168.

    Args:
        results: the results with the judged metric.
        labels: a path of labels, JSONL, or labels as dicts. `sample-for-labels` draws results to be
            labelled.
        metric: name of the metric; not needed if all labels are for the same one.
        level: confidence level of intervals, between 0 and 1.
        chosen_at_random: declares that the labelled results were chosen at random, in place of the
            mark `drawn` that `sample-for-labels` leaves in each label.

    Returns:
        a dict: how far judge and people agree, and the mean that people would give all results, by
        PPI++ (Angelopoulos, Duchi and Zrnic, 2023). `overall` and each row of `per_template` have
        the number of `results` with a value and of `labels`, `agreement`, `kappa` (Cohen),
        `sensitivity`, `specificity`, `bias` (the mean of value - label), `mean_score`,
        `mean_label`, and `corrected`: `mean`, `se`, `interval` and `weight`, or the `reason` why
        there is none. A value of 0.5 or more counts as right; undefined values are None. `people`
        has how far people agree (Krippendorff's `alpha`), `unused_labels` counts labels by the
        reason why they are not used, and `rejected` has invalid lines.

    Raises:
        AggregationError: something is not a result, or a dict is not a label.
        SourceError: a file cannot be read.
        UsageError: an argument has an invalid value, or no label matches a result.
    """
    from graphrag_eval_async.inference.calibration import Calibration

    rejected: list[str] = []
    calibration = Calibration(metric, level=level, chosen_at_random=chosen_at_random)
    add_results(
        labels,
        calibration.add_label,
        what="labels",
        on_reject=lambda reject: rejected.append(reject.described()),
        # People write labels: a last line that is not JSON is a mistake.
        may_grow=False,
    )
    add_results(results, calibration.add_result, what="results")
    return {**calibration.snapshot(), "rejected": rejected}


def _raise_or_warn(reject: Reject) -> None:
    """Warn of the reject of an unfinished last line; raise an error for any other reject.

    Raises:
        AggregationError: the line is not a result.
    """
    message = str(reject)
    if reject.path:
        message = f"{reject.path}: {message}"
    if reject.reason != "incomplete":
        raise AggregationError(message)
    warn(message, GraphragEvalWarning, stacklevel=2)


def add_results(
    results: Results,
    add: Callable[[Mapping[str, Any]], object],
    *,
    what: str,
    on_reject: Callable[[Reject], object] = _raise_or_warn,
    may_grow: bool = True,
) -> None:
    """Call `add` with each result.

    Args:
        results: a path, files, or results as dicts.
        add: called with each result.
        what: name of the argument with the results, for errors.
        on_reject: called with each line of a file that is not a result.
        may_grow: whether a file may have an unfinished last line; see `read_results`.

    Raises:
        UsageError: `results` is something else.
    """
    if isinstance(results, str | os.PathLike):
        results = read_result_files(results)
    if isinstance(results, JsonlFiles):
        reading = read_results(results, add, on_reject, may_grow=may_grow)
        # An event loop may run in this thread already, so another thread runs one.
        with ThreadPoolExecutor(max_workers=1) as executor:
            executor.submit(asyncio.run, reading).result()
    elif isinstance(results, bytes | Mapping) or not isinstance(results, Iterable):
        raise UsageError(
            f"{what}: expected a path or an iterable of results, got {type(results).__name__}"
        )
    else:
        for result in results:
            add(result)


async def read_results(
    source: JsonlFiles,
    add: Callable[[dict[str, Any]], object],
    on_reject: Callable[[Reject], object],
    *,
    advance: Callable[[], object] = lambda: None,
    may_grow: bool = True,
) -> None:
    """Call `add` with the result in each line of files.

    Args:
        source: the files.
        add: called with each result. An `AggregationError` that it raises makes the line a reject.
        on_reject: called with each line that is not a result.
        advance: called after each line.
        may_grow: whether files may still grow. Then the reject of an unfinished last line has the
            reason "incomplete".
    """
    reading = source.batches(max_line_bytes=MAX_RESULT_BYTES, may_grow=may_grow)
    async with aclosing(reading) as batches:
        async for batch in batches:
            for record in batch:
                rejected = take_result(record, add)
                if rejected is not None:
                    on_reject(rejected)
                advance()


def take_result(record: Record, add: Callable[[dict[str, Any]], object]) -> Reject | None:
    """Call `add` with the result in a record.

    Args:
        record: a line of a file.
        add: takes a result. It raises an `AggregationError` for anything else.

    Returns:
        None, or a reject if the record is not a result.
    """
    if isinstance(record, LongLine):
        # Even if it is still being written, it will not become shorter.
        return reject_unread(record._replace(whole=True))
    if not isinstance(record, Line):
        return reject_unread(record)
    try:
        result = load(record.data, MAX_RESULT_BYTES, offset=record.offset)
        # A result has the unknown keys of its response one level deeper than the response.
        if nests_deeper(result, MAX_DEPTH + 1):
            raise too_deep()
        add(result)
    except InvalidRecord as error:
        if _is_unfinished(record, error):
            message = "skipped: it has no newline yet, and is the beginning of a result"
            return reject(record, "incomplete", message)
        return reject(record, error.reason, str(error))
    except AggregationError as error:
        if not isinstance(result, dict):
            return reject(record, "not_an_object", str(error))
        # For a response or a template, the error has this explanation.
        explanation = kind_of_no_result(result)
        if explanation and explanation in str(error):
            return reject(record, "not_a_result", str(error))
        return reject(record, "invalid_field", str(error))
    return None


def _is_unfinished(line: Line, error: InvalidRecord) -> bool:
    """Return whether a line that could not be read is the beginning of an object in JSON.

    Then its writer has probably not finished it. `error` is why it could not be read.
    """
    is_not_json = error.reason in ("invalid_json", "invalid_utf8")
    return is_not_json and not line.whole and line.data.lstrip().startswith(b"{")
