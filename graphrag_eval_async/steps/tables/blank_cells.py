"""Blank nodes in the cells of tables: their labels are local to a document.

Two tables agree only if some one-to-one renaming of the blank nodes makes their rows equal. The
rows of a table are written as a graph: each row is a blank node of its own, and each cell a
statement about it, with the column as predicate. The graphs are isomorphic if and only if such a
renaming exists.

Where it is not known which columns are paired, a column is a blank node, too, which each of its
cells names. Then the graphs are isomorphic if and only if some pairing of the columns and some
renaming together make the rows equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.steps.graphs.blank_nodes import BlankNodes
from graphrag_eval_async.steps.tables.quoted_triples import is_quoted_triple, read_quoted_triple
from graphrag_eval_async.steps.tables.rules import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.tables.classes import Classes
    from graphrag_eval_async.steps.tables.columns import Column, Value

STEPS_PER_CELL = 40
"""Steps of a budget for a cell that is written as a statement."""

MOST_SEARCH_STEPS = 5_000_000
"""Steps up to which columns and blank nodes are paired together: a few seconds.

The graph has three links for each cell, and colour refinement takes longer for a step than other
loops do.
"""


class PairedColumn(NamedTuple):
    """A required column and the actual column that is its partner.

    The classes of a column are the equivalence classes of its cells. They say which cells agree,
    except for blank nodes, which the labels in the columns tell apart.
    """

    expected: Column
    expected_classes: Classes
    actual: Column
    actual_classes: Classes


class GroupedColumn(NamedTuple):
    """A column of one table with the number of its group, which has columns of both tables.

    Only columns of the same group may be paired with each other.
    """

    column: Column
    classes: Classes
    group: int


class SharedLabels(NamedTuple):
    """New labels for the blank nodes of two tables, by the old ones.

    Blank nodes that are likely to correspond have the same new label.
    """

    expected: dict[str, str]
    actual: dict[str, str]


def has_blank_nodes(columns: Sequence[Column]) -> bool:
    """Return whether any cell of these columns is a blank node."""
    return any(column.labels is not None for column in columns)


def blank_nodes_correspond(pairs: Sequence[PairedColumn], *, rows: Rows, budget: Budget) -> bool:
    """Return whether some one-to-one renaming of blank nodes makes the rows of two tables equal.

    Args:
        pairs: all columns that are compared. Apart from the labels of blank nodes, their rows are
            equal.
        rows: how rows are compared.
        budget: what may be spent.

    Raises:
        ComparisonBudgetExceeded: the budget did not suffice to decide.
    """
    if not has_blank_nodes([pair.expected for pair in pairs]):
        return True
    expected, actual = _write_paired_columns(pairs, rows=rows, budget=budget)
    return _are_isomorphic(expected, actual, budget)


def columns_and_blank_nodes_correspond(
    expected: Sequence[GroupedColumn],
    actual: Sequence[GroupedColumn],
    *,
    rows: Rows,
    budget: Budget,
) -> bool:
    """Return whether some pairing of columns and renaming of blank nodes makes the rows equal.

    Args:
        expected: the columns of one table. Each of them must have a partner.
        actual: the columns of the other table. Each of them must have a partner, too, so each group
            has as many columns here as in `expected`.
        rows: how rows are compared.
        budget: what may be spent.

    Raises:
        ComparisonBudgetExceeded: the budget did not suffice to decide.
    """
    number_of_cells = sum(len(column.classes) for column in [*expected, *actual])
    budget.spend(STEPS_PER_CELL * number_of_cells)
    class_numbers: dict[Value, int] = {}
    expected_graph = _RowGraph(rows, class_numbers)
    expected_graph.add_grouped_columns(expected)
    actual_graph = _RowGraph(rows, class_numbers)
    actual_graph.add_grouped_columns(actual)
    with budget.limited(MOST_SEARCH_STEPS):
        return _are_isomorphic(expected_graph, actual_graph, budget)


def shared_labels(pairs: Sequence[PairedColumn], *, rows: Rows, budget: Budget) -> SharedLabels:
    """Return new labels for the blank nodes of two tables, by which these can be compared.

    Blank nodes that are likely to correspond have the same new label.

    Args:
        pairs: all columns that are compared.
        rows: how rows are compared.
        budget: what may be spent.
    """
    expected, actual = _write_paired_columns(pairs, rows=rows, budget=budget)
    nodes = BlankNodes(expected.statements, actual.statements, budget)
    # `labels` returns the new labels by the names of nodes in the graphs. Return them by the labels
    # in the tables.
    expected_labels, actual_labels = nodes.labels()
    return SharedLabels(
        expected=_new_labels(expected.nodes, expected_labels),
        actual=_new_labels(actual.nodes, actual_labels),
    )


def _new_labels(nodes: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Return the new label for each label of a table.

    The new label of a quoted triple has those of all blank nodes in it.

    Args:
        nodes: the blank node in the graph for each label in the table.
        names: the new label of each blank node in the graph.
    """
    new_labels: dict[str, str] = {}
    for label, node in nodes.items():
        if is_quoted_triple(label):
            triple = read_quoted_triple(label)
            inner_names = [names[nodes[inner_label]] for inner_label in triple.labels]
            new_labels[label] = " ".join([triple.template, *inner_names])
        else:
            new_labels[label] = names[node]
    return new_labels


