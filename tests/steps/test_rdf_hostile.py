"""Graphs made to take long or to crash the parser: each is compared in time, or refused."""

from __future__ import annotations

import gc
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.budget import QUICK_STEPS, Budget
from graphrag_eval_async.steps.graphs.comparison import isomorphic, overlap
from graphrag_eval_async.steps.graphs.reading import Source, read_dataset
from tests.cpu import affordable
from tests.steps.graphs import PREFIXES, all_to_all, cycle, read, same, turtle

if TYPE_CHECKING:
    from graphrag_eval_async.steps.graphs.reading import Graph

RDF = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://example.org/"'


def leaves(count: int) -> list[str]:
    return [f":a :p _:n{index}" for index in range(count)]


def grid(*, twisted: bool) -> list[str]:
    """The 4x4 rook's graph, or the Shrikhande graph: both strongly regular, with parameters (16, 6, 2, 2)."""
    steps = [(0, 1), (1, 0), (1, 1)] if twisted else [(0, 1), (0, 2), (1, 0), (2, 0)]
    steps += [(-one, -other) for one, other in steps]
    return [
        f"_:n{4 * row + column} :meets _:n{4 * ((row + down) % 4) + (column + right) % 4}"
        for row in range(4)
        for column in range(4)
        for down, right in dict.fromkeys((one % 4, other % 4) for one, other in steps)
    ]


ALIKE = {
    "all-to-all of 8": (all_to_all(8), all_to_all(8, 3)),
    "all-to-all of 40": (all_to_all(40), all_to_all(40, 3)),
    "ring of 100": (cycle(100), cycle(100)[::-1]),
    "two rings of 3": (cycle(3) + cycle(3, 3), cycle(3, 6) + cycle(3)),
    "50 alike leaves": (leaves(50), leaves(50)[::-1]),
    "5,000 alike leaves": (leaves(5000), leaves(5000)[::-1]),
    "1,000 alike chains of 3": tuple(
        [f"_:a{index} :p _:b{index}" for index in order] + [f"_:b{index} :p _:c{index}" for index in order]
        for order in (range(1000), range(999, -1, -1))
    ),
    "list of 2,000 alike": ([f":a :p ({'1 ' * 2000})"], [f":a :p ({'1.0 ' * 2000})"]),
    "4x4 rook's graph": (grid(twisted=False), grid(twisted=False)[::-1]),
    "Shrikhande graph": (grid(twisted=True), grid(twisted=True)[::-1]),
    "huge literal": ([f":a :p '{'x' * 2**20}'"], [f":a :p '{'x' * 2**20}'"]),
}
UNLIKE = {
    "ring of 6, two rings of 3": (cycle(6), cycle(3) + cycle(3, 3)),
    "ring of 100, two of 50": (cycle(100), cycle(50) + cycle(50, 50)),
    "rook's graph, Shrikhande graph": (grid(twisted=False), grid(twisted=True)),
    "all-to-all of 8, one link replaced": (all_to_all(8), [*all_to_all(8)[:-1], "_:n1 :knows _:n1"]),
    "50 leaves, one different": (leaves(50), [*leaves(49), ":a :q _:n"]),
    "list of 2,000, one different": ([f":a :p ({'1 ' * 2000})"], [f":a :p ({'1 ' * 1999} 2)"]),
}


@pytest.mark.parametrize(("one", "other"), ALIKE.values(), ids=ALIKE)
def test_alike_nodes_are_matched_in_time(one: list[str], other: list[str]) -> None:
    with affordable(2**20):
        assert same(one, other)


@pytest.mark.parametrize(("one", "other"), UNLIKE.values(), ids=UNLIKE)
def test_graphs_that_refinement_does_not_tell_apart_differ(one: list[str], other: list[str]) -> None:
    with affordable(2**20):
        assert not same(one, other)
        assert not same(other, one)


@pytest.mark.parametrize(("one", "other"), [*ALIKE.values(), *UNLIKE.values()], ids=[*ALIKE, *UNLIKE])
def test_overlaps_end_in_time(one: list[str], other: list[str]) -> None:
    with affordable(2**20):
        found = overlap(read(turtle(*one)), read(turtle(*other)), Budget())
    assert 0 < found.f1 <= 1


def too_regular(*, reverse: bool) -> Graph:
    """Many graphs of two kinds that only a search tells apart, in an order that makes it long."""
    kinds = [index >= 40 for index in range(80)]
    return read(
        turtle(
            *(
                line.replace("_:n", f"_:k{index}n")
                for index, twisted in enumerate(sorted(kinds, reverse=reverse))
                for line in grid(twisted=twisted)
            )
        )
    )


def test_a_graph_too_regular_is_undecided_within_the_budget() -> None:
    one, other = too_regular(reverse=False), too_regular(reverse=True)
    with affordable(3 * 2**20), pytest.raises(ComparisonBudgetExceeded, match=r"undecided: .*exhausted"):
        isomorphic(one, other, Budget())


