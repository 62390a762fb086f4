from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from graphrag_eval_async.config import load_config
from graphrag_eval_async.config.model import METRICS
from graphrag_eval_async.records.metrics import RESULT_METRICS, RETRIEVAL_METRICS
from tests.cases import each
from tests.config.support import EVALUATION, GENERATION, LLM, changed, evaluations, problems

NUMBERS: list[tuple[str, list[Any], list[Any]]] = [
    ("llm.limits.max_concurrency", [1, 10**6], [0, -1]),
    ("llm.limits.max_attempts", [1, 100], [0, -5]),
    ("llm.limits.call_timeout_sec", [0.001, 1, 1e6], [0, -0.0, -1, nan, inf, 10**400]),
    ("llm.limits.result_timeout_sec", [0.001, 1, 1e6], [0, -0.0, -1, nan, inf, 10**400]),
    ("llm.limits.requests_per_minute", [None, 0.5, 10_000], [0, -1, nan, inf]),
    ("llm.limits.tokens_per_minute", [None, 0.5, 2e6], [0, -1, nan, inf]),
    ("llm.limits.budget_usd", [None, 0, 0.01, 1e9], [-0.01, nan, inf, -inf]),
    ("llm.limits.max_reply_bytes", [1, 1 << 30], [None, 0, -1, 1.5, True]),
    ("llm.pricing.input_usd_per_million", [None, 0, 2.5], [-1, nan, inf, 1e300]),
    ("llm.pricing.output_usd_per_million", [None, 0, 2.5], [-1, nan, inf, 1e300]),
    ("llm.pricing.embedding_usd_per_million", [None, 0, 2.5], [-1, nan, inf, 1e300]),
    ("llm.generation.temperature", [None, 0, 0.0, 1, 2], [-0.1, 2.1, nan, inf]),
    ("llm.generation.max_tokens", [None, 1, 10**6], [0, -1]),
    ("answer_relevance.strictness", [1, 20], [0, -1, 21]),
    ("ragas_answer_correctness.weights[0]", [0, 1, 3.5], [-1, nan, inf]),
    ("ragas_answer_correctness.weights[1]", [0, 1, 3.5], [-1, nan, inf]),
    ("ragas_answer_correctness.beta", [0.1, 1, 2], [0, -1, nan, inf, 1e200]),
    ("ragas_answer_correctness.threshold", [None, 0, 0.5, 1], [-0.1, 1.1, nan, inf]),
]
BASE = changed("ragas_answer_correctness.weights", [0.75, 0.25])


@each(("key", "value"), [(key, value) for key, allowed, _ in NUMBERS for value in allowed])
def test_numbers_within_their_range(key: str, value: Any) -> None:
    load_config(changed(key, value, BASE))


@each(
    ("key", "value"),
    [(key, value) for key, _, refused in NUMBERS for value in refused],
)
def test_numbers_beyond_their_range(key: str, value: Any) -> None:
    (problem,) = problems(changed(key, value, BASE))
    assert problem.startswith(f"{key}: expected a")


@pytest.mark.parametrize("weights", [[0, 0], [0.0, -0.0]])
def test_weights_without_a_sum(weights: list[float]) -> None:
    config = changed("ragas_answer_correctness.weights", weights)
    assert problems(config) == ["ragas_answer_correctness.weights: expected a sum above 0"]


@each("section", ["generation", "embedding"])
@each("parameter", ["model", "messages", "response_format", "stream", "input", "n"])
def test_parameters_of_the_request(section: str, parameter: str) -> None:
    key = f"llm.{section}.parameters"
    (problem,) = problems(changed(key, {"seed": 1, parameter: 1}))
    assert problem.startswith(f"{key}.{parameter}: may not be given")
    load_config(changed(key, {"seed": 1, "metadata": {parameter: 1}}))


URLS = [
    "localhost:8000",
    "api.openai.com/v1",
    "ftp://a/v1",
    "http://",
    "http:///v1",
    "http://a:port/",
    "http://[a/",
]
URLS += ["http://a b/", "http://a\n/", "http://a:99999/", "http://:1/", "//a/v1", "http://user:pa/ss@a/"]


