"""A stream whose answers are judged, against a bare loop of the SDK's `create` with the same
requests and the same transport.

Takes less than a minute on two idle cores.

python -m bench.judge_throughput
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.judge_cases import config, lines, reference, response
from bench.judge_process import serving
from bench.report import Row, show
from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.catalogue.judged import CORRECTNESS_INPUTS
from graphrag_eval_async.judge.protocol import format_of
from graphrag_eval_async.metrics.answer_correctness import INSTRUCTIONS, REPLY, AnswerClaims
from graphrag_eval_async.metrics.metric import build_messages, replace_placeholders

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    Times = list[tuple[float, float]]

ROUNDS = 3
WARM_UP, COOL_DOWN = 2, 1
"""How many of the calls at a time end before it counts, while connections are opened, and after
it does.
"""


class Load(NamedTuple):
    """Calls at a time, the latency of each in seconds, and how many there are: a multiple of the
    first.
    """

    concurrency: int
    latency: float
    calls: int

    def __str__(self) -> str:
        return f"{self.concurrency} calls of {self.latency * 1000:.0f} ms at a time"


class Speed(NamedTuple):
    """Calls a second, and the CPU seconds that one takes in this process."""

    rate: float
    cpu: float


LOADS = (Load(64, 0.1, 1_024), Load(256, 0.2, 1_536))


def now() -> tuple[float, float]:
    return perf_counter(), process_time()


def speed(run: Coroutine[Any, Any, Times], load: Load) -> Speed:
    """How fast calls end once there are connections, as long as there are calls to begin."""
    times = asyncio.run(run)
    assert len(times) == load.calls, len(times)  # noqa: S101
    first, last = times[WARM_UP * load.concurrency - 1], times[-COOL_DOWN * load.concurrency - 1]
    calls = load.calls - (WARM_UP + COOL_DOWN) * load.concurrency
    return Speed(calls / (last[0] - first[0]), (last[1] - first[1]) / calls)


async def ours(base_url: str, load: Load) -> Times:
    """When the results of a stream come."""
    settings = config(base_url, max_concurrency=load.concurrency)
    source, in_flight = lines(load.calls), 2 * load.concurrency
    async with evaluate_stream(
        reference(), source, config=settings, max_in_flight=in_flight
    ) as results:
        return [now() async for result in results if "answer_f1" in result]


async def bare(base_url: str, requests: list[dict[str, Any]], load: Load) -> Times:
    """When the calls end of as many workers as there are calls at a time, with nothing around
    them.
    """
    times: Times = []
    waiting = iter(requests)

    async def work(client: Any) -> None:
        for request in waiting:
            await client.chat.completions.create(**request)
            times.append(now())

    async with sdk_client(base_url, load) as client, asyncio.TaskGroup() as tasks:
        for _ in range(load.concurrency):
            tasks.create_task(work(client))
    return times


def requests_like_ours(number: int) -> list[dict[str, Any]]:
    """What the SDK is to send for as many responses."""
    instructions, schema = (
        f"{replace_placeholders(INSTRUCTIONS, CORRECTNESS_INPUTS)}\n\n{REPLY}",
        format_of(AnswerClaims).schema,
    )
    described = {"name": schema["title"], "strict": True, "schema": schema}
    questions = reference()[0]["questions"]
    found = []
    for index in range(number):
        question = questions[index % len(questions)]
        texts = (
            question["question_text"],
            question["reference_answer"],
            response(index)["actual_answer"],
        )
        blocks = dict(zip(CORRECTNESS_INPUTS, texts, strict=True))
        request = {
            "model": "gpt-4o-mini",
            "temperature": 0.0,
            "max_tokens": 4096,
            "messages": build_messages(instructions, blocks),
            "response_format": {"type": "json_schema", "json_schema": described},
        }
        found.append(request)
    return found


@asynccontextmanager
async def sdk_client(base_url: str, load: Load) -> AsyncIterator[Any]:
    """The SDK's client on its faster transport."""
    import openai

    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
        max_connections=load.concurrency, max_keepalive_connections=load.concurrency
    )
    http_client = openai.DefaultAioHttpClient(limits=limits, timeout=None)
    async with openai.AsyncOpenAI(
        api_key="none", base_url=base_url, max_retries=0, timeout=None, http_client=http_client
    ) as client:
        yield client


def rows_of(load: Load) -> list[Row]:
    """Rounds of both in turn; the medians stand for them."""
    requests = requests_like_ours(load.calls)
    ours_rounds, bare_rounds = [], []
    with serving("--latency", str(load.latency)) as base_url:
        for _ in range(ROUNDS):
            ours_rounds.append(speed(ours(base_url, load), load))
            bare_rounds.append(speed(bare(base_url, requests, load), load))
    pairs = list(zip(ours_rounds, bare_rounds, strict=True))
    rate = median(mine.rate / other.rate for mine, other in pairs)
    our_cpu = median(each.cpu for each in ours_rounds)
    bare_cpu = median(each.cpu for each in bare_rounds)
    return [
        Row(f"{load}: rate, against a bare loop of `create`", f"{rate:.2f}x", "at least 0.95x"),
        Row(f"{load}: CPU of a call", f"{our_cpu * 1e6:.0f} us", ""),
        Row(f"{load}: CPU of a call in a bare loop", f"{bare_cpu * 1e6:.0f} us", ""),
        Row(f"{load}: CPU, against a bare loop", f"{our_cpu / bare_cpu:.2f}x", "at most 1.15x"),
        Row(f"{load}: rate, ideal is 1", _share(ours_rounds, load), ""),
        Row(f"{load}: rate of a bare loop, ideal is 1", _share(bare_rounds, load), ""),
    ]


def _share(speeds: list[Speed], load: Load) -> str:
    return f"{median(each.rate for each in speeds) * load.latency / load.concurrency:.2f}x"


def rows() -> list[Row]:
    return [row for load in LOADS for row in rows_of(load)]


if __name__ == "__main__":
    show(rows())
