"""How long one record with all metrics takes, and ragas' own metrics for the same one.

python -m bench.judge_latency
"""

from __future__ import annotations

import asyncio
from statistics import median
from time import perf_counter
from typing import Any

import orjson

from bench.judge_cases import ALL_METRICS, config, reference, response, retrieval
from bench.judge_process import serving
from bench.report import Row, show
from graphrag_eval_async import Evaluator
from graphrag_eval_async.config import load_config
from graphrag_eval_async.judge.calls import Calls
from graphrag_eval_async.metrics import Judging
from graphrag_eval_async.metrics.ragas_bridge import format_of_model, load_ragas

LATENCY = 0.1
RECORDS = 5


def record(number: int) -> dict[str, Any]:
    return response(number, actual_steps=[{**retrieval("response", number), "id": "call"}])


async def ours(settings: dict[str, Any]) -> tuple[float, int]:
    """The seconds that a record takes, the first one left out, and how many calls it is."""
    times = []
    async with Evaluator(reference(), config=settings) as evaluator:
        for number in range(RECORDS + 1):
            started = perf_counter()
            result = await evaluator.evaluate(record(number))
            times.append(perf_counter() - started)
            _check(result)
        assert evaluator.usage is not None  # noqa: S101
        calls = evaluator.usage.calls
    return median(times[1:]), calls // len(times)


def _check(result: dict[str, Any]) -> None:
    [step] = result["actual_steps"]
    errors = [
        value for keys in (result, step) for key, value in keys.items() if key.endswith("_error")
    ]
    assert not errors, errors  # noqa: S101
    scores = "answer_f1", "answer_relevance", "ragas_answer_correctness", "tone_fitness"
    assert all(key in result for key in scores), result  # noqa: S101
    assert all(f"retrieval_{name}_f1" in step for name in ("answer", "context")), step  # noqa: S101


def bridge(calls: Calls) -> Any:
    """A judge as the LLM and the embedder of ragas' metrics, without limits and one call after
    the other.
    """
    from ragas.embeddings.base import BaseRagasEmbedding
    from ragas.llms.base import InstructorBaseRagasLLM

    class Bridge(InstructorBaseRagasLLM, BaseRagasEmbedding):
        async def agenerate(self, prompt: str, response_model: Any) -> Any:
            form = format_of_model(response_model)
            return await calls.ask(lambda: [{"role": "user", "content": prompt}], form)

        async def aembed_texts(self, texts: list[str], **_: Any) -> Any:
            return await calls.embed(texts)

        async def aembed_text(self, text: str, **_: Any) -> Any:
            return (await calls.embed([text]))[0]

        def generate(self, prompt: str, response_model: Any) -> Any:
            raise NotImplementedError

        def embed_text(self, text: str, **_: Any) -> Any:
            raise NotImplementedError

    return Bridge()


async def theirs(settings: dict[str, Any]) -> float:
    """The seconds that the metrics of ragas take, one after the other, each by its own `ascore`."""
    load_ragas()
    from ragas.metrics import collections as ragas

    session = Judging(load_config(settings), judge=None, on_fatal="raise").session()
    await session.open()
    own = bridge(Calls.for_result(session))
    question = reference()[0]["questions"][0]
    asked, expected = question["question_text"], question["reference_answer"]
    contexts = [_texts(step) for step in (retrieval("response", 0), retrieval("reference", 0))]
    answer = response(0)["actual_answer"]
    started = perf_counter()
    await ragas.AnswerRelevancy(own, own).ascore(asked, answer)
    await ragas.AnswerCorrectness(own, own).ascore(asked, answer, expected)
    for against in (expected, "\n".join(contexts[1])):
        await ragas.ContextRecall(own).ascore(asked, contexts[0], against)
        await ragas.ContextPrecision(own).ascore(asked, against, contexts[0])
    seconds = perf_counter() - started
    await session.aclose()
    return seconds


def _texts(step: dict[str, Any]) -> list[str]:
    return [document["text"] for document in orjson.loads(step["output"])]


def rows() -> list[Row]:
    with serving("--latency", str(LATENCY)) as base_url:
        settings = config(base_url, ALL_METRICS)
        seconds, calls = asyncio.run(ours(settings))
        alone = asyncio.run(theirs(settings))
    what = f"one record, all metrics ({calls} calls of {LATENCY * 1000:.0f} ms)"
    return [
        Row(what, f"{seconds / LATENCY:.1f} latencies", "at most 3"),
        Row("ragas' own of them, in sequence", f"{alone / LATENCY:.1f} latencies", ""),
    ]


if __name__ == "__main__":
    show(rows())