def test_a_budget_that_is_stopped_ends_the_search() -> None:
    one, other = too_regular(reverse=False), too_regular(reverse=True)
    budget = Budget()
    timer = threading.Timer(0.05, budget.stop)
    timer.start()
    with affordable(2**18), pytest.raises(ComparisonBudgetExceeded, match="stopped"):
        isomorphic(one, other, budget)
    timer.join()


def test_a_budget_that_is_stopped_ends_the_reading() -> None:
    budget = Budget()
    budget.stop()
    text = PREFIXES + ":a :p " + ",".join(map(str, range(5000))) + " ."
    with pytest.raises(ComparisonBudgetExceeded, match="stopped"):
        read_dataset(Source(text, None, budget))


def test_numbers_in_a_chain_of_near_ones_are_matched_one_to_one() -> None:
    chain = [f"{index * 6}e-9" for index in range(300)]
    ours = [f":a :p {number}" for number in chain]
    theirs = [f":a :p {number}" for number in [f"{index * 6 + 3}e-9" for index in range(300)]]
    far = [f":a :p {number}" for number in [*chain[:-1], "1e0"]]
    with affordable(2**20):
        assert same(ours, theirs)
        assert not same(ours, far)


DEEP = 100_000
CRASHING = {
    "triple terms": PREFIXES + ":a :b " + "<<( :a :b " * DEEP + "5" + " )>>" * DEEP + " .",
    "reified triples": PREFIXES + "<< " * DEEP + ":a :b :c" + " >>" * DEEP + " .",
    "JSON-LD objects": '{"http://example.org/p":' * DEEP + "5" + "}" * DEEP,
    "JSON-LD lists": '{"http://example.org/p":{"@list":[' * 200 + "5" + "]}}" * 200,
    "terms of a context": json.dumps(
        {"@context": {f"a{index}": f"a{index + 1}:x" for index in range(20_000)}, "a0": "v"}
    ),
    "contexts in a large document": json.dumps(
        [{"@context": {"p": f"http://example.org/{index}"}, "p": index} for index in range(2000)]
    ),
    "XML elements": f"<rdf:RDF {RDF}>" + "<rdf:Description><e:p>" * DEEP,
    "XML attributes": f"<rdf:RDF {RDF}><rdf:Description "
    + " ".join(f'e:p{index}="5"' for index in range(20_000))
    + "/></rdf:RDF>",
    "XML entities": '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{index} "{f"&a{index - 1};" * 10}">' for index in range(1, 9))
    + f"]><rdf:RDF {RDF}><rdf:Description><e:p>&a8;</e:p></rdf:Description></rdf:RDF>",
    "external XML entity": '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    f"<rdf:RDF {RDF}><rdf:Description><e:p>&a;</e:p></rdf:Description></rdf:RDF>",
    "invalid escape": PREFIXES + r':a :b "\uD800" .',
    "lone surrogate": PREFIXES + ':a :b "\ud800 .',
}


@pytest.mark.parametrize("text", CRASHING.values(), ids=CRASHING)
def test_what_would_crash_or_hang_the_parser_is_refused(text: str) -> None:
    with affordable(len(text)), pytest.raises(MalformedStep):
        read(text)


ENTITY = f"""<!DOCTYPE x [<!ENTITY xsd "http://example.org/">]>
<rdf:RDF {RDF}><rdf:Description><e:p>&xsd;</e:p></rdf:Description></rdf:RDF>"""
LONG: dict[str, tuple[Any, int]] = {
    "nested blank nodes": (PREFIXES + ":a :p " + "[ :p " * 20_000 + "5" + "]" * 20_000 + " .", 20_001),
    "nested lists": (PREFIXES + ":a :p " + "(" * 20_000 + "5" + ")" * 20_000 + " .", 40_001),
    "triple terms side by side": (
        PREFIXES + " ".join(f":a :b <<( _:n{index} :b 5 )>> ." for index in range(5000)),
        5000,
    ),
    "an XML entity": (ENTITY, 1),
    "JSON-LD with 200 terms": (
        {
            "@context": {f"p{index}": f"urn:{index}" for index in range(200)},
            "p5": [*range(5000)],
        },
        5000,
    ),
}


@pytest.mark.parametrize(("output", "count"), LONG.values(), ids=LONG)
def test_what_is_only_long_is_read_and_compared(output: Any, count: int) -> None:
    with affordable(2**20):
        graph, other = read(output), read(output)
        assert len(graph.statements) == count
        assert isomorphic(graph, other, Budget())


def test_a_literal_beyond_the_parsers_buffer_is_refused() -> None:
    with pytest.raises(MalformedStep, match="buffer"):
        read(PREFIXES + ":a :p '" + "x" * (2**24 + 100) + "' .")
    gc.collect()


def test_the_budget_of_an_event_loop_is_small() -> None:
    graph = read(turtle(*leaves(5000)))
    with pytest.raises(ComparisonBudgetExceeded):
        isomorphic(graph, read(turtle(*leaves(5000)[::-1])), Budget(QUICK_STEPS, quick=True))
