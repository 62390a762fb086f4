"""What the two sides of a comparison have of each question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.inference.pairs import count_of, pair_of, put
from graphrag_eval_async.inference.verdicts import lower_is_better
from graphrag_eval_async.records.metrics import ERROR_RATE, metric_position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphrag_eval_async.inference.pairs import Pair, PairedValues

Side = Literal["baseline", "candidate"]
SIDES: tuple[Side, Side] = ("baseline", "candidate")


class Question:
    """What the sides have of a question.

    Attributes:
        values: of each side that has results of it.
        pending: the sides that have it in part only: that is to come whole.
        differs: whether there are results with different reference data.
    """

    __slots__ = ("_reference", "_templates", "differs", "pending", "values")

    def __init__(self) -> None:
        self.values: dict[Side, PairedValues] = {}
        self.pending: tuple[Side, ...] = ()
        self.differs = False
        self._templates: dict[Side, str] = {}
        self._reference: int | None = None

    def put(
        self, side: Side, template: str, values: Iterable[tuple[str, float]], reference: int | None
    ) -> None:
        own = self.values.setdefault(side, {})
        self.pending = tuple(other for other in self.pending if other != side)
        for metric, value in values:
            put(own, metric, value)
        self._templates[side] = min(template, self._templates.get(side, template))
        if self._reference is None:
            self._reference = reference
        self.differs |= reference not in (None, self._reference)

    def expect(self, side: Side) -> None:
        """Note that a part has come of a side that has nothing whole as yet."""
        self.pending += (side,)

    @property
    def template(self) -> str:
        """That of the baseline, if it has one; the first by name, should there be several."""
        return next(self._templates[side] for side in SIDES if side in self._templates)

    @property
    def is_shared(self) -> bool:
        return len(self.values) == len(SIDES)

    @property
    def only_in(self) -> Side | None:
        """The side that has it, if the other has not even a part."""
        return next(iter(self.values)) if len(self.values) == 1 and not self.pending else None

    @property
    def is_even(self) -> bool:
        """Whether both sides have as many results of it."""
        baseline, candidate = (count_of(self.values[side][ERROR_RATE]) for side in SIDES)
        return baseline == candidate

    def pairs(self) -> Iterator[tuple[str, Pair]]:
        """The metrics that both sides have values of."""
        if self.is_shared:
            candidate = self.values["candidate"]
            for metric, value in self.values["baseline"].items():
                if metric in candidate:
                    yield metric, pair_of(value, candidate[metric])


def position(metric: str) -> tuple[bool, tuple[int, str]]:
    """A sort key: the metrics in the order of rows."""
    return metric != ERROR_RATE, metric_position(metric)


def worse(questions: Mapping[str, Question], metrics: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """By metric, the questions in which the candidate is worse, the worst first."""
    losses: dict[str, list[tuple[float, dict[str, Any]]]] = {metric: [] for metric in metrics}
    for question_id, question in questions.items():
        for metric, pair in question.pairs():
            loss = pair.change if lower_is_better(metric) else -pair.change
            if loss > 0 and metric in losses:
                values = dict(zip((*SIDES, "difference"), (*pair[:2], pair.change), strict=True))
                shown = {"question_id": question_id, "template_id": question.template, **values}
                losses[metric].append((loss, shown))
    return {
        metric: [shown for _, shown in sorted(found, key=lambda each: -each[0])]
        for metric, found in losses.items()
        if found
    }


def without_pair(questions: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
    """By metric and side, the questions of which only that side has a value."""
    lone: dict[str, dict[str, Any]] = {}
    for question_id, question in questions.items():
        for side, other in zip(SIDES, reversed(SIDES), strict=True):
            for metric in question.values[side].keys() - question.values[other].keys():
                lone.setdefault(metric, {side: [] for side in SIDES})[side].append(question_id)
    return {metric: lone[metric] for metric in sorted(lone, key=position)}
