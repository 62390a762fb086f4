"""Isomorphism and agreement against functions that try every bijection; graphs made to take
long.
"""

from __future__ import annotations

import random
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.steps import Budget
from graphrag_eval_async.steps.differences import Agreement
from graphrag_eval_async.steps.graphs.comparison import agreement, isomorphic
from tests.steps.support import read, same, turtle
from tests.support.cpu import affordable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphrag_eval_async.steps.graphs.reading import Graph

Triple = tuple[str, str, str]

EQUAL = [
    {"1", '"1"^^xsd:byte', "1.0", "1.000000005"},
    {"true", '"1"^^xsd:boolean'},
    {'"x"@en', '"x"@EN'},
]
TERMS = [
    *sorted(set().union(*EQUAL)),
    "2",
    "false",
    '"1"',
    '"x"@en-GB',
    '"_:n0 <a> \\" _:n1"',
    ":a",
]


def value(term: str) -> str:
    return next((min(group) for group in EQUAL if term in group), term)


def nodes(triples: set[Triple]) -> list[str]:
    return sorted({term for triple in triples for term in triple if term.startswith("_:")})


def renamings(left: set[Triple], right: set[Triple]) -> Iterator[set[Triple]]:
    """The right triples with the blank nodes of the left, in every way."""
    ours, theirs = nodes(left), nodes(right)
    ours += [f"_:more{index}" for index in range(len(theirs) - len(ours))]
    for order in permutations(ours, len(theirs)):
        names = dict(zip(theirs, order, strict=True))
        yield {(names.get(s, s), p, names.get(o, o)) for s, p, o in right}


def by_value(triples: list[Triple]) -> set[Triple]:
    return {(s, p, value(o)) for s, p, o in triples}


def as_graph(triples: list[Triple]) -> Graph:
    return read(turtle(*map(" ".join, triples)))


BLANKS = [f"_:n{index}" for index in range(5)]
PREDICATES = st.sampled_from([":p", ":p", ":q"])
LINKS = st.tuples(st.sampled_from(BLANKS), PREDICATES, st.sampled_from([*BLANKS, ":a"]))
VALUES = st.tuples(st.sampled_from([*BLANKS[:3], ":a"]), PREDICATES, st.sampled_from(TERMS))
STEPS = st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True)
REGULAR = st.tuples(st.integers(2, 5), STEPS).map(
    lambda pair: [
        (f"_:n{i}", ":p", f"_:n{(i + step) % pair[0]}") for i in range(pair[0]) for step in pair[1]
    ]
)
TRIPLES = st.one_of(
    st.lists(LINKS | VALUES, max_size=8), st.lists(LINKS, min_size=3, max_size=9), REGULAR
).map(lambda triples: list({(s, p, value(o)): (s, p, o) for s, p, o in triples}.values()))


def changed(triples: list[Triple], rng: random.Random) -> list[Triple]:
    """The triples in another order, with other labels and spellings, and perhaps with two ends
    swapped.
    """
    labels = dict(zip(BLANKS, rng.sample(BLANKS, len(BLANKS)), strict=True))
    other = [
        (labels.get(s, s), p, labels.get(o, o)) for s, p, o in rng.sample(triples, len(triples))
    ]
    other = [
        (s, p, rng.choice([each for each in [*TERMS, o] if value(each) == value(o)]))
        for s, p, o in other
    ]
    if len(other) > 1 and rng.random() < 0.5:
        (one, p, end), (two, q, tip) = other[:2]
        other[:2] = (one, p, tip), (two, q, end)
    return list({(s, p, value(o)): (s, p, o) for s, p, o in other}.values())


@settings(max_examples=250)
@given(TRIPLES, st.randoms(use_true_random=False))
def test_graphs_are_isomorphic_if_a_bijection_makes_them_equal(
    triples: list[Triple], rng: random.Random
) -> None:
    other = changed(triples, rng)
    left, right = by_value(triples), by_value(other)
    wanted = any(renamed == left for renamed in renamings(left, right))
    assert isomorphic(as_graph(triples), as_graph(other), Budget()) is wanted
    assert isomorphic(as_graph(other), as_graph(triples), Budget()) is wanted


