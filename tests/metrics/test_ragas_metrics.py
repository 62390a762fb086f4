"""Metrics of ragas by name, class or object: their values, their inputs, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import warnings
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import (
    ConfigError,
    Evaluator,
    JudgeError,
    UsageError,
    compare,
    evaluate_agent,
    evaluate_file,
    evaluate_stream,
    run_evaluation,
)
from tests.metrics.ragas_cases import INPUTS, REFERENCE, RESPONSE, Judge, filled, vector
from tests.metrics.ragas_support import Script, ScriptedLLM
from tests.support.deadlines import PROCESS_SECONDS, TEST_SECONDS

# After the module above, which turns off the telemetry of ragas.
from langchain_core.outputs import Generation, LLMResult  # isort: skip
from ragas.dataset_schema import MultiTurnSample, SingleTurnSample  # isort: skip
from ragas.messages import AIMessage, HumanMessage, ToolCall, ToolMessage  # isort: skip
from ragas.metrics import DiscreteMetric, RankingMetric, numeric_metric  # isort: skip
from ragas.metrics import collections  # isort: skip
from ragas.metrics.base import SingleTurnMetric  # isort: skip
from ragas.metrics.result import MetricResult  # isort: skip
from ragas.run_config import RunConfig  # isort: skip

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [
    pytest.mark.ragas,
    # Of two lists of calls, of which one is longer.
    pytest.mark.filterwarnings("ignore:Length mismatch:UserWarning"),
]

ROOT = Path(__file__).parents[2]

RUBRICS = {f"score{score}_description": f"worth {score}" for score in range(1, 6)}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "AspectCritic": {"name": "tone", "definition": "Is the answer polite?"},
    "InstanceRubrics": {"rubrics": RUBRICS},
    "InstanceSpecificRubrics": {"rubrics": RUBRICS},
    "SimpleCriteriaScore": {"name": "tone", "definition": "How polite is the answer?"},
    "TopicAdherence": {"reference_topics": ["energy"]},
    "TopicAdherenceScore": {"reference_topics": ["energy"]},
}
"""Arguments without which a metric cannot be made, or inputs that no response has."""

IMPOSSIBLE = {
    "DataCompyScore": "needs a package: datacompy is required",
    "FaithfulnesswithHHEM": "needs a package: Huggingface transformers must be installed",
    "MultiModalFaithfulness": "needs images, which responses lack",
    "MultiModalRelevance": "needs images, which responses lack",
}
"""Metrics that cannot be made, and what the error says."""

NEWER = sorted(set(collections.__all__) - {"BaseMetric", "DistanceMeasure"} - set(IMPOSSIBLE))
OLDER = sorted(
    name
    for name in import_module("ragas.metrics")._DEPRECATED_METRICS
    if name[0].isupper() and name != "DistanceMeasure" and name not in IMPOSSIBLE
)


class FillingLLM(ScriptedLLM):
    """Replies as `Judge` does, to ragas itself."""

    is_async = True

    def __init__(self) -> None:
        super().__init__(Script(lambda *_: None, vector))

    async def agenerate(self, prompt: str, response_model: Any) -> Any:  # noqa: ARG002
        schema = response_model.model_json_schema()
        return response_model.model_validate(filled(schema, schema))

    async def agenerate_text(self, *_: Any, **__: Any) -> Any:
        return LLMResult(generations=[[Generation(text="2")]])

    def embed_query(self, text: str, **_: Any) -> list[float]:
        return vector(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector(text) for text in texts]

    embed_text = embed_query


def class_of(path: str) -> Any:
    module, _, name = path.rpartition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(import_module(module or collections.__name__), name)


def conversation() -> dict[str, Any]:
    """The inputs of a metric about all messages."""
    messages: list[Any] = [HumanMessage(content=INPUTS["user_input"])]
    for step in RESPONSE["actual_steps"]:
        call: Any = {"name": step["name"], "args": step["args"]}  # type: ignore[index]
        messages.append(AIMessage(content="", tool_calls=[ToolCall(**call)]))
        messages.append(ToolMessage(content=str(step["output"])))  # type: ignore[index]
    messages.append(AIMessage(content=INPUTS["response"]))
    call = {"name": "retrieval", "args": {"query": "Lindau"}}
    return {**INPUTS, "user_input": messages, "reference_tool_calls": [ToolCall(**call)]}


async def value_of_ragas(path: str, arguments: Mapping[str, Any]) -> float:
    """The value that ragas gives without anything of ours."""
    kind = class_of(path)
    model = FillingLLM()
    parameters = signature(kind).parameters
    models = {name: model for name in ("llm", "embeddings") if name in parameters}
    metric = kind(**models, **{key: arguments[key] for key in arguments if key in parameters})
    constants = {key: value for key, value in arguments.items() if key not in parameters}
    if hasattr(metric, "single_turn_ascore"):
        metric.init(RunConfig())
        return float(await metric.single_turn_ascore(SingleTurnSample(**INPUTS, **constants)))
    if hasattr(metric, "multi_turn_ascore"):
        metric.init(RunConfig())
        takes = set(MultiTurnSample.model_fields)
        sample = {key: value for key, value in conversation().items() if key in takes}
        return float(await metric.multi_turn_ascore(MultiTurnSample(**sample, **constants)))
    takes = set(signature(metric.ascore).parameters)
    is_conversation = "Message" in str(signature(metric.ascore).parameters.get("user_input"))
    inputs = (conversation() if is_conversation else INPUTS) | constants
    result = await metric.ascore(**{key: value for key, value in inputs.items() if key in takes})
    return float(result.value)


async def evaluate(
    metrics: Mapping[str, Any] | None = None, judge: Any = None, /, **ragas: Any
) -> dict[str, Any]:
    """The result of the response, with metrics given in Python or as in a file."""
    response = ragas.pop("response", RESPONSE)
    async with Evaluator(
        REFERENCE, config={"ragas": ragas}, judge=judge or Judge(), metrics=metrics
    ) as evaluator:
        return await evaluator.evaluate(response)


@pytest.mark.parametrize("path", [*NEWER, *(f"ragas.metrics:{name}" for name in OLDER)])
async def test_each_metric_has_the_value_that_ragas_gives(path: str) -> None:
    arguments = ARGUMENTS.get(path.rpartition(":")[2], {})
    try:
        expected = await value_of_ragas(path, arguments)
    except ImportError as error:
        pytest.skip(str(error))
    result = await evaluate(score={"metric": path, "arguments": arguments})
    assert result.get("score_error") is None
    if math.isnan(expected):
        assert "score" not in result
    else:
        assert result["score"] == pytest.approx(expected, abs=1e-9)
    assert result["judge"]["outputs"] == ["score"]


@pytest.mark.parametrize(("name", "problem"), IMPOSSIBLE.items())
def test_a_metric_that_cannot_run_is_an_error_before_the_first_call(
    name: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=f"ragas.score: {name} {problem}"):
        Evaluator(REFERENCE, config={"ragas": {"score": name}}, judge=Judge())


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("Faithfulnes", "ragas.score: 'Faithfulnes' is no metric of ragas; did you mean"),
        ("json:dumps", "ragas.score: 'json:dumps' is no metric of ragas"),
        ("nothing.here:Metric", "ragas.score: 'nothing.here:Metric' cannot be imported: No module"),
        (
            {"metric": "Faithfulness", "arguments": {"mod": "f1"}},
            "ragas.score.arguments: Faithfulness does not take 'mod'",
        ),
        (
            {"metric": "AnswerCorrectness", "arguments": {"weights": [-1, 0.5]}},
            "ragas.score: AnswerCorrectness cannot be made: ValueError",
        ),
        (
            "TopicAdherence",
            "ragas.score.arguments: TopicAdherence needs 'reference_topics', which no response has",
        ),
        ({"metric": ""}, "ragas.score.metric: expected a string that is not empty"),
        ({"metrics": "Faithfulness"}, "ragas.score.metrics: unknown key; did you mean"),
    ],
    ids=str,
)
def test_a_wrong_section_is_an_error_that_names_it(section: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Evaluator(REFERENCE, config={"ragas": {"score": section}}, judge=Judge())
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("metric", "arguments", "problem"),
    [
        ("FactualCorrectness", {"mode": "presicion"}, ".mode: expected 'precision', 'recall' or"),
        ("FactualCorrectness", {"beta": "much"}, ".beta: expected a valid number, got 'much'"),
        ("ToolCallAccuracy", {"strict_order": "no"}, ".strict_order: expected a valid boolean"),
        ("AnswerRelevancy", {"strictness": "3"}, ".strictness: expected a valid integer, got '3'"),
        ("AnswerRelevancy", {"strictness": 2.5}, ".strictness: expected a valid integer"),
        ("AnswerRelevancy", {"strictness": 0}, ".strictness: expected at least 1, got 0"),
        ("AnswerAccuracy", {"max_retries": 0}, ".max_retries: expected at least 1, got 0"),
        ("AnswerCorrectness", {"weights": "equal"}, ".weights: expected a valid list, got 'equal'"),
        (
            "AnswerCorrectness",
            {"weights": [1, "2"]},
            ".weights[1]: expected a valid number, got '2'",
        ),
        ("TopicAdherenceScore", {"mode": "f2"}, ".mode: expected 'precision', 'recall' or 'f1'"),
        ("TopicAdherence", {"reference_topics": "oil"}, ".reference_topics: expected a valid list"),
        ("TopicAdherenceScore", {"reference_topics": [1]}, ".reference_topics[0]: expected a"),
        ("RubricsScore", {"rubrics": ["good", "bad"]}, ".rubrics: expected a valid dict"),
        ("InstanceRubrics", {"rubrics": "good"}, ".rubrics: expected a valid dictionary, got 'goo"),
        ("InstanceSpecificRubrics", {"rubrics": {"a": 1}}, ".rubrics.a: expected a valid string"),
        ("AspectCritic", {}, ": AspectCritic needs the argument definition"),
        (
            "AspectCritic",
            {"definition": "d", "strictness": 5},
            ".strictness: expected 1, since the",
        ),
        (
            "ResponseRelevancy",
            {"strictness": 3},
            ".strictness: expected 1, since the older Respons",
        ),
        ("Faithfulness", {"llm": "gpt-4o"}, ".llm: metrics ask the models of llm.generation and"),
        (
            "SemanticSimilarity",
            {"embeddings": "e"},
            ".embeddings: metrics ask the models of llm.ge",
        ),
        (
            "ragas.metrics:faithfulness",
            {"max_retries": 2},
            ".max_retries: the metric is a ready-made object; name its class Faithfulness to give",
        ),
        ("AspectCritic", {"definition": 5}, ".definition: expected a valid string, got 5"),
        ("ragas.metrics:DiscreteMetric", {}, ": DiscreteMetric needs 'prompt', a text"),
        ("ragas.metrics:DiscreteMetric", {"prompt": 5}, ": DiscreteMetric needs 'prompt', a text"),
        (
            "ragas.metrics:DiscreteMetric",
            {"prompt": "{response}?", "allowed_values": [1, 2]},
            ".allowed_values[0]: expected a valid string, got 1",
        ),
    ],
    ids=str,
)
def test_a_wrong_argument_is_an_error_before_the_first_call(
    metric: str, arguments: Mapping[str, Any], problem: str
) -> None:
    section = {"metric": metric, "arguments": arguments}
    with pytest.raises(ConfigError) as caught:
        Evaluator(REFERENCE, config={"ragas": {"score": section}}, judge=Judge())
    assert f"ragas.score.arguments{problem}" in str(caught.value)


@pytest.mark.parametrize(
    ("metric", "arguments"),
    [
        ("FactualCorrectness", {"mode": "recall", "beta": 2, "atomicity": "high"}),
        ("AnswerCorrectness", {"weights": (1, 0)}),
        ("AnswerCorrectness", {"weights": [0.5, 0.5], "beta": 0.5}),
        ("SemanticSimilarity", {"threshold": None}),
        ("AspectCritic", {"definition": "d", "strictness": 1}),
        ("ResponseRelevancy", {"strictness": 1}),
        ("NonLLMContextRecall", {"threshold": 1}),
        ("BleuScore", {"kwargs": {"smooth_method": "exp"}}),
        ("ragas.metrics:NumericMetric", {"prompt": "{response}?", "allowed_values": (0, 5)}),
        ("ragas.metrics:DiscreteMetric", {"prompt": "{response}?", "allowed_values": ["a", "b"]}),
    ],
    ids=str,
)
def test_arguments_of_the_declared_types_are_taken(
    metric: str, arguments: Mapping[str, Any]
) -> None:
    section = {"metric": metric, "arguments": arguments}
    try:
        Evaluator(REFERENCE, config={"ragas": {"score": section}}, judge=Judge())
    except ConfigError as error:
        # Only for want of a package.
        assert "needs a package" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("metric", "package"),
    [
        ("BleuScore", "sacrebleu"),
        ("CHRFScore", "sacrebleu"),
        ("RougeScore", "rouge_score"),
        ("NonLLMStringSimilarity", "rapidfuzz"),
        ("NonLLMContextRecall", "rapidfuzz"),
        ("ragas.metrics:BleuScore", "sacrebleu"),
        ("ragas.metrics:RougeScore", "rouge_score"),
    ],
)
def test_a_missing_package_is_an_error_before_the_first_call(
    metric: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=f"ragas.score: .*pip install {package}"):
        Evaluator(REFERENCE, config={"ragas": {"score": metric}}, judge=Judge())


@pytest.mark.parametrize("name", ["Faithfulnes", "faithfullness", "Answercorrectness"])
def test_hints_name_classes_only(name: str) -> None:
    with pytest.raises(ConfigError, match=r"did you mean [A-Z]\w+\?"):
        Evaluator(REFERENCE, config={"ragas": {"score": name}}, judge=Judge())


@pytest.mark.parametrize(
    "name", ["faithfulness", "steps_score", "error_rate", "answer_correctness", "tone_cost"]
)
def test_a_name_must_be_free_in_results(name: str) -> None:
    with pytest.raises(ConfigError, match=f"ragas.{name}: .*(is already|only costs)"):
        Evaluator(REFERENCE, config={"ragas": {name: "Faithfulness"}}, judge=Judge())


@pytest.mark.parametrize(
    ("metric", "model"),
    [("ExactMatch", None), ("Faithfulness", "generation"), ("SemanticSimilarity", "embedding")],
)
async def test_a_metric_needs_the_models_that_it_asks(metric: str, model: str | None) -> None:
    config = {"ragas": {"score": metric}}
    if model is None:
        async with Evaluator(REFERENCE, config=config) as evaluator:
            assert (await evaluator.evaluate(RESPONSE))["score"] == 0
    else:
        with pytest.raises(ConfigError, match=f"ragas.score: needs llm.{model}"):
            Evaluator(REFERENCE, config=config)


# Given in Python


class Brevity(collections.ExactMatch):
    """A metric of one's own."""

    async def ascore(self, response: str) -> Any:  # type: ignore[override]
        return MetricResult(value=1 / len(response.split()), reason="short")


