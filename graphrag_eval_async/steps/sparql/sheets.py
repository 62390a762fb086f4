"""Two tables with the classes of their cells numbered, for partial credit."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import TYPE_CHECKING

from graphrag_eval_async.steps.sparql.columns import Classes, Column, check_hashes, unique
from graphrag_eval_async.steps.sparql.row_pairs import Side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.sparql.budget import Budget
    from graphrag_eval_async.steps.sparql.columns import Cell, Value


class Sheet:
    """The columns of one table, each as the numbers of the classes of its cells."""

    def __init__(self, columns: Sequence[Column], ids: Sequence[Sequence[int]], loose: set[int]) -> None:
        self.columns = columns
        self.ids = ids
        self.loose = [not loose.isdisjoint(each) for each in ids] if loose else [False] * len(ids)
        self._loose = loose

    def side(self, chosen: Sequence[int], rows: Sequence[int], loose: Sequence[int]) -> Side:
        """Some rows of the chosen columns; `loose` are positions among them."""
        ids = [*zip(*(self.ids[column] for column in chosen), strict=True)]
        cells = [*zip(*(self.columns[chosen[place]].cells() for place in loose), strict=True)]
        return Side([ids[row] for row in rows], [cells[row] for row in rows] if cells else [])

    def distinct(self, chosen: Sequence[int], height: int) -> list[int]:
        """The first of each group of rows that are equal in the chosen columns."""
        rows = [*zip(*(self._keys(column) for column in chosen), strict=True)] or [()] * height
        return sorted(dict(zip(reversed(rows), range(height - 1, -1, -1), strict=True)).values())

    def _keys(self, column: int) -> Sequence[int | Cell]:
        """What cells that count as equal share."""
        if not self.loose[column]:
            return self.ids[column]
        cells = zip(self.ids[column], self.columns[column].cells(), strict=True)
        return [cell if number in self._loose else number for number, cell in cells]


def lay_out(
    required: Sequence[Column], found: Sequence[Column], budget: Budget
) -> tuple[Sheet, Sheet, Sequence[Value]]:
    """Number the classes of the cells of both tables, and return the value that stands for each, too."""
    columns = [*required, *found]
    budget.spend(sum(len(column.values) for column in columns))
    classes = Classes(columns, budget)
    whole = [column.distinct for column in columns if int in column.types]
    check_hashes(unique([value for values in whole for value in values]) if whole else ())
    numbers: defaultdict[Value, int] = defaultdict(count().__next__)
    ids = [[*map(numbers.__getitem__, classes.of(column.values))] for column in columns]
    loose = {numbers[value] for value in classes.loose if value in numbers}
    split = len(required)
    return Sheet(required, ids[:split], loose), Sheet(found, ids[split:], loose), [*numbers]


def columns_of(results: SparqlResults, names: Sequence[str]) -> list[Column]:
    """The columns of these variables; those that are never bound have no cell in any row."""
    known = {column.name: column for column in results.columns}
    unbound = [None] * results.row_count
    return [known.get(name) or Column(name, unbound, unbound) for name in names]
