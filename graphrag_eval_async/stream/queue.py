"""Protocols of a queue of responses that several processes share, such as a Redis stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Record
    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.sinks.rejects import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """The settings of a stream that reads a queue; `result_timeout_sec` is 0 if nothing is judged."""

    evaluator: Evaluator
    include_errors: bool
    max_line_bytes: int
    max_in_flight: int
    result_timeout_sec: float


@runtime_checkable
class QueueWork(Protocol):
    """The work of one stream for a queue, which remembers what is done; `skipped` counts what was done."""

    skipped: int

    def batches(self) -> AsyncGenerator[list[Record]]:
        """Yield responses as they arrive."""

    def admit(self, record: Record) -> Any:
        """Return the `source` of a response's result or reject; None if it is done already."""

    async def commit(self, items: Sequence[Evaluation | Rejected]) -> Sequence[Evaluation | None]:
        """Store results and rejects; return the results that count, with None in place of all others."""

    async def aclose(self) -> None:
        """Release what is not done, at the end of all work."""


@runtime_checkable
class Queue(Protocol):
    """Responses that several processes share; each is handed to one of them, and done once it is stored."""

    is_part: bool

    def begin(self, options: QueueOptions) -> QueueWork:
        """Return the work of one stream."""
