"""Compares RDF graphs: whether they are isomorphic, and how much of them agrees."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.differences import first_of_each
from graphrag_eval_async.steps.rdf.alignment import align
from graphrag_eval_async.steps.rdf.components import correspond
from graphrag_eval_async.steps.rdf.graph import Nodes, relabelled
from graphrag_eval_async.steps.rdf.numbers import STEPS_PER_STATEMENT, Numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphrag_eval_async.steps.differences import Difference
    from graphrag_eval_async.steps.rdf.graph import Graph
    from graphrag_eval_async.steps.sparql.budget import Budget

STEPS_PER_GRAPHS = 100
"""Cost of each comparison of graphs, in addition to their statements."""

GRANTED_PER_STATEMENT = 80
"""Steps granted for each statement of both graphs."""

MAX_STATEMENT = 500
"""Maximum characters of a statement listed as different."""


def isomorphic(reference: Graph, actual: Graph, budget: Budget) -> bool:
    """Whether a bijection of the blank nodes makes the graphs equal, numbers compared by value.

    Numbers of any numeric types agree when within 1e-8, relative or absolute, or equal where both are
    integers; booleans by truth; all other terms when spelled alike, language tags regardless of case.
    Statements are paired one to one.

    Raises:
        ComparisonBudgetExceeded: blank nodes are too alike to decide that within the budget, or it was
            stopped.
    """
    expected, found = reference.statements, actual.statements
    if len(expected) != len(found):
        return False
    if expected == found:
        return True
    with _granted(reference, actual, budget):
        try:
            return _agree(reference, actual, budget)
        except ComparisonBudgetExceeded as error:
            raise ComparisonBudgetExceeded(
                f"graphs of {len(expected)} statements: undecided: {error}"
            ) from None


def _granted(reference: Graph, actual: Graph, budget: Budget) -> AbstractContextManager[None]:
    """Pay for a comparison; return a context with the steps that it is granted."""
    budget.pay(STEPS_PER_GRAPHS)
    total = len(reference.statements) + len(actual.statements)
    return nullcontext() if budget.quick else budget.granted(total * GRANTED_PER_STATEMENT)


def _agree(reference: Graph, actual: Graph, budget: Budget) -> bool:
    budget.spend((len(reference.statements) + len(actual.statements)) * STEPS_PER_STATEMENT)
    if correspond(reference.nodes, actual.nodes, budget) is not None:
        return True
    numbers = Numbers(reference, actual, budget)
    if not numbers.found:
        return False
    ours, theirs = numbers.classed(reference.statements), numbers.classed(actual.statements)
    left, right = Nodes(ours), Nodes(theirs)
    pairs = correspond(left, right, budget)
    if pairs is None or not numbers.loose:
        return pairs is not None
    size = len(left.names)
    labels = {right.names[node - size]: left.names[other] for node, other in pairs.left_of.items()}
    renamed = relabelled(theirs, labels)
    if numbers.pair_off((reference.statements, ours), (actual.statements, renamed), budget):
        return True
    if pairs.forced:
        return False
    raise ComparisonBudgetExceeded("blank nodes differ only in numbers that are nearly equal")


class Overlap(NamedTuple):
    """How much two graphs agree, when as many statements as were found are paired.

    Attributes:
        precision: share of the actual statements that are expected; 1 if there are none.
        recall: share of the expected statements that were returned; 1 if there are none.
        missing: the other expected statements.
        extra: the other actual statements. A blank node that corresponds to one of the reference has its
            label.
    """

    precision: float
    recall: float
    missing: list[str]
    extra: list[str]

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, from 0 to 1."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def differences(self) -> list[Difference]:
        """List the first missing statements and the first extra ones."""
        return first_of_each(
            _differences("missing_triple", self.missing), _differences("extra_triple", self.extra)
        )


def _differences(kind: str, lines: Iterable[str]) -> Iterator[Difference]:
    for line in lines:
        shown = f"{line} ." if len(line) < MAX_STATEMENT else f"{line[:MAX_STATEMENT]}…"
        yield {"kind": kind, "triple": shown}


def overlap(reference: Graph, actual: Graph, budget: Budget) -> Overlap:
    """Align the blank nodes of two graphs and count the statements that agree.

    Blank nodes with the same surroundings correspond, at any depth; then those that share most statements.
    Numbers agree as in `isomorphic`, except that those with a third number near both are compared exactly.
    """
    with _granted(reference, actual, budget):
        budget.spend((len(reference.statements) + len(actual.statements)) * STEPS_PER_STATEMENT)
        numbers = Numbers(reference, actual, budget)
        ours, theirs = numbers.exact(reference.statements), numbers.exact(actual.statements)
        left, right = Nodes(ours), Nodes(theirs)
        left_of, size = align(left, right, budget), len(left.names)
        labels = {
            name: f"_:b{left_of[node]}" if node in left_of else f"_:x{node - size}"
            for node, name in enumerate(right.names, size)
        }
        mine = {name: f"_:b{index}" for index, name in enumerate(left.names)}
        expected = relabelled(ours, mine)
        found = relabelled(theirs, labels)
        missing = _unpaired(expected, found, relabelled(reference.statements, mine))
        extra = _unpaired(found, expected, relabelled(actual.statements, labels))
    agreed = len(expected) - len(missing)
    return Overlap(
        agreed / len(found) if found else 1.0, agreed / len(expected) if expected else 1.0, missing, extra
    )


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
