from __future__ import annotations

import inspect
from operator import attrgetter

import pytest

import graphrag_eval_async as package
from graphrag_eval_async import UsageError
from graphrag_eval_async.evaluator import EvaluatorOptions
from graphrag_eval_async.stream.options import StreamKeywords


def test_the_public_names() -> None:
    assert {*package.__all__} <= {*dir(package)}  # `test_docs` has them all.
    for name in package.__all__:
        assert inspect.getdoc(getattr(package, name)), name
    with pytest.raises(
        ImportError, match=r"import assert_evaluation from graphrag_eval_async\.testing"
    ):
        getattr(package, "assert_evaluation")  # noqa: B009
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        getattr(package, "absent")  # noqa: B009  (type checkers know that it is absent)


OF_EVALUATOR = "comparators steps_groups step_aliases config judge metrics on_fatal format"


PASSED = {"Unpack[EvaluatorOptions]": OF_EVALUATOR, "Unpack[StreamKeywords]": "and streams"}
ARGUMENTS = f"""
evaluate_stream(reference responses) ordered max_in_flight aggregates on_reject stages \
journal dedupe until {OF_EVALUATOR}
evaluate_agent(reference agent) max_concurrency repeats timeout retry_errors and streams
http_agent(url) method params body headers answer query steps timeout retries max_reply_bytes
evaluate_file(reference responses) jobs results shard on_reject {OF_EVALUATOR}
scale.evaluate_dataset(reference responses) results concurrency num_cpus on_reject \
max_in_flight {OF_EVALUATOR}
run_evaluation(reference responses) missing on_reject max_in_flight {OF_EVALUATOR}
compute_aggregates(results) reference config include_errors detail level interval
compare(baseline candidate) level primary non_inferior by
calibrate(results labels) metric level chosen_at_random
plan_questions(detect) results metric sd level primary
Evaluator(reference) {OF_EVALUATOR}
Evaluator.evaluate(self response) sample
RunningAggregates() templates steps window
PrometheusCollector(stream) recent source alerts reference judge_model
Last(count)
Seconds(seconds)
read_jsonl(path) shuffle shard
follow_jsonl(path) start poll_interval idle_timeout stop rotate_wait exclude ignore_older
load_reference(reference) comparators strict format language score
recall_at_k(relevant_docs retrieved_docs k)
average_precision(relevant_docs retrieved_docs)
"""


@pytest.mark.parametrize(
    "expected", ARGUMENTS.strip().split("\n"), ids=lambda expected: expected.partition("(")[0]
)
def test_the_arguments(expected: str) -> None:
    name = expected.partition("(")[0]
    positional, options = [], []
    for found in inspect.signature(attrgetter(name)(package)).parameters.values():
        if found.kind is found.POSITIONAL_OR_KEYWORD:
            positional.append(found.name)
        else:
            options.append(
                PASSED[found.annotation] if found.kind is found.VAR_KEYWORD else found.name
            )
    assert f"{name}({' '.join(positional)}) {' '.join(options)}".strip() == expected


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


METHODS: dict[type, str] = {
    package.EvaluationStream: (
        "aclose decision drop_unsent in_flight is_restored journal missing rejects skipped stop "
        "tell_restored"
    ),
    package.RunningAggregates: (
        "add cumulative_counts expect_steps finish from_bytes lowest merge order_templates "
        "overall per_tag per_template prepare question_scores snapshot templates to_bytes "
        "to_pandas to_rows variances"
    ),
    package.PrometheusCollector: "collect describe",
    package.Last: "count",
    package.Seconds: "seconds",
    package.http_agent: "aclose",
    package.Follower: "aclose batches begin lag not_found unread",
    package.Reference: "comparators doubts prepared questions step_names templates",
}


def test_the_methods() -> None:
    for kind, expected in METHODS.items():
        assert " ".join(sorted(public(kind))) == expected
    stream = package.evaluate_stream([{"template_id": "t", "questions": []}], [])
    assert public(stream) - public(type(stream)) == {"aggregates", "late", "reference", "usage"}  # type: ignore[arg-type]
    for method in ("__aiter__", "__anext__", "__aenter__", "__aexit__"):
        assert hasattr(stream, method)


@pytest.mark.parametrize(
    "name",
    ["evaluate_stream", "evaluate_agent", "evaluate_file", "run_evaluation", "run_evaluation_sync"],
)
def test_arguments_that_were_removed(name: str) -> None:
    with pytest.raises(UsageError, match=r"^max_line_bytes= is gone; lines have at most 32 MiB"):
        getattr(package, name)([], [], max_line_bytes=1)


def test_options_that_are_passed_on() -> None:
    assert OF_EVALUATOR.split() == [*EvaluatorOptions.__annotations__]
    options = {*inspect.signature(package.evaluate_stream).parameters} - {
        "reference",
        "responses",
        "evaluator",
    }
    assert options | {*OF_EVALUATOR.split()} == {*StreamKeywords.__annotations__}