class _CellName(NamedTuple):
    """How a graph names the column of a cell: by a predicate and, if that is not enough, a node.

    The blank node `column_node` is empty if the predicate alone says which column it is.
    """

    predicate: str
    column_node: str = ""


class _RowGraph:
    """The rows of a table as statements in N-Quads.

    Attributes:
        statements: the statements.
        nodes: the blank node in the graph for each label in the table.
    """

    def __init__(self, rows: Rows, class_numbers: dict[Value, int]) -> None:
        """Begin without statements.

        Args:
            rows: how rows are compared.
            class_numbers: a number for each class of cells, which two graphs share. New classes are
                added to it.
        """
        self.statements: list[str] = []
        self.nodes: dict[str, str] = {}
        self._rows = rows
        self._class_numbers = class_numbers

    def add_grouped_columns(self, columns: Sequence[GroupedColumn]) -> None:
        """Add the statements of the rows of columns whose partners in another table are unknown.

        The predicate of a column names its group. If the group has several columns of this table, a
        blank node tells them apart.
        """
        sizes = [0] * (1 + max(column.group for column in columns))
        for column in columns:
            sizes[column.group] += 1
        names = []
        for position, column in enumerate(columns):
            predicate = f"<column:{column.group}>"
            if sizes[column.group] == 1:
                names.append(_CellName(predicate))
            else:
                names.append(_CellName(predicate, column_node=f"_:column{position}"))
        self.add_rows(
            [column.column for column in columns],
            classes=[column.classes for column in columns],
            names=names,
        )

    def add_rows(
        self, columns: Sequence[Column], *, classes: Sequence[Classes], names: Sequence[_CellName]
    ) -> None:
        """Add the statements of all rows; if rows are compared as a set, repeated rows are skipped.

        Args:
            columns: the columns of the table.
            classes: the equivalence classes of the cells of each column.
            names: how the cells of each column are named in the graph.
        """
        written_rows: set[tuple[str | None, ...]] = set()
        for row in range(len(classes[0])):
            cells = []
            for column, column_classes in zip(columns, classes, strict=True):
                label = None
                if column.labels is not None:
                    label = column.labels[row]
                cells.append(self._cell_term(column_classes[row], label))

            is_repeated = tuple(cells) in written_rows
            if is_repeated and self._rows is Rows.AS_SET:
                continue
            written_rows.add(tuple(cells))
            self._add_row(row, cells, names)

    def _add_row(self, row: int, cells: Sequence[str | None], names: Sequence[_CellName]) -> None:
        """Add the statements of a row.

        Args:
            row: the index of the row.
            cells: the term of each cell; None if it is unbound.
            names: how the graph names the column of each cell.
        """
        subject = f"_:row{row}"
        if self._rows is Rows.IN_ORDER:
            # An IRI corresponds only to itself: to the row at the same place in the other table.
            subject = f"<row:{row}>"
        # This statement is the same for all rows. A row without bound cells has no other one.
        self.statements.append(f"{subject} <row:> <row:>")
        for cell, name in zip(cells, names, strict=True):
            if cell is not None:
                # The blank node of the column takes the place of the name of a graph.
                statement = f"{subject} {name.predicate} {cell} {name.column_node}"
                self.statements.append(statement.rstrip())

    def _cell_term(self, cell_class: Value, label: str | None) -> str | None:
        """Return the term for a cell: its blank node, or an IRI for its class; None if unbound.

        Add new blank nodes to `nodes`, and new classes to the numbers of classes.

        Args:
            cell_class: the class of the cell; None if the cell is unbound.
            label: the label of the blank node in the cell; None if there is another term.
        """
        if label is not None and is_quoted_triple(label):
            return self._triple_node(cell_class, label)
        if label is not None:
            return self._node(label)
        if cell_class is None:
            return None
        return self._class_term(cell_class)

    def _node(self, label: str) -> str:
        """Return the blank node for a label; add it to `nodes` if it is new."""
        return self.nodes.setdefault(label, f"_:node{len(self.nodes)}")

    def _class_term(self, cell_class: Value) -> str:
        """Return the IRI for a class of cells."""
        number = self._class_numbers.setdefault(cell_class, len(self._class_numbers))
        return f"<class:{number}>"

    def _triple_node(self, cell_class: Value, label: str) -> str:
        """Return the blank node for a quoted triple; if it is new, add statements about its parts.

        Args:
            cell_class: the class of triples that are equal but for the labels of blank nodes.
            label: the JSON of the triple.
        """
        if label in self.nodes:
            return self.nodes[label]
        node = self._node(label)
        self.statements.append(f"{node} <triple:> {self._class_term(cell_class)}")
        for position, inner_label in enumerate(read_quoted_triple(label).labels):
            self.statements.append(f"{node} <part:{position}> {self._node(inner_label)}")
        return node


