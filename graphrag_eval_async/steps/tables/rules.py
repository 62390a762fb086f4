"""What reference steps ask of a comparison of tables, and a reference that is ready for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from graphrag_eval_async.catalogue.reference_steps import MATCH_COLUMNS
from graphrag_eval_async.errors import MalformedStep

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.steps.formats.results import SparqlResults
    from graphrag_eval_async.steps.tables.columns import Column, Value

    Row: TypeAlias = tuple[Value, ...]
    """The cells of a row, as values or as classes."""


class Rows(Enum):
    """How the rows of two tables are compared."""

    IN_ORDER = "in order"
    AS_SET = "as sets, so that equal rows count once"
    AS_MULTISET = "as multisets, so that equal rows count as often as they occur"

    def collect(self, rows: Iterable[Row]) -> Collection[Row]:
        """Return a collection of rows. The collections of two tables are equal if their rows agree.

        For rows in order, it is a list; otherwise, a set, or the count of each row.
        """
        if self is Rows.IN_ORDER:
            return list(rows)
        if self is Rows.AS_SET:
            return frozenset(rows)
        return Counter(rows)


@dataclass(frozen=True, slots=True)
class TableRules:
    """How a table is compared with that of a reference step.

    Attributes:
        rows: how rows are compared.
        required_columns: the columns of the reference that must be in the other table. None if all
            of them must.
        columns: which columns of both tables are paired, one of `COLUMN_RULES`. None if the
            reference step does not say so.
    """

    rows: Rows = Rows.AS_SET
    required_columns: tuple[str, ...] | None = None
    columns: str | None = None

    @classmethod
    def of_step(cls, step: Mapping[str, Any], *, ignores_duplicates: bool = True) -> TableRules:
        """Return the rules that a reference step asks for.

        Args:
            step: the reference step.
            ignores_duplicates: whether equal rows count once if the step does not say it.
        """
        if step.get("ignore_duplicates") is not None:
            ignores_duplicates = bool(step["ignore_duplicates"])
        if step.get("ordered"):
            # Ordered rows include repeated rows, even if the step has `ignore_duplicates`.
            rows = Rows.IN_ORDER
        elif ignores_duplicates:
            rows = Rows.AS_SET
        else:
            rows = Rows.AS_MULTISET
        return cls(
            rows=rows,
            # An empty list means all columns, like no list.
            required_columns=tuple(step.get("required_columns") or ()) or None,
            columns=step.get(MATCH_COLUMNS),
        )


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference results and how to compare them; made by `prepare_reference`.

    Attributes:
        results: the results.
        rules: how rows are compared.
        names: the required columns.
        columns: those required columns that are bound in at least one row.
        rows: the values in `columns`, row by row, as `Rows.collect` returns them.
    """

    results: SparqlResults
    rules: TableRules
    names: tuple[str, ...]
    columns: Sequence[Column]
    rows: Collection[Row]

    def with_column_rule(self, column_rule: str) -> Reference:
        """Return the same reference, to which a rule applies unless its step has its own.

        Args:
            column_rule: which columns are paired, one of `COLUMN_RULES`.
        """
        if self.rules.columns is not None:
            return self
        return replace(self, rules=replace(self.rules, columns=column_rule))

    def with_rows_in_any_order(self) -> Reference:
        """Return the same reference, whose rows are now compared as a multiset."""
        rules = replace(self.rules, rows=Rows.AS_MULTISET)
        return replace(self, rules=rules, rows=Counter(self.rows))


def prepare_reference(results: SparqlResults, rules: TableRules) -> Reference:
    """Prepare reference results, so that many actual results can be compared with them.

    Raises:
        MalformedStep: the results have a mistake, or a required column is repeated or is not among
            their variables.
    """
    if results.flaw:
        raise MalformedStep(f"output: not SPARQL JSON: {results.flaw}")
    names = rules.required_columns or tuple(results.variables)
    check_required(names)
    unknown_names = [name for name in names if name not in results.variables]
    if unknown_names:
        listed = ", ".join(map(repr, unknown_names))
        raise MalformedStep(f"required_columns: not among the variables of the output: {listed}")
    columns = results.named(names)
    return Reference(
        results=results,
        rules=rules,
        names=names,
        columns=columns,
        rows=rules.rows.collect(rows_of(columns)),
    )


def check_required(columns: Sequence[str]) -> None:
    """Raise `MalformedStep` if a required column is repeated."""
    for name, times in Counter(columns).items():
        if times > 1:
            raise MalformedStep(f"required_columns: {name!r} is repeated")


def rows_of(columns: Sequence[Column]) -> Iterator[Row]:
    """Return the values in some columns, row by row."""
    return zip(*(column.values for column in columns), strict=True)
