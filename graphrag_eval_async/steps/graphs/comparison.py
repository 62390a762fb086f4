"""Compares RDF graphs: whether they are isomorphic, and how much of them agrees."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.actual import GRAPH, ActualStep, read_output
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.differences import Agreement, first_of_each
from graphrag_eval_async.steps.formats.terms import XSD
from graphrag_eval_async.steps.graphs.blank_nodes import BlankNodes, relabelled
from graphrag_eval_async.steps.graphs.reading import import_pyoxigraph, read_graph
from graphrag_eval_async.steps.tables.classes import classify_cells
from graphrag_eval_async.steps.tables.columns import INTEGERS, Column, values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.steps.differences import Difference
    from graphrag_eval_async.steps.graphs.reading import Graph
    from graphrag_eval_async.steps.tables.columns import Value

MAX_STATEMENT = 500  # Maximum characters of a statement listed as different.
_STEPS_PER_STATEMENT = 8  # Cost of reading the numbers and blank nodes of a statement.

# Only the start of a literal follows a space, except for a quote in a literal, which is escaped.
_TYPED = re.compile(rf'(?<= )"([\w.+: -]*+)"\^\^<{re.escape(XSD)}(\w+)>')


class GraphStep:
    """Compares with a reference graph, which is read on first use."""

    __slots__ = ("_graph", "_is_partial", "_step", "_union")

    def __init__(self, step: Mapping[str, Any], *, partial: bool) -> None:
        self._step = step
        self._is_partial = partial
        self._union = bool(step.get("ignore_graph_names"))
        self._graph: Graph | None = None

    def reference(self) -> Graph:
        """Return the reference graph; `MalformedStep` if it is none, or pyoxigraph is not
        installed.
        """
        if self._graph is None:
            import_pyoxigraph()
            media_type = self._step.get("output_media_type")
            read = partial(
                read_graph, media_type=media_type, budget=Budget(), lenient=False, union=self._union
            )
            self._graph = read_output(self._step, read)
        return self._graph

    def kind(self) -> str:
        """What the output is; raises what `reference` raises."""
        self.reference()
        return GRAPH

    def compare(self, actual: ActualStep) -> Agreement:
        """Return 1 for isomorphic graphs; else 0 or, with partial credit, the F1 of the
        statements.
        """
        reference, graph = self.reference(), actual.graph(union=self._union)
        if isomorphic(reference, graph, actual.budget):
            return Agreement(1.0)
        return agreement(reference, graph, actual.budget) if self._is_partial else Agreement(0.0)


def isomorphic(reference: Graph, actual: Graph, budget: Budget) -> bool:
    """Whether a bijection of the blank nodes makes the graphs equal, numbers compared by value.

    Numbers of any numeric types agree when within 1e-8, relative or absolute, or equal where both
    are integers; booleans, dates, times and durations by value; all other terms when spelled alike,
    language tags regardless of case.
    """
    expected, found = reference.statements, actual.statements
    if len(expected) != len(found):
        return False
    if expected == found:
        return True
    try:
        return any(
            BlankNodes(ours, theirs, budget).isomorphic()
            for ours, theirs in _by_value(expected, found, budget)
        )
    except ComparisonBudgetExceeded as error:
        raise ComparisonBudgetExceeded(
            f"graphs of {len(expected)} statements: undecided: {error}"
        ) from None


def agreement(reference: Graph, actual: Graph, budget: Budget) -> Agreement:
    """Find blank nodes that correspond, and return the F1 of the statements and those that differ.

    In the latter, a blank node that corresponds to one of the reference has its label.
    """
    ours, theirs = next(_by_value(reference.statements, actual.statements, budget))
    own, other = BlankNodes(ours, theirs, budget).labels()
    expected, found = relabelled(ours, own), relabelled(theirs, other)
    missing = _unpaired(expected, found, relabelled(reference.statements, own))
    extra = _unpaired(found, expected, relabelled(actual.statements, other))
    total, differ = len(expected) + len(found), len(missing) + len(extra)
    if not differ:
        return Agreement(1.0)
    listed = first_of_each(
        _differences("missing_triple", missing), _differences("extra_triple", extra)
    )
    reason = "missing_triples" if missing else "extra_triples"
    return Agreement((total - differ) / total, reason, listed if differ < total else ())


def _unpaired(lines: Sequence[str], others: Sequence[str], shown: Sequence[str]) -> list[str]:
    """Of each line that occurs more often than among the others, what to show of it."""
    spare = Counter(others)
    unpaired = []
    for line, text in zip(lines, shown, strict=True):
        if spare[line] > 0:
            spare[line] -= 1
        else:
            unpaired.append(text)
    return unpaired


def _differences(kind: str, lines: Iterable[str]) -> Iterator[Difference]:
    for line in lines:
        shown = f"{line} ." if len(line) < MAX_STATEMENT else f"{line[:MAX_STATEMENT]}…"
        yield {"kind": kind, "triple": shown}


def _by_value(
    left: Sequence[str], right: Sequence[str], budget: Budget
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yield the statements of two graphs, with one spelling for all values that agree.

    There is one way to read the values, or there are several; see `classify_cells`.
    """
    budget.spend(_STEPS_PER_STATEMENT * (len(left) + len(right)))
    left_values = _typed_values(left)
    right_values = _typed_values(right)
    columns = [Column("", [*values], [*values.values()]) for values in (left_values, right_values)]
    for expected, actual in classify_cells(columns[:1], columns[1:], budget):
        first_spelling: dict[Value, str] = {}
        yield (
            _respelled(left, dict(zip(left_values, expected[0], strict=True)), first_spelling),
            _respelled(right, dict(zip(right_values, actual[0], strict=True)), first_spelling),
        )


def _typed_values(statements: Sequence[str]) -> dict[str, Value]:
    """Return the values of the literals with types that have several spellings."""
    typed = [line for line in statements if XSD in line]
    literals = sorted({literal for line in typed for literal in _TYPED.findall(line)})
    values = values_of([text for text, _ in literals], [XSD + name for _, name in literals])
    by_literal: dict[str, Value] = {}
    for (text, name), value in zip(literals, values, strict=True):
        known = _known_value(value, name)
        if known is not None:
            by_literal[f'"{text}"^^<{XSD}{name}>'] = known
    return by_literal


def _respelled(
    statements: Sequence[str], classes: dict[str, Value], first_spelling: dict[Value, str]
) -> Sequence[str]:
    """Write literals as the first one of their class; `first_spelling`, which has these, is
    extended.
    """
    spelling = {
        literal: first_spelling.setdefault(value, literal) for literal, value in classes.items()
    }
    if all(literal == first for literal, first in spelling.items()):
        return statements
    return [
        _TYPED.sub(lambda match: spelling.get(match[0], match[0]), line) if XSD in line else line
        for line in statements
    ]


def _known_value(value: Value, name: str) -> Value:
    """Return a value that is no text; of an integer that is too long for one, its digits.

    None for other texts.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    digits = text[text[:1] in ("+", "-") :].lstrip("0") or "0"
    if name not in INTEGERS or not (digits.isdecimal() and digits.isascii()):
        return None
    digits = "-" * (text[0] == "-") + digits
    return int(digits) if len(digits) < 19 else digits
