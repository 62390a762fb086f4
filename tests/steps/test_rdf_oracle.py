"""Isomorphism and overlap against plain functions that try every bijection of blank nodes."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.graphs.comparison import isomorphic, overlap
from tests.steps.graphs import read, turtle

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.steps.graphs.reading import Graph

Triple = tuple[str, str, str]

NUMBERS: dict[str, tuple[int | float, bool]] = {
    "1": (1, True),
    "01": (1, True),
    '"1"^^xsd:byte': (1, True),
    "1.0": (1.0, False),
    "1e0": (1.0, False),
    "1.000000005": (1.000000005, False),
    "1.00e0": (1.0, False),
    "1.0000000050": (1.000000005, False),
    "2": (2, True),
    "2.5e0": (2.5, False),
}
BOOLEANS = {"true": True, '"1"^^xsd:boolean': True, "false": False}
TEXTS = ['"1"', '"x"@en', '"x"@EN', '"x"@en-GB', '"1"^^:own', '"_:n0 <a> \\" _:n1"', ":a", ":b"]


def near(one: str, other: str) -> bool:
    if one in NUMBERS and other in NUMBERS:
        (left, left_exact), (right, right_exact) = NUMBERS[one], NUMBERS[other]
        if left_exact and right_exact:
            return left == right
        return math.isclose(left, right, rel_tol=1e-8, abs_tol=1e-8)
    if one in BOOLEANS and other in BOOLEANS:
        return BOOLEANS[one] is BOOLEANS[other]
    return spelled(one) == spelled(other)


def spelled(term: str) -> str:
    """What is the same term for a parser."""
    return term.lower() if "@" in term else term


def distinct(triples: Sequence[Triple]) -> list[Triple]:
    return list(dict.fromkeys((one, two, spelled(three)) for one, two, three in triples))


def nodes(triples: Sequence[Triple]) -> list[str]:
    return sorted({term for triple in triples for term in triple if term.startswith("_:")})


def renamings(left: Sequence[Triple], right: Sequence[Triple]) -> Iterator[list[Triple]]:
    """The right triples with its blank nodes renamed to those of the left, in every way."""
    ours, theirs = nodes(left), nodes(right)
    ours += [f"_:more{index}" for index in range(len(theirs) - len(ours))]
    for order in permutations(ours, len(theirs)):
        names: Mapping[str, str] = dict(zip(theirs, order, strict=True))
        yield [(names.get(s, s), p, names.get(o, o)) for s, p, o in right]


def pairs_off(left: Sequence[Triple], right: Sequence[Triple]) -> bool:
    if not left:
        return not right
    first, *rest = left
    return any(
        first[:2] == other[:2] and near(first[2], other[2]) and pairs_off(rest, [*right[:i], *right[i + 1 :]])
        for i, other in enumerate(right)
    )


def are_isomorphic(left: Sequence[Triple], right: Sequence[Triple]) -> bool:
    if len(left) != len(right) or len(nodes(left)) != len(nodes(right)):
        return False
    return any(pairs_off(left, renamed) for renamed in renamings(left, right))


def most_in_common(left: Sequence[Triple], right: Sequence[Triple]) -> int:
    return max((Counter(left) & Counter(renamed)).total() for renamed in renamings(left, right))


def as_graph(triples: Sequence[Triple]) -> Graph:
    return read(turtle(*map(" ".join, triples)))


def decided(left: Sequence[Triple], right: Sequence[Triple]) -> bool | None:
    return isomorphic(as_graph(left), as_graph(right), Budget())


BLANKS = [f"_:n{index}" for index in range(6)]
PREDICATES = st.sampled_from([":p", ":p", ":q"])
LINKS = st.tuples(st.sampled_from(BLANKS), PREDICATES, st.sampled_from([*BLANKS, ":a"]))
OBJECTS = st.sampled_from([*NUMBERS, *BOOLEANS, *TEXTS])
VALUES = st.tuples(st.sampled_from([*BLANKS[:4], ":a"]), PREDICATES, OBJECTS)
TRIPLES = st.lists(st.one_of(LINKS, VALUES), max_size=8).map(distinct)
LINKED = st.lists(LINKS, max_size=9).map(distinct)


def changed(triples: list[Triple], rng: random.Random) -> list[Triple]:
    """The triples in another order, with other labels, numbers written otherwise, and perhaps a change."""
    labels = dict(zip(BLANKS, rng.sample(BLANKS, len(BLANKS)), strict=True))
    other = [(labels.get(s, s), p, labels.get(o, o)) for s, p, o in rng.sample(triples, len(triples))]
    other = [
        (s, p, rng.choice([each for each in [*NUMBERS, *BOOLEANS, *TEXTS, *BLANKS] if near(o, each)]))
        for s, p, o in other
    ]
    if other and rng.random() < 0.4:
        index = rng.randrange(len(other))
        s, p, _ = other[index]
        other[index] = s, p, rng.choice([*NUMBERS, *BLANKS, ":a"])
    return distinct(other)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TRIPLES | LINKED, st.randoms(use_true_random=False))
def test_isomorphism_is_that_of_an_oracle(triples: list[Triple], rng: random.Random) -> None:
    other = changed(triples, rng)
    wanted = are_isomorphic(triples, other)
    event(f"isomorphic: {wanted}")
    for left, right in ((triples, other), (other, triples)):
        found = decided(left, right)
        assert found in (wanted, None)
        event(f"found: {found}")


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(LINKED, LINKED)
def test_isomorphism_of_links_alone_is_that_of_an_oracle(one: list[Triple], other: list[Triple]) -> None:
    assert isomorphic(as_graph(one), as_graph(other), Budget()) is are_isomorphic(one, other)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TRIPLES, TRIPLES, st.randoms(use_true_random=False))
def test_overlap_is_at_most_that_of_the_best_bijection(
    triples: list[Triple], more: list[Triple], rng: random.Random
) -> None:
    exact = [triple for triple in triples if triple[2] not in {**NUMBERS, **BOOLEANS}]
    other = changed([*exact, *more[:2]], rng)
    other = [triple for triple in other if triple[2] not in {**NUMBERS, **BOOLEANS}]
    found = overlap(as_graph(exact), as_graph(other), Budget())
    agreed = len(exact) - len(found.missing)
    assert agreed == len(other) - len(found.extra)
    best = most_in_common(exact, other)
    assert agreed <= best
    event("as good as the best" if agreed == best else "worse than the best")
    if exact and other:
        assert found.recall == agreed / len(exact)
        assert found.precision == agreed / len(other)
        assert math.isclose(found.f1, 2 * agreed / (len(exact) + len(other)))
    if are_isomorphic(exact, other):
        event("isomorphic")


@settings(max_examples=150, deadline=None)
@given(TRIPLES, st.randoms(use_true_random=False))
def test_isomorphic_graphs_agree_in_full_if_no_node_is_tied(
    triples: list[Triple], rng: random.Random
) -> None:
    named = [*triples, *((node, ":name", f'"{node}"') for node in nodes(triples))]
    labels = dict(zip(BLANKS, rng.sample(BLANKS, len(BLANKS)), strict=True))
    other = [(labels.get(s, s), p, labels.get(o, o)) for s, p, o in rng.sample(named, len(named))]
    found = overlap(as_graph(named), as_graph(other), Budget())
    assert (found.precision, found.recall, found.f1) == (1, 1, 1)
    assert found.differences() == []
