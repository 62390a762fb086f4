"""What judged results hold, whichever way they are asked for."""

from __future__ import annotations

import copy
import re
import traceback
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from graphrag_eval_async import (
    Evaluator,
    JudgeUnavailable,
    compute_aggregates,
    evaluate_stream,
    run_evaluation,
)
from tests.judged.support import (
    KEY,
    METRICS,
    collect_by_question,
    config,
    costs_of,
    response,
    serving,
    stream_of,
    templates,
)
from tests.support.judge_server import FAULTS
from tests.support.virtual_time import without_waiting

EXAMPLES = Path(__file__).parents[2] / "examples"
REFERENCE = EXAMPLES / "reference.yaml"
RESPONSES = EXAMPLES / "responses.jsonl"

COST = (100 * 0.15 + 20 * 0.6) / 1e6
"""Of one completion, by the price list."""


def examples(server: Any) -> dict[str, Any]:
    """A configuration that leaves the prices to the list, and the number of generated questions
    to itself.
    """
    found = config(server) | {"answer_relevance": {}}
    del found["llm"]["pricing"]
    return found


@pytest.mark.ragas
@without_waiting
async def test_scores_and_costs_of_the_examples() -> None:
    async with serving() as server:
        async with evaluate_stream(
            REFERENCE, RESPONSES, ordered=True, config=examples(server)
        ) as stream:
            results = [result async for result in stream]
        first = results[0]
        _, step, _ = first["actual_steps"]
        assert orjson.loads(orjson.dumps(results)) == results

        assert (first["answer_recall"], first["answer_precision"]) == (0.5, 1.0)
        assert first["answer_correctness_cost"] == pytest.approx(COST)
        assert 3 * COST < first["answer_relevance_cost"] < 3.2 * COST
        similarity = first["ragas_answer_correctness_similarity"]
        assert first["ragas_answer_correctness"] == pytest.approx(0.75 * 2 / 3 + 0.25 * similarity)
        documents = len(orjson.loads(step["output"]))
        for name in ("retrieval_answer", "retrieval_context"):
            assert (step[f"{name}_recall"], step[f"{name}_precision"]) == (0.5, 1.0)
            assert step[f"{name}_f1"] == pytest.approx(2 / 3)
            assert step[f"{name}_recall_cost"] == pytest.approx(COST)
            assert step[f"{name}_precision_cost"] == pytest.approx(documents * COST)
            assert step[f"{name}_f1_cost"] == pytest.approx((documents + 1) * COST)
        assert first["judge"] == {
            "model": "gpt-4o-mini",
            "prompts": first["judge"]["prompts"],
            "embedding": "text-embedding-3-small",
            "outputs": ["custom_score", "custom_reason"],
            "fractions": ["custom_score"],
        }
        paid = sum(cost for result in results for cost in costs_of(result))
        counts = server.counts
        tokens = (
            counts.input_tokens * 0.15 + counts.output_tokens * 0.6 + counts.embedding_tokens * 0.02
        )
        assert paid == pytest.approx(tokens / 1e6)

        assert stream.aggregates.snapshot() == compute_aggregates(results)


@pytest.mark.ragas
@without_waiting
async def test_all_ways_lead_to_the_same_results() -> None:
    """But for costs: a call that is equal to one in flight costs nothing."""
    async with serving() as server:
        settings = examples(server)
        stream = evaluate_stream(REFERENCE, RESPONSES, ordered=True, config=settings)
        results = [without_costs(result) async for result in stream]
        finished = map(without_costs, await run_evaluation(REFERENCE, RESPONSES, config=settings))
        async with Evaluator(REFERENCE, config=settings) as evaluator:
            for line, result in zip(RESPONSES.read_bytes().splitlines(), results, strict=True):
                single = await evaluator.evaluate(line, sample=result["sample"])
                assert without_costs(single) == result
        assert sorted(finished, key=str) == sorted(results, key=str)


def without_costs(value: Any) -> Any:
    if isinstance(value, list):
        return [without_costs(item) for item in value]
    if isinstance(value, dict):
        return {
            key: without_costs(item) for key, item in value.items() if not key.endswith("_cost")
        }
    return value


@pytest.mark.ragas
@without_waiting
async def test_secrets_are_shown_nowhere() -> None:
    async with serving(FAULTS["401"]) as server:
        async with stream_of(server, on_fatal="continue") as stream:
            results = await collect_by_question(stream)
        with pytest.raises(JudgeUnavailable) as caught:
            await collect_by_question(stream_of(server))
        assert all(KEY in request.headers["authorization"] for request in server.requests)
    shown = [results, stream.usage.as_dict(), stream.aggregates.snapshot(), vars(stream), stream]
    assert KEY not in repr(shown) + "".join(traceback.format_exception(caught.value))


@pytest.mark.ragas
@without_waiting
async def test_stages_deliver_each_result_before_and_after_it_is_judged() -> None:
    async with serving(latency=1) as server:
        responses = [response(0), response(1)]
        async with evaluate_stream(
            templates(2), responses, config=config(server), stages=True
        ) as stream:
            found = [copy.deepcopy(result) async for result in stream]
        plain = await collect_by_question(
            evaluate_stream(templates(2), responses, config=config(server))
        )
    early, late = found[:2], {result["question_id"]: result for result in found[2:]}
    assert late == plain
    for result in early:
        whole = late[result["question_id"]]
        assert result.pop("pending") == [*[*METRICS][:-1], "custom"]
        assert {*result} < {*whole}
        assert {*result["actual_steps"][0]} < {*whole["actual_steps"][0]}
    assert stream.aggregates.snapshot() == compute_aggregates([*late.values()])


@without_waiting
async def test_provenance_tells_models_apart() -> None:
    async def prompts(**changes: Any) -> str:
        async with serving() as server:
            settings = config(server, answer_correctness={})
            settings["llm"]["generation"] |= changes
            results = await collect_by_question(
                evaluate_stream(templates(1), [response(0)], config=settings)
            )
        return str(results["q0"]["judge"]["prompts"])

    changes: list[Any] = [
        {},
        {"temperature": 1},
        {"parameters": {"effort": "low"}},
        {"max_tokens": 5},
    ]
    assert len({await prompts(**more) for more in changes}) == len(changes)
    assert await prompts(api_key="other") == await prompts()


async def test_the_panel_of_the_documentation_judges_twice_with_one_model(tmp_path: Path) -> None:
    """Also with a cache, which keeps the replies of both apart."""
    page = (Path(__file__).parents[2] / "docs/judges.md").read_text()
    [text] = [
        block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "again:" in block
    ]
    settings = yaml.safe_load(text)
    models = settings["llm"]["generation"], settings["llm"]["judges"]["again"]
    assert models[0] == models[1]
    async with serving() as server:
        for model in models:
            model |= {"base_url": server.base_url, "api_key": KEY}
        settings["llm"]["cache"] = str(tmp_path / "calls.sqlite")
        results = await collect_by_question(
            evaluate_stream(templates(1), [response(0)], config=settings)
        )
    assert len(server.requests) == 2
    by_judge = results["q0"]["answer_correctness_by"]
    assert {*by_judge} == {"generation", "again"}
    assert by_judge["generation"]["answer_f1"] == by_judge["again"]["answer_f1"]
