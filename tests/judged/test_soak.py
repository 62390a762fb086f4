"""A stream of which three in ten requests meet a fault, of any kind."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import compute_aggregates, evaluate_stream
from tests.judge.virtual_time import without_waiting
from tests.judge_server.faults import CHAT_FAULTS, EMBEDDING_FAULTS, HTTP_FAULTS, random_faults
from tests.judged.support import (
    KEYS,
    METRIC_OF,
    call_of,
    config,
    costs_of,
    dollars,
    response,
    sensible,
    serving,
    templates,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.judge_server import Reply, Request

pytestmark = pytest.mark.ragas

RATE_LIMITED = [name for name in HTTP_FAULTS if name.startswith("429")]
OTHERS = [*sorted({*HTTP_FAULTS} - {*RATE_LIMITED}), *CHAT_FAULTS, *EMBEDDING_FAULTS]

KINDS = {"timeout", "rate_limited", "refused", "invalid_request", "invalid_reply", "unavailable"}
LIMITS = {"call_timeout_sec": 5, "result_timeout_sec": 1e5, "max_concurrency": 64, "max_attempts": 3}


class Ledger:
    """What each metric of each record was sent: the price of all replies that came whole."""

    def __init__(self, faults: Sequence[str]) -> None:
        self._faults = random_faults(0.3, faults, sensible)
        self.costs: defaultdict[tuple[int, str], float] = defaultdict(float)

    def __call__(self, request: Request) -> Reply:
        answer = self._faults(request)
        if answer.usage is not None and answer.how == "":
            call = call_of(request)
            read, written = answer.usage
            price = read + written * 10 if request.is_chat else read * 0.5
            self.costs[call.record, METRIC_OF.get(call.purpose, call.purpose)] += price / 1e6
        return answer

    def check(self, result: Mapping[str, Any], metrics: Iterable[str]) -> float:
        """Each metric has its values, or an error, and the cost that the server knows of; returns the sum."""
        keys = {**result, **result["actual_steps"][0]}
        record = int(result["question_id"].removeprefix("q"))
        for metric in metrics:
            error_key, values = KEYS[metric]
            error = keys.get(error_key)
            assert (error is None) == (keys.get(values[0]) is not None)
            assert error is None or error.partition(": ")[0] in KINDS
            cost, told = keys.get(f"{metric}_cost", 0.0), self.costs[record, metric]
            assert cost == pytest.approx(told)
        return sum(costs_of(result))


@pytest.mark.parametrize("records", [75, pytest.param(5000, marks=pytest.mark.soak)])
@without_waiting
async def test_nothing_is_lost_and_all_is_counted(records: int) -> None:
    ledger = Ledger([*RATE_LIMITED, *OTHERS * 4])
    async with serving(ledger, keep_requests=False) as server:
        settings = config(server, limits=LIMITS)
        responses = (response(i) for i in range(records))
        async with evaluate_stream(templates(records), responses, config=settings) as stream:
            results = [result async for result in stream]
        usage, counts = stream.usage, server.counts
        assert sorted(result["question_id"] for result in results) == sorted(f"q{i}" for i in range(records))
        assert usage.dollars == pytest.approx(sum(ledger.check(result, KEYS) for result in results))
        assert sum(usage.outcomes.values()) == len(KEYS) * records
        assert len(KEYS) * records * 0.75 < usage.outcomes["ok"]
        assert usage.in_flight == usage.waiting == 0
        assert stream.aggregates.snapshot() == compute_aggregates(results)
        assert counts.requests == usage.attempts == usage.calls + sum(usage.retries.values())
        assert (counts.input_tokens, counts.output_tokens) == (usage.input_tokens, usage.output_tokens)
        assert counts.embedding_tokens == usage.embedding_tokens
        assert dollars(server) == pytest.approx(usage.dollars)
