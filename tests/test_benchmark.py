"""The benchmark of the documentation is made from its example, and scores as a plain oracle
does.
"""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from docs.benchmark import CONFIG, LEVEL, MADE, QUESTIONS, differences, right, runs
from examples.benchmark import make
from examples.benchmark.agents import STORE
from tests.cli.support import from_jsonl, run
from tests.support.example_server import endpoint

if TYPE_CHECKING:
    from pyoxigraph import QuerySolutions

DOCS = Path(__file__).parents[1] / "docs"


def test_graph_and_questions_are_those_of_the_script(tmp_path: Path) -> None:
    make.main(tmp_path)
    for name in ("graph.ttl", "questions.yaml"):
        assert (tmp_path / name).read_text() == (make.HERE / name).read_text(), (
            f"{make.__file__} writes it"
        )


@pytest.mark.parametrize("name", MADE)
def test_page_and_picture_are_those_of_a_run(name: str) -> None:
    assert (DOCS / name).read_text() == MADE[name](), "python -m docs.benchmark writes it"


@pytest.mark.parametrize("agent", ["keywords", "grammar"])
def test_asked_agents_score_as_those_of_the_page(agent: str, tmp_path: Path) -> None:
    """Except that the server has no errors: an agent that raises has no query."""
    output = tmp_path / "results.jsonl"
    with endpoint(agent) as address:
        assert run("ask", QUESTIONS, f"http://{address}", "-c", CONFIG, "-o", str(output)) == 0
    asked = {each["question_id"]: each["steps_score"] for each in from_jsonl(output.read_bytes())}
    assert asked == {each["question_id"]: each["steps_score"] or 0 for each in runs()[agent]}
    assert len(asked) == 60


def rows_of(query: str) -> list[tuple[str, ...]]:
    return [tuple(str(cell) for cell in row) for row in cast("QuerySolutions", STORE.query(query))]


def agreeing(
    expected: list[tuple[str, ...]], actual: list[tuple[str, ...]], ordered: bool
) -> float:
    """The greatest number of cells that agree in pairs of rows; rows in any order have one
    column.
    """
    if not ordered:
        return sum(min(expected.count(row), actual.count(row)) for row in {*expected})
    best = [[0] * (len(actual) + 1) for _ in range(len(expected) + 1)]
    for i, one in enumerate(expected):
        for j, other in enumerate(actual):
            cells = sum(a == b for a, b in zip(one, other, strict=True))
            best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j], best[i][j] + cells)
    return best[-1][-1]


def oracle(result: dict[str, Any]) -> float:
    """F1 of cells, over all ways to pair the columns, where a column may have no partner."""
    [[step]] = result["reference_steps"]
    expected = rows_of(step["reference_query"])
    ordered, width = step.get("ordered", False), len(expected[0])
    assert ordered or width == 1
    best = 0.0
    for own in result["actual_steps"]:
        actual = rows_of(own["args"]["query"])
        for chosen in permutations([*range(len(actual[0]) if actual else 0), *[-1] * width], width):
            paired = [tuple("" if place < 0 else row[place] for place in chosen) for row in actual]
            score = (
                2 * agreeing(expected, paired, ordered) / (width * (len(expected) + len(actual)))
            )
            best = max(best, score)
    return best


def test_scores_are_those_of_an_oracle() -> None:
    scored = [each for own in runs().values() for each in own if each["steps_score"] is not None]
    assert len(scored) > 200
    for result in scored:
        assert abs(result["steps_score"] - oracle(result)) < 1e-12, result["question_id"]


def test_what_the_page_says_of_the_agents_holds() -> None:
    scores = {name: [each["steps_score"] or 0 for each in own] for name, own in runs().items()}
    assert right("templates") > right("paths")
    assert sum(scores["templates"]) < sum(scores["paths"])
    assert {each["failure"] for each in runs()["templates"]} == {"none", "no_steps"}
    undecided = [pair for pair, row in differences().items() if row["verdict"] == "undecided"]
    assert undecided == [("templates", "paths")]
    change = differences()["templates", "paths"]["difference"]
    command = f"--detect {change:.3f} -c {CONFIG} --level {LEVEL}"
    assert command in (DOCS / "benchmark.md").read_text()
