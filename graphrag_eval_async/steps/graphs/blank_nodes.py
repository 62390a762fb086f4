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
        """Number the nodes of two graphs, and give each node its first colour.

        Nodes have the same first colour if the statements about them alone have equal texts.

        Args:
            left: the statements of one graph, in N-Quads.
            right: the statements of the other graph.
            budget: what may be spent.
        """
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
            # A single text, which is the usual case, needs no sorting.
            key: Hashable = texts[0] if len(texts) == 1 else tuple(sorted(texts))
            self._colours.append(colour_by_texts.setdefault(key, len(colour_by_texts)))

        # For each node, the links from and to it: the kind of the link, and the neighbour.
        self._around: list[list[tuple[int, int]]] = [[] for _ in self._names]
        kind_by_text: dict[str, int] = {}
        self._left_links = self._add_links(left_sorted, kind_by_text, first_number=0)
        self._right_links = self._add_links(
            right_sorted, kind_by_text, first_number=self._left_size
        )

    def _add_links(
        self, statements: SortedStatements, kind_by_text: dict[str, int], *, first_number: int
    ) -> list[_NumberedLink]:
        """Return the links of one graph, and add each link to `_around` at both of its nodes.

        Args:
            statements: the statements of the graph.
            kind_by_text: the kind of a link by its text. New kinds are added to it.
            first_number: the number of the graph's first node.
        """
        number_by_name = {
            name: number for number, name in enumerate(statements.texts_by_node, first_number)
        }
        links = []
        for text, subject_name, target_name in statements.links:
            new_kind = 2 * _KIND_STEP * len(kind_by_text)
            kind = kind_by_text.setdefault(text, new_kind)
            subject = number_by_name[subject_name]
            target = number_by_name[target_name]
            links.append(_NumberedLink(kind, subject, target))
            self._around[subject].append((kind, target))
            # Seen from the target, the link is of another kind than seen from the subject.
            self._around[target].append((kind + _KIND_STEP, subject))
        return links

    def isomorphic(self) -> bool:
        """Return whether a bijection of the nodes makes the statements of both graphs equal.

        Nodes have colours, and only nodes of one colour can correspond. Colours are split until all
        nodes of a colour have the same surroundings. If several left nodes still share a colour,
        one of them is assumed to correspond to each right node of that colour in turn.

        Raises:
            ComparisonBudgetExceeded: the budget did not suffice to decide.
        """
        if not self._has_same_ground or not self._is_balanced(self._colours):
            return False
        refined = list(self._colours)
        self._refine(refined, range(len(refined)))

        # The search is depth first. Each level yields the colours that follow from one assumption
        # after the other about the same node.
        left_links = Counter(self._left_links)
        components: list[int] = []
        current_component: int | None = None
        levels = [iter([refined])]
        while levels:
            colours = next(levels[-1], None)
            if colours is None:
                # All assumptions about this node have failed.
                levels.pop()
                continue
            if not self._is_balanced(colours):
                continue
            partners = self._align(colours)
            right_links = self._right_links_as_left(partners)
            if left_links == right_links:
                return True

            # Components, which are groups of nodes that links connect, are decided one by one.
            if not components:
                components = self._find_components()
            node = self._tied_node(colours, components, current_component)
            if node is None:
                # Nothing remains to be assumed, so one of the assumptions is wrong.
                continue
            if components[node] != current_component:
                # The current component has no tied node any more.
                if self._lacks_links(current_component, components, left_links, right_links):
                    continue
                # The component agrees. Other assumptions about it would not help other components.
                current_component = components[node]
                levels.clear()
            levels.append(self._assumptions(colours, node))
        return False

    def _lacks_links(
        self,
        component: int | None,
        components: list[int],
        left_links: Counter[_NumberedLink],
        right_links: Counter[_NumberedLink],
    ) -> bool:
        """Return whether the right graph lacks a link that a component has in the left graph.

        Args:
            component: the component. None, which stands for no component, has no links.
            components: the component of each node.
            left_links: how often each left link occurs.
            right_links: how often each right link occurs, with left partners in place of its nodes.
        """
        return any(
            right_links[link] < left_times
            for link, left_times in left_links.items()
            if components[link.subject] == component
        )

    def labels(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return a new label for each left node and for each right node, by the node's name.

        Nodes have the same label if they are likely to correspond.
        """
        # The names of blank nodes begin with an underscore. A statement that counts as a node may
        # do so, too; nobody asks for its label.
        left_names = [name for name in self._names[: self._left_size] if name.startswith("_")]
        right_names = [name for name in self._names[self._left_size :] if name.startswith("_")]
        left, right = self._statements
        left_by_right = best_pairs(_split_with_nodes(left), _split_with_nodes(right), self._budget)
        if left_by_right is None:
            # There are too many pairs to try all.
            left_by_right = self._likely_pairs()

        left_labels = {name: f"_:b{number}" for number, name in enumerate(left_names)}
        right_labels = {}
        for number, name in enumerate(right_names):
            partner = left_by_right.get(name)
            if partner is not None and partner in left_labels:
                right_labels[name] = left_labels[partner]
            else:
                # No left node has such a label.
                right_labels[name] = f"_:x{number}"
        return left_labels, right_labels

    def _likely_pairs(self) -> dict[str, str]:
        """Return the names of likely partners: the left node's name by the right node's name."""
        partners = self._likely_partners()
        pairs = {}
        for node in range(self._left_size, len(partners)):
            if partners[node] != _NO_PARTNER:
                pairs[self._names[node]] = self._names[partners[node]]
        return pairs

    def _likely_partners(self) -> list[int]:
        """Return the likely partner of each node, or `_NO_PARTNER`.

        Of two ways to find partners, the one is taken by which more statements agree.
        """
        refined = list(self._colours)
        self._refine(refined, range(len(refined)))
        by_refined_colour = self._align(refined)
        # The first colours also pair nodes that differ only in their links.
        by_any_colour = self._align(refined, self._colours)
        alignments = [by_refined_colour, by_any_colour]
        for partners in alignments:
            for _ in range(_VOTES):
                has_votes = self._pair_by_votes(partners)
                if not has_votes:
                    # Another round would have no votes, either.
                    break
            # Nothing tells how the remaining nodes correspond, so they are paired in their order.
            left_free, right_free = self._free_nodes(partners)
            for left, right in zip(left_free, right_free, strict=False):
                partners[left] = right
                partners[right] = left
        return max(alignments, key=self._count_agreeing)

    def _is_balanced(self, colours: list[int]) -> bool:
        """Return whether each colour has as many left nodes as right nodes."""
        return Counter(colours[: self._left_size]) == Counter(colours[self._left_size :])

    def _refine(self, colours: list[int], changed_nodes: Iterable[int]) -> None:
        """Split colours, in place, until all nodes of a colour have the same surroundings.

        The surroundings of a node are the kinds of its links and the colours of its neighbours. A
        colour that only two nodes have is not split: usually, one is left and the other right.

        Args:
            colours: the colour of each node. Nodes of different colours do not correspond.
            changed_nodes: the nodes whose surroundings may differ from those of other nodes of
                their colour.
        """
        around = self._around
        sizes = Counter(colours)
        next_colour = max(colours, default=0) + 1
        while True:
            # Nodes without links all have the same surroundings.
            nodes = [node for node in changed_nodes if around[node] and sizes[colours[node]] > 2]
            if not nodes:
                return
            self._budget.spend(sum(1 + len(around[node]) for node in nodes))

            # Give new colours to all groups of a colour but one.
            recoloured: list[int] = []
            for colour, groups in self._group_by_surroundings(colours, nodes).items():
                groups_to_recolour = sorted(groups, key=len)
                has_all_nodes = sum(map(len, groups)) == sizes[colour]
                if has_all_nodes:
                    # The largest group keeps the colour.
                    groups_to_recolour.pop()
                # Otherwise, the nodes of this colour that are in no group keep it.
                for group in groups_to_recolour:
                    sizes[colour] -= len(group)
                    sizes[next_colour] = len(group)
                    for node in group:
                        colours[node] = next_colour
                    recoloured += group
                    next_colour += 1

            # New colours change the surroundings of neighbours. A dict, unlike a set, keeps order.
            neighbours = [neighbour for node in recoloured for _, neighbour in around[node]]
            changed_nodes = dict.fromkeys(neighbours)

    def _group_by_surroundings(
        self, colours: list[int], nodes: Iterable[int]
    ) -> dict[int, list[list[int]]]:
        """Return groups of nodes with the same surroundings, by the colour of the nodes.

        The surroundings of a node are the kinds of its links and the colours of its neighbours.

        Args:
            colours: the colour of each node. Nodes of different colours do not correspond.
            nodes: the nodes to group.
        """
        groups: dict[int, dict[tuple[int, ...], list[int]]] = defaultdict(dict)
        for node in nodes:
            # Each link and its neighbour become one number, which is sorted faster than a pair. It
            # cannot stand for another pair, as kinds are multiples of a number above all colours.
            surroundings = sorted(
                [kind + colours[neighbour] for kind, neighbour in self._around[node]]
            )
            groups_of_colour = groups[colours[node]]
            groups_of_colour.setdefault(tuple(surroundings), []).append(node)
        return {
            colour: list(by_surroundings.values()) for colour, by_surroundings in groups.items()
        }

    def _find_components(self) -> list[int]:
        """Return the component of each node: nodes that links connect have the same number."""
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
                    pending += [neighbour for _, neighbour in self._around[node]]
        return components

    def _tied_node(
        self, colours: list[int], components: list[int], current_component: int | None
    ) -> int | None:
        """Return a left node that shares its colour with other left nodes; None if there is none.

        Nodes of the current component come first. Among them, a node comes first that shares its
        colour with the fewest others.

        Args:
            colours: the colour of each node. Nodes of different colours do not correspond.
            components: the component of each node.
            current_component: the component that is being decided; None at the beginning.
        """
        sizes = Counter(colours[: self._left_size])
        ranked_nodes = []
        for node in range(self._left_size):
            size = sizes[colours[node]]
            # A node without links can have any partner of its colour.
            if self._around[node] and size > 1:
                is_elsewhere = components[node] != current_component
                ranked_nodes.append((is_elsewhere, size, node))
        if not ranked_nodes:
            return None
        _, _, node = min(ranked_nodes)
        return node

    def _assumptions(self, colours: list[int], left_node: int) -> Iterator[list[int]]:
        """Assume that a left node corresponds to each right node of its colour in turn.

        Yield the refined colours that follow from each assumption.

        Args:
            colours: the colour of each node. Nodes of different colours do not correspond.
            left_node: the left node.
        """
        new_colour = max(colours) + 1
        for right_node in range(self._left_size, len(colours)):
            if colours[right_node] != colours[left_node]:
                continue
            self._budget.spend(len(colours))
            assumed = list(colours)
            assumed[left_node] = new_colour
            assumed[right_node] = new_colour
            links = self._around[left_node] + self._around[right_node]
            self._refine(assumed, [neighbour for _, neighbour in links])
            yield assumed

    def _align(self, *colourings: list[int]) -> list[int]:
        """Return, for each node, a partner of the same colour in the other graph.

        A node without a partner has `_NO_PARTNER`. If two nodes become partners, their neighbours
        are paired next.

        Args:
            *colourings: one or more lists with the colour of each node. The second one pairs nodes
                that have no partner by the first one, and so on.
        """
        partners = [_NO_PARTNER] * len(self._names)
        for colours in colourings:
            # The left and the right nodes without a partner, by colour. They are in reverse order,
            # since `_pair_off` takes nodes from the end.
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
        """Make left and right nodes of one colour partners, from the ends of two lists.

        Whenever two nodes become partners, their neighbours of equal colours do so, too.

        Args:
            left: left nodes of one colour; emptied.
            right: right nodes of the same colour; emptied.
            colours: the colour of each node. Nodes of different colours do not correspond.
            partners: the partner of each node, to which the pairs are added.
        """
        while left and right:
            # A node may have become a partner as the neighbour of an earlier one.
            if partners[left[-1]] != _NO_PARTNER:
                left.pop()
            elif partners[right[-1]] != _NO_PARTNER:
                right.pop()
            else:
                self._pair(left.pop(), right.pop(), colours, partners)

    def _pair(self, left: int, right: int, colours: list[int], partners: list[int]) -> None:
        """Make two nodes partners, then neighbours that are linked to them alike, and so on.

        Neighbours are linked alike if the kinds of their links and their colours are equal.

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
            left_node, right_node = pending.pop()
            self._budget.spend(1 + len(around[left_node]) + len(around[right_node]))
            # The neighbours of the right node, by the kind of the link and their colour, whose sum
            # stands for both. They are in reverse order, since the last one is taken first.
            right_neighbours: dict[int, list[int]] = defaultdict(list)
            for kind, neighbour in reversed(around[right_node]):
                if partners[neighbour] == _NO_PARTNER:
                    right_neighbours[kind + colours[neighbour]].append(neighbour)
            if not right_neighbours:
                continue
            for kind, neighbour in around[left_node]:
                candidates = right_neighbours.get(kind + colours[neighbour])
                if not candidates or partners[neighbour] != _NO_PARTNER:
                    continue
                # Several links may lead to a candidate, which may have got a partner by one.
                if partners[candidates[-1]] == _NO_PARTNER:
                    candidate = candidates.pop()
                    partners[neighbour] = candidate
                    partners[candidate] = neighbour
                    pending.append((neighbour, candidate))

    def _count_agreeing(self, partners: list[int]) -> int:
        """Return how many statements with blank nodes agree if partners correspond.

        Args:
            partners: the partner of each node, or `_NO_PARTNER`.
        """
        common_links = Counter(self._left_links) & self._right_links_as_left(partners)
        agreeing = common_links.total()
        for node in range(self._left_size):
            partner = partners[node]
            if partner != _NO_PARTNER:
                common = Counter(self._texts[node]) & Counter(self._texts[partner])
                agreeing += common.total()
        return agreeing

    def _right_links_as_left(self, partners: list[int]) -> Counter[_NumberedLink]:
        """Return how often each right link occurs, after replacing its nodes by their partners.

        Args:
            partners: the partner of each node, or `_NO_PARTNER`.
        """
        self._budget.spend(len(self._left_links) + len(self._right_links))
        # Plain tuples are made faster than `_NumberedLink`s, and equal them.
        links: Any = [
            (kind, partners[subject], partners[target])
            for kind, subject, target in self._right_links
        ]
        return Counter(links)

    def _free_nodes(self, partners: list[int]) -> tuple[list[int], list[int]]:
        """Return a list of the left nodes and one of the right nodes that have no partner."""
        free = [node for node, partner in enumerate(partners) if partner == _NO_PARTNER]
        left = [node for node in free if node < self._left_size]
        right = [node for node in free if node >= self._left_size]
        return left, right

    def _pair_by_votes(self, partners: list[int]) -> bool:
        """Make nodes that share many statements partners, and return whether there were any votes.

        Only nodes without a partner take part. Each statement that a left node and a right node
        share is a vote for this pair, and pairs with most votes become partners first.

        Args:
            partners: the partner of each node, to which the pairs are added.
        """
        left, right = self._free_nodes(partners)
        right_by_statement: dict[Hashable, list[int]] = defaultdict(list)
        for right_node in right:
            for statement in self._comparable_statements(right_node, partners):
                right_by_statement[statement].append(right_node)

        # A pair is written as one number, which is counted faster. `divmod` takes it apart below.
        number_of_nodes = len(partners)
        votes = Counter[int]()
        for left_node in left:
            for statement in self._comparable_statements(left_node, partners):
                sharing = right_by_statement.get(statement, ())
                # A statement that many nodes share does not tell them apart.
                if len(sharing) <= _MOST_HOLDERS:
                    self._budget.spend(len(sharing))
                    first_pair = left_node * number_of_nodes
                    # This adds a vote for each pair.
                    votes.update([first_pair + right_node for right_node in sharing])

        # Of pairs with as many votes, the one with the least number comes first.
        most_votes_first = sorted(sorted(votes), key=votes.__getitem__, reverse=True)
        for pair in most_votes_first:
            left_node, right_node = divmod(pair, number_of_nodes)
            if partners[left_node] == _NO_PARTNER and partners[right_node] == _NO_PARTNER:
                partners[left_node] = right_node
                partners[right_node] = left_node
        return bool(votes)

    def _comparable_statements(self, node: int, partners: list[int]) -> Iterator[Hashable]:
        """Yield the statements about a node, in a form that is the same for left and right nodes.

        A statement about the node alone is its text. A link to a neighbour that has a partner is a
        number: its kind plus the number of the neighbour or of its partner, whichever is a left
        node.
        """
        self._budget.spend(len(self._texts[node]) + len(self._around[node]))
        yield from self._texts[node]
        for kind, neighbour in self._around[node]:
            partner = partners[neighbour]
            if partner != _NO_PARTNER:
                # Left nodes have lower numbers than right ones.
                left_node = min(neighbour, partner)
                yield kind + left_node


def _split_with_nodes(statements: Iterable[str]) -> list[SplitStatement]:
    """Return the statements that have blank nodes, split into their texts and these nodes."""
    split = map(split_statement, statements)
    return [statement for statement in split if statement.nodes]
