"""Pairing of columns whose rows must agree one by one: no column depends on how the others are paired."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.steps.sparql.classes import near
from graphrag_eval_async.steps.sparql.rows import STEPS_PER_PAIR, Matching

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.steps.sparql.budget import Budget
    from graphrag_eval_async.steps.sparql.classes import Classes
    from graphrag_eval_async.steps.sparql.columns import Cell, Column, Value

Cells: TypeAlias = "tuple[Cell, ...]"


def agree_in_order(
    required: Sequence[Column], actual: Sequence[Column], classes: Classes, budget: Budget
) -> bool:
    """Whether required columns can be paired with actual ones that are near them in each row.

    Raises:
        ComparisonBudgetExceeded: the search took too long.
    """
    offered = _by_classes(actual, classes)
    for ids, wanted in _by_classes(required, classes).items():
        offers = offered[ids]
        if len(wanted) > len(offers):
            return False
        loose = [row for row, name in enumerate(ids) if name in classes.loose]
        if loose and not _pair_off(wanted, offers, loose, budget):
            return False
    return True


def _by_classes(columns: Sequence[Column], classes: Classes) -> dict[tuple[Value, ...], list[Column]]:
    grouped: dict[tuple[Value, ...], list[Column]] = defaultdict(list)
    for column in columns:
        grouped[tuple(classes.of(column.values))].append(column)
    return grouped


def _pair_off(wanted: list[Column], offers: list[Column], loose: list[int], budget: Budget) -> bool:
    right = Counter(tuple(column.cells()) for column in offers)

    def partners(cells: Cells) -> Iterator[Cells]:
        for other in right:
            budget.spend(len(loose) * STEPS_PER_PAIR)
            if all(near(cells[row], other[row]) for row in loose):
                yield other

    return Matching(Counter(tuple(column.cells()) for column in wanted), right, partners, budget).saturates()
