"""A finished set of responses, through the same engine as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.errors import MissingResponses, RejectedResponses, UsageError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.stream import MAX_IN_FLIGHT, MAX_LINE_BYTES, evaluate_stream

if TYPE_CHECKING:
    import os

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.evaluator import StepsGroups
    from graphrag_eval_async.judge import Judge
    from graphrag_eval_async.metrics import OnFatal
    from graphrag_eval_async.reference import Reference, Templates
    from graphrag_eval_async.sources import Responses
    from graphrag_eval_async.steps import Comparator
    from graphrag_eval_async.stream.intake import OnReject, Result


async def run_evaluation(
    reference: str | os.PathLike[str] | Templates | Reference,
    responses: Responses | Mapping[str, Mapping[str, Any]],
    *,
    missing: Literal["raise", "skip"] = "raise",
    on_reject: OnReject = "raise",
    max_in_flight: int = MAX_IN_FLIGHT,
    max_line_bytes: int = MAX_LINE_BYTES,
    steps_groups: StepsGroups | None = None,
    comparators: Mapping[str, Comparator] | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | Config | None = None,
    judge: Judge | None = None,
    on_fatal: OnFatal = "raise",
) -> list[Result]:
    """Evaluate a finished set of responses.

    Args:
        reference: as in `evaluate_stream`.
        responses: as in `evaluate_stream`, or a dict from question id to response.
        missing: "raise" insists on a response to every question, "skip" does without.
        on_reject: "raise" raises one error that lists all rejects, "collect" leaves them out, and a callable
            is called with each.
        max_in_flight: as in `evaluate_stream`.
        max_line_bytes: as in `evaluate_stream`.
        steps_groups: as in `evaluate_stream`.
        comparators: as in `evaluate_stream`.
        config: as in `evaluate_stream`.
        judge: as in `evaluate_stream`.
        on_fatal: as in `evaluate_stream`.

    Returns:
        the results in the order of the reference set; samples of one question in the order of the input.

    Raises:
        RejectedResponses: responses could not be evaluated.
        MissingResponses: questions are without a response that could be evaluated.
        ReferenceDataError: the reference set cannot be right.
        ConfigError: the configuration cannot be right, or needs a package that is not installed.
        UsageError: an argument has a value it cannot have.
        SourceError: the responses cannot be read.
        JudgeUnavailable: the judge will not answer any call.
    """
    if missing not in ("raise", "skip"):
        raise UsageError(f'missing: expected "raise" or "skip", got {missing!r}')
    reference = load_reference(reference, comparators=comparators)
    stream = evaluate_stream(
        reference,
        list(_with_ids(responses)) if isinstance(responses, Mapping) else responses,
        max_in_flight=max_in_flight,
        max_line_bytes=max_line_bytes,
        on_reject="collect" if on_reject == "raise" else on_reject,
        steps_groups=steps_groups,
        comparators=comparators,
        config=config,
        judge=judge,
        on_fatal=on_fatal,
    )
    async with stream:
        results = [result async for result in stream]
    if on_reject == "raise" and stream.rejects.total:
        raise RejectedResponses(stream.rejects, stream.rejects.total)
    if missing == "raise" and stream.missing:
        raise MissingResponses(stream.missing)
    places = {question_id: place for place, question_id in enumerate(reference.questions)}
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
    include_errors: bool = False,
    detail: bool = False,
    level: float = 0.95,
) -> dict[str, Any]:
    """The aggregates of results, as `RunningAggregates.snapshot` lays them out.

    Args:
        results: result dicts, of this or of other runs.
        reference: gives the templates their order; without it they stand by name.
        include_errors: whether the metrics of error responses count.
        detail: as in `RunningAggregates.snapshot`.
        level: as there.

    Raises:
        AggregationError: a result cannot be aggregated.
        UsageError: `results` is no iterable of results, or `level` is not between 0 and 1.
        ReferenceDataError: the reference set cannot be right.
    """
    if isinstance(results, str | bytes | Mapping) or not isinstance(results, Iterable):
        raise UsageError(f"results: expected an iterable of results, got {type(results).__name__}")
    aggregates = RunningAggregates(include_errors=include_errors)
    if reference is not None:
        aggregates.order_templates(load_reference(reference).templates)
    for result in results:
        aggregates.add(result)
    return aggregates.snapshot(detail=detail, level=level)
