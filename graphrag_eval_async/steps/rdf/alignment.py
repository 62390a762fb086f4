"""Aligns the blank nodes of graphs that differ, so that as many statements as possible agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.steps.rdf.refinement import STEPS_PER_LINK, STEPS_PER_NODE, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.steps.rdf.graph import Nodes
    from graphrag_eval_async.steps.rdf.refinement import Colouring
    from graphrag_eval_async.steps.sparql.budget import Budget

_TELLING = 50
"""Statements shared by more nodes on one side do not tell which nodes correspond."""

_PASSES = 4
"""Each pass may align the neighbours of nodes that the last one aligned."""


def align(left: Nodes, right: Nodes, budget: Budget) -> dict[int, int]:
    """Return the node of the left for each node of the right that corresponds to one.

    Nodes of the right are numbered after those of the left.
    """
    own = [*left.own, *right.own]
    colouring = joined(left, right, budget)
    first = colouring.colours[:]
    colouring.refine()
    alignment = _Alignment(colouring, own)
    for colours in (colouring.colours, first):
        alignment.by_colour(colours)
    for _ in range(_PASSES):
        if not alignment.by_votes():
            break
    alignment.by_order()
    return alignment.left_of


class _Alignment:
    def __init__(self, colouring: Colouring, own: list[Sequence[str]]) -> None:
        self._pair = colouring.pair
        self._own = own
        self.left_of: dict[int, int] = {}
        self._right_of: dict[int, int] = {}

    def _free(self, *, left: bool) -> list[int]:
        size, total = self._pair.size, self._pair.total
        if left:
            return [node for node in range(size) if node not in self._right_of]
        return [node for node in range(size, total) if node not in self.left_of]

    def _align(self, here: int, there: int) -> None:
        self._right_of[here] = there
        self.left_of[there] = here

    def by_colour(self, colours: list[int]) -> None:
        """Align free nodes of one colour, and then their neighbours before others of that colour."""
        waiting: dict[int, list[int]] = defaultdict(list)
        for node in reversed(self._free(left=False)):
            waiting[colours[node]].append(node)
        for start in self._free(left=True):
            candidates = waiting[colours[start]]
            while candidates and candidates[-1] in self.left_of:
                candidates.pop()
            if start in self._right_of or not candidates:
                continue
            pending = [(start, candidates.pop())]
            self._align(*pending[0])
            while pending:
                pending += self._align_neighbours(*pending.pop(), colours)

    def _align_neighbours(self, here: int, there: int, colours: list[int]) -> Iterator[tuple[int, int]]:
        around, budget = self._pair.around, self._pair.budget
        budget.spend(STEPS_PER_LINK * (1 + len(around[here]) + len(around[there])))
        alike: dict[int, list[int]] = defaultdict(list)
        for kind, other in reversed(around[there]):
            if other not in self.left_of:
                alike[kind + colours[other]].append(other)
        for kind, node in around[here]:
            candidates = alike.get(kind + colours[node])
            if node not in self._right_of and candidates:
                other = candidates.pop()
                if other not in self.left_of:
                    self._align(node, other)
                    yield node, other

    def by_votes(self) -> bool:
        """Align free nodes that share most statements; return whether any was."""
        holders: dict[Any, list[int]] = defaultdict(list)
        for node in self._free(left=False):
            for key in self._statements(node):
                holders[key].append(node)
        votes: list[tuple[int, int, int]] = []
        for node in self._free(left=True):
            found: Counter[int] = Counter()
            for key in self._statements(node):
                if 0 < len(holders.get(key, ())) <= _TELLING:
                    self._pair.budget.spend(len(holders[key]))
                    found.update(holders[key])
            votes += [(-count, node, other) for other, count in found.items()]
        votes.sort()
        before = len(self.left_of)
        for _, node, other in votes:
            if node not in self._right_of and other not in self.left_of:
                self._align(node, other)
        return len(self.left_of) > before

    def _statements(self, node: int) -> Iterator[Any]:
        """What is said of a node: of links, those to nodes that are aligned."""
        links = self._pair.around[node]
        self._pair.budget.spend(STEPS_PER_NODE + STEPS_PER_LINK * len(links))
        yield from self._own[node]
        for kind, other in links:
            aligned = other if other in self._right_of else self.left_of.get(other)
            if aligned is not None:
                yield kind, aligned

    def by_order(self) -> None:
        """Align what is left in order, which costs nothing."""
        for node, other in zip(self._free(left=True), self._free(left=False), strict=False):
            self._align(node, other)
