"""Compares RDF graphs: whether they are isomorphic, and how much of them agrees."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.rdf.alignment import align
from graphrag_eval_async.steps.rdf.components import correspond
from graphrag_eval_async.steps.rdf.graph import Nodes, relabelled_all
from graphrag_eval_async.steps.rdf.numbers import Numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.steps.rdf.graph import Graph
    from graphrag_eval_async.steps.sparql.budget import Budget

STEPS_PER_GRAPHS = 100
"""Cost of each comparison of graphs, in addition to their statements."""

STEPS_PER_STATEMENT = 8

GRANTED_PER_STATEMENT = 80
"""Steps granted for each statement of both graphs."""

MAX_DIFFERENCES = 10
"""Maximum statements listed as different."""

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
    total = len(expected) + len(found)
    budget.pay(STEPS_PER_GRAPHS)
    with nullcontext() if budget.quick else budget.granted(total * GRANTED_PER_STATEMENT):
        try:
            return _agree(reference, actual, budget)
        except ComparisonBudgetExceeded as error:
            raise ComparisonBudgetExceeded(
                f"graphs of {len(expected)} statements: undecided: {error}"
            ) from None


def _agree(reference: Graph, actual: Graph, budget: Budget) -> bool:
    budget.spend((len(reference.statements) + len(actual.statements)) * STEPS_PER_STATEMENT)
    if correspond(reference.nodes(), actual.nodes(), budget) is not None:
        return True
    numbers = Numbers(reference, actual, budget)
    if not numbers.found:
        return False
    ours, theirs = numbers.classed(reference.statements), numbers.classed(actual.statements)
    left, right = Nodes(ours), Nodes(theirs)
    pairs = correspond(left, right, budget)
    if pairs is None or not numbers.loose:
        return pairs is not None
    renamed = relabelled_all(theirs, _labels(left, right, pairs.left_of))
    if numbers.pair_off((reference.statements, ours), (actual.statements, renamed), budget):
        return True
    if pairs.forced:
        return False
    raise ComparisonBudgetExceeded("blank nodes differ only in numbers that are nearly equal")


def _labels(left: Nodes, right: Nodes, left_of: dict[int, int]) -> dict[str, str]:
    """The label on the left for that of each corresponding node on the right."""
    size = len(left.names)
    return {right.names[node - size]: left.names[other] for node, other in left_of.items()}


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

    def differences(self) -> list[dict[str, Any]]:
        """List up to `MAX_DIFFERENCES` statements, missing ones first, of both kinds if there are both."""
        most = max(MAX_DIFFERENCES // 2, MAX_DIFFERENCES - len(self.extra))
        listed = [("missing_triple", line) for line in self.missing[:most]]
        listed += [("extra_triple", line) for line in self.extra[: MAX_DIFFERENCES - len(listed)]]
        return [{"kind": kind, "triple": _shortened(line)} for kind, line in listed]


def _shortened(line: str) -> str:
    return f"{line} ." if len(line) < MAX_STATEMENT else f"{line[:MAX_STATEMENT]}…"


def overlap(reference: Graph, actual: Graph, budget: Budget) -> Overlap:
    """Align the blank nodes of two graphs and count the statements that agree.

    Blank nodes with the same surroundings correspond, at any depth; then those that share most statements.
    Numbers agree as in `isomorphic`, except that those with a third number near both are compared exactly.

    Raises:
        ComparisonBudgetExceeded: the budget is exhausted or was stopped.
    """
    total = len(reference.statements) + len(actual.statements)
    budget.pay(STEPS_PER_GRAPHS)
    with nullcontext() if budget.quick else budget.granted(total * GRANTED_PER_STATEMENT):
        budget.spend(total * STEPS_PER_STATEMENT)
        numbers = Numbers(reference, actual, budget)
        ours, theirs = numbers.exact(reference.statements), numbers.exact(actual.statements)
        left, right = Nodes(ours), Nodes(theirs)
        labels = _display_labels(left, right, align(left, right, budget))
        mine = {name: f"_:b{index}" for index, name in enumerate(left.names)}
        expected = relabelled_all(ours, mine)
        found = relabelled_all(theirs, labels)
        missing = _unpaired(expected, found, relabelled_all(reference.statements, mine))
        extra = _unpaired(found, expected, relabelled_all(actual.statements, labels))
    agreed = len(expected) - len(missing)
    return Overlap(
        agreed / len(found) if found else 1.0, agreed / len(expected) if expected else 1.0, missing, extra
    )


def _display_labels(left: Nodes, right: Nodes, left_of: dict[int, int]) -> dict[str, str]:
    size = len(left.names)
    return {
        name: f"_:b{left_of[size + index]}" if size + index in left_of else f"_:x{index}"
        for index, name in enumerate(right.names)
    }


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
