"""Tries all ways to pair the blank nodes of two graphs, if these are few."""

from __future__ import annotations

from collections import Counter
from math import perm
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.steps.graphs.blank_statements import SplitStatement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphrag_eval_async.steps.budget import Budget

_MOST_TRIES = 1 << 17
"""All ways to pair nodes are tried if their number times that of statements is at most this."""

_MOST_NODES = 8
"""Nodes up to which all ways to pair them are tried."""


def best_pairs(
    left: Iterable[SplitStatement], right: Iterable[SplitStatement], budget: Budget
) -> dict[str, str] | None:
    """Return pairs of blank nodes of two graphs under which most statements agree.

    Args:
        left: the statements of one graph that have blank nodes.
        right: the statements of the other graph that have blank nodes.
        budget: what may be spent.

    Returns:
        the left node by the right node of each pair; None if there are too many ways to pair nodes.
    """
    # Statements agree only if their texts are equal, so texts that one graph lacks do not matter.
    shared_texts = {statement.text for statement in left} & {statement.text for statement in right}
    left_statements = Counter(statement for statement in left if statement.text in shared_texts)
    right_statements = Counter(statement for statement in right if statement.text in shared_texts)
    left_nodes = Counter(node for statement in left_statements for node in statement.nodes)
    right_nodes = Counter(node for statement in right_statements for node in statement.nodes)
    if len(left_nodes) > len(right_nodes):
        # The search needs enough right nodes, so the graphs change places.
        pairs = best_pairs(right, left, budget)
        if pairs is None:
            return None
        return {right_node: left_node for left_node, right_node in pairs.items()}

    # Give up if there are too many ways.
    if len(left_nodes) > _MOST_NODES:
        return None
    number_of_ways = perm(len(right_nodes), len(left_nodes))
    if number_of_ways * len(left_statements) > _MOST_TRIES:
        return None

    # Try all ways. Nodes of many statements come first, since they decide most.
    order = [node for node, _ in left_nodes.most_common()]
    search = _PartnerSearch(
        order=order,
        left_statements=left_statements,
        right_statements=right_statements,
        right_nodes=list(right_nodes),
        budget=budget,
    )
    search.try_all()
    # The remaining left nodes have no partners, since these would make no more statements agree.
    return dict(zip(search.best_partners, order, strict=False))


class _DecidedStatement(NamedTuple):
    """A left statement. Once the last of its nodes has a partner, it agrees or not."""

    text: str
    places: list[int]
    """The places of its nodes in the order in which left nodes get partners."""

    times: int
    """How often it occurs."""


class _PartnerSearch:
    """Pairs left nodes with right nodes so that most statements agree, by branch and bound.

    Attributes:
        best_partners: in the best way so far, the partners of the first left nodes in their order.
            The partners of the other left nodes do not matter.
    """

    def __init__(
        self,
        *,
        order: Sequence[str],
        left_statements: Counter[SplitStatement],
        right_statements: Counter[SplitStatement],
        right_nodes: Sequence[str],
        budget: Budget,
    ) -> None:
        """Prepare a search: find out which left node decides whether each left statement agrees.

        Args:
            order: the left nodes in the order in which they get partners.
            left_statements: how often each left statement occurs.
            right_statements: how often each right statement occurs.
            right_nodes: the right nodes.
            budget: what may be spent.
        """
        self.best_partners: tuple[str, ...] = ()
        self._best_agreeing = 0
        self._right_statements = right_statements
        self._right_nodes = right_nodes
        self._budget = budget
        # The last of a statement's nodes to get a partner decides whether the statement agrees.
        place_by_node = {node: place for place, node in enumerate(order)}
        self._decided_at: list[list[_DecidedStatement]] = [[] for _ in order]
        for statement, times in left_statements.items():
            places = [place_by_node[node] for node in statement.nodes]
            decided = _DecidedStatement(statement.text, places, times)
            self._decided_at[max(places)].append(decided)
        # For each number of nodes with partners, how many statements the remaining nodes decide.
        counts = [sum(statement.times for statement in decided) for decided in self._decided_at]
        self._undecided = [sum(counts[depth:]) for depth in range(len(order) + 1)]

    def try_all(self, partners: tuple[str, ...] = (), agreeing: int = 0) -> None:
        """Try all ways to pair nodes that may be better than the best way so far, depth first.

        Whenever more statements agree than in the best way, change `best_partners`.

        Args:
            partners: the partners of the first left nodes, which are the same in all these ways.
            agreeing: how many statements agree under these partners.
        """
        depth = len(partners)
        if agreeing > self._best_agreeing:
            self._best_agreeing = agreeing
            self.best_partners = partners
        if agreeing + self._undecided[depth] <= self._best_agreeing:
            # Even if all undecided statements agree, no way is better than the best one.
            return

        choices: list[tuple[int, tuple[str, ...]]] = []
        for node in self._right_nodes:
            if node in partners:
                continue
            self._budget.spend(2 + 2 * len(self._decided_at[depth]))
            longer = (*partners, node)
            choices.append((self._count_agreeing(depth, longer), longer))
        # The partner that makes most statements agree is tried first, so that more branches end
        # early.
        for added, longer in sorted(choices, key=itemgetter(0), reverse=True):
            self.try_all(longer, agreeing + added)

    def _count_agreeing(self, depth: int, partners: tuple[str, ...]) -> int:
        """Return how many of the statements agree that the left node at `depth` decides.

        Args:
            depth: the place of this node in the order of the search.
            partners: the partners of all left nodes up to this one.
        """
        agreeing = 0
        for statement in self._decided_at[depth]:
            nodes = tuple([partners[place] for place in statement.places])
            right_times = self._right_statements[SplitStatement(statement.text, nodes)]
            agreeing += min(statement.times, right_times)
        return agreeing
