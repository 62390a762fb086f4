"""Protocols of what remembers the lines of a stream and stores its results: a journal, or a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from graphrag_eval_async.evaluator import Evaluator
    from graphrag_eval_async.records import Record, Reject
    from graphrag_eval_async.records.evaluation import Evaluation


class Keeping(Protocol):
    """Says which records are new, and stores their results and rejects.

    Attributes:
        abort: ends the stream, with an error.
    """

    abort: Callable[[BaseException], object] | None

    @property
    def skipped(self) -> int:
        """How many records were done already."""

    def admit(self, record: Record) -> Any:
        """Return the origin of a record, for its result or reject; None if it is done already."""

    async def commit(self, evaluations: Sequence[Evaluation]) -> Sequence[Evaluation | None]:
        """Store complete results; return them, with None for those that do not count."""

    def reject(self, reject: Reject, source: Any) -> None:
        """Store a reject."""

    async def reject_large(self, reject: Reject, source: Any) -> None:
        """Store a large reject."""

    async def aclose(self) -> None:
        """Store the rest, at the end of all work."""


class Terms(NamedTuple):
    """The settings of a stream, for the queue that it reads.

    Attributes:
        evaluator: evaluates the responses.
        include_errors: whether the metrics of error responses count in the aggregates.
        max_line_bytes: longer responses are rejected.
        max_in_flight: how many responses may be in work.
        result_timeout_sec: time for judging a result, in seconds; 0 if nothing is judged.
    """

    evaluator: Evaluator
    include_errors: bool
    max_line_bytes: int
    max_in_flight: int
    result_timeout_sec: float


@runtime_checkable
class QueueWork(Keeping, Protocol):
    """The work of one stream for a queue."""

    def batches(self) -> AsyncGenerator[list[Record]]:
        """Yield responses as they arrive."""


@runtime_checkable
class Queue(Protocol):
    """Responses that several processes share; each is handed to one of them, and done once it is kept.

    Attributes:
        is_part: True, since others evaluate the rest.
    """

    is_part: bool

    def begin(self, terms: Terms) -> QueueWork:
        """Return the work of one stream."""
