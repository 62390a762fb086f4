"""Windows over results, which select the results that count."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from math import inf
from sys import float_info
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.errors import UsageError, check_integer, describe
from graphrag_eval_async.records.caching import remember

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.catalogue.outcomes import Outcome
    from graphrag_eval_async.catalogue.tags import Tags
    from graphrag_eval_async.records.evaluation import StepKinds


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
            raise UsageError(
                f"seconds: expected a finite number above 0, got {describe(self.seconds)}"
            )


Row: TypeAlias = "tuple[tuple[float, ...], Any, Any]"
"""The values of a result, and the id of its question and the number of its sample, unchecked."""

Alike: TypeAlias = "tuple[str, bool, tuple[str, ...], StepKinds, tuple[Outcome, ...], Tags]"
"""What many results share: template, whether the agent failed, metrics, steps, outcomes and
tags.
"""


class Sliding:
    """The results in a window, in order of arrival."""

    __slots__ = ("_has_left", "_new", "_results", "_window")

    def __init__(self, window: Last | Seconds) -> None:
        self._window = window
        self._results: deque[tuple[float, Alike, Row]] = deque()
        self._new = 0
        self._has_left = False

    def add(self, alike: Alike, row: Row, age: float) -> None:
        """Add a result that arrived `age` seconds ago."""
        self._results.append((monotonic() - age, _shared(alike), row))
        self._new += 1
        self._advance()

    def changes(self) -> tuple[bool, Iterator[tuple[Alike, Row]]]:
        """Return whether to count all results again, because some have left, and the results to
        count.
        """
        self._advance()
        anew, self._has_left = self._has_left, False
        known = 0 if anew else len(self._results) - self._new
        self._new = 0
        return anew, ((alike, row) for _, alike, row in islice(self._results, known, None))

    def _advance(self) -> None:
        """Let go of the results that have left the window."""
        results, window = self._results, self._window
        end = monotonic() - window.seconds if isinstance(window, Seconds) else -inf
        most = window.count if isinstance(window, Last) else len(results)
        while results and (len(results) > most or results[0][0] <= end):
            results.popleft()
            self._has_left = True


@remember(entries=4096)
def _shared(alike: Any) -> Any:
    """Return an object equal to `alike`, often one already in memory."""
    return alike