@numeric_metric(name="words", allowed_values=(0, 100))
def count_words(response: str) -> float:
    return len(response.split())


OTHER_MODEL: Any = object()

GIVEN: dict[str, tuple[Any, Any]] = {
    "class": (collections.ContextPrecision, 0.9999999999),
    "partial": (partial(collections.FactualCorrectness, mode="precision"), 1.0),
    "partial with a model": (partial(collections.ContextRecall, llm=OTHER_MODEL), 1.0),
    "object": (collections.ContextRecall(llm=ScriptedLLM(Script(lambda *_: None))), 1.0),
    "own class": (Brevity, 1 / 6),
    "own object": (Brevity(), 1 / 6),
    "function": (count_words, 6.0),
    "text": (
        DiscreteMetric(
            name="tone", prompt="Is it polite? {response}", allowed_values=["yes", "no"]
        ),
        "no",
    ),
}


@pytest.mark.parametrize(("metric", "expected"), GIVEN.values(), ids=GIVEN)
async def test_classes_partials_and_objects_are_taken(metric: Any, expected: Any) -> None:
    before = dict(vars(metric)) if not isinstance(metric, type | partial) else {}
    result = await evaluate({"given": metric, "own": lambda *_: 2})
    if isinstance(expected, float):
        expected = pytest.approx(expected, abs=1e-9)
    assert (result["given"], result["own"]) == (expected, 2)
    assert not before or {key: vars(metric)[key] for key in before} == before
    kinds = result["judge"]
    is_fraction = kinds.get("fractions") == ["given"]
    is_text = kinds.get("texts") == ["given"]
    assert kinds["outputs"] == ["given"]
    assert is_text == isinstance(result["given"], str)
    assert is_fraction == (not is_text and metric is not count_words)


