"""Replaces numbers in statements by classes, so that equal statements have near numbers."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.steps.sparql.columns import NUMERIC, Classes, Column, values_of
from graphrag_eval_async.steps.sparql.rows import rows_pair_off
from graphrag_eval_async.steps.sparql.tsv import XSD

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.steps.rdf.graph import Graph
    from graphrag_eval_async.steps.sparql.budget import Budget
    from graphrag_eval_async.steps.sparql.columns import Cell

# Only the start of a literal follows a space, except for a quote in a literal, which is escaped.
_TYPED = re.compile(rf'(?<= )"([\w.+ -]*+)"\^\^<{re.escape(XSD)}(\w+)>')

STEPS_PER_STATEMENT = 8


class Numbers:
    """The numbers and booleans of two graphs, and their classes.

    Attributes:
        found: whether there are any.
        loose: whether there is a class whose numbers are not all near each other.
    """

    def __init__(self, left: Graph, right: Graph, budget: Budget) -> None:
        budget.spend((len(left.statements) + len(right.statements)) * STEPS_PER_STATEMENT)
        columns = [_column(graph.statements) for graph in (left, right)]
        self._cells: dict[str, Cell] = {}
        self._written: dict[str, str] = {}
        self.found = any(columns)
        numeric = []
        for column in columns:
            numbers = {text: value for text, value in column.items() if type(value) in NUMERIC}
            numeric.append(Column("", [*numbers], [*numbers.values()]))
            for text in column.keys() - numbers.keys():
                self._written[text] = f'"{column[text][0]}"^^#boolean'
        classes = Classes(numeric, budget)
        for each in numeric:
            for literal, value, name in zip(each.texts, each.values, classes.of(each.values), strict=True):
                self._written[str(literal)] = f'"{_canonical(name)}"^^#number'
                if name in classes.loose:
                    self._cells[str(literal)] = type(value), value, literal
        self.loose = bool(self._cells)

    def classed(self, statements: Sequence[str]) -> list[str]:
        """Statements with the class in place of each number."""
        return _replaced(statements, self._written)

    def exact(self, statements: Sequence[str]) -> list[str]:
        """Statements with classes, but exact numbers where not all in a class are near each other."""
        kept = {text: f'"{_canonical(cell[1])}"^^#exact' for text, cell in self._cells.items()}
        return _replaced(statements, self._written | kept)

    def pair_off(
        self,
        left: tuple[Sequence[str], Sequence[str]],
        right: tuple[Sequence[str], Sequence[str]],
        budget: Budget,
    ) -> bool:
        """Whether statements that are equal but for loose numbers can be paired so that these are near.

        Each side has its statements, and the same with classes and labels.
        """
        return rows_pair_off(self._rows(*left), self._rows(*right), budget)

    def _rows(self, statements: Sequence[str], classed: Sequence[str]) -> Mapping[tuple[Any, ...], int]:
        rows: Counter[tuple[Any, ...]] = Counter()
        for line, name in zip(statements, classed, strict=True):
            cells = [self._cells[found[0]] for found in _TYPED.finditer(line) if found[0] in self._cells]
            rows[name, *cells] += 1
        return rows


def _replaced(statements: Sequence[str], written: Mapping[str, str]) -> list[str]:
    return [
        _TYPED.sub(lambda found: written.get(found[0], found[0]), line) if XSD in line else line
        for line in statements
    ]


def _column(statements: Sequence[str]) -> dict[str, Any]:
    """The values of numbers and booleans, by their literals."""
    literals = {found[0]: found for line in statements if XSD in line for found in _TYPED.finditer(line)}
    values = values_of(
        [found[1] for found in literals.values()], [XSD + found[2] for found in literals.values()]
    )
    return {
        literal: value for literal, value in zip(literals, values, strict=True) if not isinstance(value, str)
    }


def _canonical(number: Any) -> str:
    """One text for equal numbers."""
    if isinstance(number, float) and number.is_integer():
        return str(int(number))
    return repr(number)
