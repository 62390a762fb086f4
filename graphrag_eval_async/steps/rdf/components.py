"""Finds which blank nodes of two graphs correspond, component by component."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.steps.rdf.refinement import Colouring, Pair, joined, matched

if TYPE_CHECKING:
    from graphrag_eval_async.steps.rdf.graph import Link, Nodes
    from graphrag_eval_async.steps.sparql.budget import Budget


class Correspondence(NamedTuple):
    """The node of the left graph for each of the right, and whether there is no other choice."""

    left_of: dict[int, int]
    forced: bool


class _Component(NamedTuple):
    nodes: list[int]
    links: list[Link]
    colours: tuple[int, ...]


def correspond(left: Nodes, right: Nodes, budget: Budget) -> Correspondence | None:
    """Return a bijection of the blank nodes that turns one graph into the other; None without any."""
    if left.ground != right.ground or len(left.own) != len(right.own) or len(left.links) != len(right.links):
        return None
    colouring = joined(left, right, budget)
    if not colouring.balanced():
        return None
    if len(set(colouring.colours)) < len(left.own):
        colouring.refine()
        if not colouring.balanced():
            return None
    by_colour = colouring.left_of()
    forced = len(set(colouring.colours)) == len(left.own)
    if colouring.agrees(by_colour):
        return Correspondence(by_colour, forced)
    if forced:
        return None
    left_of = _by_components(colouring, budget)
    return None if left_of is None else Correspondence(by_colour | left_of, forced=False)


def _by_components(colouring: Colouring, budget: Budget) -> dict[int, int] | None:
    size = colouring.pair.size
    sides: tuple[dict[tuple[int, ...], list[_Component]], ...] = (defaultdict(list), defaultdict(list))
    for component in _components(colouring):
        sides[component.nodes[0] >= size][component.colours].append(component)
    lefts, rights = sides
    if {key: len(found) for key, found in lefts.items()} != {
        key: len(found) for key, found in rights.items()
    }:
        return None
    left_of: dict[int, int] = {}
    for key, found in lefts.items():
        candidates = rights[key]
        for component in found:
            for index, other in enumerate(candidates):
                pairs = _match(component, other, colouring.colours, budget)
                if pairs is not None:
                    left_of |= pairs
                    del candidates[index]
                    break
            else:
                return None
    return left_of


def _components(colouring: Colouring) -> list[_Component]:
    """The components of nodes with links to others, and their links."""
    around, colours = colouring.pair.around, colouring.colours
    component_of: dict[int, _Component] = {}
    found = []
    for start, links in enumerate(around):
        if not links or start in component_of:
            continue
        nodes = [start]
        seen = {start}
        for node in nodes:  # It grows.
            fresh = {other for _, other in around[node]} - seen
            seen |= fresh
            nodes += sorted(fresh)
        component = _Component(nodes, [], tuple(sorted([colours[node] for node in nodes])))
        component_of.update(dict.fromkeys(nodes, component))
        found.append(component)
    for link in colouring.pair.links:
        component_of[link[1]].links.append(link)
    return found


def _match(left: _Component, right: _Component, colours: list[int], budget: Budget) -> dict[int, int] | None:
    """The node of the left for each of the right; None if the components are not isomorphic."""
    if len(left.links) != len(right.links):
        return None
    nodes = [*left.nodes, *right.nodes]
    number = {node: index for index, node in enumerate(nodes)}
    links = [(text, number[one], number[other]) for text, one, other in (*left.links, *right.links)]
    pair = Pair(len(left.nodes), len(nodes), links, budget)
    pairs = matched(Colouring(pair, [colours[node] for node in nodes]))
    if pairs is None:
        return None
    return {nodes[node]: nodes[other] for node, other in pairs.items()}
