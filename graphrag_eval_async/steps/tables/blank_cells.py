"""Blank nodes in the cells of tables: their labels are local to a document.

Two tables agree only if some one-to-one renaming of the blank nodes makes their rows equal. The
rows of a table are written as a graph: each row is a blank node of its own, and each cell a
statement about it, with the column as predicate. The graphs are isomorphic if and only if such a
renaming exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.steps.graphs.blank_nodes import BlankNodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.tables.columns import Column, Value

STEPS_PER_CELL = 40
"""Steps of a budget for a cell that is written as a statement."""


class PairedColumn(NamedTuple):
    """A required column and the actual one with which it is paired, with the classes of both."""

    expected: Column
    expected_classes: Sequence[Value]
    actual: Column
    actual_classes: Sequence[Value]


class SharedLabels(NamedTuple):
    """New labels for the blank nodes of both sides, by their own labels: the same if they are
    likely to correspond.
    """

    expected: dict[str, str]
    actual: dict[str, str]


def has_blank_nodes(columns: Sequence[Column]) -> bool:
    """Return whether any cell of these columns is a blank node."""
    return any(column.labels is not None for column in columns)


def blank_nodes_correspond(
    pairs: Sequence[PairedColumn], *, rows_as: type[Any], budget: Budget
) -> bool:
    """Return whether a one-to-one renaming of blank nodes makes rows equal that are alike but for
    their labels.

    Args:
        pairs: all columns that are compared.
        rows_as: list if the rows are in order, frozenset if equal rows count once, Counter if not.
        budget: what may be spent.

    Raises:
        ComparisonBudgetExceeded: it was not decided within the budget.
    """
    if not has_blank_nodes([pair.expected for pair in pairs]):
        return True
    expected, actual = _both_graphs(pairs, rows_as=rows_as, budget=budget)
    if len(expected.statements) != len(actual.statements):
        return False
    return BlankNodes(expected.statements, actual.statements, budget).isomorphic()


def shared_labels(
    pairs: Sequence[PairedColumn], *, rows_as: type[Any], budget: Budget
) -> SharedLabels:
    """Return labels by which blank nodes of both sides can be compared.

    For the arguments, see `blank_nodes_correspond`.
    """
    expected, actual = _both_graphs(pairs, rows_as=rows_as, budget=budget)
    expected_names, actual_names = BlankNodes(
        expected.statements, actual.statements, budget
    ).labels()
    return SharedLabels(
        {label: expected_names[node] for label, node in expected.nodes.items()},
        {label: actual_names[node] for label, node in actual.nodes.items()},
    )


class _RowGraph:
    """The rows of one side as statements of N-Quads."""

    def __init__(self, *, rows_as: type[Any], class_numbers: dict[Value, int]) -> None:
        """Begin without statements; `class_numbers`, which both sides share, is extended."""
        self.statements: list[str] = []
        self.nodes: dict[str, str] = {}  # By label.
        self._rows_as = rows_as
        self._class_numbers = class_numbers

    def add_rows(self, columns: Sequence[Column], classes: Sequence[Sequence[Value]]) -> None:
        seen: set[tuple[str | None, ...]] = set()
        for row in range(len(classes[0])):
            cells = []
            for column, column_classes in zip(columns, classes, strict=True):
                label = None if column.labels is None else column.labels[row]
                cells.append(self._object(column_classes[row], label))
            if self._rows_as is frozenset and tuple(cells) in seen:
                continue
            seen.add(tuple(cells))
            self._add_row(row, cells)

    def _add_row(self, row: int, cells: list[str | None]) -> None:
        subject = f"<row:{row}>" if self._rows_as is list else f"_:row{row}"
        self.statements.append(f"{subject} <row:> <row:>")  # A row may have no bound cell.
        for position, cell in enumerate(cells):
            if cell is not None:
                self.statements.append(f"{subject} <column:{position}> {cell}")

    def _object(self, value: Value, label: str | None) -> str | None:
        """Return a cell as the object of a statement: its blank node, or the class of its value."""
        if label is not None:
            return self.nodes.setdefault(label, f"_:node{len(self.nodes)}")
        if value is None:
            return None
        number = self._class_numbers.setdefault(value, len(self._class_numbers))
        return f"<class:{number}>"


def _both_graphs(
    pairs: Sequence[PairedColumn], *, rows_as: type[Any], budget: Budget
) -> tuple[_RowGraph, _RowGraph]:
    class_numbers: dict[Value, int] = {}
    expected = _RowGraph(rows_as=rows_as, class_numbers=class_numbers)
    actual = _RowGraph(rows_as=rows_as, class_numbers=class_numbers)
    heights = len(pairs[0].expected_classes) + len(pairs[0].actual_classes)
    budget.spend(STEPS_PER_CELL * heights * len(pairs))
    expected.add_rows([pair.expected for pair in pairs], [pair.expected_classes for pair in pairs])
    actual.add_rows([pair.actual for pair in pairs], [pair.actual_classes for pair in pairs])
    return expected, actual
