"""Results that wait to be counted. Counting many that are alike at once is several times faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.records.evaluation import Traits


class Batch:
    """What differs between results with the same traits; each list has an item for each result.

    Attributes:
        numbers: the values of its metrics, in the order of the traits.
        question_ids: the id of its question, unchecked.
        samples: the number of its sample, unchecked.
    """

    __slots__ = ("numbers", "question_ids", "samples")

    def __init__(self) -> None:
        self.numbers: list[Sequence[float]] = []
        self.question_ids: list[Any] = []
        self.samples: list[Any] = []

    def __len__(self) -> int:
        return len(self.question_ids)

    def extend(self, other: Batch) -> None:
        """Add the results of `other`."""
        self.numbers += other.numbers
        self.question_ids += other.question_ids
        self.samples += other.samples


Batches: TypeAlias = "dict[Traits, Batch]"
"""Results by what they have in common."""