def _write_paired_columns(
    pairs: Sequence[PairedColumn], *, rows: Rows, budget: Budget
) -> tuple[_RowGraph, _RowGraph]:
    """Return the graph of the expected rows, and the graph of the actual rows.

    Both graphs use the same names for paired columns, and the same numbers for classes of cells. So
    cells that agree have equal terms in both.
    """
    number_of_rows = len(pairs[0].expected_classes) + len(pairs[0].actual_classes)
    budget.spend(STEPS_PER_CELL * number_of_rows * len(pairs))
    names = [_CellName(f"<column:{position}>") for position in range(len(pairs))]
    class_numbers: dict[Value, int] = {}
    expected = _RowGraph(rows, class_numbers)
    expected.add_rows(
        [pair.expected for pair in pairs],
        classes=[pair.expected_classes for pair in pairs],
        names=names,
    )
    actual = _RowGraph(rows, class_numbers)
    actual.add_rows(
        [pair.actual for pair in pairs],
        classes=[pair.actual_classes for pair in pairs],
        names=names,
    )
    return expected, actual


def _are_isomorphic(expected: _RowGraph, actual: _RowGraph, budget: Budget) -> bool:
    """Return whether a bijection of blank nodes makes the statements of two graphs equal."""
    if len(expected.statements) != len(actual.statements):
        # This is the quickest way to tell most graphs apart.
        return False
    return BlankNodes(expected.statements, actual.statements, budget).isomorphic()
