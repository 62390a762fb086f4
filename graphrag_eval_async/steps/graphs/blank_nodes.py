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

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.steps.graphs.best_pairs import best_pairs
from graphrag_eval_async.steps.graphs.blank_statements import SortedStatements, split_statement

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from graphrag_eval_async.steps.budget import Budget
    from graphrag_eval_async.steps.graphs.blank_statements import SplitStatement

_KIND_STEP = 1 << 40
"""Kinds of links are multiples of this, even ones forwards and odd ones backwards.

So the sum of a kind and a colour, which is less, names both.
"""

_MOST_HOLDERS = 50
"""Statements shared by more nodes on one side do not tell which nodes correspond."""

_VOTES = 4
"""Maximum number of votes. Each may align the neighbours of nodes that the last one aligned."""

_NO_PARTNER = -1
"""In a list of partners: the node has none."""


class _NumberedLink(NamedTuple):
    """A statement about two nodes of one graph."""

    kind: int
    """A number for its text, the same in both graphs."""

    subject: int
    target: int


class BlankNodes:
    """The blank nodes of two graphs, left and right.

    Nodes are numbered together: those of the right after those of the left. A statement of more
    than two blank nodes counts as a node itself, linked to each of them. The colour of a node is a
    number: nodes of different colours do not correspond.
    """

    def __init__(self, left: Sequence[str], right: Sequence[str], budget: Budget) -> None:
        """Sort the statements of two graphs, and colour each node by what is said of it alone."""
        self._budget = budget
        self._statements = (left, right)
        left_sorted = SortedStatements(left)
        right_sorted = SortedStatements(right)
        self._has_same_ground = Counter(left_sorted.ground) == Counter(right_sorted.ground)

        # For each node, its name, and the texts of the statements about it alone.
        self._names = [*left_sorted.texts_by_node, *right_sorted.texts_by_node]
        self._texts = [
            *left_sorted.texts_by_node.values(),
            *right_sorted.texts_by_node.values(),
        ]
        self._left_size = len(left_sorted.texts_by_node)
        colour_by_texts: dict[Hashable, int] = {}
        self._colours = []
        for texts in self._texts:
            key: Hashable = texts[0] if len(texts) == 1 else tuple(sorted(texts))
            self._colours.append(colour_by_texts.setdefault(key, len(colour_by_texts)))

        # For each node, the links from and to it: their kind, and the other node.
        self._around: list[list[tuple[int, int]]] = [[] for _ in self._names]
        kind_by_text: dict[str, int] = {}
        self._left_links = self._add_links(left_sorted, kind_by_text, first_number=0)
        self._right_links = self._add_links(
            right_sorted, kind_by_text, first_number=self._left_size
        )

    def _add_links(
        self, statements: SortedStatements, kind_by_text: dict[str, int], *, first_number: int
    ) -> list[_NumberedLink]:
        """Return the links of a graph with numbers for nodes, and add them to `_around`.

        Args:
            statements: the statements of the graph.
            kind_by_text: the kind of links by their text, to which further kinds are added.
            first_number: the number of the graph's first node.
        """
        number_by_name = {
            name: number for number, name in enumerate(statements.texts_by_node, first_number)
        }
        links = []
        for text, subject_name, target_name in statements.links:
            kind = kind_by_text.setdefault(text, 2 * _KIND_STEP * len(kind_by_text))
            subject = number_by_name[subject_name]
            target = number_by_name[target_name]
            links.append(_NumberedLink(kind, subject, target))
            self._around[subject].append((kind, target))
            # From the target, the link is of another kind.
            self._around[target].append((kind + _KIND_STEP, subject))
        return links

    def isomorphic(self) -> bool:
        """Return whether a bijection of the nodes makes the statements of both graphs equal.

        Nodes have colours, and only nodes of one colour can correspond. Colours are split until
        nodes of one colour have the same surroundings. If several nodes still share a colour, one
        of them is assumed to correspond to each candidate in turn.

        Raises:
            ComparisonBudgetExceeded: it was not decided within the budget.
        """
        if not self._has_same_ground or not self._is_balanced(self._colours):
            return False
        refined = list(self._colours)
        self._refine(refined, range(len(refined)))

        # Depth first: each level has the colourings that follow from assumptions about one node.
        # Components, which are groups of nodes that links connect, are decided one by one.
        left_links = Counter(self._left_links)
        components: list[int] = []
        current_component: int | None = None
        levels = [iter([refined])]
        while levels:
            colours = next(levels[-1], None)
            if colours is None:
                levels.pop()
                continue
            if not self._is_balanced(colours):
                continue
            right_links = self._right_links_as_left(self._align(colours))
            if left_links == right_links:
                return True

            components = components or self._find_components()
            node = self._tied_node(colours, components, current_component)
            if node is None:
                continue
            if components[node] != current_component:
                # No node of the current component is tied any more.
                disagrees = any(
                    right_links[link] < count
                    for link, count in left_links.items()
                    if components[link.subject] == current_component
                )
                if disagrees:
                    continue
                # The component is decided; another choice for it would not help.
                current_component = components[node]
                levels.clear()
            levels.append(self._assumptions(colours, node))
        return False

    def labels(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return new labels for the left nodes and for the right ones, by their names.

        Nodes have the same label if they are likely to correspond.
        """
        # Statements that count as nodes may begin like a label, too, which does no harm.
        left_names = [name for name in self._names[: self._left_size] if name.startswith("_")]
        right_names = [name for name in self._names[self._left_size :] if name.startswith("_")]
        left_statements, right_statements = map(_split_with_nodes, self._statements)
        left_by_right = best_pairs(left_statements, right_statements, self._budget)
        if left_by_right is None:
            left_by_right = self._likely_pairs()

        left_labels = {name: f"_:b{number}" for number, name in enumerate(left_names)}
        right_labels = {}
        for number, name in enumerate(right_names):
            partner = left_by_right.get(name, "")
            right_labels[name] = left_labels.get(partner, f"_:x{number}")
        return left_labels, right_labels

    def _likely_pairs(self) -> dict[str, str]:
        """Return the left nodes that are likely to correspond to right ones, by name."""
        partners = self._likely_partners()
        pairs = {}
        for node in range(self._left_size, len(partners)):
            if partners[node] != _NO_PARTNER:
                pairs[self._names[node]] = self._names[partners[node]]
        return pairs

    def _likely_partners(self) -> list[int]:
        """Return the partner of each node, or `_NO_PARTNER`, by the better of two alignments."""
        refined = list(self._colours)
        self._refine(refined, range(len(refined)))
        by_refined_colour = self._align(refined)
        # This one also pairs nodes that differ only in their links.
        by_any_colour = self._align(refined, self._colours)
        alignments = [by_refined_colour, by_any_colour]
        for partners in alignments:
            for _ in range(_VOTES):
                if not self._vote(partners):
                    break
            # Nothing tells how the others correspond.
            left_free, right_free = self._free_nodes(partners)
            for left, right in zip(left_free, right_free, strict=False):
                partners[left] = right
                partners[right] = left
        return max(alignments, key=self._count_agreeing)

    def _is_balanced(self, colours: list[int]) -> bool:
        """Return whether each colour has as many left nodes as right ones."""
        return Counter(colours[: self._left_size]) == Counter(colours[self._left_size :])

    def _refine(self, colours: list[int], due: Iterable[int]) -> None:
        """Split colours, in place, until all nodes of a colour have the same surroundings.

        Colours of two nodes are left as they are, which is enough if one node is on each side.

        Args:
            colours: the colour of each node. Nodes of different colours do not correspond.
            due: the nodes whose surroundings may differ from those of others of their colour.
        """
        around = self._around
        sizes = Counter(colours)
        next_colour = max(colours, default=0) + 1
        while True:
            due = [node for node in due if around[node] and sizes[colours[node]] > 2]
            if not due:
                return
            self._budget.spend(sum(1 + len(around[node]) for node in due))

            recoloured: list[int] = []
            for colour, groups in self._group_by_surroundings(colours, due).items():
                smallest_first = sorted(groups, key=len)
                if sum(map(len, groups)) == sizes[colour]:
                    # The largest group keeps the colour. Otherwise, nodes that were not due do.
                    smallest_first.pop()
                for group in smallest_first:
                    sizes[colour] -= len(group)
                    sizes[next_colour] = len(group)
                    for node in group:
                        colours[node] = next_colour
                    recoloured += group
                    next_colour += 1
            # Each once, in the order in which they come.
            due = dict.fromkeys([other for node in recoloured for _, other in around[node]])

    def _group_by_surroundings(
        self, colours: list[int], nodes: Iterable[int]
    ) -> dict[int, list[list[int]]]:
        """Return, for each colour, groups of nodes whose neighbours have equal colours.

        Args:
            colours: the colour of each node. Nodes of different colours do not correspond.
            nodes: the nodes to group.
        """
        groups: dict[int, dict[tuple[int, ...], list[int]]] = defaultdict(dict)
        for node in nodes:
            surroundings = sorted([kind + colours[other] for kind, other in self._around[node]])
            groups_of_colour = groups[colours[node]]
            groups_of_colour.setdefault(tuple(surroundings), []).append(node)
        return {
            colour: list(by_surroundings.values()) for colour, by_surroundings in groups.items()
        }

    def _find_components(self) -> list[int]:
        """Return a number for each node, which those nodes share that links connect."""
        not_reached = -1
        components = [not_reached] * len(self._names)
        for start in range(len(components)):
            if components[start] != not_reached:
                continue
            pending = [start]
            while pending:
                node = pending.pop()
                if components[node] == not_reached:
                    components[node] = start
                    pending += [other for _, other in self._around[node]]
        return components

    def _tied_node(
        self, colours: list[int], components: list[int], current_component: int | None
    ) -> int | None:
        """Return a left node that shares its colour with other left nodes; None if there is none.

        A node of the current component comes first, then one that shares its colour with few.

        Args:
            colours: the colour of each node. Nodes of different colours do not correspond.
            components: the component of each node.
            current_component: the component that is being decided; None at the beginning.
        """
        sizes = Counter(colours[: self._left_size])
        ranked_nodes = []
        for node in range(self._left_size):
            size = sizes[colours[node]]
            if self._around[node] and size > 1:
                ranked_nodes.append((components[node] != current_component, size, node))
        if not ranked_nodes:
            return None
        _, _, node = min(ranked_nodes)
        return node

    def _assumptions(self, colours: list[int], node: int) -> Iterator[list[int]]:
        """Yield, for each right node to which a tied left node may correspond, refined colours that
        follow from it.

        Args:
            colours: the colour of each node. Nodes of different colours do not correspond.
            node: the left node.
        """
        new_colour = max(colours) + 1
        for other in range(self._left_size, len(colours)):
            if colours[other] != colours[node]:
                continue
            self._budget.spend(len(colours))
            assumed = list(colours)
            assumed[node] = new_colour
            assumed[other] = new_colour
            neighbours = [neighbour for _, neighbour in self._around[node] + self._around[other]]
            self._refine(assumed, neighbours)
            yield assumed

    def _align(self, *colourings: list[int]) -> list[int]:
        """Return the partner of each node, or `_NO_PARTNER`: a node of the same colour.

        Nodes without a partner of their colour in the first colouring may get one of their colour
        in the next one. Neighbours of partners become partners first.
        """
        partners = [_NO_PARTNER] * len(self._names)
        for colours in colourings:
            # By colour, the free nodes on both sides. The last come first, since nodes are taken
            # from the end.
            free: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
            for node in reversed(range(len(colours))):
                if partners[node] == _NO_PARTNER:
                    left, right = free[colours[node]]
                    if node < self._left_size:
                        left.append(node)
                    else:
                        right.append(node)
            for left, right in free.values():
                self._pair_off(left, right, colours, partners)
        return partners

    def _pair_off(
        self, left: list[int], right: list[int], colours: list[int], partners: list[int]
    ) -> None:
        """Make the last left node and the last right one partners, and so on.

        Args:
            left: left nodes of one colour; emptied.
            right: right nodes of the same colour; emptied.
            colours: the colour of each node. Nodes of different colours do not correspond.
            partners: the partner of each node, to which the pairs are added.
        """
        while left and right:
            if partners[left[-1]] != _NO_PARTNER:
                left.pop()
            elif partners[right[-1]] != _NO_PARTNER:
                right.pop()
            else:
                self._pair(left.pop(), right.pop(), colours, partners)

    def _pair(self, left: int, right: int, colours: list[int], partners: list[int]) -> None:
        """Make two nodes partners, then their neighbours of equal colours, and so on.

        Args:
            left: the left node.
            right: the right node.
            colours: the colour of each node. Nodes of different colours do not correspond.
            partners: the partner of each node, to which the pairs are added.
        """
        around = self._around
        partners[left] = right
        partners[right] = left
        pending = [(left, right)]
        while pending:
            here, there = pending.pop()
            self._budget.spend(1 + len(around[here]) + len(around[there]))
            # Nodes that are linked to `there` by the same kind, and have the same colour.
            alike: dict[int, list[int]] = defaultdict(list)
            for kind, node in reversed(around[there]):
                if partners[node] == _NO_PARTNER:
                    alike[kind + colours[node]].append(node)
            if not alike:
                continue
            for kind, node in around[here]:
                candidates = alike.get(kind + colours[node])
                if not candidates or partners[node] != _NO_PARTNER:
                    continue
                if partners[candidates[-1]] == _NO_PARTNER:
                    other = candidates.pop()
                    partners[node] = other
                    partners[other] = node
                    pending.append((node, other))

    def _count_agreeing(self, partners: list[int]) -> int:
        """Return how many statements with blank nodes agree if these have such partners."""
        agreeing = (Counter(self._left_links) & self._right_links_as_left(partners)).total()
        for node in range(self._left_size):
            partner = partners[node]
            if partner != _NO_PARTNER:
                common = Counter(self._texts[node]) & Counter(self._texts[partner])
                agreeing += common.total()
        return agreeing

    def _right_links_as_left(self, partners: list[int]) -> Counter[_NumberedLink]:
        """Return the right links with the left partners in place of their nodes."""
        self._budget.spend(len(self._left_links) + len(self._right_links))
        # Plain tuples, which equal links, are made faster.
        links: Any = [
            (kind, partners[subject], partners[target])
            for kind, subject, target in self._right_links
        ]
        return Counter(links)

    def _free_nodes(self, partners: list[int]) -> tuple[list[int], list[int]]:
        """Return the left nodes and the right nodes that have no partner."""
        free = [node for node, partner in enumerate(partners) if partner == _NO_PARTNER]
        left = [node for node in free if node < self._left_size]
        right = [node for node in free if node >= self._left_size]
        return left, right

    def _vote(self, partners: list[int]) -> bool:
        """Make free nodes partners that share most statements.

        Each free node has a vote for each node of the other graph with which it shares a statement.

        Args:
            partners: the partner of each node, to which the pairs are added.

        Returns:
            whether any free nodes share a statement.
        """
        left, right = self._free_nodes(partners)
        holders: dict[Hashable, list[int]] = defaultdict(list)
        for node in right:
            for statement in self._comparable_statements(node, partners):
                holders[statement].append(node)

        # A number names a pair: the left node times the number of nodes, plus the right node.
        number_of_nodes = len(partners)
        votes = Counter[int]()
        for node in left:
            for statement in self._comparable_statements(node, partners):
                others = holders.get(statement, ())
                # What many nodes share does not tell them apart.
                if len(others) <= _MOST_HOLDERS:
                    self._budget.spend(len(others))
                    votes.update([node * number_of_nodes + other for other in others])

        # Of pairs with as many votes, the one with the least number comes first.
        most_votes_first = sorted(sorted(votes), key=votes.__getitem__, reverse=True)
        for pair in most_votes_first:
            node, other = divmod(pair, number_of_nodes)
            if partners[node] == _NO_PARTNER and partners[other] == _NO_PARTNER:
                partners[node] = other
                partners[other] = node
        return bool(votes)

    def _comparable_statements(self, node: int, partners: list[int]) -> Iterator[Hashable]:
        """Yield the statements about a node, in a form that is equal for both graphs.

        These are the texts of statements about it alone, and its links to nodes with partners: the
        sum of the kind and the number of the left partner.
        """
        self._budget.spend(len(self._texts[node]) + len(self._around[node]))
        yield from self._texts[node]
        for kind, other in self._around[node]:
            partner = partners[other]
            if partner != _NO_PARTNER:
                # Left nodes have the lower numbers.
                yield kind + min(other, partner)


def _split_with_nodes(statements: Iterable[str]) -> list[SplitStatement]:
    """Return those statements that have blank nodes, apart from these."""
    split = map(split_statement, statements)
    return [statement for statement in split if statement.nodes]
