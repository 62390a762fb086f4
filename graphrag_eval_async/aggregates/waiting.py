"""Results that wait to be counted. Counting many of them at once is several times faster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.records.evaluation import Traits


class Batch:
    """The fields in which results with the same traits differ.

    Each list has one item for each result.

    Attributes:
        numbers: the values of the metrics, in the order of the metrics in the traits.
        question_ids: the id of the question, which may be of any type.
        samples: the number of the sample among the responses to its question, of any type.
    """

    __slots__ = ("numbers", "question_ids", "samples")

    def __init__(self) -> None:
        self.numbers: list[Sequence[float]] = []
        self.question_ids: list[Any] = []
        self.samples: list[Any] = []

    def __len__(self) -> int:
        return len(self.question_ids)

    def add(self, *, numbers: Sequence[float], question_id: Any, sample: Any) -> None:
        """Add one result."""
        self.numbers.append(numbers)
        self.question_ids.append(question_id)
        self.samples.append(sample)

    def extend(self, other: Batch) -> None:
        """Add the results of another batch."""
        self.numbers += other.numbers
        self.question_ids += other.question_ids
        self.samples += other.samples


Batches: TypeAlias = "dict[Traits, Batch]"
"""Results by the traits that they have in common."""
