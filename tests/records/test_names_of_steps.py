"""Agents write the names of their tools in other ways, or have other names for them altogether."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import (
    Evaluator,
    GraphragEvalWarning,
    UsageError,
    compute_aggregates,
    evaluate_file,
    evaluate_stream,
    run_evaluation,
    run_evaluation_sync,
)

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = '[{"id": "1"}]'
ALIASES = {"sparql_query": ["sparql", "run_sparql"], "retrieval": ["search"]}


def reference(*names: str, questions: int = 30) -> list[dict[str, Any]]:
    steps = [[{"name": n, "output": DOCUMENTS if n == "retrieval" else n}] for n in names]
    question = {"question_text": "?", "reference_steps": steps}
    return [
        {"template_id": "t", "questions": [question | {"id": f"q{i}"} for i in range(questions)]}
    ]


def response_with_steps(
    number: int, *names: str, output: str = "sparql_query", **more: Any
) -> dict[str, Any]:
    steps = [{"name": name, "output": output, **more} for name in names]
    return {"question_id": f"q{number}", "actual_steps": steps}


def plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in "-_ ")


@settings(max_examples=200, deadline=None, database=None)
@given(
    st.lists(st.text("aB-_ ß", min_size=1, max_size=4), min_size=1, max_size=3),
    st.text("Ab-_ s", max_size=4),
)
def test_names_match_as_an_oracle_says(expected: list[str], actual: str) -> None:
    """An exact name stands for itself; any other for a name that it equals but for case, `-`,
    `_`, space.
    """
    [template] = reference(*expected[:1], questions=1)
    template["questions"] += reference(*expected[1:2])[0]["questions"][1:2]
    result = run_evaluation_sync(
        [template], [response_with_steps(0, actual, output=expected[0])], missing="skip"
    )[0]
    known = {*expected[:2]}
    if actual in known:
        matches = actual == expected[0]
    else:
        matches = (
            max((name for name in known if plain(name) == plain(actual)), default=None)
            == expected[0]
        )
    assert result["steps_score"] == matches
    step = result["actual_steps"][0]
    assert step.get("alias", step["name"]) == actual


@pytest.mark.parametrize("options", [{"step_aliases": ALIASES}, {"config": {"aliases": ALIASES}}])
async def test_steps_match_by_alias(options: Any, tmp_path: Path) -> None:
    templates = reference("retrieval", questions=1)
    given = response_with_steps(
        0, "search", output=DOCUMENTS, status="success", retrieval_answer_recall=1
    )
    before = json.dumps(given)
    plain = Evaluator(templates)
    assert (await plain.evaluate(given))["steps_score"] == 0
    evaluator = Evaluator(templates, **options)
    assert plain.fingerprints()["configuration"] != evaluator.fingerprints()["configuration"]
    for name in ("Search", "SE-ARCH", "Se arch"):
        assert (await evaluator.evaluate(response_with_steps(0, name, output=DOCUMENTS)))[
            "steps_score"
        ] == 1
    result = await evaluator.evaluate(given)
    assert result["steps_score"] == 1
    assert (result["actual_steps"][0]["name"], result["actual_steps"][0]["alias"]) == (
        "retrieval",
        "search",
    )
    assert json.dumps(given) == before
    micro = compute_aggregates([result])["micro"]
    assert micro["steps"]["total"] == {"retrieval": 1}
    assert "retrieval_answer_recall" not in micro  # What the agent says of itself is no evaluation.
    (tmp_path / "r.jsonl").write_text(before)
    evaluated = await evaluate_file(templates, tmp_path / "r.jsonl", **options)
    assert evaluated.aggregates.snapshot()["micro"]["steps_score"]["mean"] == 1


@pytest.mark.parametrize(
    ("expected", "actual", "more", "aliases", "score"),
    [
        pytest.param("sparql_query", "sparql", {}, {}, 1, id="short form"),
        pytest.param("SPARQL", "sparql-query", {}, {}, 1, id="spelling"),
        pytest.param("sparql_query", "sparql", {}, {"look": ["sparql"]}, 0, id="alias of another"),
        pytest.param(
            "sparql",
            "sparql_query",
            {"reference_steps": [[{"name": "sparql_query", "output": "x"}]]},
            {},
            0,
            id="both in the set",
        ),
        pytest.param(
            "sparql_query",
            "sparql",
            {"forbidden_steps": ["sparql"]},
            {},
            0,
            id="forbidden short form",
        ),
        pytest.param(
            "sparql_query",
            "sparql_query",
            {"forbidden_steps": ["sparql"]},
            {},
            1,
            id="equal though forbidden",
        ),
    ],
)
async def test_sparql_is_sparql_query_unless_the_set_has_both(
    expected: str, actual: str, more: dict[str, Any], aliases: Any, score: int
) -> None:
    templates = reference(expected, questions=2)
    templates[0]["questions"][0] |= more
    evaluator = Evaluator(templates, step_aliases=aliases)
    assert (await evaluator.evaluate(response_with_steps(1, actual, output=expected)))[
        "steps_score"
    ] == score


@pytest.mark.parametrize(
    ("aliases", "problem"),
    [
        pytest.param(5, "expected a dict", id="number"),
        pytest.param(
            {"sparql_query": "sparql"},
            r"\['sparql_query'\]: expected a list of names, got 'sparql'",
            id="text",
        ),
        pytest.param({"sparql_query": [5]}, "expected non-empty names", id="number in a list"),
        pytest.param(
            {"sparql_query": ["retrieval"]},
            "'retrieval' is itself the name of a step",
            id="name of a step",
        ),
        pytest.param({"a": ["b"], "b": ["c"]}, "'b' is itself the name of a step", id="chain"),
        pytest.param({"a": ["x"], "b": ["x"]}, "'x' is already an alias of 'a'", id="twice"),
    ],
)
def test_invalid_aliases(aliases: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=f"^step_aliases.*{problem}"):
        Evaluator(reference("sparql_query", "retrieval"), step_aliases=aliases)


async def test_a_stream_warns_once_and_early() -> None:
    many = ["\x1b[2J: ]\n", *(f"tool {number}" for number in range(50))]
    responses = [response_with_steps(number, "run_sparql", *many) for number in range(30)]
    count = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with evaluate_stream(reference("sparql_query"), responses) as stream:
            async for _ in stream:
                count += 1
                assert len(caught) == (count >= 20)
    [warning] = caught
    assert warning.category is GraphragEvalWarning
    text, line = str(warning.message).split("\n")
    assert text.startswith("so far, no step of the agent is named like")
    assert "these reference steps: sparql_query; its other tools: " in text
    assert "\x1b" not in text
    assert "32 more" in text
    aliases = yaml.safe_load(line)["aliases"]
    assert "run_sparql" in aliases["sparql_query"]
    results = await run_evaluation(reference("sparql_query"), responses, step_aliases=aliases)
    assert all(result["steps_score"] == 1 for result in results)


@pytest.mark.parametrize(
    ("answered", "tool", "is_told"),
    [
        pytest.param(["q0"], "think", False, id="other question answered"),
        pytest.param(["q0", "q1"], "think", True, id="both answered"),
        pytest.param(["q0", "q1"], "unknown", False, id="unknown tool"),
    ],
)
def test_steps_of_questions_without_a_response_do_not_count(
    answered: list[str], tool: str, is_told: bool
) -> None:
    given = reference("search", questions=2)
    given[0]["questions"][1] |= {"reference_steps": [[{"name": "sparql_query", "output": "x"}]]}
    responses = [
        response_with_steps(0, tool, "search", output="search"),
        response_with_steps(1, tool),
    ][: len(answered)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_evaluation_sync(given, responses, missing="skip")
    assert ["reference steps: sparql_query;" in str(each.message) for each in caught] == [
        True
    ] * is_told


@pytest.mark.parametrize(
    ("expected", "agent", "score"),
    [
        pytest.param(["cypher_query"], "read_neo4j_cypher", 1, id="tool of Neo4j"),
        pytest.param(["cypher_query"], "read-neo4j-cypher", 1, id="hyphens"),
        pytest.param(["read_neo4j_cypher"], "query_graph", 1, id="tool of FalkorDB"),
        pytest.param(["query_graph"], "Cypher", 1, id="short"),
        pytest.param(["cypher_query"], "sparql_query", 0, id="another language"),
        pytest.param(["cypher_query", "query_graph"], "cypher", 0, id="two names for it"),
    ],
)
def test_names_of_steps_with_cypher_are_synonyms(
    expected: list[str], agent: str, score: float
) -> None:
    [template] = reference(*expected, questions=1)
    for question in template["questions"]:
        for [step] in question["reference_steps"]:
            # The name, in a table.
            step["output"] = [{"name": step["output"]}]
    responses = [response_with_steps(0, agent, output=f'[{{"name": "{expected[-1]}"}}]')]
    [result] = run_evaluation_sync([template], responses)
    assert result["steps_score"] == score
