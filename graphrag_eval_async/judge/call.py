"""A call to the judge: what to send, how to check the reply, and which results wait for it."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anyio import CancelScope

    from graphrag_eval_async.errors import JudgeError
    from graphrag_eval_async.judge.protocol import Message, Send
    from graphrag_eval_async.judge.rate_limiter import Deadlines


@dataclass(eq=False, slots=True)
class Call:
    """A call to the judge; its first request starts the clocks of all results that wait for it.

    Attributes:
        kind: "completion" or "embedding".
        key: equal for equal calls.
        request: given messages that correct an earlier reply, returns a function that sends the request once,
            and the estimated tokens.
        check: returns the reply if it is usable, else raises `JudgeError`.
        written: is filled with how the request was written that was answered; see `OpenAIJudge.complete`.
        order: order of the result; the lowest goes first.
        costs: gets the cost of each reply in US dollars; None if unknown.
        deadlines: those of the results.
        outcome: the value or the error, once `SingleFlight` has it.
    """

    kind: str
    key: bytes
    request: Callable[[Sequence[Message]], tuple[Send, int]]
    check: Callable[[Any], Any]
    written: dict[str, Any]
    order: int
    costs: list[float | None]
    deadlines: Deadlines
    outcome: asyncio.Future[tuple[Any, JudgeError | None]] = field(default_factory=asyncio.Future)
    _scopes: list[CancelScope] = field(default_factory=list)
    _is_sent: bool = False

    @contextmanager
    def joined(self, scope: CancelScope) -> Iterator[None]:
        """Add the result with this scope while the context lasts."""
        self._scopes.append(scope)
        if self._is_sent:
            self.deadlines.start(scope)
        try:
            yield
        finally:
            self._scopes.remove(scope)

    def sent(self) -> None:
        """Start the clocks: a request is being sent."""
        self._is_sent = True
        for scope in self._scopes:
            self.deadlines.start(scope)
