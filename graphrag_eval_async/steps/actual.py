"""A step of an agent's response, as input to comparators."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from graphrag_eval_async.catalogue.media_types import plain_type
from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.records.outputs import is_empty
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.cypher.output import CypherOutput
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
"""How errors call a graph, as `kind_of_results` calls a table."""


def read_output(step: Mapping[str, Any], read: Callable[[Any], T]) -> T:
    """Return what `read` returns for the output of a step.

    Raises:
        MalformedStep: the step has no output, or `read` raised `MalformedStep`. The message begins
            with ``output:``.
    """
    if step.get("output") is None:
        raise MalformedStep("output: missing")
    try:
        return read(step["output"])
    except MalformedStep as error:
        raise MalformedStep(f"output: {error}") from None


def read_args(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a step; empty if it has none.

    Raises:
        MalformedStep: the arguments are no object.
    """
    args = step.get("args")
    if args is None:
        return {}
    if not isinstance(args, dict):
        raise MalformedStep("args: must be an object")
    return args


def read_whole_number(args: Mapping[str, Any], key: str) -> int | None:
    """Return the integer argument under `key`; None if it is absent or null.

    A float without a fraction, such as 5.0, is an integer, too.

    Raises:
        MalformedStep: the argument is anything else.
    """
    value = args.get(key)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise MalformedStep(f"args.{key}: must be a whole number")


def kind_of_results(results: SparqlResults) -> str:
    """Return what error messages call SPARQL results: a table or a boolean."""
    if results.boolean is None:
        return "a table"
    return "the boolean of ASK"


class _Unreadable(str):
    """Why an output cannot be read.

    It is stored instead of the exception, whose traceback would keep the step in memory.
    """

    __slots__ = ()


class ActualStep:
    """An actual step whose output is read at most once, however many reference steps it is
    compared with.

    Attributes:
        step: the step as it stands in the response.
        budget: what the comparisons of its response may spend.
    """

    __slots__ = ("_cache", "budget", "step")

    def __init__(self, step: Mapping[str, Any], budget: Budget | None = None) -> None:
        """Keep an actual step, and what may be spent: a budget of its own if none is given."""
        self.step = step
        self.budget = budget or Budget()
        self._cache: dict[Hashable, Any] = {}

    def remember(self, owner: Hashable, compute: Callable[[], T]) -> T:
        """Return the result of `compute`, which is called only once for each `owner`.

        If `compute` raises `MalformedStep`, every later call for the same owner raises it, too.
        """
        if owner not in self._cache:
            try:
                self._cache[owner] = compute()
            except MalformedStep as error:
                self._cache[owner] = _Unreadable(error)
        result = self._cache[owner]
        if type(result) is _Unreadable:
            raise MalformedStep(result)
        return cast(T, result)

    def output(self, read: Callable[[Any], T]) -> T:
        """Return what `read` returns for the output of the step; cached.

        The function itself is the key in the cache, so it must be one of a module.
        """
        return self.remember(read, lambda: read_output(self.step, read))

    def table(self, *, strict: bool = False) -> Table:
        """Return the output, in whichever format, as a table; cached.

        Args:
            strict: whether the reference has types. If the budget asks for strict types, too, a
                table without types is refused.

        Raises:
            MalformedStep: the output is no table, or its cells have no types.
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
        """Return the output, in whichever format, as a table."""
        if self.budget.quick:
            # On an event loop, a long output is not even read.
            self.budget.spend(steps_to_read(self.step.get("output")))
        media_type = plain_type(self.step.get("output_media_type"))
        return read_output(self.step, partial(read_table, media_type=media_type))

    def results(self, *, has_blanks: bool = False, strict_types: bool = False) -> SparqlResults:
        """Return the output as SPARQL results; cached.

        Args:
            has_blanks: whether the reference table cannot tell empty texts from unbound cells. Then
                empty texts count as unbound here, too.
            strict_types: whether an IRI differs from a literal of the same text.

        Raises:
            MalformedStep: the output is no table.
        """
        table = self.table()
        has_blanks = has_blanks or table.has_blanks
        read = partial(results_of, has_blanks=has_blanks, strict_types=strict_types)
        return self.remember(
            (results_of, has_blanks, strict_types),
            lambda: read_output({"output": table.document}, read),
        )

    def graph(self, *, union: bool = False) -> Graph:
        """Return the output as RDF; cached.

        Args:
            union: whether the names of graphs are dropped, so that all statements are in one graph.

        Raises:
            MalformedStep: the output is no RDF.
        """
        read = partial(
            read_graph,
            media_type=self.step.get("output_media_type"),
            budget=self.budget,
            union=union,
        )
        return self.remember((Graph, union), lambda: read_output(self.step, read))

    def kinds(self) -> list[str]:
        """Return how errors call the output: a graph, a table or a boolean.

        A table of statements is both a graph and a table. The list is empty if the output is
        nothing of that, or if the budget does not suffice to read it.
        """
        kinds = []
        try:
            # A graph is tried first: Turtle can be read as a table with one column, but hardly any
            # table as a graph.
            with suppress(MalformedStep):
                graph = self.graph()
                if graph.statements:
                    kinds.append(GRAPH)
                    if not graph.is_table:
                        return kinds
            with suppress(MalformedStep):
                kinds.append(kind_of_results(self.results()))
        except ComparisonBudgetExceeded:
            if self.budget.quick:
                # The response is compared again in a thread, with a larger budget.
                raise
        return kinds

    def unread(self) -> str:
        """Return the text around the table in the output, which was skipped when it was read.

        Empty if there is no such text, or if the output was not read as a table yet.
        """
        table = self._cache.get(Table)
        if isinstance(table, Table):
            return table.unread
        output = self._cache.get(CypherOutput)
        if isinstance(output, CypherOutput):
            return output.table.unread
        return ""

    def doubt(self) -> str:
        """Return how a text was read as a table, if it may be none.

        Empty if the output is surely a table, or was not read as one yet.
        """
        table = self._cache.get(Table)
        return table.doubt if isinstance(table, Table) else ""

    def is_empty(self) -> bool:
        """Return whether the output was read as an empty table or an empty graph.

        A table without types does not count if the budget asks for strict types. False if the
        output was not read yet.
        """
        # Only what was read for a comparison is looked at; nothing is read for this.
        for content in self._cache.values():
            if type(content) is Graph and not content.statements:
                return True
            if type(content) is CypherOutput and not content.table.rows:
                return True
            if type(content) is Table and (content.typed or not self.budget.strict_types):
                return is_empty(content.document)
        return False