@pytest.mark.parametrize(
    "annotation", ["Missing", "a level", "ast.Missing", 5, ..., [int]], ids=str
)
async def test_an_annotation_that_is_no_type_allows_any_argument(annotation: Any) -> None:
    class Leveled(Brevity):
        def __init__(self, level: Any) -> None:
            super().__init__()
            self.level = level

    Leveled.__init__.__annotations__["level"] = annotation
    result = await evaluate({"given": partial(Leveled, level="high")})
    assert result["given"] == pytest.approx(1 / 6)


async def test_streams_sets_and_agents_take_them_alike() -> None:
    options: Any = {"judge": Judge(), "metrics": {"given": collections.StringPresence}}
    async with evaluate_stream(REFERENCE, [RESPONSE], **options) as stream:
        results = [result async for result in stream]
    results += await run_evaluation(REFERENCE, [RESPONSE], **options)

    async def agent(_: Any) -> Any:
        return {key: value for key, value in RESPONSE.items() if key != "question_id"}

    async with evaluate_agent(REFERENCE, agent, **options) as stream:
        results += [result async for result in stream]
    assert [result["given"] for result in results] == [0.0, 0.0, 0.0]
    assert "answer_recall" not in results[0]


def test_an_object_that_gives_a_list_is_refused() -> None:
    ranking = RankingMetric(name="order", prompt="Order {response}", allowed_values=3)
    with pytest.raises(ConfigError, match="a metric that gives a list cannot"):
        Evaluator(REFERENCE, judge=Judge(), metrics={"given": ranking})


