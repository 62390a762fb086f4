"""Colour refinement of the blank nodes of two graphs at once, and the search that decides its ties.

Nodes of one colour have the same surroundings, to any depth. Refinement splits a class of nodes whose
neighbours differ, in time of the order of ``links * log(nodes)``: the largest part of a class keeps its
colour. If a colour has more nodes in one graph than in the other, the graphs differ.

Where nodes of one colour lie on a cycle, refinement can fail to tell graphs apart, such as a ring of six from
two rings of three. Where nodes share a colour, a pair of them is assumed to correspond and the rest is
refined again, until all nodes are told apart or all pairs have failed. The budget limits this search. It
counts steps rather than seconds, so that scores do not depend on the machine.

A. Cardon, M. Crochemore: Partitioning a graph in O(|A| log2 |V|), 1982; B. D. McKay, A. Piperno: Practical
graph isomorphism II, 2014.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.steps.rdf.graph import Link, Nodes
    from graphrag_eval_async.steps.sparql.budget import Budget

STEPS_PER_NODE = 8
STEPS_PER_LINK = 4

_COLOUR_BITS = 40
_BACKWARDS = 1 << _COLOUR_BITS


class Pair:
    """The blank nodes of two graphs, numbered together: those of the right after those of the left.

    Attributes:
        size: number of nodes on the left.
        total: number of nodes on both sides.
        links: the links of both.
        around: by node, the kind of each of its links, with zeros in place of a colour, and the other node.
    """

    def __init__(self, size: int, total: int, links: Sequence[Link], budget: Budget) -> None:
        self.size = size
        self.total = total
        self.links = links
        self.budget = budget
        self.around: list[Sequence[tuple[int, int]]] = [()] * total
        budget.spend(len(links) * STEPS_PER_LINK)
        kinds: dict[str, int] = {}
        around: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for text, one, other in links:
            kind = kinds.setdefault(text, 2 * len(kinds) << _COLOUR_BITS)
            around[one].append((kind, other))
            around[other].append((kind | _BACKWARDS, one))
        for node, found in around.items():
            self.around[node] = found


def joined(left: Nodes, right: Nodes, budget: Budget) -> Colouring:
    """Number the blank nodes of two graphs together, and colour them by their own statements."""
    size, owns = len(left.own), [*left.own, *right.own]
    budget.spend(len(owns) * STEPS_PER_NODE)
    moved = [(text, one + size, other + size) for text, one, other in right.links]
    pair = Pair(size, len(owns), [*left.links, *moved], budget)
    number: dict[Any, int] = {}
    colours = [
        number.setdefault(own[0] if len(own) == 1 else tuple(sorted(own)), len(number)) for own in owns
    ]
    return Colouring(pair, colours)


class Colouring:
    """A colour for each node, and the nodes of each colour."""

    __slots__ = ("classes", "colours", "fresh", "pair")

    def __init__(self, pair: Pair, colours: list[int], classes: dict[int, set[int]] | None = None) -> None:
        self.pair = pair
        self.colours = colours
        self.classes = classes
        self.fresh = max(colours, default=-1) + 1

    def balanced(self) -> bool:
        """Whether each colour has as many nodes on either side."""
        size = self.pair.size
        return Counter(self.colours[:size]) == Counter(self.colours[size:])

    def left_of(self) -> dict[int, int]:
        """Pair nodes of equal colour in their order: the node of the left for each of the right."""
        size, colours = self.pair.size, self.colours
        left: dict[int, list[int]] = defaultdict(list)
        for node in reversed(range(size)):
            left[colours[node]].append(node)
        return {node: left[colours[node]].pop() for node in range(size, len(colours))}

    def agrees(self, left_of: Mapping[int, int]) -> bool:
        """Whether this bijection makes the links equal."""
        size = self.pair.size
        self.pair.budget.spend(len(self.pair.links))
        spare: dict[Link, int] = {}  # The links of the left come first.
        for link in self.pair.links:
            if link[1] < size:
                spare[link] = spare.get(link, 0) + 1
                continue
            text, one, other = link
            there = text, left_of[one], left_of[other]
            if not spare.get(there):
                return False
            spare[there] -= 1
        return not any(spare.values())

    def refine(self) -> None:
        """Split classes of three nodes or more until all nodes of one have the same surroundings.

        The two nodes of a class of two are taken to correspond, which `agrees` must confirm.
        """
        if not self.pair.links:
            return
        classes = self.grouped()
        around = enumerate(self.pair.around)
        self.spread(node for node, links in around if links and len(classes[self.colours[node]]) > 2)

    def grouped(self) -> dict[int, set[int]]:
        if self.classes is None:
            self.classes = defaultdict(set)
            for node, colour in enumerate(self.colours):
                self.classes[colour].add(node)
        return self.classes

    def spread(self, start: Iterable[int]) -> None:
        classes, around = self.grouped(), self.pair.around
        due = dict.fromkeys(start)
        while due:
            changed = self._split(due)
            due = dict.fromkeys(
                other
                for node in changed
                for _, other in around[node]
                if len(classes[self.colours[other]]) > 2
            )
            self.pair.budget.spend(len(due))

    def _split(self, due: Iterable[int]) -> list[int]:
        """Split the classes of nodes by their surroundings; return the nodes that got a new colour."""
        colours, classes = self.colours, self.grouped()
        parts: dict[int, dict[Any, list[int]]] = defaultdict(lambda: defaultdict(list))
        for node in due:
            parts[colours[node]][self._surroundings(node)].append(node)
        changed: list[int] = []
        for colour, split in parts.items():
            sizes = {key: len(nodes) for key, nodes in split.items()}
            rest = len(classes[colour]) - sum(sizes.values())
            largest = max(sizes, key=sizes.__getitem__)
            for key, nodes in split.items():
                if key == largest and sizes[key] >= rest:
                    continue
                self.recolour(nodes, colour)
                changed += nodes
            if rest and sizes[largest] >= rest:
                moved = sorted(classes[colour].difference(split[largest]))
                self.recolour(moved, colour)
                changed += moved
        return changed

    def recolour(self, nodes: Sequence[int], before: int) -> None:
        classes = self.grouped()
        classes[before].difference_update(nodes)
        classes[self.fresh] = set(nodes)
        for node in nodes:
            self.colours[node] = self.fresh
        self.fresh += 1

    def _surroundings(self, node: int) -> tuple[int, ...]:
        links, colours = self.pair.around[node], self.colours
        self.pair.budget.spend(STEPS_PER_NODE + STEPS_PER_LINK * len(links))
        return tuple(sorted([kind + colours[other] for kind, other in links]))

    def assume(self, left: int, right: int) -> Colouring:
        """Return a colouring in which two nodes of one colour correspond, refined."""
        self.pair.budget.spend(len(self.colours))
        classes = defaultdict(set, {key: set(nodes) for key, nodes in self.grouped().items()})
        copy = Colouring(self.pair, self.colours[:], classes)
        copy.recolour([left, right], self.colours[left])
        copy.spread(other for node in (left, right) for _, other in self.pair.around[node])
        return copy

    def assumptions(self) -> Iterator[Colouring] | None:
        """Return refined colourings, one for each node that may correspond to the first tied one.

        None if no node is tied.
        """
        size = self.pair.size
        tied = [nodes for nodes in self.grouped().values() if len(nodes) > 2]
        if not tied:
            return None
        smallest = min(tied, key=len)
        left = min(smallest)
        return (self.assume(left, right) for right in sorted(smallest) if right >= size)


def matched(colouring: Colouring) -> dict[int, int] | None:
    """Return the node of the left for each of the right, or None if the graphs differ."""
    pending = [iter([colouring])]
    while pending:
        found = next(pending[-1], None)
        if found is None:
            pending.pop()
        elif found.balanced():
            further = found.assumptions()
            if further is not None:
                pending.append(further)
            elif found.agrees(left_of := found.left_of()):
                return left_of
    return None
