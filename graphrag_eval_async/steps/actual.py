"""A step of an agent's response, as input to comparators."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from graphrag_eval_async.catalogue.media_types import plain_type
from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.records.outputs import is_empty
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.formats.reading import read_table, steps_to_read
from graphrag_eval_async.steps.formats.results import results_of
from graphrag_eval_async.steps.formats.table import Table
from graphrag_eval_async.steps.graphs.reading import Graph, read_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from graphrag_eval_async.steps.differences import Agreement
    from graphrag_eval_async.steps.formats.results import SparqlResults

    Compare: TypeAlias = Callable[["ActualStep"], Agreement]
    """Compares an actual step with one reference step read beforehand."""

T = TypeVar("T")

GRAPH = "a graph"


def read_output(step: Mapping[str, Any], read: Callable[[Any], T]) -> T:
    """Return `read(step["output"])`."""
    if step.get("output") is None:
        raise MalformedStep("output: missing")
    try:
        return read(step["output"])
    except MalformedStep as error:
        raise MalformedStep(f"output: {error}") from None


def read_args(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a step; empty if it has none."""
    args = step.get("args")
    if args is None:
        return {}
    if not isinstance(args, dict):
        raise MalformedStep("args: must be an object")
    return args


def read_whole_number(args: Mapping[str, Any], key: str) -> int | None:
    """Return an integer argument, given as int or a float such as 5.0; None if absent or null."""
    value = args.get(key)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise MalformedStep(f"args.{key}: must be a whole number")


def kind_of(results: SparqlResults) -> str:
    """Return what results are, for errors."""
    return "a table" if results.boolean is None else "the boolean of ASK"


class _Unreadable(str):
    """Why an output cannot be read; storing the exception would keep the step alive by its
    traceback.
    """

    __slots__ = ()


class ActualStep:
    """An actual step whose output is read at most once, however many reference steps it is
    compared with.
    """

    __slots__ = ("_known", "budget", "step")

    def __init__(self, step: Mapping[str, Any], budget: Budget | None = None) -> None:
        self.step = step
        self.budget = budget or Budget()
        self._known: dict[Hashable, Any] = {}

    def remember(self, owner: Hashable, compute: Callable[[], T]) -> T:
        """Return `compute()`, cached for the `owner`, such as a comparator; so is a
        `MalformedStep`.
        """
        known = self._known
        if owner not in known:
            try:
                known[owner] = compute()
            except MalformedStep as error:
                known[owner] = _Unreadable(error)
        value = known[owner]
        if type(value) is _Unreadable:
            raise MalformedStep(value)
        return cast(T, value)

    def output(self, read: Callable[[Any], T]) -> T:
        """Return `read(step["output"])`, cached by `read`, which must be a module-level
        function.
        """
        return self.remember(read, lambda: read_output(self.step, read))

    def table(self, *, strict: bool = False) -> Table:
        """Return the output as a table, in whichever format; cached. `strict`: the reference has
        types.
        """
        table = self.remember(Table, self._read_table)
        if strict and self.budget.strict_types and not table.typed:
            raise MalformedStep("output: the cells have no types")
        return table

    def with_table(self, table: Table) -> ActualStep:
        """Return the same step with another reading of its output as a table."""
        other = ActualStep(self.step, self.budget)
        other.remember(Table, lambda: table)
        return other

    def _read_table(self) -> Table:
        if self.budget.quick:
            self.budget.spend(steps_to_read(self.step.get("output")))
        media_type = plain_type(self.step.get("output_media_type"))
        return read_output(self.step, partial(read_table, media_type=media_type))

    def results(self, *, has_blanks: bool = False, strict_types: bool = False) -> SparqlResults:
        """Return the output as SPARQL results, cached; see `results_of`."""
        table = self.table()
        read = partial(
            results_of,
            has_blanks=has_blanks or table.has_blanks,
            strict_types=strict_types,
        )
        return self.remember(
            (results_of, *read.keywords.values()),
            lambda: read_output({"output": table.document}, read),
        )

    def graph(self, *, union: bool = False) -> Graph:
        """Return the output as RDF, with the names of graphs or their union; cached."""
        read = partial(
            read_graph,
            media_type=self.step.get("output_media_type"),
            budget=self.budget,
            union=union,
        )
        return self.remember((Graph, union), lambda: read_output(self.step, read))

    def kind(self) -> str | None:
        """Return what the output is, for errors; None if it is neither a graph nor SPARQL
        results.
        """
        try:
            # Turtle can be read as a table with one column, but hardly any table as a graph.
            with suppress(MalformedStep):
                if self.graph().statements:
                    return GRAPH
            with suppress(MalformedStep):
                return kind_of(self.results())
        except ComparisonBudgetExceeded:
            if self.budget.quick:
                raise
        return None

    def unread(self) -> str:
        """Return the text round a table that was passed over in reading it."""
        table = self._known.get(Table)
        return table.unread if isinstance(table, Table) else ""

    def is_empty(self) -> bool:
        """Whether the output was read as a table without rows, or as a graph without statements."""
        for known in self._known.values():
            if type(known) is Graph and not known.statements:
                return True
            if type(known) is Table and (known.typed or not self.budget.strict_types):
                return is_empty(known.document)
        return False
