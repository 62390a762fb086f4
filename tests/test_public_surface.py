from __future__ import annotations

import inspect

import graphrag_eval_async as package


def test_the_public_names() -> None:
    assert package.__all__ == [
        "AggregationError",
        "AnswerCorrectnessConfig",
        "AnswerRelevanceConfig",
        "Config",
        "ConfigError",
        "CustomEvaluationConfig",
        "Decision",
        "EmbeddingConfig",
        "EvaluatedFile",
        "EvaluationStream",
        "Evaluator",
        "Follower",
        "GenerationConfig",
        "GraphragEvalError",
        "GraphragEvalWarning",
        "Journal",
        "JournalError",
        "JournalLocked",
        "JournalMismatch",
        "Judge",
        "JudgeError",
        "JudgeUnavailable",
        "JudgeUsage",
        "LLMConfig",
        "Lag",
        "Last",
        "LimitsConfig",
        "Line",
        "LongLine",
        "MissingResponses",
        "OutputConfig",
        "Position",
        "PricingConfig",
        "Question",
        "RagasAnswerCorrectnessConfig",
        "Reference",
        "ReferenceDataError",
        "Reject",
        "RejectedResponse",
        "RejectedResponses",
        "Rejects",
        "RetrievalAnswerConfig",
        "RetrievalContextConfig",
        "RunningAggregates",
        "Seconds",
        "SourceError",
        "StepsConfig",
        "TokenUsage",
        "Until",
        "UsageError",
        "WorkerError",
        "average_precision",
        "compare",
        "compute_aggregates",
        "evaluate_file",
        "evaluate_stream",
        "follow_jsonl",
        "load_config",
        "load_reference",
        "read_jsonl",
        "recall_at_k",
        "reference_step_from_sparql",
        "run_evaluation",
        "save_reference",
    ]
    for name in package.__all__:
        assert inspect.getdoc(getattr(package, name)), name


def options(function: object) -> list[str]:
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]


def positional(function: object) -> list[str]:
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]


def test_the_arguments() -> None:
    assert positional(package.evaluate_stream) == ["reference", "responses"]
    assert options(package.evaluate_stream) == [
        "ordered",
        "max_in_flight",
        "max_line_bytes",
        "aggregates",
        "on_reject",
        "steps_groups",
        "step_aliases",
        "comparators",
        "config",
        "judge",
        "on_fatal",
        "stages",
        "journal",
        "dedupe",
        "until",
    ]
    assert positional(package.evaluate_file) == ["reference", "responses"]
    assert options(package.evaluate_file) == [
        "jobs",
        "results",
        "on_reject",
        "max_line_bytes",
        "include_errors",
        "steps_groups",
        "step_aliases",
        "comparators",
        "config",
        "judge",
        "on_fatal",
    ]
    assert positional(package.run_evaluation) == ["reference", "responses"]
    assert options(package.run_evaluation) == [
        "missing",
        "on_reject",
        "max_in_flight",
        "max_line_bytes",
        "steps_groups",
        "step_aliases",
        "comparators",
        "config",
        "judge",
        "on_fatal",
    ]
    assert positional(package.compute_aggregates) == ["results"]
    assert options(package.compute_aggregates) == ["reference", "config", "include_errors", "detail", "level"]
    assert positional(package.compare) == ["baseline", "candidate"]
    assert options(package.compare) == ["level", "include_errors"]
    assert positional(package.Evaluator) == ["reference"]
    assert options(package.Evaluator) == [
        "comparators",
        "steps_groups",
        "step_aliases",
        "config",
        "judge",
        "on_fatal",
    ]
    assert positional(package.Evaluator.evaluate) == ["self", "response"]
    assert options(package.RunningAggregates) == ["include_errors", "templates", "steps", "window"]
    assert positional(package.Last) == ["count"]
    assert positional(package.Seconds) == ["seconds"]
    assert positional(package.read_jsonl) == ["path"]
    assert options(package.read_jsonl) == ["max_line_bytes", "shuffle"]
    assert positional(package.follow_jsonl) == ["path"]
    assert options(package.follow_jsonl) == [
        "start",
        "poll_interval",
        "idle_timeout",
        "stop",
        "rotate_wait",
        "exclude",
        "ignore_older",
        "max_line_bytes",
    ]
    assert positional(package.load_reference) == ["reference"]
    assert positional(package.recall_at_k) == ["relevant_docs", "retrieved_docs", "k"]
    assert positional(package.average_precision) == ["relevant_docs", "retrieved_docs"]


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_methods() -> None:
    assert public(package.EvaluationStream) == {
        "aclose",
        "decision",
        "drop_unsent",
        "in_flight",
        "journal",
        "missing",
        "skipped",
        "stop",
    }
    stream = package.evaluate_stream([{"template_id": "t", "questions": []}], [])
    assert public(stream) - public(type(stream)) == {"aggregates", "rejects", "usage"}  # type: ignore[arg-type]
    for method in ("__aiter__", "__anext__", "__aenter__", "__aexit__"):
        assert hasattr(stream, method)
    expected = {"add", "snapshot", "overall", "per_template", "prepare", "merge"}
    expected |= {"to_bytes", "from_bytes", "order_templates", "expect_steps"}
    assert public(package.RunningAggregates) == expected
    assert public(package.Last) == {"count"}
    assert public(package.Seconds) == {"seconds"}
    assert public(package.Follower) == {"aclose", "batches", "begin", "lag"}
    files = package.read_jsonl("-")
    members = {"batches", "exclude", "size", "can_be_shuffled"}
    assert public(type(files)) | {"consumed"} == {*members, "consumed"} <= public(files)  # type: ignore[arg-type]
    assert public(package.Reference) == {"doubts", "questions", "templates", "step_names", "prepared"}
