"""Reading and comparing graphs, in units of parsing both with pyoxigraph."""

from __future__ import annotations

import random
from time import process_time
from typing import TYPE_CHECKING

import pyoxigraph

from graphrag_eval_async.steps.budget import Budget
from graphrag_eval_async.steps.graphs.comparison import isomorphic
from graphrag_eval_async.steps.graphs.reading import read_graph

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES, REPEATS = (1_000, 10_000), 7
TARGET = "at most 6x"
PREFIX = "@prefix ex: <http://example.org/> .\n"


def results(size: int, rng: random.Random) -> list[list[str]]:
    """Two statements for each blank node: one that links to it, and its value."""
    return [
        [f"ex:s{rng.randrange(50)} ex:p _:b{i} .", f'_:b{i} ex:value "value {i}" .']
        for i in range(size // 2)
    ]


def records(size: int, rng: random.Random) -> list[list[str]]:
    """Five statements for each of the blank nodes, two of which have a blank node of their own."""
    return [
        [
            f"_:r{i} a ex:Observation .",
            f"_:r{i} ex:of ex:s{rng.randrange(50)} .",
            f"_:r{i} ex:result _:v{i} .",
            f"_:v{i} ex:number {rng.uniform(0, 1000)} .",
            f'_:v{i} ex:unit "mm" .',
        ]
        for i in range(size // 5)
    ]


def lists(size: int, rng: random.Random) -> list[list[str]]:
    """Lists of ten entries, two statements for each."""
    found = []
    for i in range(size // 20):
        cells = [f"_:c{i}x{j}" for j in range(10)] + ["()"]
        found.append(
            [
                f"{cells[j]} <http://www.w3.org/1999/02/22-rdf-syntax-ns#first> "
                f"{rng.randrange(1000)} ; <http://www.w3.org/1999/02/22-rdf-syntax-ns#rest> "
                f"{cells[j + 1]} ."
                for j in range(10)
            ]
        )
    return found


SHAPES: dict[str, Callable[[int, random.Random], list[list[str]]]] = {
    "a blank node for every 2": results,
    "2 linked blank nodes for every 5": records,
    "lists of 10": lists,
}


def relabelled(parts: list[list[str]], rng: random.Random) -> list[list[str]]:
    """The same graph: other labels, in another order."""
    names: dict[str, str] = {}
    other = []
    for part in rng.sample(parts, len(parts)):
        lines = [
            " ".join(
                names.setdefault(word, f"_:x{rng.getrandbits(40):010x}")
                if word.startswith("_:")
                else word
                for word in line.split(" ")
            )
            for line in part
        ]
        other.append(rng.sample(lines, len(lines)))
    return other


def text(parts: list[list[str]]) -> str:
    return PREFIX + "\n".join(line for part in parts for line in part)


def parse(turtle: str) -> list[pyoxigraph.Quad]:
    return list(pyoxigraph.parse(turtle, format=pyoxigraph.RdfFormat.TURTLE))


def compare(expected: str, actual: str) -> bool:
    """The whole way from text to score."""
    graphs = [read_graph(each, "text/turtle", Budget()) for each in (expected, actual)]
    return isomorphic(graphs[0], graphs[1], Budget())


def best(function: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = process_time()
        function()
        times.append(process_time() - start)
    return min(times)


def ratio(expected: str, actual: str, *, wanted: bool) -> str:
    assert compare(expected, actual) is wanted  # noqa: S101
    floor = best(lambda: (parse(expected), parse(actual)))
    return f"{best(lambda: compare(expected, actual)) / floor:.2f}x"


def rows() -> list[tuple[str, str, str]]:
    """What was measured, the ratio, and the target."""
    rng = random.Random(7)
    found = []
    for size in SIZES:
        for kind, make in SHAPES.items():
            parts = make(size, rng)
            expected, same = text(parts), text(relabelled(parts, rng))
            other = same[: same.rindex(".")] + ", ex:other ."
            for what, actual, wanted in (
                ("the same", same, True),
                ("one more statement", other, False),
            ):
                measured = ratio(expected, actual, wanted=wanted)
                found.append((f"RDF, {size:,} statements, {kind}, {what}", measured, TARGET))
    return found


if __name__ == "__main__":
    for what, measured, target in rows():
        print(f"{what:75} {measured:>6}  {target}")
