"""Windows over results, which select the results that count."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import takewhile
from sys import float_info
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from graphrag_eval_async.aggregates.questions import FIRST, name_of
from graphrag_eval_async.errors import UsageError, check_integer, describe
from graphrag_eval_async.records.caching import remember

if TYPE_CHECKING:
    from graphrag_eval_async.records.evaluation import StepKinds
    from graphrag_eval_async.records.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Last:
    """A window over the last `count` results, whatever their templates.

    Raises:
        UsageError: `count` is not an int of at least 1.
    """

    count: int

    def __post_init__(self) -> None:
        check_integer("count", self.count)


@dataclass(frozen=True, slots=True)
class Seconds:
    """A window over the results that arrived less than `seconds` ago, by a monotonic clock.

    Raises:
        UsageError: `seconds` is not a finite number above 0.
    """

    seconds: float

    def __post_init__(self) -> None:
        number = isinstance(self.seconds, int | float) and not isinstance(self.seconds, bool)
        if not number or not 0 < self.seconds <= float_info.max:
            raise UsageError(f"seconds: expected a finite number above 0, got {describe(self.seconds)}")


Row: TypeAlias = "tuple[tuple[float, ...], Any, Any]"
"""The values of a result, and the id of its question and the number of its sample, unchecked."""

Alike: TypeAlias = "tuple[str, bool, tuple[str, ...], StepKinds, tuple[Outcome, ...]]"
"""Properties that many results share: template, whether the agent failed, metrics, steps and outcomes."""


class WindowedResult(msgspec.Struct, frozen=True, gc=False):
    """The parts of a result that count, and when it arrived; `numbers` are the values of `metrics`.

    Not tracked by the garbage collector: there may be millions, and they form no cycles.
    """

    arrived: float
    question: str
    is_first: bool
    template: str
    failed: bool
    metrics: tuple[str, ...]
    numbers: tuple[float, ...]
    steps: StepKinds
    outcomes: tuple[Outcome, ...]


class Sliding:
    """The samples in a window, in order of arrival.

    Samples added since the last call of `advance` are kept apart: those that leave the window before the next
    call are never counted.
    """

    __slots__ = ("_new", "_window", "samples")

    def __init__(self, window: Last | Seconds) -> None:
        self.samples: deque[WindowedResult] = deque()
        self._window = window
        # Of those that were never counted, only those in the window will be.
        most = window.count if isinstance(window, Last) else None
        self._new: deque[tuple[float, Alike, Row]] = deque(maxlen=most)

    def add(self, alike: Alike, row: Row, age: float) -> None:
        """Add a result that arrived `age` seconds ago."""
        self._new.append((monotonic() - age, alike, row))

    def advance(self) -> tuple[list[WindowedResult], list[WindowedResult]]:
        """Update `samples`; return the samples that entered and those that left since the last call."""
        known, new = len(self.samples), [_windowed(*each) for each in self._new]
        self.samples.extend(new)
        self._new.clear()
        gone = [self.samples.popleft() for _ in range(self._surplus())]
        return new[max(0, len(gone) - known) :], gone[:known]

    def _surplus(self) -> int:
        if isinstance(self._window, Last):
            return max(0, len(self.samples) - self._window.count)
        end = monotonic() - self._window.seconds
        return sum(1 for _ in takewhile(lambda sample: sample.arrived <= end, self.samples))


def _windowed(arrived: float, alike: Alike, row: Row) -> WindowedResult:
    template, failed, metrics, steps, outcomes = map(_shared, alike)
    numbers, question, sample = row
    question, is_first = name_of(question), sample in FIRST
    return WindowedResult(arrived, question, is_first, template, failed, metrics, numbers, steps, outcomes)


@remember(entries=4096)
def _shared(part: Any) -> Any:
    """Return an object equal to `part`, often one already in memory: results have many equal parts."""
    return part
