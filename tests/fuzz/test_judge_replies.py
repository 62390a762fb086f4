"""Whatever a judge replies, each metric has its value or an error; nothing is raised, and
nothing hangs.
"""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.errors import FAILURES
from tests.fuzz.seeds import name_seed, seeds, spoil
from tests.judged.support import (
    KEYS,
    REPLIES,
    Call,
    call_of,
    config,
    response,
    serving,
    templates,
    title_of,
)
from tests.support.cpu import affordable
from tests.support.judge_server import Reply, completion, reply_to
from tests.support.virtual_time import without_waiting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.judge_server import Request

LIMITS = {"call_timeout_sec": 1e3, "result_timeout_sec": 1e5, "max_attempts": 3}

COSINES = {"answer_relevance", "ragas_answer_correctness", "ragas_answer_correctness_similarity"}
"""They, or parts of them: from -1 to 1."""


class Spoiler:
    """A script that replies to each request by a seed, whatever the order in which they come."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._asked: dict[Call, int] = {}

    def __call__(self, request: Request) -> Reply:
        call = call_of(request)
        attempt = self._asked[call] = self._asked.get(call, -1) + 1
        rng = random.Random(f"{self._seed} {call} {attempt}")
        level = rng.choice(["none", "content", "content", "content", "body", "bytes"])
        if not request.is_chat:
            reply = reply_to(request)
        else:
            reply = completion(text_of(REPLIES[title_of(request)], rng, level == "content"))
            if level in {"none", "content"}:
                return reply
        body = json.loads(reply.body)
        if level in {"content", "body"}:
            return Reply(
                json.dumps(spoil(body, rng, times=rng.randint(1, 3)), default=str).encode()
            )
        data = bytearray(reply.body)
        for _ in range(rng.choice([0, 1, 3]) if level == "bytes" else 0):
            data[rng.randrange(len(data))] = rng.choice(b'\0\xff"[]{},:-1e\n')
        return Reply(bytes(data[: rng.choice([len(data), rng.randrange(len(data) + 1)])]))


def text_of(value: Any, rng: random.Random, spoilt: bool) -> str:
    text = json.dumps(spoil(value, rng, times=rng.randint(1, 3)) if spoilt else value, default=str)
    return text if not spoilt or rng.random() < 0.9 else text[: rng.randrange(len(text) + 1)]


def check(result: Mapping[str, Any]) -> None:
    keys = {**result, **result["actual_steps"][0]}
    for metric, (error_key, names) in KEYS.items():
        error, value = keys.get(error_key), keys.get(names[0])
        assert (error is None) is (value is not None), metric
        assert error is None or (error.partition(": ")[0] in FAILURES and len(error) < 2100)
    for key, value in keys.items():
        if key.endswith(("_recall", "_precision", "_f1")) or key == "custom_score":
            assert value is None or 0 <= value <= 1, key
        elif key.endswith(("_count", "_tp", "_fp", "_fn")):
            assert type(value) is int, key
            assert value >= 0, key
        elif key.endswith("_cost"):
            assert 0 <= value < math.inf, key
        elif key in COSINES:
            assert -1 <= value <= 1, key


@pytest.mark.ragas
@pytest.mark.filterwarnings(
    "ignore:judge gpt-4o-mini at "
)  # What it refused may have changed the format.
@pytest.mark.parametrize("count", [20, pytest.param(3_000, marks=pytest.mark.soak)])
@without_waiting
async def test_any_reply_makes_a_score_or_an_error(count: int) -> None:
    async with serving(keep_requests=False) as server:
        settings = config(server, limits=LIMITS)
        for seed in seeds(count):
            with name_seed(seed), affordable(1):
                server.script = Spoiler(seed)
                stream = evaluate_stream(
                    templates(1), [response(0)], config=settings, on_fatal="continue"
                )
                async with stream:
                    [result] = [result async for result in stream]
                assert orjson.dumps(result)
                assert stream.usage is not None
                assert stream.usage.outcomes.total() == len(KEYS)
                assert 0 <= (stream.usage.dollars or 0) < math.inf
                check(result)
