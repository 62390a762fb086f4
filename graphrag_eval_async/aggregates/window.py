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
    """A result in a window.

    Attributes:
        arrived: when it arrived, in seconds of the monotonic clock.
        traits: the fields that it has in common with many other results.
        numbers: the values of its metrics, in the order of the metrics in the traits.
        question_id: the id of its question.
        sample: its number among the responses to the same question.
    """

    arrived: float
    traits: Traits
    numbers: tuple[float, ...]
    question_id: Any
    sample: Any


class Changes(NamedTuple):
    """What has changed in a window since the last look.

    Attributes:
        must_recount: whether results have left the window. Then all counts start anew, since a
            count cannot forget a single result.
        results_to_count: all results in the window if `must_recount`, otherwise the new ones.
    """

    must_recount: bool
    results_to_count: list[WindowedResult]


class SlidingWindow:
    """The results in a window, in order of arrival."""

    __slots__ = ("_added_since_look", "_results", "_some_left_since_look", "_window")

    def __init__(self, window: Last | Seconds) -> None:
        self._window = window
        self._results: deque[WindowedResult] = deque()
        # A look is a call of `take_changes`.
        self._added_since_look = 0
        self._some_left_since_look = False

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
        self._added_since_look += 1
        self._remove_old()

    def take_changes(self) -> Changes:
        """Return what has changed since the last call, and start to record changes anew."""
        self._remove_old()
        must_recount = self._some_left_since_look
        if must_recount:
            results_to_count = list(self._results)
        else:
            first_new = len(self._results) - self._added_since_look
            results_to_count = list(islice(self._results, first_new, None))
        self._some_left_since_look = False
        self._added_since_look = 0
        return Changes(must_recount=must_recount, results_to_count=results_to_count)

    def _remove_old(self) -> None:
        """Remove the results that are too many or too old for the window."""
        if isinstance(self._window, Last):
            while len(self._results) > self._window.count:
                self._remove_oldest()
            return
        newest_removed = monotonic() - self._window.seconds
        while self._results and self._results[0].arrived <= newest_removed:
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        self._results.popleft()
        self._some_left_since_look = True


@remember(entries=4096)
def _shared(traits: Any) -> Any:
    """Return equal traits, if possible an object that is already in memory.

    The cache of the decorator returns the first of several equal objects, so that results in a
    window share it.
    """
    return traits
