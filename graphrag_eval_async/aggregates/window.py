"""Windows over results, which select the results that count."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from sys import float_info
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from graphrag_eval_async.errors import UsageError, check_integer, describe
from graphrag_eval_async.records.caching import remember

if TYPE_CHECKING:
    from graphrag_eval_async.records.evaluation import Evaluation, Traits


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
        is_number = isinstance(self.seconds, int | float) and not isinstance(self.seconds, bool)
        if not is_number or not 0 < self.seconds <= float_info.max:
            raise UsageError(
                f"seconds: expected a finite number above 0, got {describe(self.seconds)}"
            )


class WindowedResult(msgspec.Struct, frozen=True, gc=False):
    """A result in a window."""

    arrived: float  # In seconds, of the monotonic clock.
    traits: Traits
    numbers: tuple[float, ...]
    question_id: Any
    sample: Any


class Changes(NamedTuple):
    """What has changed in a window.

    Attributes:
        are_all: whether results have left the window, so that all have to be counted again.
        results: the results to count: all, or those that are new.
    """

    are_all: bool
    results: list[WindowedResult]


class Sliding:
    """The results in a window, in order of arrival."""

    __slots__ = ("_added", "_has_lost", "_results", "_window")

    def __init__(self, window: Last | Seconds) -> None:
        self._window = window
        self._results: deque[WindowedResult] = deque()
        # Since `take_changes` was called: how many were added, and whether some have left.
        self._added = 0
        self._has_lost = False

    def add(self, evaluation: Evaluation, traits: Traits, *, age: float) -> None:
        """Add a result that arrived `age` seconds ago."""
        self._results.append(
            WindowedResult(
                arrived=monotonic() - age,
                traits=_shared(traits),
                numbers=evaluation.numbers,
                question_id=evaluation.question_id,
                sample=evaluation.sample,
            )
        )
        self._added += 1
        self._remove_old()

    def take_changes(self) -> Changes:
        """Return what has changed since the last call."""
        self._remove_old()
        are_all = self._has_lost
        counted_before = 0 if are_all else len(self._results) - self._added
        self._has_lost = False
        self._added = 0
        return Changes(are_all, list(islice(self._results, counted_before, None)))

    def _remove_old(self) -> None:
        """Remove the results that have left the window."""
        if isinstance(self._window, Last):
            while len(self._results) > self._window.count:
                self._remove_oldest()
            return
        end = monotonic() - self._window.seconds
        while self._results and self._results[0].arrived <= end:
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        self._results.popleft()
        self._has_lost = True


@remember(entries=4096)
def _shared(traits: Any) -> Any:
    """Return traits equal to `traits`, often an object that is already in memory."""
    return traits
