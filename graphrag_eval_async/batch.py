"""Works on finished sets: evaluates responses, aggregates results, compares runs, plans comparisons."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, Unpack

from graphrag_eval_async.errors import AggregationError, MissingResponses, RejectedResponses, UsageError
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records import LongLine
from graphrag_eval_async.records.decoding import MAX_DEPTH, InvalidRecord, load, nests_deeper, too_deep
from graphrag_eval_async.records.line import write_line
from graphrag_eval_async.records.metrics import is_metric
from graphrag_eval_async.records.misnamed import what_else
from graphrag_eval_async.records.reject import reject, reject_long
from graphrag_eval_async.records.response import BEYOND_64_BITS
from graphrag_eval_async.records.results import with_outputs
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.sources import JsonlFiles, open_source, read_jsonl
from graphrag_eval_async.stream import MAX_IN_FLIGHT, MAX_LINE_BYTES, EvaluationStream
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
"""A path as for `read_jsonl`, its return value, or results as dicts."""

MAX_RESULT_BYTES = 4 * MAX_LINE_BYTES
"""A result holds its response and the reference steps."""

MAX_RESULT_DEPTH = MAX_DEPTH + 1
"""A result holds the unknown keys of a response one level deeper."""


async def run_evaluation(
    reference: str | os.PathLike[str] | Templates | Reference,
    responses: Responses | Mapping[str, Mapping[str, Any]],
    *,
    missing: Literal["raise", "skip"] = "raise",
    on_reject: OnReject = "raise",
    max_in_flight: int = MAX_IN_FLIGHT,
    max_line_bytes: int = MAX_LINE_BYTES,
    **options: Unpack[EvaluatorOptions],
) -> list[dict[str, Any]]:
    """Evaluate a finished set of responses.

    Args:
        reference: a path to YAML or JSON, a list of template dicts, or a `Reference`.
        responses: a path to JSONL, an iterable of responses, as for `evaluate_stream`, or a dict from
            question id to response.
        missing: "raise" requires a response to every question, "skip" accepts missing ones.
        on_reject: "raise" raises one error that lists all rejects, "collect" skips rejected responses, and a
            callable is called with each reject.
        max_in_flight: how many responses may be in progress at once, 1 or more.
        max_line_bytes: longer lines are rejected as `too_long`.
        options: `comparators`, `steps_groups`, `step_aliases`, `config`, `judge`, `on_fatal` and `format`, as
            in `Evaluator`.

    Returns:
        the results in the order of the reference set; samples of one question in the order of the input.
        Values inside reference steps, such as `args`, belong to the reference set and must not be changed.

    Raises:
        RejectedResponses: responses could not be evaluated.
        MissingResponses: questions have no response that could be evaluated.
        ReferenceDataError: the reference set is invalid.
        ConfigError: the configuration is invalid, or needs a package that is not installed.
        UsageError: an argument has an invalid value.
        SourceError: the responses cannot be read.
        JudgeUnavailable: wrong key, unknown model, or no quota.
    """
    if missing not in ("raise", "skip"):
        raise UsageError(f'missing: expected "raise" or "skip", got {missing!r}')
    evaluator = Evaluator(reference, **options)
    stream = EvaluationStream(
        evaluator,
        list(_with_ids(responses)) if isinstance(responses, Mapping) else responses,
        StreamOptions(
            max_in_flight=max_in_flight,
            max_line_bytes=max_line_bytes,
            on_reject="collect" if on_reject == "raise" else on_reject,
        ),
    )
    rejects = stream.rejects
    async with stream:
        results = [result async for result in stream]
    if on_reject == "raise" and rejects.total:
        raise RejectedResponses(rejects, rejects.total)
    if missing == "raise" and stream.missing:
        raise MissingResponses(stream.missing)
    places = {question_id: place for place, question_id in enumerate(evaluator.reference.questions)}
    return sorted(results, key=lambda result: (places[result["question_id"]], result["sample"]))


def _with_ids(responses: Mapping[str, Any]) -> Iterator[Any]:
    for question_id, response in responses.items():
        if not isinstance(response, Mapping):
            yield response
        elif (named := response.get("question_id")) not in (None, question_id):
            raise UsageError(f"responses[{question_id!r}]: its question_id is {named!r}")
        else:
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
        config: names the outputs of custom evaluations in results that do not say it themselves, such as
            those of another program.
        include_errors: whether the metrics of error responses count.
        detail: whether metrics also have `coverage`, `bounds`, `quantiles`, `se` and intervals.
        level: confidence level, between 0 and 1.
        interval: kind of `interval`: "one_look", or "anytime" if the run was stopped by looking at it.

    Raises:
        AggregationError: a result cannot be aggregated.
        UsageError: `results` is no iterable of results, or `level` is not between 0 and 1.
        ReferenceDataError: the reference set is invalid.
    """
    if isinstance(results, str | bytes | Mapping) or not isinstance(results, Iterable):
        raise UsageError(f"results: expected an iterable of results, got {type(results).__name__}")
    aggregates = RunningAggregates(include_errors=include_errors)
    if reference is not None:
        loaded = load_reference(reference)
        aggregates.order_templates(loaded.templates)
        aggregates.expect_steps(loaded.step_names)
    kinds = None
    if config is not None:
        from graphrag_eval_async.config import load_config
        from graphrag_eval_async.metrics import kinds_of_outputs

        # As for your own judge, since no model is called.
        kinds = kinds_of_outputs(load_config(config, judge=True).custom_evaluations)
    for result in results:
        aggregates.add(with_outputs(result, kinds) if kinds else result)
    return aggregates.snapshot(detail=detail, level=level, interval=interval)