@each("url", URLS)
def test_what_is_no_url(url: str) -> None:
    assert problems(changed("llm.generation.base_url", url)) == [
        "llm.generation.base_url: expected a URL that begins with http:// or https://"
    ]


@pytest.mark.parametrize(
    "url", ["https://u:p@h/v1", "https://u@h/v1", "http://h/v1?a=1", "http://h?", "http://h/#f"]
)
def test_urls_that_would_be_logged_or_cannot_be_added_to(url: str) -> None:
    assert problems(changed("llm.generation.base_url", url)) == [
        "llm.generation.base_url: may hold no user, password, query or fragment; a key belongs in api_key"
    ]


@pytest.mark.parametrize("url", ["http://localhost:8000/v1", "https://h", "http://[::1]:80/", "HTTPS://H"])
def test_urls(url: str) -> None:
    load_config(changed("llm.embedding.base_url", url))


@pytest.mark.parametrize("key", ["sk-abc\n", "sk abc", "sk-\u00e9", "\tsk", "sk\x00"])
def test_keys_that_no_header_can_hold(key: str) -> None:
    (problem,) = problems(changed("llm.generation.api_key", key))
    assert problem.startswith("llm.generation.api_key: expected ASCII characters without white space")


@pytest.mark.filterwarnings("ignore:configuration. every metric")
@each("llm", [None, {}, {"embedding": LLM["embedding"]}, {"limits": {"budget_usd": 1}}])
@each("metric", METRICS)
def test_metrics_without_a_judge(metric: str, llm: Any) -> None:
    config = {"llm": llm, metric: {}}
    (problem,) = problems(config)
    assert problem.startswith(f"{metric}: needs llm.generation")
    assert load_config(config, judge=True)
    load_config({"llm": llm, metric: {"enabled": False}})


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_without_a_model_of_embeddings(metric: str) -> None:
    config = {"llm": {"generation": GENERATION}, metric: {}}
    if metric in {"answer_relevance", "ragas_answer_correctness"}:
        assert problems(config) == [f"{metric}: needs llm.embedding"]
        assert problems({metric: {}}) == [f"{metric}: needs llm.generation and llm.embedding"]
    else:
        load_config(config)
    load_config(config, judge=True)


def test_similarity_without_weight_needs_no_embeddings() -> None:
    load_config({"llm": {"generation": GENERATION}, "ragas_answer_correctness": {"weights": [1, 0]}})


def test_custom_evaluations_without_a_judge() -> None:
    config = {"custom_evaluations": [EVALUATION, EVALUATION | {"name": "other", "outputs": {"x": "y"}}]}
    assert problems(config) == [f"custom_evaluations[{i}]: needs llm.generation" for i in range(2)]
    load_config(config, judge=True)


@pytest.mark.parametrize("name", ["a", "sparql-recall_2", "A" * 64, "0", "-", "error"])
def test_names(name: str) -> None:
    load_config(evaluations({"name": name}))
    load_config(evaluations({"outputs": {name if name != "error" else "errors": "x"}}))


@each("name", ["", " ", "a b", "a.b", "\u00e9", "a\n", "A" * 65, "${X}", "a\0"])
def test_names_of_other_characters(name: str) -> None:
    (problem,) = problems(evaluations({"name": name}))
    assert problem.startswith("custom_evaluations[0].name: expected 1 to 64 letters, digits, _ and -")
    (problem,) = problems(evaluations({"outputs": {name: "x"}}))
    assert problem.startswith("custom_evaluations[0].outputs")
    assert "expected 1 to 64 letters, digits, _ and -, got " in problem


# As the specifications list them, and those of this package.
SPECIFIED = [
    *(
        "template_id",
        "question_id",
        "question_text",
        "reference_steps",
        "reference_answer",
        "status",
        "error",
    ),
    *("actual_answer", "actual_steps", "answer_reference_claims_count", "answer_actual_claims_count"),
    *("answer_matching_claims_count", "answer_recall", "answer_precision", "answer_f1", "answer_eval_error"),
    *("answer_correctness_reason", "answer_relevance", "answer_relevance_error", "answer_relevance_reason"),
    *("steps_score", "steps_score_error", "input_tokens", "output_tokens", "total_tokens", "elapsed_sec"),
    *("sample", "response_id", "metadata", "judge", "pending", "matches", "failure"),
    *("retrieval_answer_recall", "retrieval_answer_recall_reason", "retrieval_answer_recall_error"),
    *("retrieval_answer_precision", "retrieval_answer_precision_error", "retrieval_answer_f1"),
    *("retrieval_context_recall", "retrieval_context_precision_error", "retrieval_context_f1"),
    *("ragas_answer_correctness", "ragas_answer_correctness_tp", "ragas_answer_correctness_fp"),
    *("ragas_answer_correctness_fn", "ragas_answer_correctness_similarity", "ragas_answer_correctness_error"),
    *("steps", "number_of_error_samples", "number_of_success_samples"),
]


