from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.config import LimitsConfig
from graphrag_eval_async.judge.limits import RateLimiter
from graphrag_eval_async.judge.usage import JudgeUsage
from tests.support.virtual_time import now, run


def limiter(**limits: Any) -> RateLimiter:
    return RateLimiter(LimitsConfig(**limits), JudgeUsage())


async def send(
    limiter: RateLimiter, seconds: float = 0.0, *, order: int = 0, tokens: float = 0.0
) -> float:
    """Send a request that takes so long; returns when it was sent."""
    await limiter.acquire(order, tokens)
    sent = now()
    try:
        await asyncio.sleep(seconds)
    finally:
        limiter.release()
    return sent


async def together(*calls: Any) -> list[Any]:
    return list(await asyncio.gather(*calls))


def test_the_earliest_result_goes_first() -> None:
    async def main() -> list[float]:
        one = limiter(max_concurrency=1)
        return await together(*(send(one, 1.0, order=order) for order in (9, 3, 1, 2, 1)))

    assert run(main()) == [0, 4, 1, 3, 2]


@given(st.lists(st.sampled_from(["ok", "slow down"]), max_size=60), st.integers(1, 40))
def test_halved_once_a_round_and_grown_by_one_a_round(rounds: list[str], limit: int) -> None:
    async def main() -> None:
        usage = JudgeUsage()
        one = RateLimiter(LimitsConfig(max_concurrency=limit, max_failed_calls=None), usage)
        expected = limit
        for outcome in rounds:
            assert usage.concurrency == expected
            sent_in = [await one.acquire(0, 0) for _ in range(expected)]
            for number in sent_in:
                (one.succeeded if outcome == "ok" else one.slow_down)(number)
                one.release()
            expected = min(limit, expected + 1) if outcome == "ok" else max(1, expected // 2)

    run(main())


@pytest.mark.parametrize(("rate", "limit"), [(60, 61), (200, 204), (6, 7), (90, 91.5)])
def test_no_minute_sees_more_than_its_requests(rate: float, limit: float) -> None:
    async def main() -> list[float]:
        one = limiter(max_concurrency=50, requests_per_minute=rate)
        return await together(*(send(one) for _ in range(int(rate * 2.5) + 2)))

    times = sorted(run(main()))
    assert all(sum(start <= time < start + 60 for time in times) <= limit for start in times)
    assert times[-1] <= 60 * 2.6 + 20, "and the rate is made use of"


def test_tokens_are_paid_for_afterwards() -> None:
    async def main() -> list[float]:
        one = limiter(tokens_per_minute=6000)  # 100 a second
        times = await together(*(send(one, tokens=tokens) for tokens in (50, 50, 300, 10, 10)))
        one.correct(450)  # The estimates were too low.
        return [*times, await send(one, tokens=100)]

    assert run(main()) == pytest.approx([0, 0, 1, 3.1, 3.2, 8.7], abs=0.01)
