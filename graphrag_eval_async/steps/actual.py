"""A step of an agent's response, as input to comparators."""

from __future__ import annotations

from contextlib import suppress
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.shapes import CSV, plain_type
from graphrag_eval_async.steps.graphs.reading import Graph, Source, read_dataset
from graphrag_eval_async.steps.sparql.budget import Budget
from graphrag_eval_async.steps.sparql.results import read_document, results_of
from graphrag_eval_async.steps.sparql.tables import (
    Table,
    read_csv,
    read_table,
    results_of_table,
    steps_to_read,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from graphrag_eval_async.steps.sparql.results import SparqlResults

    Score: TypeAlias = Callable[["ActualStep"], float]
    """The match score, from 0 to 1, of an actual step against one reference step read beforehand."""

T = TypeVar("T")


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


def as_it_is(output: Any) -> Any:
    return output


GRAPH = "a graph"


def kind_of(results: SparqlResults) -> str:
    """Return what results are, for errors."""
    return "a table" if results.boolean is None else "the boolean of ASK"


class _Unreadable(str):
    """Why an output cannot be read; storing the exception would keep the step alive by its traceback."""

    __slots__ = ()


class ActualStep:
    """An actual step whose output is read at most once, however many reference steps it is compared with.

    `budget` limits how much comparators may search.
    """

    __slots__ = ("_known", "budget", "step")

    def __init__(self, step: Mapping[str, Any], budget: Budget | None = None) -> None:
        self.step = step
        self.budget = budget or Budget()
        self._known: dict[Hashable, Any] = {}

    def output(self, read: Callable[[Any], T]) -> T:
        """Return `read(step["output"])`, cached by `read`, which must be a module-level function."""
        return self._read(self.step, read)

    def results(self) -> SparqlResults:
        """Return the output as SPARQL results; cached."""
        return self._read({"output": self.output(read_document)}, results_of)

    def table(self, *, strict: bool = True) -> SparqlResults:
        """Return the results in an output that is not a JSON object; cached. See `raw_table`."""
        return self._read({"output": self.raw_table(strict=strict)}, results_of_table)

    def raw_table(self, *, strict: bool = True) -> Table:
        """Return the table in an output that is not a JSON object; cached.

        Args:
            strict: whether an untyped table is refused if types must be strict. False if the reference has
                no types either.
        """
        read = read_csv if plain_type(self.step.get("output_media_type")) == CSV else read_table
        if self.budget.quick and read not in self._known:
            self.budget.spend(steps_to_read(self.step.get("output")))
        table = self.output(read)
        if strict and self.budget.strict_types and not table.typed:
            raise MalformedStep("output: the cells have no types")
        return table

    def remember(self, owner: Hashable, compute: Callable[[], T]) -> T:
        """Return `compute()`, cached for the `owner`, such as a comparator, unless it raises."""
        known = self._known
        if owner not in known:
            known[owner] = compute()
        return cast(T, known[owner])

    def graph(self, read: Callable[[Source], Graph]) -> Graph:
        """Return the output as RDF, cached by `read`, which is `read_dataset` or `read_union`."""
        output = self.output(as_it_is)
        return self._read({"output": Source(output, self.step.get("output_media_type"), self.budget)}, read)

    def kind(self) -> str | None:
        """Return what the output is, for errors; None if it is neither a graph nor SPARQL results."""
        with suppress(MalformedStep):
            if self.graph(read_dataset).statements:
                return GRAPH
        with suppress(MalformedStep):
            return kind_of(self.results())
        with suppress(MalformedStep):
            return kind_of(self.table(strict=False))
        return None

    def unlike(self, expected: str, error: MalformedStep) -> MalformedStep:
        """Return the error to raise: what was expected and what came or, if that is not known, this one."""
        found = self.kind()
        if found in (None, expected):
            return error
        return MalformedStep(f"output: expected {expected}, got {found}")

    def _read(self, step: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        known = self._known
        if read not in known:
            try:
                known[read] = read_output(step, read)
            except MalformedStep as error:
                known[read] = _Unreadable(error)
        value = known[read]
        if type(value) is _Unreadable:
            raise MalformedStep(value)
        return cast(T, value)

    @property
    def parsed(self) -> Any:
        """The output, decoded if it was read as SPARQL results or as a table; blank for an empty graph."""
        document = self._known.get(read_document)
        table = self._known.get(read_table) or self._known.get(read_csv)
        if any(type(known) is Graph and not known.statements for known in self._known.values()):
            return ""
        if type(table) is Table and (table.typed or not self.budget.strict_types):
            return table.document
        return self.step.get("output") if type(document) in {_Unreadable, NoneType} else document
