"""The options of a stream, checked once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Literal

from graphrag_eval_async.errors import UsageError, check_boolean, check_integer
from graphrag_eval_async.evaluator import EvaluatorOptions
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records import Reject

if TYPE_CHECKING:
    import os

    from graphrag_eval_async.inference.until import Until
    from graphrag_eval_async.sinks.done import Dedupe
    from graphrag_eval_async.sinks.journal import Journal

MAX_IN_FLIGHT = 256
"""How many responses may be read and not yet handed out, unless an option says otherwise."""

OnReject = Literal["collect", "raise"] | Callable[[Reject], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The options of a stream; see `evaluate_stream`.

    Raises:
        UsageError: an option has an invalid value.
    """

    ordered: bool = False
    max_in_flight: int = MAX_IN_FLIGHT
    aggregates: RunningAggregates | None = None
    on_reject: OnReject = "collect"
    stages: bool = False
    journal: str | os.PathLike[str] | Journal | None = None
    dedupe: Dedupe = "position"
    until: str | Until | None = None

    def __post_init__(self) -> None:
        check_integer("max_in_flight", self.max_in_flight)
        for name in ("ordered", "stages"):
            check_boolean(name, getattr(self, name))
        if not isinstance(self.aggregates, RunningAggregates | None):
            raise UsageError(f"aggregates: expected a RunningAggregates, got {self.aggregates!r}")
        on_reject = self.on_reject
        is_plain_function = callable(on_reject) and not iscoroutinefunction(on_reject)
        is_known_word = on_reject in ("collect", "raise")
        if not is_plain_function and not is_known_word:
            raise UsageError(
                f'on_reject: expected "collect", "raise" or a plain function, got {on_reject!r}'
            )
        if self.dedupe not in ("position", "content"):
            raise UsageError(f'dedupe: expected "position" or "content", got {self.dedupe!r}')


class StreamKeywords(EvaluatorOptions, total=False):
    """The options of `evaluate_stream`, in addition to those of an evaluator."""

    ordered: bool
    max_in_flight: int
    aggregates: RunningAggregates | None
    on_reject: OnReject
    stages: bool
    journal: str | os.PathLike[str] | Journal | None
    dedupe: Dedupe
    until: str | Until | None
