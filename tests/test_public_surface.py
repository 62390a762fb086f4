from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import graphrag_eval_async as package
from graphrag_eval_async.evaluator import EvaluatorOptions
from graphrag_eval_async.stream.options import StreamKeywords

PUBLIC = """
    AggregationError AnswerCorrectnessConfig AnswerRelevanceConfig Comparison Config ConfigError
    ContextRelevanceConfig CustomEvaluationConfig Dashboard DatasetEvaluation Decision EmbeddingConfig
    EvaluatedFile EvaluationStream Evaluator ExecuteConfig ExecutionUnavailable FaithfulnessConfig
    Follower GenerationConfig GraphragEvalError GraphragEvalWarning Journal JournalError JournalLocked
    JournalMismatch Judge JudgeError JudgeUnavailable JudgeUsage LLMConfig Lag Last LimitsConfig Line
    LongLine MissingResponses OtelSink OutputConfig Position PricingConfig PrometheusCollector Question
    RagasAnswerCorrectnessConfig Reference ReferenceDataError Reject RejectedResponse RejectedResponses
    Rejects RetrievalAnswerConfig RetrievalContextConfig RunningAggregates Seconds SourceError
    SparqlGroundednessConfig StepsConfig TokenUsage TraceError TraceFormat Until UsageError WorkerError
    average_precision calibrate compare compute_aggregates evaluate_agent evaluate_dataset evaluate_file
    evaluate_stream follow_jsonl load_config load_reference plan_questions read_jsonl recall_at_k
    receive_otlp redis_results redis_stream reference_step_from_sparql response_from_anthropic
    response_from_langchain response_from_llamaindex response_from_mcp response_from_openai
    response_from_pydantic_ai response_from_trace responses_from_otlp results_to_rows run_evaluation
    run_evaluation_sync save_reference watch_redis
"""


def test_the_public_names() -> None:
    assert package.__all__ == PUBLIC.split()
    assert {*package.__all__} <= {*dir(package)}
    for name in package.__all__:
        assert inspect.getdoc(getattr(package, name)), name
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        getattr(package, "absent")  # noqa: B009  (type checkers know that it is absent)


OF_EVALUATOR = "comparators steps_groups step_aliases config judge on_fatal format"


def names(function: Any, kind: Any) -> str:
    parameters = inspect.signature(function).parameters.values()
    found = [each.name for each in parameters if each.kind is kind]
    for each in parameters:
        if each.kind is each.VAR_KEYWORD and kind is each.KEYWORD_ONLY:
            passed = {"Unpack[EvaluatorOptions]": OF_EVALUATOR, "Unpack[StreamKeywords]": "and streams"}
            found.append(passed[each.annotation])
    return " ".join(found)


ARGUMENTS: dict[Any, tuple[str, str]] = {
    package.evaluate_stream: (
        "reference responses",
        (
            "ordered max_in_flight max_line_bytes aggregates on_reject stages journal dedupe until "
            + OF_EVALUATOR
        ),
    ),
    package.evaluate_agent: (
        "reference agent",
        "max_concurrency repeats timeout retry_errors and streams",
    ),
    package.evaluate_file: (
        "reference responses",
        f"jobs results shard on_reject max_line_bytes include_errors {OF_EVALUATOR}",
    ),
    package.run_evaluation: (
        "reference responses",
        f"missing on_reject max_in_flight max_line_bytes {OF_EVALUATOR}",
    ),
    package.compute_aggregates: ("results", "reference config include_errors detail level interval"),
    package.compare: ("baseline candidate", "level include_errors primary"),
    package.calibrate: ("results labels", "metric level chosen_at_random"),
    package.plan_questions: ("detect", "metric sd level primary"),
    package.Evaluator: ("reference", OF_EVALUATOR),
    package.Evaluator.evaluate: ("self response", "sample"),
    package.RunningAggregates: ("", "include_errors templates steps window"),
    package.PrometheusCollector: ("stream", "recent source alerts reference judge_model level"),
    package.Last: ("count", ""),
    package.Seconds: ("seconds", ""),
    package.read_jsonl: ("path", "max_line_bytes shuffle shard"),
    package.follow_jsonl: (
        "path",
        "start poll_interval idle_timeout stop rotate_wait exclude ignore_older max_line_bytes",
    ),
    package.redis_stream: (
        "url stream",
        "group results consumer drain claim_after_sec max_deliveries max_results max_outage_sec force",
    ),
    package.watch_redis: ("url stream", "group reference max_outage_sec"),
    package.redis_results: ("url results", ""),
    package.load_reference: ("reference", "comparators strict"),
    package.recall_at_k: ("relevant_docs retrieved_docs k", ""),
    package.average_precision: ("relevant_docs retrieved_docs", ""),
}


@pytest.mark.parametrize("function", ARGUMENTS, ids=lambda each: each.__qualname__)
def test_the_arguments(function: Any) -> None:
    kinds = inspect.Parameter
    positional, options = ARGUMENTS[function]
    assert names(function, kinds.POSITIONAL_OR_KEYWORD) == positional
    assert names(function, kinds.KEYWORD_ONLY) == options


@pytest.mark.parametrize("function", [package.run_evaluation, package.evaluate_file])
def test_unknown_arguments(function: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'stages'"):
        asyncio.run(function([{"template_id": "t", "questions": []}], "-", stages=True))


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_methods() -> None:
    assert public(package.EvaluationStream) == {
        "aclose",
        "decision",
        "drop_unsent",
        "in_flight",
        "is_restored",
        "journal",
        "missing",
        "rejects",
        "skipped",
        "stop",
        "tell_restored",
    }
    stream = package.evaluate_stream([{"template_id": "t", "questions": []}], [])
    assert public(stream) - public(type(stream)) == {"aggregates", "late", "reference", "usage"}  # type: ignore[arg-type]
    for method in ("__aiter__", "__anext__", "__aenter__", "__aexit__"):
        assert hasattr(stream, method)
    expected = {"add", "finish", "snapshot", "lowest", "overall", "per_template", "prepare", "merge"}
    expected |= {"cumulative_counts", "question_scores", "templates"}
    expected |= {"to_bytes", "from_bytes", "order_templates", "expect_steps", "to_rows", "to_pandas"}
    assert public(package.RunningAggregates) == expected
    assert public(package.PrometheusCollector) == {"collect", "describe"}
    assert public(package.Last) == {"count"}
    assert public(package.Seconds) == {"seconds"}
    assert public(package.Follower) == {"aclose", "batches", "begin", "lag", "not_found"}
    files = package.read_jsonl("-")
    members = {"batches", "exclude", "size", "can_be_shuffled"}
    assert public(type(files)) | {"consumed"} == {*members, "consumed"} <= public(files)  # type: ignore[arg-type]
    assert public(package.Reference) == {"doubts", "questions", "templates", "step_names", "prepared"}


def test_options_that_are_passed_on() -> None:
    assert OF_EVALUATOR.split() == [*EvaluatorOptions.__annotations__]
    assert {*ARGUMENTS[package.evaluate_stream][1].split()} == {*StreamKeywords.__annotations__}
