"""Keeps the calls in flight within the budget of a stream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from graphrag_eval_async.judge.usage import JudgeUsage

REPLY_TOKENS = 500
"""Tokens of a reply in estimates before the first reply. Chosen: most replies are shorter."""

SHARE_OF_ESTIMATE = 0.5
"""Share of its estimated cost for which a call may start if no other call is in flight.

Estimates are rough. Without this, a budget that is just enough would not be used up.
"""

ROUNDING = 1e-9
"""Relative error of sums of dollars."""


class PricedCall(Protocol):
    """A call whose tokens can be estimated."""

    def estimate_tokens(self) -> int: ...


class Estimator:
    """Estimates what calls of one model cost, by what its earlier calls cost.

    Attributes:
        has_replies: whether the cost of a call is known.
    """

    def __init__(self) -> None:
        """Start without any reply."""
        self.has_replies = False
        self._tokens = 0
        self._dollars = 0.0

    def add(self, tokens: int, dollars: float) -> None:
        """Record that a request with so many estimated input tokens cost so many dollars."""
        self.has_replies = True
        self._tokens += tokens
        self._dollars += dollars

    def estimate(self, tokens: int) -> float:
        """Return the cost of a request in US dollars, by its estimated input tokens.

        There must have been replies.
        """
        return tokens * self._dollars / max(1, self._tokens)


class Budget:
    """Admits requests whose estimated cost fits into the budget, beside the requests in flight."""

    def __init__(self, dollars: float, usage: JudgeUsage) -> None:
        """Prepare to admit requests.

        Args:
            dollars: the budget in US dollars.
            usage: counts what is spent.
        """
        self._dollars = dollars * (1 + ROUNDING)
        self._usage = usage
        self._requests_in_flight = 0
        self._dollars_in_flight = 0.0
        self._change = asyncio.Event()

    def reserve(self, dollars: float) -> bool:
        """Reserve the estimated cost of a request if it fits; return whether it does.

        The caller must call `release` when the request has ended.
        """
        needed = dollars
        if self._requests_in_flight == 0:
            needed *= SHARE_OF_ESTIMATE
        if needed > self._remaining - self._dollars_in_flight:
            return False
        self.reserve_anyway(dollars)
        return True

    def reserve_anyway(self, dollars: float) -> None:
        """Reserve the estimated cost of a request, whether it fits or not."""
        self._requests_in_flight += 1
        self._dollars_in_flight += dollars

    def release(self, dollars: float) -> None:
        """End a request for which this cost was reserved, and wake requests that wait."""
        self._requests_in_flight -= 1
        self._dollars_in_flight -= dollars
        if self._requests_in_flight == 0:
            # The sum of many small differences may not be 0.
            self._dollars_in_flight = 0.0
        # Setting the event wakes the requests; clearing it lets them wait again.
        self._change.set()
        self._change.clear()

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight."""
        return self._requests_in_flight == 0

    def can_ever_fit(self, dollars: float) -> bool:
        """Return whether a request may start once no other request is in flight."""
        return dollars * SHARE_OF_ESTIMATE <= self._remaining

    async def wait_for_change(self) -> None:
        """Wait until a request in flight has ended."""
        await self._change.wait()

    @property
    def _remaining(self) -> float:
        """The dollars that are not spent; all of them if prices are unknown."""
        return self._dollars - (self._usage.spent or 0.0)