def compare(
    baseline: Results,
    candidate: Results,
    *,
    level: float = 0.95,
    include_errors: bool = False,
    primary: Sequence[str] | None = None,
) -> Comparison:
    """Compare a run with an earlier one, question by question.

    Questions are paired by their ids; the samples of a question are averaged. Files are read to their ends
    before this returns; on an event loop, call it by `asyncio.to_thread`.

    Args:
        baseline: results of the earlier run.
        candidate: results of the other run.
        level: confidence level of intervals and verdicts, between 0 and 1.
        include_errors: whether the metrics of error responses count.
        primary: the metrics that are decided, as the key of the configuration names them. Default:
            ``error_rate``, `steps_score`, the judged scores of answers (of answer correctness, `answer_f1`),
            and outputs of custom evaluations that are from 0 to 1.

    Returns:
        a dict, which a notebook shows as a table. Its keys:

            - `missing`: ids of questions of the baseline without a complete result of the candidate;
            - `level`, and `results`: how many each side has;
            - `questions`: how many both sides have;
            - `overall`: by metric, a row (see below); ``error_rate`` is the share of samples that are errors;
            - `per_template`: by template and metric, a row. The baseline says which template a question has;
            - `regressions` and `improvements`: ids of questions that were right and are not, and the reverse.
                A response is right if it is no error, `steps_score` is 1, and `answer_f1` and
                `ragas_answer_correctness` are at least 0.5, as far as both sides have these; an absent
                answer is wrong. A question is right if its first k samples all are; k is the number of
                samples of the side with fewer;
            - `worse`: by score (any metric but tokens, seconds and costs), the questions in which the
                candidate is worse, worst first: `question_id`, `template_id`, `baseline`, `candidate` and
                `difference`;
            - `only_in_baseline` and `only_in_candidate`: ids of questions that only one side has;
            - `pending`: by side, ids of questions that are not compared because all their results have
                metrics in `pending`, as after an interrupted run in stages;
            - `without_pair`: by metric and side, ids of questions for which only that side has a value of the
                metric. Primary metrics that both sides were asked for have `p`, of a sign test over such
                questions with equally many results on both sides, and `verdict`: "worse" if more questions
                lost their value than gained one;
            - `warnings`: what makes the runs hard to compare, such as other judges or reference data;
            - `notes`: how the verdicts are made, and what they do not say.

        A row has `direction` ("higher is better" or "lower is better"), `pairs` (questions with values on
        both sides), the means `baseline`, `candidate` and `difference` (candidate - baseline) over them, and
        `wins`, `losses` and `ties` of the candidate (a tie differs by less than a billionth, relatively).

        `interval` (`level`, `low`, `high`, `kind`) is the confidence interval of the mean difference: by
        Bonett and Price (2012) if all differences of a metric from 0 to 1 are -1, 0 or 1, otherwise by Hall
        (1992). It is absent for a single question, and if the differences of other metrics all agree.

        Primary metrics also have `verdict`, `p` and `p_adjusted`. `p` is of the paired sign-flip permutation
        test of the mean difference, for one look at finished runs: exact for few different changes, otherwise
        sampled. `p_adjusted` is `p` times the number of primary metrics, among the templates times that of
        their rows. The level of `interval` is higher accordingly.

        `verdict` is "better" or "worse" if `p_adjusted` is below 1 - `level` and the interval excludes 0,
        and "undecided" otherwise. Then the interval is extended to 0, and `p_adjusted` is at least
        1 - `level`, so that neither contradicts the verdict. If nothing changed, any verdict but "undecided"
        among the metrics overall has a probability of at most 1 - `level`; likewise among the templates.

        Metrics from 0 to 1 by definition, and ``error_rate``, have `confidence`: a confidence sequence of the
        mean difference, which holds at all times at once, and is wider.

    Raises:
        AggregationError: something is not a result of a question; of files, the message has its place.
        SourceError: a file cannot be read.
        UsageError: an argument has an invalid value.
    """
    from graphrag_eval_async.inference.compared import Comparison
    from graphrag_eval_async.inference.comparison import RunningComparison

    _check_primary(primary)
    comparison = RunningComparison(include_errors=include_errors, primary=primary)
    comparison.live_rows(level=level)  # Checks the level before anything is read.
    add_results(baseline, comparison.add_baseline, what="baseline")
    add_results(candidate, comparison.add, what="candidate")
    return Comparison(comparison.snapshot(level=level))


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
        a dict: `metric`, `detect`, `level`; `primary`, the metrics that share the error budget;
        `has_verdict`, whether `compare` decides the metric; `questions` and `missing`, for each run the
        number of questions with a value and of results without one; `sd`, the standard deviation of one
        sample; `within_sd`, that of samples of one question, None if no question was asked twice;
        `paired_sd`, that of a question's change; `assumed_correlation` of a question's scores in two runs,
        None if two were given; and `rows`.

        A row has `power` (0.8 or 0.95), `repeats` (samples of each question in each run; more than 1 only if
        `within_sd` is known), and the number of questions: `paired`, the same in both runs, or `unpaired`,
        others in each.

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
    """Compare a judge's scores with labels that people gave, and correct the mean of the scores.

    A label has `question_id`, `metric`, and `value`: a number from 0 to 1, or true or false; None means that
    there is no label yet. If the results have several samples of a question, a label also needs `sample` or
    `sha256`, that of the line of its result. Several labels of one result are averaged.

    Args:
        results: the results with the judge's scores.
        labels: a path of labels, JSONL, or labels as dicts. `sample-for-labels` draws results to be labelled.
        metric: name of the score; not needed if all labels are for the same one.
        level: confidence level of intervals, between 0 and 1.
        chosen_at_random: declares that the labelled results were chosen at random, in place of the mark
            `drawn` that `sample-for-labels` leaves in each label.

    Returns:
        a dict: `metric` and `level`; `overall` and `per_template`, a row for all results and by template;
        `people`, the number of `items` with several labels and Krippendorff's `alpha` of these, nominal if
        all are 0 or 1, else interval; `unused_labels`, by reason the number of labels that match no result,
        or several; `rejected`, the lines of files that are not labels, with place and key; `warnings`; and
        `notes`.

        A row has `results` (with a score) and `labels` (results with a score and a label); for these,
        `agreement` (share on which both say the same), Cohen's `kappa`, `sensitivity` (share of what people
        call right that the judge calls right), `specificity` (share of what people call wrong that the judge
        calls wrong), `bias` (mean of score - label) and `mean_label`; and `mean_score` of all results. What
        is 0.5 or more counts as right. What is not defined is None.

        `corrected` has the mean that people would give all results, by PPI++ (Angelopoulos, Duchi and Zrnic,
        2023): `mean`, `se`, `interval` (`level`, `low`, `high`, `kind`: for one look) and `weight`, how much
        the judge's scores count, from 0 to 1. It has `reason` instead if there are fewer than 100 labels, or
        if they were not chosen at random.

    Raises:
        AggregationError: something is not a result, or a dict is not a label.
        SourceError: a file cannot be read.
        UsageError: an argument has an invalid value, or no label matches a result.
    """
    from graphrag_eval_async.inference.calibration import Calibration

    found, rejected = Calibration(metric, level=level, chosen_at_random=chosen_at_random), list[str]()
    add_results(
        labels, found.add_label, what="labels", on_reject=lambda reject: rejected.append(reject.described())
    )
    add_results(results, WithDigest(found.add_result), what="results")
    return {**found.snapshot(), "rejected": rejected}


