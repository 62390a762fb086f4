"""What differs between the rows and cells of two tables that agree in part."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from graphrag_eval_async.steps.differences import MAX_CELLS, first_of_each, shorten
from graphrag_eval_async.steps.sparql.columns import near

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphrag_eval_async.steps.differences import Difference
    from graphrag_eval_async.steps.sparql.columns import Cell, Column
    from graphrag_eval_async.steps.sparql.partial import Partial


class Differences:
    """The differences that partial credit found.

    A pair of rows has wrong values if at least half of the cells in paired columns agree. Otherwise its
    expected row counts as missing, and its actual row as extra.
    """

    def __init__(self, partial: Partial) -> None:
        self._required = partial.required
        self._paired = [
            (ours, theirs)
            for ours, theirs in zip(partial.required, partial.partners, strict=True)
            if theirs is not None
        ]
        self._partners = partial.partners
        width = len(self._paired)
        apart = [pair for pair in partial.pairs if 2 * pair.cells < width]
        self._inexact = [pair for pair in partial.pairs if width / 2 <= pair.cells < width]
        self._missing = sorted(chain(partial.missing, (pair.expected for pair in apart)))
        self._extra = sorted(chain(partial.extra, (pair.actual for pair in apart)))

    def reason(self) -> str | None:
        """Whether missing rows, extra rows or wrong values affect most cells; None if nothing differs."""
        width = len(self._required)
        wrong = sum(len(self._paired) - pair.cells for pair in self._inexact)
        costs = len(self._missing) * width, len(self._extra) * width, wrong
        most = max(costs)
        return ("missing_rows", "extra_rows", "wrong_values")[costs.index(most)] if most else None

    def listed(self) -> list[Difference]:
        """The first differences of each kind."""
        return first_of_each(self._columns(), self._missing_rows(), self._extra_rows(), self._wrong_values())

    def _columns(self) -> Iterator[Difference]:
        for ours, theirs in zip(self._required, self._partners, strict=True):
            if theirs is None:
                yield {"kind": "missing_column", "column": shorten(ours.name)}

    def _missing_rows(self) -> Iterator[Difference]:
        for row in self._missing:
            yield {"kind": "missing_row", "row": _shown(((each, each) for each in self._required), row)}

    def _extra_rows(self) -> Iterator[Difference]:
        for row in self._extra:
            yield {"kind": "extra_row", "row": _shown(self._paired, row)}

    def _wrong_values(self) -> Iterator[Difference]:
        for pair in self._inexact:
            for ours, theirs in self._paired:
                expected, actual = _cell(ours, pair.expected), _cell(theirs, pair.actual)
                if not near(expected, actual):
                    yield {
                        "kind": "wrong_value",
                        "row": pair.actual,
                        "column": shorten(ours.name),
                        "expected": shorten(expected[2]),
                        "actual": shorten(actual[2]),
                    }


def _shown(columns: Iterable[tuple[Column, Column]], row: int) -> dict[str, str | None]:
    """The texts of a row of the second columns, under the names of the first."""
    return {str(shorten(ours.name)): shorten(each.texts[row]) for ours, each in islice(columns, MAX_CELLS)}


def _cell(column: Column, row: int) -> Cell:
    return type(column.values[row]), column.values[row], column.texts[row]