@each("output", sorted({*SPECIFIED, *RESULT_METRICS, *RETRIEVAL_METRICS}))
def test_outputs_that_collide_with_keys_of_results(output: str) -> None:
    assert problems(evaluations({"outputs": {output: "x"}})) == [
        f"custom_evaluations[0].outputs.{output}: {output!r} is already a key of results"
    ]


@pytest.mark.parametrize(
    "output", ["x_cost", "answer_relevance_cost", "retrieval_answer_f1_cost", "_cost", "style_cost"]
)
def test_outputs_that_look_like_costs(output: str) -> None:
    assert problems(evaluations({"outputs": {output: "x"}})) == [
        f"custom_evaluations[0].outputs.{output}: ends in _cost, as only costs do"
    ]


COLLISIONS: list[tuple[list[dict[str, Any]], str]] = [
    ([{}, {"outputs": {"x": "x"}}], "[1].name: 'style_error' is already a key of custom_evaluations[0]"),
    ([{}, {"name": "b", "outputs": {"style": "x"}}],
     "[1].outputs.style: 'style' is already a key of custom_evaluations[0]"),
    ([{"outputs": {"style_error": "x"}}],
     "[0].outputs.style_error: 'style_error' is already a key of custom_evaluations[0]"),
    ([{"outputs": {"b_error": "x"}}, {"name": "b", "outputs": {"x": "x"}}],
     "[1].name: 'b_error' is already a key of custom_evaluations[0]"),
    ([{"name": "b"}, {"name": "c", "outputs": {"b_error": "x"}}],
     "[1].outputs.b_error: 'b_error' is already a key of custom_evaluations[0]"),
    ([{"name": "answer_eval"}],
     "[0].name: 'answer_eval_error' is already a key of results"),
    ([{"name": "steps_score"}],
     "[0].name: 'steps_score_error' is already a key of results"),
    *[([{"name": name}], f"[0].name: {name!r} is the name of a built-in metric") for name in METRICS],
    ([{"outputs": {"error_rate": "x"}}],
     "[0].outputs.error_rate: 'error_rate' is already the name of a gate"),
]  # fmt: skip


@each(("changes", "expected"), COLLISIONS)
def test_collisions(changes: list[Any], expected: str) -> None:
    assert problems(evaluations(*changes)) == [f"custom_evaluations{expected}"]


def test_names_that_are_alike_but_differ() -> None:
    load_config(evaluations({"outputs": {"style": "x"}}, {"name": "Style", "outputs": {"Style": "x"}}))


@pytest.mark.parametrize("inputs", [["question"], ["reference_answer", "actual_answer"]])
@pytest.mark.parametrize("selection", [{"steps_name": "sparql"}, {"steps_keys": ["args"]}])
def test_selecting_steps_that_are_no_input(inputs: list[str], selection: dict[str, Any]) -> None:
    (name,) = selection
    assert problems(evaluations(selection | {"inputs": inputs})) == [
        f"custom_evaluations[0].{name}: selects steps: inputs needs actual_steps or reference_steps"
    ]
    for steps in ("reference_steps", "actual_steps"):
        load_config(evaluations(selection | {"inputs": [*inputs, steps]}))


def test_primary_metrics_exist() -> None:
    config = evaluations({}) | {"primary": ["elegance", "error_rate"]}
    assert load_config(config).primary == ("elegance", "error_rate")
    assert problems(config | {"primary": []}) == [
        "primary: expected a list that is not empty, got an empty list"
    ]
    (problem,) = problems(config | {"primary": ["steps_score", "step_score"]})
    assert problem.startswith("primary[1]: 'step_score' is no metric; did you mean steps_score")
