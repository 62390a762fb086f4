"""Compares RDF graphs: whether they are isomorphic, and how much of them agrees."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps.differences import first_of_each
from graphrag_eval_async.steps.formats.tsv import XSD
from graphrag_eval_async.steps.graphs.blank_nodes import BlankNodes, relabelled
from graphrag_eval_async.steps.tables.columns import values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.differences import Difference
    from graphrag_eval_async.steps.graphs.reading import Graph

MAX_STATEMENT = 500
"""Maximum characters of a statement listed as different."""

_STEPS_PER_STATEMENT = 8
"""Cost of reading the numbers and blank nodes of a statement."""

# Only the start of a literal follows a space, except for a quote in a literal, which is escaped.
_TYPED = re.compile(rf'(?<= )"([\w.+ -]*+)"\^\^<{re.escape(XSD)}(\w+)>')


def isomorphic(reference: Graph, actual: Graph, budget: Budget) -> bool:
    """Whether a bijection of the blank nodes makes the graphs equal, numbers compared by value.

    Numbers of any numeric types agree when within 1e-8, relative or absolute, or equal where both are
    integers; booleans by truth; all other terms when spelled alike, language tags regardless of case.

    Raises:
        ComparisonBudgetExceeded: blank nodes are too alike to decide that within the budget, or it was
            stopped.
    """
    expected, found = reference.statements, actual.statements
    if len(expected) != len(found):
        return False
    if expected == found:
        return True
    try:
        ours, theirs = _by_value(expected, found, budget)
        return BlankNodes(ours, theirs, budget).isomorphic()
    except ComparisonBudgetExceeded as error:
        raise ComparisonBudgetExceeded(f"graphs of {len(expected)} statements: undecided: {error}") from None


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
    """Find blank nodes that correspond, and count the statements that agree.

    Raises:
        ComparisonBudgetExceeded: the budget is exhausted or was stopped.
    """
    ours, theirs = _by_value(reference.statements, actual.statements, budget)
    own, other = BlankNodes(ours, theirs, budget).labels()
    expected, found = relabelled(ours, own), relabelled(theirs, other)
    missing = _unpaired(expected, found, relabelled(reference.statements, own))
    extra = _unpaired(found, expected, relabelled(actual.statements, other))
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


def _by_value(
    left: Sequence[str], right: Sequence[str], budget: Budget
) -> tuple[Sequence[str], Sequence[str]]:
    """The statements of two graphs, with one spelling for all numbers and booleans that agree."""
    budget.spend(_STEPS_PER_STATEMENT * (len(left) + len(right)))
    typed = [line for side in (left, right) for line in side if XSD in line]
    literals = sorted({literal for line in typed for literal in _TYPED.findall(line)})
    if not literals:
        return left, right
    values = values_of([text for text, _ in literals], [XSD + name for _, name in literals])
    least, alike = _least_alike(values), defaultdict[Any, list[str]](list)
    for (text, name), value in zip(literals, values, strict=True):
        if not isinstance(value, str):
            alike[least.get(value, value)].append(f'"{text}"^^<{XSD}{name}>')
    spelling = {each: same[0] for same in alike.values() for each in same[1:]}

    def spelled(line: str) -> str:
        return _TYPED.sub(lambda found: spelling.get(found[0], found[0]), line) if XSD in line else line

    return ([*map(spelled, left)], [*map(spelled, right)]) if spelling else (left, right)


def _least_alike(values: Sequence[Any]) -> dict[Any, Any]:
    """The least number that each agrees with: groups are formed upwards, with at most one integer in each."""
    least: dict[Any, Any] = {}
    integers = {value for value in values if isinstance(value, int)}
    start, has_integer = math.nan, False
    for value in sorted(integers.union(value for value in values if isinstance(value, float))):
        is_integer = value in integers
        if not math.isclose(start, value, rel_tol=1e-8, abs_tol=1e-8) or (is_integer and has_integer):
            start, has_integer = value, False
        has_integer = has_integer or is_integer
        least[value] = start
    return least
