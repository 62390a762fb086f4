"""Compares RDF graphs: whether they are isomorphic, and how much of them agrees."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.actual import GRAPH, ActualStep, read_output
from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.differences import Agreement, first_of_each
from graphrag_eval_async.steps.formats.terms import XSD
from graphrag_eval_async.steps.graphs.blank_nodes import BlankNodes
from graphrag_eval_async.steps.graphs.blank_statements import relabelled
from graphrag_eval_async.steps.graphs.reading import import_pyoxigraph, read_graph
from graphrag_eval_async.steps.tables.classes import classify_cells
from graphrag_eval_async.steps.tables.columns import INTEGERS, Column, values_of
from graphrag_eval_async.steps.tables.temporal import PARTS_OF_DATES, without_utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.steps.differences import Difference
    from graphrag_eval_async.steps.graphs.reading import Graph
    from graphrag_eval_async.steps.tables.columns import Value

MAX_STATEMENT = 500
"""Maximum characters of a statement listed as different."""

_STEPS_PER_STATEMENT = 8
"""Cost of reading the numbers and blank nodes of a statement."""

_TOO_LONG_INTEGER = 19
"""Digits from which an integer is compared by its digits; see `columns`."""

_TYPED_LITERAL = re.compile(
    # Only the start of a literal follows a space, except for a quote in a literal, which is
    # escaped.
    r'(?<= )"(?P<text>[\w.+: -]*+)"'
    rf"\^\^<{re.escape(XSD)}(?P<type>\w+)>"
)
"""A literal with a type of XML Schema, whose text holds nothing that needs an escape."""


class GraphStep:
    """Compares with a reference graph, which is read on first use."""

    __slots__ = ("_graph", "_is_partial", "_step", "_union")

    def __init__(self, step: Mapping[str, Any], *, partial: bool) -> None:
        """Take a reference step.

        Args:
            step: the step, whose output is a graph.
            partial: whether graphs that agree in part score more than 0.
        """
        self._step = step
        self._is_partial = partial
        self._union = bool(step.get("ignore_graph_names"))
        self._graph: Graph | None = None

    def reference(self) -> Graph:
        """Return the reference graph; cached.

        Raises:
            MalformedStep: the output is no graph, or pyoxigraph is not installed.
        """
        if self._graph is None:
            import_pyoxigraph()
            read = partial(
                read_graph,
                media_type=self._step.get("output_media_type"),
                budget=Budget(),
                lenient=False,
                union=self._union,
            )
            self._graph = read_output(self._step, read)
        return self._graph

    def kind(self) -> str:
        """Return how errors call the reference output.

        Raises:
            MalformedStep: the output is no graph, or pyoxigraph is not installed.
        """
        self.reference()
        return GRAPH

    def compare(self, actual: ActualStep) -> Agreement:
        """Return 1 for isomorphic graphs; else 0 or, with partial credit, the F1 of the
        statements.
        """
        reference = self.reference()
        graph = actual.graph(union=self._union)
        if isomorphic(reference, graph, actual.budget):
            return Agreement(1.0)
        if self._is_partial:
            return agreement(reference, graph, actual.budget)
        return Agreement(0.0)


def isomorphic(reference: Graph, actual: Graph, budget: Budget) -> bool:
    """Return whether a bijection of the blank nodes makes the graphs equal, numbers compared by
    value.

    Numbers of any numeric types agree when within 1e-8, relative or absolute, or equal where both
    are integers; booleans, dates, times and durations by value; all other terms when spelled alike,
    language tags regardless of case.

    Raises:
        ComparisonBudgetExceeded: it was not decided within the budget.
    """
    if len(reference.statements) != len(actual.statements):
        return False
    if reference.statements == actual.statements:
        return True
    try:
        for respelled in _respelled_graphs(reference, actual, budget):
            if BlankNodes(respelled.expected, respelled.actual, budget).isomorphic():
                return True
        return False
    except ComparisonBudgetExceeded as error:
        raise ComparisonBudgetExceeded(
            f"graphs of {len(reference.statements)} statements: undecided: {error}"
        ) from None


def agreement(reference: Graph, actual: Graph, budget: Budget) -> Agreement:
    """Return the F1 of the statements of two graphs, and the statements that differ.

    Statements agree if their blank nodes are likely to correspond. In those that differ, a blank
    node that corresponds to one of the reference has its label.
    """
    # One way to read the values is enough: they seldom differ.
    respelled = next(_respelled_graphs(reference, actual, budget))
    nodes = BlankNodes(respelled.expected, respelled.actual, budget)
    expected_labels, actual_labels = nodes.labels()
    expected_statements = relabelled(respelled.expected, expected_labels)
    actual_statements = relabelled(respelled.actual, actual_labels)

    # The statements are listed as the graphs spell them.
    missing = _statements_without_partner(
        expected_statements,
        actual_statements,
        spelled=relabelled(reference.statements, expected_labels),
    )
    extra = _statements_without_partner(
        actual_statements,
        expected_statements,
        spelled=relabelled(actual.statements, actual_labels),
    )
    number_of_all = len(expected_statements) + len(actual_statements)
    number_of_different = len(missing) + len(extra)
    if number_of_different == 0:
        return Agreement(1.0)
    score = (number_of_all - number_of_different) / number_of_all
    reason = "missing_triples" if missing else "extra_triples"
    if score == 0:
        return Agreement(score, reason)
    differences = first_of_each(
        _differences("missing_triple", missing), _differences("extra_triple", extra)
    )
    return Agreement(score, reason, differences)


def _statements_without_partner(
    statements: Sequence[str], others: Sequence[str], *, spelled: Sequence[str]
) -> list[str]:
    """Return the statements that are not in another graph, or not as often.

    Args:
        statements: the statements of one graph.
        others: the statements of the other graph.
        spelled: the same statements as in `statements` and in their order, as they are returned.
    """
    spare = Counter(others)
    without_partner = []
    for statement, text in zip(statements, spelled, strict=True):
        if spare[statement] > 0:
            spare[statement] -= 1
        else:
            without_partner.append(text)
    return without_partner


def _differences(kind: str, statements: Iterable[str]) -> Iterator[Difference]:
    """Yield a difference of a kind for each statement."""
    for statement in statements:
        if len(statement) < MAX_STATEMENT:
            text = f"{statement} ."
        else:
            text = f"{statement[:MAX_STATEMENT]}…"
        yield {"kind": kind, "triple": text}


class _RespelledGraphs(NamedTuple):
    """The statements of two graphs, with the same spelling for all literals that agree."""

    expected: Sequence[str]
    actual: Sequence[str]


def _respelled_graphs(
    reference: Graph, actual: Graph, budget: Budget
) -> Iterator[_RespelledGraphs]:
    """Yield the statements of two graphs with one spelling for all literals that agree.

    Usually there is one way to read their values; if there are several, each is yielded.
    """
    number_of_statements = len(reference.statements) + len(actual.statements)
    budget.spend(_STEPS_PER_STATEMENT * number_of_statements)
    expected_values = _values_of_literals(reference.statements)
    actual_values = _values_of_literals(actual.statements)
    # Two tables with the different literals as cells of one column.
    expected_column = Column("", list(expected_values), list(expected_values.values()))
    actual_column = Column("", list(actual_values), list(actual_values.values()))
    for classes in classify_cells([expected_column], [actual_column], budget):
        [expected_classes] = classes.expected
        [actual_classes] = classes.actual
        # The first literal of a class is how all of its literals are spelled.
        spelling_by_class: dict[Value, str] = {}
        expected_spellings = {
            literal: spelling_by_class.setdefault(literal_class, literal)
            for literal, literal_class in zip(expected_values, expected_classes, strict=True)
        }
        actual_spellings = {
            literal: spelling_by_class.setdefault(literal_class, literal)
            for literal, literal_class in zip(actual_values, actual_classes, strict=True)
        }
        yield _RespelledGraphs(
            expected=_respell(reference.statements, expected_spellings),
            actual=_respell(actual.statements, actual_spellings),
        )


def _values_of_literals(statements: Sequence[str]) -> dict[str, Value]:
    """Return the values of those literals in statements whose type has several spellings.

    The keys are the literals as the statements write them.
    """
    matches = set()
    for statement in statements:
        # A text is found several times as fast as a pattern.
        if XSD in statement:
            matches.update(_TYPED_LITERAL.findall(statement))
    literals = sorted(matches)
    texts = [text for text, _ in literals]
    values = values_of(texts, [XSD + datatype for _, datatype in literals])
    value_by_literal: dict[str, Value] = {}
    for (text, datatype), value in zip(literals, values, strict=True):
        comparable_value = _comparable_value(value, datatype)
        if comparable_value is not None:
            value_by_literal[f'"{text}"^^<{XSD}{datatype}>'] = comparable_value
    return value_by_literal


def _respell(statements: Sequence[str], spellings: Mapping[str, str]) -> Sequence[str]:
    """Return statements in which literals are replaced.

    Args:
        statements: the statements.
        spellings: the new spelling of a literal by the one that it has.
    """
    if all(literal == spelling for literal, spelling in spellings.items()):
        return statements

    def replace(match: re.Match[str]) -> str:
        return spellings.get(match[0], match[0])

    return [
        _TYPED_LITERAL.sub(replace, statement) if XSD in statement else statement
        for statement in statements
    ]


def _comparable_value(value: Value, datatype: str) -> Value:
    """Return the value of a literal by which it is compared; None if it is compared by its text.

    An integer that is too long to be read as a number is compared by its digits; a year, month or
    day by its text, in which a zone counts unless it is UTC.

    Args:
        value: the value as `values_of` returns it: a text if it could not be read.
        datatype: the local name of the datatype.
    """
    if not isinstance(value, str):
        return value
    if datatype in PARTS_OF_DATES:
        # The type is kept, as a literal of another type may have the same text.
        return f"{without_utc(value)} {datatype}"
    text = value.strip()
    has_sign = text.startswith(("+", "-"))
    digits = text[1:] if has_sign else text
    is_integer = datatype in INTEGERS and digits.isascii() and digits.isdecimal()
    if not is_integer:
        return None
    digits = digits.lstrip("0") or "0"
    if text.startswith("-"):
        digits = f"-{digits}"
    if len(digits) < _TOO_LONG_INTEGER:
        # Only leading zeros made it too long.
        return int(digits)
    return digits
