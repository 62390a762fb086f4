"""Reference steps with graphs, from steps of responses to scores, facts and differences."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import Evaluator
from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.records.shapes import SPARQL_RESULTS
from graphrag_eval_async.steps import Budget, prepare_step, score_steps
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.graphs import step as step_module
from graphrag_eval_async.steps.graphs.comparison import MAX_STATEMENT, isomorphic, overlap
from graphrag_eval_async.steps.graphs.step import GraphStep
from tests.conftest import settle
from tests.deadlines import wait
from tests.steps.graphs import PREFIXES, read, turtle

if TYPE_CHECKING:
    from graphrag_eval_async.steps.differences import Agreement

EXPECTED = turtle(":a :p [ :q 1 ; :r 'x' ]", ":b :p [ :q 2 ; :r 'x' ]")
EMPTY = PREFIXES


def reference(output: Any = EXPECTED, **more: Any) -> dict[str, Any]:
    return {"name": "query", "output": output, "output_media_type": "text/turtle", **more}


def actual(output: Any, **more: Any) -> dict[str, Any]:
    return {"name": "query", "status": "success", "output": output, **more}


def scored(output: Any, **more: Any) -> float:
    return prepare_step(reference(**more)).compare(ActualStep(actual(output))).score


def test_a_graph_scores_1_or_0() -> None:
    assert scored(turtle("_:x :q 2.0 ; :r 'x'", ":b :p _:x", "_:y :q 1 ; :r 'x'", ":a :p _:y")) == 1
    assert scored(turtle(":a :p [ :q 1 ; :r 'x' ]", ":b :p [ :q 3 ; :r 'x' ]")) == 0


def test_f1_counts_the_statements_that_agree() -> None:
    nearly = turtle(":a :p [ :q 1 ; :r 'x' ]", ":b :p [ :q 3 ; :r 'x' ]")
    assert scored(nearly, score="f1") == pytest.approx(5 / 6)
    assert scored(turtle(":a :p [ :q 1 ; :r 'x' ]"), score="f1") == pytest.approx(2 * 3 / (3 + 6))
    assert scored(EXPECTED, score="f1") == 1
    assert scored(EMPTY, score="f1") == 0
    empty = prepare_step(reference(EMPTY, score="f1"))
    assert empty.compare(ActualStep(actual(EMPTY))).score == 1


async def test_results_list_what_differs() -> None:
    step = reference(turtle(":a :p 1", ":b :p 2"), score="f1")
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    evaluator = Evaluator([{"template_id": "t", "questions": [question]}])
    found = {}
    for more in ("", ":b :p 2", ":c :p 3"):
        steps = [actual(turtle(":a :p 1", *filter(None, [more])))]
        result = await evaluator.evaluate({"question_id": "q", "actual_steps": steps})
        kinds = [each["kind"] for each in result["reference_steps"][0][0].get("diff", [])]
        found[more] = (result["steps_score"], result["failure"], kinds)
    assert found == {
        "": (pytest.approx(2 / 3), "missing_triples", ["missing_triple"]),
        ":b :p 2": (1, "none", []),
        ":c :p 3": (0.5, "missing_triples", ["missing_triple", "extra_triple"]),
    }


def test_precision_and_recall() -> None:
    found = overlap(read(EXPECTED), read(turtle(":a :p [ :q 1 ; :r 'x' ; :s 5 ]")), Budget())
    assert (found.precision, found.recall) == (3 / 4, 3 / 6)
    assert len(found.missing) == 3
    assert found.extra == ['_:b0 <http://example.org/s> "5"^^<http://www.w3.org/2001/XMLSchema#integer>']


def test_one_change_of_many_leaves_the_rest() -> None:
    """Also where blank nodes are linked, so that the surroundings of all differ."""
    values = [f"'{index}'" for index in range(100)]
    other = [*values[:50], "'other'", *values[51:]]
    found = overlap(
        read(turtle(f":a :p ({' '.join(values)})")), read(turtle(f":a :p ({' '.join(other)})")), Budget()
    )
    assert found.f1 == pytest.approx(200 / 201)
    assert [each["kind"] for each in found.differences()] == ["missing_triple", "extra_triple"]


def test_alike_nodes_stay_with_their_neighbours() -> None:
    order = [f"_:a{index} :p _:b{index}" for index in range(30)]
    other = [f"_:a{index} :p _:b{index}" for index in reversed(range(30))] + [":extra :p 5"]
    found = overlap(read(turtle(*order)), read(turtle(*other)), Budget())
    assert (found.precision, found.recall) == (30 / 31, 1)


def test_near_numbers_agree_in_overlaps_too() -> None:
    found = overlap(
        read(turtle(":a :p 1, 2.5, 7", "_:n :q 0.3")),
        read(turtle(":a :p 1.0, 2.5e0, 8", "_:m :q 0.30000000000000004e0")),
        Budget(),
    )
    assert (found.precision, found.recall) == (3 / 4, 3 / 4)


def test_differences_name_nodes_of_the_reference() -> None:
    step = prepare_step(reference(score="f1"))
    nearly = turtle(":b :p _:own", "_:own :q 3 ; :r 'x'", ":a :p [ :q 1 ; :r 'x' ]")
    missing, extra = step.compare(ActualStep(actual(nearly))).differences
    assert missing["kind"] == "missing_triple"
    assert extra["kind"] == "extra_triple"
    label = missing["triple"].split()[0]
    assert label.startswith("_:b")
    assert (
        extra["triple"] == f'{label} <http://example.org/q> "3"^^<http://www.w3.org/2001/XMLSchema#integer> .'
    )
    assert step.compare(ActualStep(actual(EXPECTED))).differences == ()


def test_at_most_ten_differences_of_both_kinds() -> None:
    many = [f":a :p {index}" for index in range(20)]
    for ours, theirs, missing, extra in (
        (many, [":b :p 1"], 9, 1),
        ([":b :p 1"], many, 1, 9),
        (many, [f":b :p {index}" for index in range(20)], 5, 5),
        (many, [], 10, 0),
    ):
        found = overlap(read(turtle(*ours)), read(turtle(*theirs)), Budget()).differences()
        kinds = [each["kind"] for each in found]
        assert kinds == ["missing_triple"] * missing + ["extra_triple"] * extra


def test_long_statements_are_cut() -> None:
    [only] = overlap(read(turtle(f":a :p '{'x' * 9999}'")), read(EMPTY), Budget()).differences()
    assert len(only["triple"]) == MAX_STATEMENT + 1


def test_differences_are_the_same_every_time() -> None:
    """Although the parser gives anonymous nodes random labels."""
    other = turtle(":a :p [ :q 5 ], [ :q 6 ; :r [ :s 7 ] ]")
    found = [overlap(read(EXPECTED), read(other), Budget()).differences() for _ in range(3)]
    assert found[0] == found[1] == found[2]


def test_an_unreadable_output_and_an_empty_graph_are_told_apart() -> None:
    prepared = prepare_step(reference())
    unreadable = score_steps([[prepared]], [actual("It is 5.")], mode="last")
    assert "not RDF in any known format" in unreadable.errors[0]
    assert unreadable.facts.reason != "empty_result"
    empty = score_steps([[prepared]], [actual(EMPTY)], mode="last")
    assert not empty.errors
    assert empty.facts.reason == "empty_result"


def test_the_media_type_of_the_actual_step_decides() -> None:
    prepared = prepare_step(reference())
    turtle_as_quads = actual(EXPECTED, output_media_type="application/n-quads")
    assert "not N-Quads" in score_steps([[prepared]], [turtle_as_quads], mode="last").errors[0]
    assert (
        score_steps([[prepared]], [actual(EXPECTED, output_media_type="text/turtle")], mode="last").score == 1
    )


def templates(step: dict[str, Any]) -> list[dict[str, Any]]:
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    return [{"template_id": "t", "questions": [question]}]


async def test_large_graphs_are_compared_without_holding_up_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [f":a :p _:n{index} . _:n{index} :q 'value {index}'" for index in range(40_000)]
    evaluator = Evaluator(templates(reference(turtle(*nodes))))
    response = {"question_id": "q", "actual_steps": [actual(turtle(*nodes[::-1]))]}
    compare, comparing, turned = GraphStep.compare, threading.Event(), threading.Event()

    def held(step: GraphStep, other: ActualStep) -> Agreement:
        comparing.set()
        wait(turned, "turns of the event loop")
        return compare(step, other)

    async def turn() -> None:
        await asyncio.to_thread(wait, comparing, "the comparison")
        for _ in range(10):
            await asyncio.sleep(0.001)
        turned.set()

    monkeypatch.setattr(GraphStep, "compare", held)
    result, _ = await asyncio.gather(evaluator.evaluate(response), turn())
    assert result["steps_score"] == 1


async def test_a_cancelled_comparison_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"_:n{index} :p _:n{(index + 1) % 20_000}" for index in range(20_000)]
    evaluator = Evaluator(templates(reference(turtle(*lines))))
    response = {"question_id": "q", "actual_steps": [actual(turtle(*lines[::-1]))]}
    spend, errors = Budget.spend, []
    comparing, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def held(budget: Budget, steps: int) -> None:
        comparing.set()
        wait(go_on, "the cancellation")
        spend(budget, steps)

    def compared(*arguments: Any) -> bool:
        monkeypatch.setattr(Budget, "spend", held)
        try:
            return isomorphic(*arguments)
        except ComparisonBudgetExceeded as error:
            errors.append(str(error))
            raise
        finally:
            ended.set()

    monkeypatch.setattr(step_module, "isomorphic", compared)
    evaluating = asyncio.create_task(evaluator.evaluate(response))
    await asyncio.to_thread(wait, comparing, "the comparison")
    evaluating.cancel()
    await settle()
    assert not evaluating.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await evaluating
    await asyncio.to_thread(wait, ended, "the end of the comparison")
    assert errors == ["graphs of 20000 statements: undecided: stopped"]


async def test_a_small_and_a_large_way_give_the_same_result() -> None:
    lines = [f":a :p [ :q {index} ]" for index in range(2000)]
    evaluator = Evaluator(templates(reference(turtle(*lines))))
    result = await evaluator.evaluate({"question_id": "q", "actual_steps": [actual(turtle(*lines[::-1]))]})
    assert result["steps_score"] == 1
    assert "steps_score_error" not in result


TABLE = '{"head": {"vars": ["s"]}, "results": {"bindings": [{"s": {"type": "literal", "value": "x"}}]}}'
XML_TABLE = (
    '<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="s"/></head>'
    '<results><result><binding name="s"><literal>x</literal></binding></result></results></sparql>'
)
ASK = '{"head": {}, "boolean": true}'
TURTLE = "PREFIX ex: <urn:ex:>\nex:a ex:b ex:c ."
N_TRIPLES = '<urn:ex:a> <urn:ex:b> "c" .\n'
JSON_LD = '[{"@id": "urn:ex:a", "urn:ex:b": "c"}]'


@pytest.mark.parametrize("keys", [{}, {"score": "f1"}])
@pytest.mark.parametrize(
    ("media_type", "expected", "outputs"),
    [
        ("text/turtle", ("a graph", TURTLE), {"a table": [TABLE, XML_TABLE, "s\nx\n", [{"s": "x"}]]}),
        ("text/turtle", ("a graph", TURTLE), {"the boolean of ASK": [ASK, "true"]}),
        (SPARQL_RESULTS, ("a table", TABLE), {"a graph": [TURTLE, N_TRIPLES, JSON_LD, json.loads(JSON_LD)]}),
        (SPARQL_RESULTS, ("a table", TABLE), {"the boolean of ASK": [ASK, True]}),
        (SPARQL_RESULTS, ("the boolean of ASK", ASK), {"a table": [TABLE], "a graph": [TURTLE]}),
    ],
)
async def test_results_of_another_kind_are_named(
    media_type: str, expected: tuple[str, str], outputs: dict[str, list[Any]], keys: dict[str, str]
) -> None:
    kind, text = expected
    step = {"name": "sparql_query", "output_media_type": media_type, "output": text, **keys}
    for found, texts in outputs.items():
        for output in texts:
            actual = {"name": "sparql_query", "status": "success", "output": output}
            evaluator = Evaluator(templates(step))
            result = await evaluator.evaluate({"question_id": "q", "actual_steps": [actual]})
            assert (result["steps_score"], result["failure"]) == (0, "wrong_query_result")
            assert result["steps_score_error"].endswith(f"output: expected {kind}, got {found}")
