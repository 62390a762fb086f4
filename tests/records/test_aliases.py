"""Agents name their tools as they like."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import (
    Evaluator,
    UsageError,
    compute_aggregates,
    evaluate_file,
    run_evaluation,
)
from tests.cases import each

if TYPE_CHECKING:
    from pathlib import Path

SPARQL = '{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "literal", "value": "x"}}]}}'
MEDIA_TYPE = "application/sparql-results+json"
QUERY = {"name": "sparql_query", "output": SPARQL, "output_media_type": MEDIA_TYPE}
SEARCH = {"name": "retrieval", "output": '[{"id": "1"}]'}
REFERENCE = [
    {
        "template_id": "t",
        "questions": [{"id": "q", "question_text": "?", "reference_steps": [[QUERY, SEARCH]]}],
    }
]
ALIASES = {"sparql_query": ["sparql", "run_sparql"], "retrieval": ["search"]}


def response(*names: str) -> dict[str, Any]:
    outputs = [SPARQL, '[{"id": "1"}]']
    more = {"status": "success", "retrieval_answer_recall": 1}
    steps = [{"name": n, "output": o, **more} for n, o in zip(names, outputs, strict=True)]
    return {"question_id": "q", "actual_steps": steps}


@pytest.mark.parametrize("options", [{"step_aliases": ALIASES}, {"config": {"aliases": ALIASES}}])
@pytest.mark.parametrize("names", [("sparql", "search"), ("run_sparql", "retrieval")])
async def test_steps_match_by_alias(names: tuple[str, str], options: Any) -> None:
    given = response(*names)
    assert (await Evaluator(REFERENCE).evaluate(given))["steps_score"] < 1
    evaluator = pickle.loads(pickle.dumps(Evaluator(REFERENCE, **options)))  # noqa: S301
    result = await evaluator.evaluate(given)
    assert result["steps_score"] == 1
    assert [step["name"] for step in result["actual_steps"]] == ["sparql_query", "retrieval"]
    aliases = [step.get("alias", step["name"]) for step in result["actual_steps"]]
    assert aliases == [*names]
    assert given == response(*names)
    micro = compute_aggregates([result])["micro"]
    assert micro["steps"]["total"] == {"sparql_query": 1, "retrieval": 1}
    # What the agent says of its own retrieval is no evaluation.
    assert "retrieval_answer_recall" not in micro


async def test_every_way_to_evaluate_uses_aliases(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(orjson.dumps(response("sparql", "search")))
    (result,) = await run_evaluation(REFERENCE, path, step_aliases=ALIASES)
    assert result["steps_score"] == 1
    evaluated = await evaluate_file(REFERENCE, path, step_aliases=ALIASES)
    assert evaluated.aggregates.snapshot()["micro"]["steps_score"]["mean"] == 1


def test_a_journal_with_other_aliases_is_refused() -> None:
    plain, other = Evaluator(REFERENCE), Evaluator(REFERENCE, step_aliases=ALIASES)
    assert plain.fingerprints() == Evaluator(REFERENCE, step_aliases={}).fingerprints()
    assert plain.fingerprints()["configuration"] != other.fingerprints()["configuration"]


@each(
    ("aliases", "problem"),
    [
        (5, "expected a dict"),
        ({"sparql_query": "sparql"}, r"\['sparql_query'\]: expected a list of names, got 'sparql'"),
        ({"sparql_query": [5]}, "expected non-empty names"),
        ({"sparql_query": ["retrieval"]}, "'retrieval' is itself the name of a step"),
        ({"a": ["b"], "b": ["c"]}, "'b' is itself the name of a step"),
        ({"a": ["x"], "b": ["x"]}, "'x' is already an alias of 'a'"),
    ],
)
def test_invalid_aliases(aliases: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=f"^step_aliases.*{problem}"):
        Evaluator(REFERENCE, step_aliases=aliases)
