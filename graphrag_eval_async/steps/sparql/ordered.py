"""Pairing of columns whose rows must agree one by one: no column depends on how the others are paired."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.steps.sparql.budget import STEPS_PER_LOOSE_CELL, STEPS_PER_PAIR
from graphrag_eval_async.steps.sparql.classes import near
from graphrag_eval_async.steps.sparql.rows import Matching

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
    offered = _by_classes(actual, classes, budget)
    for ids, wanted in _by_classes(required, classes, budget).items():
        offers = offered[ids]
        if len(wanted) > len(offers):
            return False
        loose = [row for row, name in enumerate(ids) if name in classes.loose]
        if loose and not _pair_off(wanted, offers, loose, budget):
            return False
    return True


def _by_classes(
    columns: Sequence[Column], classes: Classes, budget: Budget
) -> dict[tuple[Value, ...], list[Column]]:
    grouped: dict[tuple[Value, ...], list[Column]] = defaultdict(list)
    for column in columns:
        budget.spend(len(column.values))
        grouped[tuple(classes.of(column.values))].append(column)
    return grouped


def _pair_off(wanted: list[Column], offers: list[Column], loose: list[int], budget: Budget) -> bool:
    left, right = _count(wanted, budget), _count(offers, budget)

    def partners(cells: Cells) -> Iterator[Cells]:
        for other in right:
            budget.spend(len(loose) * STEPS_PER_PAIR)
            if all(near(cells[row], other[row]) for row in loose):
                yield other

    return Matching(left, right, partners, budget).saturates()


def _count(columns: Sequence[Column], budget: Budget) -> Counter[Cells]:
    counts: Counter[Cells] = Counter()
    for column in columns:
        budget.spend(len(column.values) * STEPS_PER_LOOSE_CELL)
        counts[tuple(column.cells())] += 1
    return counts
