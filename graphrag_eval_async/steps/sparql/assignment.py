"""The best pairs of the rows and columns of a matrix of weights, each row and each column in one at most."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.steps.sparql.budget import Budget

STEPS_PER_WEIGHT = 2


def assign(weights: Sequence[Sequence[int]], budget: Budget) -> list[tuple[int, int]]:
    """Return the pairs with the greatest sum of weights, as many as there are rows or, if fewer, columns.

    The Hungarian method: https://en.wikipedia.org/wiki/Hungarian_algorithm. It takes up to n² m steps for n
    rows and m columns, n the smaller number.
    """
    if len(weights) > len(weights[0]):
        turned = assign([*zip(*weights, strict=True)], budget)
        return [(row, column) for column, row in turned]
    columns = range(len(weights[0]))
    prices = [0.0] * len(columns)
    partners: list[int | None] = [None] * len(columns)  # the row of each column
    for start in range(len(weights)):
        row = start
        costs, before = [inf] * len(columns), [-1] * len(columns)
        free, column = {*columns}, -1
        while True:  # Extend the cheapest path to a column without a partner.
            budget.spend(len(columns) * STEPS_PER_WEIGHT)
            own = weights[row]
            base = 0.0 if column < 0 else costs[column] + own[column] + prices[column]
            for other in free:
                cost = base - own[other] - prices[other]
                if cost < costs[other]:
                    costs[other], before[other] = cost, column
            column = min(free, key=costs.__getitem__)
            free.remove(column)
            partner = partners[column]
            if partner is None:
                break
            row = partner
        for other in columns:
            if other not in free and other != column:
                prices[other] += costs[other] - costs[column]
        while column >= 0:
            previous = before[column]
            partners[column] = start if previous < 0 else partners[previous]
            column = previous
    return [(row, column) for column, row in enumerate(partners) if row is not None]


def align(weights: Sequence[Sequence[int]], budget: Budget) -> list[tuple[int, int]]:
    """Return the pairs with the greatest sum of weights that are in the same order in rows and columns.

    By the dynamic programming of sequence alignment, in n m steps.
    """
    table = [[0] * (len(weights[0]) + 1)]
    for own in weights:
        budget.spend(len(own) * STEPS_PER_WEIGHT)
        above, current = table[-1], [0]
        for column, weight in enumerate(own):
            current.append(max(above[column + 1], current[column], above[column] + weight))
        table.append(current)
    pairs = []
    row, column = len(weights), len(weights[0])
    while row and column:
        most = table[row][column]
        if most == table[row - 1][column]:
            row -= 1
        elif most == table[row][column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            pairs.append((row, column))
    return pairs[::-1]
