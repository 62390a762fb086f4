"""One step of an agent's response, as the comparators see it."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.sparql.budget import Budget
from graphrag_eval_async.steps.sparql.results import read_document, results_of
from graphrag_eval_async.steps.sparql.tables import Table, read_table, steps_to_read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.steps.sparql.results import SparqlResults

    Score: TypeAlias = Callable[["ActualStep"], float]
    """The match score, from 0 to 1, of an actual step against one reference step read beforehand."""

T = TypeVar("T")


def read_output(step: Mapping[str, Any], read: Callable[[Any], T]) -> T:
    """`read(step["output"])`.

    Raises:
        MalformedStep: there is no output, or `read` raises it; the message starts with the key.
    """
    if step.get("output") is None:
        raise MalformedStep("output: missing")
    try:
        return read(step["output"])
    except MalformedStep as error:
        raise MalformedStep(f"output: {error}") from None


def read_args(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of a step, empty if it has none.

    Raises:
        MalformedStep: they are not an object.
    """
    args = step.get("args")
    if args is None:
        return {}
    if not isinstance(args, dict):
        raise MalformedStep("args: must be an object")
    return args


def read_whole_number(args: Mapping[str, Any], key: str) -> int | None:
    """A whole number among the arguments, 5.0 included; None if it is absent or null.

    Raises:
        MalformedStep: it is anything else.
    """
    value = args.get(key)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise MalformedStep(f"args.{key}: must be a whole number")


class _Unreadable(str):
    """Why an output cannot be read; an exception would refer, by its traceback, back to the step."""

    __slots__ = ()


class ActualStep:
    """An actual step with its output read at most once, however many reference steps it is compared with.

    `budget` is what comparators may spend on searching. `strict_types` refuses tables with untyped cells.
    `quick` counts what tables take to read against the budget, which is that of an event loop.
    """

    __slots__ = ("_known", "budget", "quick", "step", "strict_types")

    def __init__(
        self,
        step: Mapping[str, Any],
        budget: Budget | None = None,
        *,
        strict_types: bool = False,
        quick: bool = False,
    ) -> None:
        self.step = step
        self.quick = quick
        self.strict_types = strict_types
        self.budget = budget or Budget()
        self._known: dict[Callable[[Any], Any], Any] = {}

    def output(self, read: Callable[[Any], T]) -> T:
        """`read(step["output"])`, remembered under `read`, which must be a module's function.

        Raises:
            MalformedStep: there is no output, or `read` raises it.
        """
        return self._read(self.step, read)

    def results(self) -> SparqlResults:
        """The output as SPARQL results, remembered as well.

        Raises:
            MalformedStep: it is something else.
        """
        return self._read({"output": self.output(read_document)}, results_of)

    def table(self) -> SparqlResults:
        """The results that an output holds which is not a JSON object, remembered as well.

        Raises:
            MalformedStep: it is no table, or an untyped one although `strict_types` is set.
            ComparisonBudgetExceeded: the table is too sparse, or if `quick`, too large.
        """
        if self.quick and read_table not in self._known:
            self.budget.spend(steps_to_read(self.step.get("output")))
        table = self.output(read_table)
        if self.strict_types and not table.typed:
            raise MalformedStep("output: the cells have no types")
        return self._read({"output": table.document}, results_of)

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
        """The output, decoded if it was read as SPARQL results or as a table."""
        document = self._known.get(read_document)
        table = self._known.get(read_table)
        if type(table) is Table and (table.typed or not self.strict_types):
            return table.document
        return self.step.get("output") if type(document) in {_Unreadable, NoneType} else document