def _complain(reject: Reject) -> None:
    raise AggregationError(f"{reject.path}: {reject}" if reject.path else str(reject))


def add_results(
    results: Results,
    add: Callable[[Mapping[str, Any]], object],
    *,
    what: str,
    on_reject: Callable[[Reject], object] = _complain,
) -> None:
    """Call `add` with each result, and `on_reject` with each line of a file that is not a result.

    Errors call the results `what`.

    Raises:
        AggregationError: something is not a result, or `add` says so.
        SourceError: a file cannot be read.
        UsageError: `results` are of another type.
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


class WithDigest:
    """Passes on each result with the SHA-256 of its line; that of a dict is of the line that `-o` writes."""

    def __init__(self, add: Callable[[Mapping[str, Any], str], object]) -> None:
        self.add = add

    def __call__(self, result: Mapping[str, Any]) -> None:
        self.add(result, sha256(write_line(result, 1, 0).data).hexdigest())


async def read_results(
    source: JsonlFiles,
    add: Callable[[dict[str, Any]], object],
    on_reject: Callable[[Reject], object],
    *,
    max_line_bytes: int = MAX_RESULT_BYTES,
    advance: Callable[[], object] = lambda: None,
) -> None:
    """Read each line of files as a result.

    Args:
        source: the files.
        add: is called with each result; an `AggregationError` that it raises makes the line a reject.
        on_reject: is called with each line that is not a result.
        max_line_bytes: longer lines are rejected.
        advance: is called after each line.
    """
    async with aclosing(open_source(source, max_line_bytes=max_line_bytes)) as batches:
        async for batch in batches:
            for record in batch:
                if (rejected := take_result(record, add, max_line_bytes)) is not None:
                    on_reject(rejected)
                advance()


def take_result(
    record: Record, add: Callable[[dict[str, Any]], object], max_line_bytes: int
) -> Reject | None:
    """Call `add` with the result in a record; return a reject if it is not a result."""
    if isinstance(record, LongLine):
        return reject_long(record)
    try:
        result = load(record.data, max_line_bytes)
        if nests_deeper(result, MAX_RESULT_DEPTH):
            raise too_deep()
        _check_integers(result)
    except InvalidRecord as error:
        return reject(record, error.reason, str(error))
    try:
        if isinstance(add, WithDigest):
            add.add(result, sha256(record.data).hexdigest())
        else:
            add(result)
    except AggregationError as error:
        if not isinstance(result, dict):
            return reject(record, "not_an_object", str(error))
        told = what_else(result)
        return reject(record, "not_a_result" if told and told in str(error) else "invalid_field", str(error))
    return None


def _check_integers(result: Any) -> None:
    """Check that no metric was written as an integer beyond 64 bits, which orjson reads as a float."""
    steps = result.get("actual_steps") if isinstance(result, dict) else None
    for part in (result, *(steps if isinstance(steps, list) else ())):
        for key, value in part.items() if isinstance(part, dict) else ():
            if type(value) is float and abs(value) >= BEYOND_64_BITS and is_metric(key):
                raise InvalidRecord(
                    "invalid_field", f"{key}: expected a number of at most 64 bits, got {value}"
                )
