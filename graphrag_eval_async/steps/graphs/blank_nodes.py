"""Which blank nodes of two graphs correspond: colour refinement, and a search where it leaves ties.

Nodes of one colour have the same surroundings, to any depth: refinement splits the nodes of a
colour by the colours of their neighbours until nothing changes.

Where nodes of one colour lie on a cycle, refinement can fail to tell graphs apart, such as a ring
of six from two rings of three. Then two of them are assumed to correspond and the rest is refined
again, until all statements agree or all pairs have failed, component by component. The budget
limits this search. It counts steps rather than seconds, so that scores do not depend on the
machine.

A. Cardon, M. Crochemore: Partitioning a graph in O(|A| log2 |V|), 1982; B. D. McKay, A. Piperno:
Practical graph isomorphism II, 2014.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from math import perm
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.steps.budget import Budget

# Strings are matched so that nothing within them is.
# A text without an end takes all that follows, so that its end is looked for only once.
_BLANK = re.compile(r'"(?>(?:[^"\\]++|\\.)*)(?:"|\\?\Z)|(?<!\S)_:(\S+)', re.DOTALL)

# Kinds of links are multiples of this, even ones forwards and odd ones backwards, so that the sum
# of a kind and a colour names both.
_KIND = 1 << 40

_TELLING = 50  # Statements shared by more nodes on one side do not tell which nodes correspond.
_VOTES = 4  # Each vote may align the neighbours of nodes that the last one aligned.

_TRIED, _TRIED_NODES = 1 << 17, 8
"""All ways to pair up to so many nodes are tried if their number times that of statements is at
most this.
"""

# A statement without its blank nodes, and these.
_Statement: TypeAlias = tuple[str, tuple[str, ...]]


class BlankNodes:
    """The blank nodes of two graphs, numbered together: those of the right after those of the left.

    A statement of more than two blank nodes counts as a node itself, linked to each of them.
    """

    def __init__(self, left: Sequence[str], right: Sequence[str], budget: Budget) -> None:
        self._budget = budget
        sides = _Parts(left), _Parts(right)
        self._statements = left, right
        self._same_ground = Counter(sides[0].ground) == Counter(sides[1].ground)
        self._names = [name for side in sides for name in side.own]
        self._own = [texts for side in sides for texts in side.own.values()]
        self._size = len(sides[0].own)
        number: dict[Any, int] = {}
        self._colours = [
            number.setdefault(texts[0] if len(texts) == 1 else tuple(sorted(texts)), len(number))
            for texts in self._own
        ]
        self._around: list[list[tuple[int, int]]] = [[] for _ in self._own]
        self._links: tuple[list[tuple[int, int, int]], ...] = [], []
        kinds: dict[str, int] = {}
        for start, links, side in zip((0, self._size), self._links, sides, strict=True):
            places = {name: node for node, name in enumerate(side.own, start)}
            for text, subject, target in side.links:
                kind = kinds.setdefault(text, 2 * _KIND * len(kinds))
                one, other = places[subject], places[target]
                links.append((kind, one, other))
                self._around[one].append((kind, other))
                self._around[other].append((kind + _KIND, one))

    def isomorphic(self) -> bool:
        """Whether a bijection of the nodes makes the statements equal."""
        if not self._same_ground or not self._balanced(self._colours):
            return False
        refined = self._colours[:]
        self._refine(refined, range(len(refined)))
        left, components, current = Counter(self._links[0]), list[int](), -1
        pending = [iter([refined])]
        while pending:
            colours = next(pending[-1], None)
            if colours is None:
                pending.pop()
                continue
            if not self._balanced(colours):
                continue
            moved = self._moved(self._aligned(colours))
            if left == moved:
                return True
            components = components or self._components()
            node = self._tied(colours, components, current)
            if node is not None and components[node] != current:
                if any(
                    moved[link] < count
                    for link, count in left.items()
                    if components[link[1]] == current
                ):
                    continue
                current = components[node]
                # The last component is decided; another choice for it would not help.
                pending.clear()
            if node is not None:
                pending.append(self._assumptions(colours, node))
        return False

    def labels(self) -> tuple[dict[str, str], dict[str, str]]:
        """New labels for the left nodes and for the right ones: the same if they correspond."""
        names, size = self._names, self._size
        left, right = (
            [name for name in side if name[0] == "_"] for side in (names[:size], names[size:])
        )
        one, other = ([*filter(itemgetter(1), map(_split, side))] for side in self._statements)
        pairs = _best_pairs(one, other, self._budget)
        if pairs is None:
            partners = self._likely()
            pairs = {
                names[node]: names[one]
                for node, one in enumerate(partners[size:], size)
                if one >= 0
            }
        labels = {name: f"_:b{number}" for number, name in enumerate(left)}
        others = {
            name: labels.get(pairs.get(name, ""), f"_:x{number}")
            for number, name in enumerate(right)
        }
        return labels, others

    def _likely(self) -> list[int]:
        """The partner of each node, or -1, by the better of two alignments."""
        refined = self._colours[:]
        self._refine(refined, range(len(refined)))
        # The second also pairs nodes that differ only in their links.
        found = [self._aligned(refined), self._aligned(refined, self._colours)]
        for partners in found:
            for _ in range(_VOTES):
                if not self._vote(partners):
                    break
            for one, other in zip(*self._free(partners), strict=False):
                partners[one], partners[other] = other, one
        return max(found, key=self._agreeing)

    def _balanced(self, colours: list[int]) -> bool:
        """Whether each colour has as many nodes on either side."""
        return Counter(colours[: self._size]) == Counter(colours[self._size :])

    def _refine(self, colours: list[int], due: Iterable[int]) -> None:
        """Split colours until all nodes of one have the same surroundings, except pairs, which
        are left.
        """
        around, sizes, fresh = self._around, Counter(colours), max(colours, default=0) + 1
        while due := [node for node in due if around[node] and sizes[colours[node]] > 2]:
            self._budget.spend(sum(1 + len(around[node]) for node in due))
            parts: dict[int, dict[Any, list[int]]] = defaultdict(lambda: defaultdict(list))
            for node in due:
                surroundings = sorted([kind + colours[other] for kind, other in around[node]])
                parts[colours[node]][tuple(surroundings)].append(node)
            moved: list[int] = []
            for colour, part in parts.items():
                groups = sorted(part.values(), key=len)
                if sum(map(len, groups)) == sizes[colour]:
                    groups.pop()  # The largest keeps the colour.
                for group in groups:
                    sizes[colour] -= len(group)
                    sizes[fresh] = len(group)
                    for node in group:
                        colours[node] = fresh
                    moved += group
                    fresh += 1
            due = dict.fromkeys([other for node in moved for _, other in around[node]])

    def _components(self) -> list[int]:
        """A number for each node that nodes share which links connect."""
        components = [-1] * len(self._own)
        for start, known in enumerate(components):
            pending = [start] if known < 0 else []
            while pending:
                node = pending.pop()
                if components[node] < 0:
                    components[node] = start
                    pending += [other for _, other in self._around[node]]
        return components

    def _tied(self, colours: list[int], components: list[int], current: int) -> int | None:
        """A left node that shares its colour with others, if any; of the current component, if
        possible.
        """
        classes = Counter(colours[: self._size])
        ties = ((node, classes[colours[node]]) for node in range(self._size) if self._around[node])
        tied = [(components[node] != current, count, node) for node, count in ties if count > 1]
        return min(tied)[2] if tied else None

    def _assumptions(self, colours: list[int], node: int) -> Iterator[list[int]]:
        """Refined colours in which a tied node corresponds to each candidate."""
        fresh = max(colours) + 1
        for other in range(self._size, len(colours)):
            if colours[other] == colours[node]:
                self._budget.spend(len(colours))
                assumed = colours[:]
                assumed[node] = assumed[other] = fresh
                self._refine(
                    assumed, [each for one in (node, other) for _, each in self._around[one]]
                )
                yield assumed

    def _aligned(self, *colourings: list[int]) -> list[int]:
        """The partner of each node, or -1: one of the same colour in the first colouring that
        has one.
        """
        partners = [-1] * len(self._own)
        for colours in colourings:
            free: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
            for node in range(len(colours) - 1, -1, -1):
                if partners[node] < 0:
                    free[colours[node]][node >= self._size].append(node)
            for left, right in free.values():
                self._pair_off(left, right, colours, partners)
        return partners

    def _pair_off(
        self, left: list[int], right: list[int], colours: list[int], partners: list[int]
    ) -> None:
        while left and right:
            if partners[left[-1]] >= 0:
                left.pop()
            elif partners[right[-1]] >= 0:
                right.pop()
            else:
                self._pair(left.pop(), right.pop(), colours, partners)

    def _pair(self, left: int, right: int, colours: list[int], partners: list[int]) -> None:
        """Make two nodes partners, then their neighbours of equal colours, and so on."""
        around = self._around
        partners[left], partners[right] = right, left
        pending = [(left, right)]
        while pending:
            here, there = pending.pop()
            self._budget.spend(1 + len(around[here]) + len(around[there]))
            alike: dict[int, list[int]] = defaultdict(list)
            for kind, node in reversed(around[there]):
                if partners[node] < 0:
                    alike[kind + colours[node]].append(node)
            for kind, node in around[here] if alike else ():
                candidates = alike.get(kind + colours[node])
                if candidates and partners[node] < 0 and partners[candidates[-1]] < 0:
                    other = candidates.pop()
                    partners[node], partners[other] = other, node
                    pending.append((node, other))

    def _agreeing(self, partners: list[int]) -> int:
        """The number of statements with blank nodes that agree."""
        agreeing = (Counter(self._links[0]) & self._moved(partners)).total()
        for one, other in enumerate(partners[: self._size]):
            if other >= 0:
                agreeing += (Counter(self._own[one]) & Counter(self._own[other])).total()
        return agreeing

    def _moved(self, partners: list[int]) -> Counter[tuple[int, int, int]]:
        """The links of the right with the partners of its nodes."""
        self._budget.spend(sum(map(len, self._links)))
        return Counter(
            [(kind, partners[one], partners[other]) for kind, one, other in self._links[1]]
        )

    def _free(self, partners: list[int]) -> tuple[list[int], list[int]]:
        free = [node for node, partner in enumerate(partners) if partner < 0]
        size = self._size
        return [node for node in free if node < size], [node for node in free if node >= size]

    def _vote(self, partners: list[int]) -> bool:
        """Make free nodes partners that share most statements; return whether there were any."""
        left, right = self._free(partners)
        holders: dict[Any, list[int]] = defaultdict(list)
        for node in right:
            for said in self._said(node, partners):
                holders[said].append(node)
        total, votes = len(partners), Counter[int]()
        for node in left:
            for said in self._said(node, partners):
                others = holders.get(said, ())
                if len(others) <= _TELLING:
                    self._budget.spend(len(others))
                    votes.update([node * total + other for other in others])
        for pair in sorted(sorted(votes), key=votes.__getitem__, reverse=True):
            one, other = divmod(pair, total)
            if partners[one] < 0 and partners[other] < 0:
                partners[one], partners[other] = other, one
        return bool(votes)

    def _said(self, node: int, partners: list[int]) -> Iterator[Any]:
        """What is said of a node: of links, those to nodes with partners."""
        self._budget.spend(len(self._own[node]) + len(self._around[node]))
        yield from self._own[node]
        for kind, other in self._around[node]:
            if partners[other] >= 0:
                yield kind + min(other, partners[other])


def _best_pairs(
    left: Iterable[_Statement], right: Iterable[_Statement], budget: Budget
) -> dict[str, str] | None:
    """By right nodes, the left ones with which most statements agree; None if the ways to pair
    are many.
    """
    texts = {text for text, _ in left} & {text for text, _ in right}
    few, many = (Counter([each for each in side if each[0] in texts]) for side in (left, right))
    nodes, others = (Counter([node for _, nodes in side for node in nodes]) for side in (few, many))
    if len(nodes) > len(others):
        pairs = _best_pairs(right, left, budget)
        return pairs and {one: other for other, one in pairs.items()}
    if len(nodes) > _TRIED_NODES or perm(len(others), len(nodes)) * len(few) > _TRIED:
        return None
    order = [node for node, _ in nodes.most_common()]
    return dict(zip(_best_partners(order, few, many, [*others], budget), order, strict=False))


def _best_partners(
    order: Sequence[str],
    few: Counter[_Statement],
    many: Counter[_Statement],
    others: Sequence[str],
    budget: Budget,
) -> tuple[str, ...]:
    """The partners of the first nodes in `order`, by depth-first search; those of the rest do
    not matter.
    """
    places = {node: place for place, node in enumerate(order)}
    decided: list[list[tuple[str, list[int], int]]] = [[] for _ in order]
    for (text, nodes), count in few.items():
        of_nodes = [places[node] for node in nodes]
        decided[max(of_nodes)].append((text, of_nodes, count))
    counts = [sum(count for *_, count in part) for part in decided]
    possible = [sum(counts[depth:]) for depth in range(len(order) + 1)]
    best, found = 0, tuple[str, ...]()

    def search(partners: tuple[str, ...], agreeing: int) -> None:
        nonlocal best, found
        depth = len(partners)
        if agreeing > best:
            best, found = agreeing, partners
        if agreeing + possible[depth] <= best:
            return
        tried = []
        for other in others:
            if other not in partners:
                budget.spend(2 + 2 * len(decided[depth]))
                more = (*partners, other)
                share = 0
                for text, of_nodes, count in decided[depth]:
                    share += min(count, many[text, tuple([more[place] for place in of_nodes])])
                tried.append((share, more))
        for share, more in sorted(tried, key=itemgetter(0), reverse=True):
            search(more, agreeing + share)

    search((), 0)
    return found


class _Parts:
    """Statements without blank nodes; what is said of one alone, by its label; and links: a text
    and two.
    """

    def __init__(self, statements: Iterable[str]) -> None:
        self.ground: list[str] = []
        self.own: dict[str, list[str]] = defaultdict(list)
        self.links: list[tuple[str, str, str]] = []
        for line in statements:
            text, nodes = _split(line) if "_:" in line else (line, ())
            if not nodes:
                self.ground.append(line)
            elif len(nodes) == 1:
                self.own[nodes[0]].append(text)
            elif len(nodes) == 2:
                self.links.append((text, *nodes))
            else:
                self.own[line].append(text)
                self.links += [(str(place), line, node) for place, node in enumerate(nodes)]
        for _, *linked in self.links:
            for node in linked:
                self.own.setdefault(node, [])


def _split(line: str) -> tuple[str, tuple[str, ...]]:
    """A statement without its blank nodes, and these."""
    subject, predicate, rest = line.split(" ", 2)
    if " _:" not in rest:  # As most often.
        if rest[0] != "_":
            return (line[len(subject) :], (subject,)) if subject[0] == "_" else (line, ())
        if " " not in rest and subject[0] != "_":
            return line[: -len(rest)], (rest,)
        if " " not in rest and subject != rest:
            return predicate, (subject, rest)
    places: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        return f"_:{places.setdefault(found[0], len(places))}" if found[1] else found[0]

    return _BLANK.sub(numbered, line), tuple(places)


def relabelled(statements: Iterable[str], labels: Mapping[str, str]) -> list[str]:
    """Statements with another label for each blank node in `labels`; all labels start with
    ``_:``.
    """
    return [
        _BLANK.sub(lambda found: labels.get(found[0], found[0]), line) if "_:" in line else line
        for line in statements
    ]