async def test_other_processes_make_metrics_from_their_classes(tmp_path: Path) -> None:
    responses = tmp_path / "responses.jsonl"
    responses.write_text(json.dumps(RESPONSE) + "\n")
    with pytest.raises(UsageError, match=r"metrics\['given'\]: .*; give its class, or a partial"):
        await evaluate_file(REFERENCE, responses, jobs=2, metrics={"given": Brevity()})
    files: Any = {"jobs": 2, "results": tmp_path / "results.jsonl"}
    await evaluate_file(
        REFERENCE, responses, **files, metrics={"given": collections.StringPresence}
    )
    [result] = map(json.loads, files["results"].read_text().splitlines())
    assert result["given"] == 0.0


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        pytest.param("BaseMetric", "is no metric of ragas", id="base-class"),
        pytest.param(
            "ragas.metrics.collections:BaseMetric", "is no metric of ragas", id="its-path"
        ),
        pytest.param(
            {"metric": "NonLLMStringSimilarity", "arguments": {"distance_measure": "foo"}},
            r"ragas\.given\.arguments\.distance_measure: expected one of",
            id="member-of-an-enumeration",
        ),
    ],
)
async def test_what_is_no_metric_or_no_argument(section: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        await evaluate(given=section)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_positions_of_a_partial_are_arguments() -> None:
    metric = partial(import_module("ragas.metrics").AspectCritic, "tone", "Is it polite?")
    result = await evaluate({"given": metric})
    assert result["given"] is not None


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        pytest.param(
            partial(collections.StringPresence, "a", "b", "c", "d"),  # type: ignore[call-arg]
            "ragas.given.arguments: StringPresence: too many positional arguments",
            id="too many",
        ),
        pytest.param(
            partial(  # type: ignore[misc]
                collections.FactualCorrectness, OTHER_MODEL, "precision", mode="recall"
            ),
            "ragas.given.arguments.mode: is given twice, by position and by name",
            id="twice",
        ),
    ],
)
async def test_wrong_arguments_of_a_partial(metric: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        await evaluate({"given": metric})


async def test_an_object_that_is_to_ask_several_times_is_refused() -> None:
    relevancy = class_of("ragas.metrics:ResponseRelevancy")
    with pytest.raises(ConfigError, match=r"ragas\.given\.arguments\.strictness: expected 1"):
        await evaluate({"given": relevancy(strictness=5)})
    # The default is not what the user asks for.
    assert "given" in await evaluate({"given": relevancy()})


async def test_an_older_metric_that_does_not_list_its_inputs_is_refused() -> None:
    class Unlisted(SingleTurnMetric):
        name = "unlisted"

        def init(self, run_config: Any) -> None:
            """Need nothing."""

        async def _single_turn_ascore(self, sample: Any, callbacks: Any) -> float:
            raise AssertionError((sample, callbacks))

    problem = "ragas.given: Unlisted does not list its inputs: its _required_columns lack SINGLE_TU"
    with pytest.raises(ConfigError, match=problem):
        await evaluate({"given": Unlisted()})


@pytest.mark.parametrize(
    "path", ["ragas.metrics:Faithfulness", "ragas.metrics.collections:Faithfulness"]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_the_path_of_a_metric_of_ragas_is_no_function(path: str) -> None:
    problem = f"'{path}' is a metric of ragas: name it in the section ragas, or give its class"
    with pytest.raises(UsageError, match=problem):
        await evaluate({"given": path})
    with pytest.raises(ConfigError, match=problem):
        Evaluator(REFERENCE, config={"custom_metrics": {"given": path}}, judge=Judge())


async def test_a_range_in_yaml_is_a_range() -> None:
    arguments = {"name": "rate", "prompt": "Rate {response}", "allowed_values": [0, 5]}
    result = await evaluate(rate={"metric": "ragas.metrics:NumericMetric", "arguments": arguments})
    assert isinstance(result["rate"], float | int)


async def test_a_metric_that_cancels_itself_ends_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def cancel_itself(_self: Any, reference: str, response: str) -> None:  # noqa: ARG001
        raise asyncio.CancelledError

    monkeypatch.setattr(collections.ExactMatch, "ascore", cancel_itself)
    result = await evaluate({"given": collections.ExactMatch})
    assert "the metric cancelled itself" in result["given_error"]


async def test_a_name_is_given_once() -> None:
    with pytest.raises(ConfigError, match=r"ragas\.given: is given twice"):
        await evaluate({"given": collections.ExactMatch}, given="ExactMatch")


# Inputs


BARE = {"question_id": "lindau", "actual_answer": "Nordnett.", "actual_steps": []}


@pytest.mark.parametrize(
    ("metric", "response", "missing"),
    [
        ("Faithfulness", BARE, "retrieved_contexts"),
        ("Faithfulness", {**BARE, "actual_answer": " "}, "response, retrieved_contexts"),
        ("ragas.metrics:IDBasedContextRecall", BARE, "retrieved_context_ids"),
        ("AspectCritic", {**BARE, "actual_answer": None}, "response"),
    ],
    ids=str,
)
async def test_without_an_input_a_metric_is_skipped_by_name(
    metric: str, response: Any, missing: str
) -> None:
    judge = Judge()
    section = {"metric": metric, "arguments": ARGUMENTS.get(metric, {})}
    result = await evaluate(None, judge, score=section, response=response)
    assert result["score_reason"] == f"skipped: needs {missing}"
    assert "score" not in result
    assert not judge.prompts


async def test_contexts_are_texts_and_rows_each_once() -> None:
    steps: Any = [*RESPONSE["actual_steps"], *RESPONSE["actual_steps"]]
    judge = Judge()
    await evaluate(
        None, judge, score="ContextUtilization", response={**RESPONSE, "actual_steps": steps}
    )
    assert len(judge.prompts) == 3


HASH_OF_PROMPTS = """
import asyncio, json
from tests.metrics.ragas_cases import REFERENCE, RESPONSE, Judge
from graphrag_eval_async import Evaluator

async def main():
    names = ["ragas.metrics:Faithfulness", "SimpleCriteriaScore", "FactualCorrectness"]
    arguments = {"definition": "d"}
    ragas = {"a": names[0], "b": {"metric": names[1], "arguments": arguments}, "c": names[2]}
    async with Evaluator(REFERENCE, config={"ragas": ragas}, judge=Judge()) as evaluator:
        print((await evaluator.evaluate(RESPONSE))["judge"]["prompts"])

asyncio.run(main())
"""


def test_the_hash_of_prompts_is_the_same_in_each_process() -> None:
    hashes = {
        subprocess.run(
            [sys.executable, "-c", HASH_OF_PROMPTS],
            capture_output=True,
            check=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            text=True,
            timeout=PROCESS_SECONDS,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1


async def test_the_hash_of_prompts_depends_on_arguments() -> None:
    hashes = set()
    for mode in ("precision", "recall"):
        section = {"metric": "FactualCorrectness", "arguments": {"mode": mode}}
        hashes.add((await evaluate(score=section))["judge"]["prompts"])
    assert len(hashes) == 2


async def test_the_hash_of_prompts_is_the_same_from_python_and_from_a_file() -> None:
    section = {"metric": "FactualCorrectness", "arguments": {"mode": "recall"}}
    from_file = await evaluate(score=section)
    metric = partial(collections.FactualCorrectness, OTHER_MODEL, mode="recall")
    from_python = await evaluate({"score": metric})
    assert from_python["judge"]["prompts"] == from_file["judge"]["prompts"]


async def test_the_hash_of_prompts_depends_on_the_code_of_a_decorated_function() -> None:
    declare = numeric_metric(name="words", allowed_values=(0, 100))

    @declare
    def count_letters(response: str) -> float:
        return len(response)

    metrics = [count_words, count_letters]
    hashes = {(await evaluate({"score": metric}))["judge"]["prompts"] for metric in metrics}
    assert len(hashes) == 2


# What goes wrong


@pytest.mark.parametrize(
    "metric",
    ["AnswerAccuracy", "ContextRelevance", "ragas.metrics:AnswerAccuracy", "FactualCorrectness"],
)
async def test_the_first_error_ends_a_metric_and_is_its_reason(metric: str) -> None:
    class Refusing(Judge):
        async def complete(self, messages: Any, schema: Any) -> Any:
            await super().complete(messages, schema)
            raise JudgeError("refused", "no")

    judge = Refusing()
    result = await evaluate(None, judge, score=metric)
    assert result["score"] is None
    assert result["score_error"] == "refused: no"
    # Those that were asked at once; none is asked again.
    assert judge.prompts.total() == len(judge.prompts) <= 2


async def test_calls_that_were_sent_are_awaited_and_priced() -> None:
    second_is_sent, first_has_failed, second_is_answered = (asyncio.Event() for _ in range(3))

    class FirstFails(Judge):
        async def complete(self, messages: Any, schema: Any) -> Any:
            reply = await super().complete(messages, schema)
            if self.prompts.total() == 1:
                await second_is_sent.wait()
                first_has_failed.set()
                raise JudgeError("refused", "no")
            second_is_sent.set()
            await first_has_failed.wait()
            for _ in range(100):  # Much longer than the metric takes to end.
                await asyncio.sleep(0)
            second_is_answered.set()
            return reply

    async with asyncio.timeout(TEST_SECONDS):
        result = await evaluate(None, FirstFails(), score="ragas.metrics:FactualCorrectness")
    assert result["score_error"] == "refused: no"
    assert second_is_answered.is_set()


@pytest.mark.parametrize("metric", ["Faithfulness", "ragas.metrics:Faithfulness"])
async def test_nan_never_becomes_a_number(metric: str) -> None:
    judge = Judge(StatementGeneratorOutput={"statements": []})
    result = await evaluate(None, judge, score=metric)
    assert "score" not in result
    assert "score_error" not in result
    assert result["score_reason"] == "ragas gave no value"


async def test_a_value_beyond_the_range_is_an_error() -> None:
    class Wrong(Brevity):
        async def ascore(self, response: str) -> Any:  # type: ignore[override]
            return MetricResult(value=1.5, reason=response)

    result = await evaluate({"given": Wrong})
    assert result["given"] is None
    assert result["given_error"] == "invalid_reply: ragas: the value 1.5 is not from 0 to 1"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param(10**400, "the value is too large for a number of 64 bits", id="huge"),
        pytest.param("0.5", "expected a number, got a text", id="text"),
    ],
)
async def test_a_value_that_is_no_number_is_an_error(value: Any, problem: str) -> None:
    class Wrong(Brevity):
        async def ascore(self, response: str) -> Any:  # type: ignore[override]
            return MetricResult(value=value, reason=response)

    result = await evaluate({"given": Wrong, "other": Brevity})
    assert result["given"] is None
    assert result["given_error"] == f"invalid_reply: ragas: {problem}"
    assert result["other"] == pytest.approx(1 / 6)


async def test_what_a_metric_raises_is_its_error() -> None:
    class Broken(Brevity):
        async def ascore(self, response: str) -> Any:  # type: ignore[override]
            raise KeyError(response[:3])

    result = await evaluate({"given": Broken, "other": Brevity})
    assert result["given_error"] == "invalid_reply: ragas: KeyError: 'Nor'"
    assert result["other"] == pytest.approx(1 / 6)


async def test_metrics_that_embed_without_waiting_get_all_vectors_in_one_request() -> None:
    judge = Judge(ResponseRelevanceOutput={"question": "Who does?", "noncommittal": 0})
    result = await evaluate(None, judge, score="ResponseRelevancy")
    assert 0 < result["score"] <= 1
    assert judge.prompts.total() == 1
    assert sorted(text for texts in judge.embedded for text in texts) == sorted(
        {text for texts in judge.embedded for text in texts}
    )


async def test_a_repeated_prompt_asks_for_another_reply() -> None:
    judge = Judge()
    await evaluate(None, judge, score={"metric": "AnswerRelevancy", "arguments": {"strictness": 4}})
    assert [*judge.prompts.values()] == [4]


async def test_several_judges_vote() -> None:
    judges = {
        "generation": Judge(),
        "second": Judge(ContextRecallOutput={"classifications": []}),
        "third": Judge(
            ContextRecallOutput={
                "classifications": [{"statement": "s", "reason": "r", "attributed": 0}]
            }
        ),
    }
    models = {name: {"provider": "openai", "model": name} for name in ("second", "third")}
    config: Any = {
        "llm": {"generation": {"provider": "openai", "model": "first"}, "judges": models},
        "ragas": {
            "two": {"metric": "ContextRecall", "judges": ["generation", "third"]},
            "three": {"metric": "ContextRecall", "judges": [*judges]},
        },
    }
    async with Evaluator(REFERENCE, config=config, judge=judges) as evaluator:
        result = await evaluator.evaluate(RESPONSE)
    assert (result["two"], result["two_disagreement"]) == (0.5, 1.0)
    assert "three" not in result
    assert result["three_by"]["third"]["three"] == 0.0


async def test_a_condition_can_decide_a_fraction() -> None:
    options: Any = {"judge": Judge(), "config": {"ragas": {"recall": "ContextRecall"}}}
    async with evaluate_stream(REFERENCE, [RESPONSE], until="recall >= 0.2", **options) as stream:
        assert [result["recall"] async for result in stream] == [1.0]
    similarity: Any = {"judge": Judge(), "config": {"ragas": {"alike": "SemanticSimilarity"}}}
    with pytest.raises(UsageError, match="alike"):
        evaluate_stream(REFERENCE, [RESPONSE], until="alike >= 0.2", **similarity)


async def test_the_direction_of_a_metric_is_in_results() -> None:
    result = await evaluate(noise="NoiseSensitivity", recall="ContextRecall")
    assert result["judge"]["lower_is_better"] == ["noise"]
    assert result["judge"]["fractions"] == ["recall"]
    row = compare([result], [result | {"noise": 1.0}])["overall"]["noise"]
    assert row["direction"] == "lower is better"
    assert row["losses"] == 1