@settings(max_examples=100)
@given(TRIPLES, TRIPLES, st.randoms(use_true_random=False))
def test_agreement_is_that_of_the_best_bijection(
    triples: list[Triple], more: list[Triple], rng: random.Random
) -> None:
    other = changed(triples + more[:2], rng)
    found = agreement(as_graph(triples), as_graph(other), Budget())
    left, right = by_value(triples), by_value(other)
    best = max(len(left & renamed) for renamed in renamings(left, right))
    total = len(left) + len(right)
    assert found.score == pytest.approx(2 * best / total if total else 1)
    named = [*triples, *((node, ":name", f'"{node}"') for node in nodes(left))]
    renamed = agreement(as_graph(named), as_graph(rng.sample(named, len(named))), Budget())
    assert renamed == Agreement(1.0)


def test_named_graphs_agree_in_part() -> None:
    line = "_:a <urn:q> _:b <urn:g> .\n"
    more = "<urn:a> <urn:q> _:a {}.\n_:n <urn:q> <urn:a> {}.\n".format
    two, other = line + "_:a <urn:r> _:b <urn:g> .", line + "_:b <urn:r> _:a <urn:g> ."
    for one, agent in (
        (line, more("", "") + line),
        (line, more(*["<urn:g> "] * 2) + line),
        (two, other),
    ):
        expected, found = (read(text, "application/n-quads") for text in (one, agent))
        assert agreement(expected, found, Budget()).score == 0.5


def cycle(size: int, start: int = 0) -> list[str]:
    return [f"_:n{start + index} :next _:n{start + (index + 1) % size}" for index in range(size)]


def all_to_all(size: int) -> list[str]:
    return [
        f"_:n{one} :knows _:n{other}"
        for one in range(size)
        for other in range(size)
        if one != other
    ]


def grid(*, twisted: bool, name: str = "n") -> list[str]:
    """The 4x4 rook's graph, or the Shrikhande graph: both strongly regular, with parameters (16,
    6, 2, 2).
    """
    steps = [(0, 1), (1, 0), (1, 1)] if twisted else [(0, 1), (0, 2), (1, 0), (2, 0)]
    steps += [(-one, -other) for one, other in steps]
    return [
        f"_:{name}{4 * row + column} :meets _:{name}{4 * ((row + down) % 4) + (column + right) % 4}"
        for row in range(4)
        for column in range(4)
        for down, right in dict.fromkeys((one % 4, other % 4) for one, other in steps)
    ]


ALIKE = {
    "all-to-all of 30": all_to_all(30),
    "2,000 alike leaves": [f":a :p _:n{index}" for index in range(2000)],
    "list of 1,000 alike": [f":a :p ({'1 ' * 1000})"],
    "nested blank nodes": [":a :p " + "[ :p " * 2000 + "5" + "]" * 2000],
}
RINGS = [line for start in range(0, 294, 6) for line in cycle(6, start)]
UNLIKE = {
    "50 rings of 6, 49 and two of 3": (
        RINGS + cycle(6, 294),
        cycle(3, 294) + cycle(3, 297) + RINGS,
    ),
    "ring of 100, two of 50": (cycle(100), cycle(50) + cycle(50, 50)),
    "rook's graph, Shrikhande graph": (grid(twisted=False), grid(twisted=True)),
    "list of 2,000, one different": ([f":a :p ({'1 ' * 2000})"], [f":a :p ({'1 ' * 1999} 2)"]),
}


@pytest.mark.parametrize("name", ALIKE)
def test_alike_nodes_are_matched_in_time(name: str) -> None:
    one, other = ALIKE[name], ALIKE[name][:]
    random.Random(1).shuffle(other)
    with affordable(2**20):
        assert same(one, other)
        agreement(read(turtle(*one)), read(turtle(*other)), Budget())


@pytest.mark.parametrize("name", UNLIKE)
def test_graphs_that_refinement_does_not_tell_apart_differ(name: str) -> None:
    one, other = UNLIKE[name]
    with affordable(2**20):
        assert not same(one, other)
        assert not same(other, one)
        assert 0 < agreement(read(turtle(*one)), read(turtle(*other)), Budget()).score < 1


def too_regular(*, reverse: bool) -> Graph:
    """Many graphs of two kinds that only a search tells apart, in an order that makes it long."""
    kinds = enumerate(sorted([index >= 40 for index in range(80)], reverse=reverse))
    return read(
        turtle(*(line for i, twisted in kinds for line in grid(twisted=twisted, name=f"k{i}n")))
    )


def test_a_search_beyond_the_budget_is_undecided() -> None:
    one, other = too_regular(reverse=False), too_regular(reverse=True)
    with pytest.raises(ComparisonBudgetExceeded, match=r"undecided: .*exhausted"):
        isomorphic(one, other, Budget(2_000_000))
