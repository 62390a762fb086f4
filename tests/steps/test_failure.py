"""Why a response failed, from the response to the key of its result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import Evaluator, JudgeError, TokenUsage, evaluate_stream, run_evaluation_sync
from tests.steps.test_sparql_oracle import encode, literal
from tests.support.cases import each
from tests.support.data import HEAVY_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPARQL = "application/sparql-results+json"


def table(*rows: Sequence[str], names: str = "") -> str:
    """SPARQL results; without rows, of as many variables as there are names."""
    width = len(rows[0]) if rows else len(names)
    return encode([[literal(text) for text in row] for row in rows], (names or "abcdefghijklmn")[:width])


def docs(*ids: str) -> str:
    return json.dumps([{"id": name, "text": f"Of {name}."} for name in ids])


QUERY: dict[str, Any] = {"name": "sparql_query", "output_media_type": SPARQL}
STATIONS: dict[str, Any] = QUERY | {
    "output": table(("T1", "110"), ("T2", "220"), ("T3", "380")),
    "ordered": True,
}
REPORTS: dict[str, Any] = {"name": "retrieval", "output": docs("r1", "r2")}
LOAD: dict[str, Any] = {"name": "grid_api", "output": '{"mw": 5}', "output_media_type": "application/json"}
SERIES: dict[str, Any] = {"name": "retrieve_time_series", "args": {"mrid": "m1"}, "output": "[[0, 1.5]]"}
IRI: dict[str, Any] = {"name": "iri_discovery", "output": "<urn:grid:bergheim>"}


def took(reference: Mapping[str, Any], output: Any = None, **keys: Any) -> dict[str, Any]:
    """An actual step as the reference has it, but for the output, if any, and for the keys."""
    step = {"name": reference["name"], "args": reference.get("args", {}), "status": "success"}
    return step | {"output": reference["output"] if output is None else output} | keys


def templates(*groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    question = {
        "id": "q",
        "question_text": "Which transformers are at Bergheim?",
        "reference_answer": "T1, T2 and T3.",
        "reference_steps": list(groups),
    }
    return [{"template_id": "t", "questions": [question]}]


class Claims:
    """Finds as many claims in an answer as it says, and as many of them right, of four."""

    model = "counting"

    async def complete(self, messages: Any, _schema: Any) -> tuple[Any, TokenUsage]:
        said, right = messages[-1]["content"].rpartition("claims: ")[2].split()[:2]
        if said == "?":
            raise JudgeError("refused", "no")
        reply = {
            "reference_claims": [f"claim {i}" for i in range(4)],
            "actual_claims": [f"claim {i}" for i in range(int(said))],
            "reason": "counted",
            "matches": [{"reference": i, "actual": i} for i in range(int(right))],
        }
        return reply, TokenUsage(100, 20)

    async def embed(self, _: Any) -> Any:
        raise NotImplementedError


async def result_of(
    groups: list[list[dict[str, Any]]], steps: Any, answer: str | None = None, **options: Any
) -> dict[str, Any]:
    """The result, which is the same whether it is scored at once, in a thread or in a stream."""
    response: dict[str, Any] = {"question_id": "q", "actual_steps": steps, "actual_answer": "not judged"}
    if isinstance(steps, dict):
        response = {"question_id": "q", **steps}
    if answer is not None:
        response["actual_answer"] = f"claims: {answer} "
        options["judge"] = Claims()
    async with Evaluator(templates(*groups), **options) as evaluator:
        result = await evaluator.evaluate(response)
        large = await evaluator.evaluate(response | {"padding": "x" * HEAVY_BYTES})
    async with evaluate_stream(templates(*groups), [response], **options) as stream:
        (streamed,) = [result async for result in stream]
    assert result["failure"] == large["failure"] == streamed["failure"]
    return result


async def failure(groups: list[list[dict[str, Any]]], steps: Any, *args: Any, **options: Any) -> str:
    reason: str = (await result_of(groups, steps, *args, **options))["failure"]
    return reason


ROWS = [("T1", "110"), ("T2", "220"), ("T3", "380")]
WRONG = table(("T1", "110"), ("T2", "220"), ("T4", "380"))
SWAPPED = table(*ROWS[::-1])
PARTIAL: dict[str, Any] = STATIONS | {"score": "f1", "ordered": False}
HEADS_ONLY = encode([[literal("T1"), None], [literal("T2"), None], [literal("T3"), None]], "ab")

CASES: list[tuple[str, list[dict[str, Any]], Any]] = [
    ("none", [STATIONS], [took(STATIONS)]),
    # Nothing was done that could have been right.
    ("no_steps", [STATIONS], []),
    ("no_steps", [STATIONS], [took(REPORTS)]),
    ("no_steps", [STATIONS], {"status": "error", "actual_steps": []}),
    ("missing_step", [STATIONS, STATIONS], [took(STATIONS)]),
    # It was done, and failed.
    ("step_error", [STATIONS], [took(STATIONS, "syntax error", status="error")]),
    ("step_error", [IRI], [{"name": "autocomplete_search", "status": "error"}]),
    # It returned something else.
    ("wrong_query_result", [STATIONS], [took(STATIONS, WRONG)]),
    ("wrong_query_result", [STATIONS], [took(STATIONS, '{"head": {}, "boolean": true}')]),
    ("wrong_query_result", [SERIES], [took(SERIES, args={"mrid": "m2"})]),
    ("wrong_query_result", [IRI], [took(STATIONS)]),
    # It returned nothing.
    ("empty_result", [STATIONS], [took(STATIONS, table(names="ab"))]),
    ("empty_result", [STATIONS], [{**took(STATIONS), "output": None}]),
    ("empty_result", [SERIES], [took(SERIES, "[]", args={"mrid": "m2"})]),
    ("empty_result", [IRI], [took(STATIONS, table(names="i"))]),
    ("empty_result", [STATIONS], [took(STATIONS, " null\n")]),
    # It returned too few columns.
    ("missing_columns", [STATIONS], [took(STATIONS, HEADS_ONLY)]),
    ("missing_columns", [QUERY | {"output": table(names="ab")}], [took(QUERY, table(names="a"))]),
    # It returned the right rows, in another order.
    ("wrong_order", [STATIONS], [took(STATIONS, SWAPPED)]),
    ("wrong_order", [STATIONS], [took(STATIONS, table(*(("x", *row[::-1]) for row in ROWS[::-1])))]),
    # With partial credit, what explains most of the cells that do not agree.
    ("missing_rows", [PARTIAL], [took(PARTIAL, table(*ROWS[:2]))]),
    ("missing_rows", [PARTIAL], [took(PARTIAL, table(ROWS[0], ("T2", "221")))]),
    ("extra_rows", [PARTIAL], [took(PARTIAL, table(*ROWS, ("T9", "10")))]),
    ("wrong_values", [PARTIAL], [took(PARTIAL, WRONG)]),
    ("wrong_order", [PARTIAL | {"ordered": True}], [took(PARTIAL, SWAPPED)]),
    ("missing_columns", [PARTIAL], [took(PARTIAL, table(("T1",), ("T2",)))]),
    ("wrong_query_result", [PARTIAL], [took(PARTIAL, '{"head": {}, "boolean": true}')]),
    # It returned not all of the relevant documents.
    ("missed_retrieval", [REPORTS], [took(REPORTS, docs("r9", "r1"))]),
]


@pytest.mark.parametrize(("expected", "group", "steps"), CASES)
async def test_failures_by_steps_alone(expected: str, group: list[dict[str, Any]], steps: Any) -> None:
    result = await result_of([group], steps)
    assert result["failure"] == expected
    assert (result["steps_score"] == 1) == (expected == "none")


JUDGED = [
    ("none", [took(STATIONS)], "4 4"),
    ("right_steps_wrong_answer", [took(STATIONS)], "4 1"),
    ("wrong_steps_right_answer", [took(STATIONS, WRONG)], "4 3"),
    ("wrong_steps_right_answer", [took(STATIONS, status="error")], "4 4"),
    ("wrong_steps_right_answer", [], "4 4"),
    ("wrong_query_result", [took(STATIONS, WRONG)], "4 1"),
    ("wrong_order", [took(STATIONS, SWAPPED)], "?"),
]


@pytest.mark.parametrize(("expected", "steps", "answer"), JUDGED)
async def test_failures_by_the_judged_answer(expected: str, steps: Any, answer: str) -> None:
    result = await result_of([[STATIONS]], steps, answer)
    assert result["failure"] == expected
    assert ("answer_f1" in result) == (answer != "?")


@pytest.mark.parametrize("answer", [{}, {"actual_answer": None}, {"actual_answer": " \n"}])
async def test_right_steps_without_an_answer(answer: dict[str, Any]) -> None:
    right = {"actual_steps": [took(STATIONS)], **answer}
    assert await failure([[STATIONS]], right) == "no_answer"
    assert await failure([[STATIONS]], right, judge=Claims()) == "no_answer"
    assert await failure([[STATIONS]], right | {"actual_steps": []}) == "no_steps"
    reference = templates([STATIONS])
    for none in (None, " "):
        reference[0]["questions"][0]["reference_answer"] = none
        result = await Evaluator(reference).evaluate({"question_id": "q", **right})
        assert result["failure"] == "none"


async def test_only_groups_that_are_compared_decide() -> None:
    groups = [[REPORTS], [STATIONS]]
    steps = [took(REPORTS, docs("r9")), took(STATIONS)]
    assert await failure(groups, steps) == "none"
    assert await failure(groups, steps, steps_groups="all") == "missed_retrieval"
    steps = [took(REPORTS, docs("r9")), took(STATIONS, SWAPPED)]
    assert await failure(groups, steps, steps_groups="all") == "wrong_order"
    # What comes after the group's turn is not to blame.
    steps = [took(REPORTS), took(STATIONS, SWAPPED)]
    assert await failure([[STATIONS], [REPORTS]], steps, steps_groups="all") == "missing_step"


async def test_the_latest_unmatched_step_with_output_is_blamed() -> None:
    empty, error = took(STATIONS, table(names="ab")), took(STATIONS, status="error")
    assert await failure([[STATIONS]], [empty, took(STATIONS, SWAPPED)]) == "wrong_order"
    assert await failure([[STATIONS]], [took(STATIONS, SWAPPED), empty, error]) == "empty_result"
    null = {**took(STATIONS), "output": None}
    assert await failure([[STATIONS]], [null, error]) == "step_error"
    assert await failure([[STATIONS]], [error, null]) == "empty_result"
    other = QUERY | {"output": table(("L1",))}
    steps = [took(STATIONS, SWAPPED), took(other)]  # The latter is taken, by the other one.
    assert await failure([[STATIONS, other]], steps) == "wrong_order"
    assert await failure([[STATIONS, other]], [*steps, error]) == "wrong_order"
    assert await failure([[STATIONS, other]], [error, took(other)]) == "step_error"


def iris(*values: str) -> str:
    return encode([[{"type": "uri", "value": value}] for value in values], "a")


@each(
    ("expected", "actual", "said"),
    [
        (
            iris("http://x.org/a", "urn:b"),
            iris("urn:b", "https://x.org/a"),
            "https://x.org/a is http://x.org/a",
        ),
        (iris("https://x.org/a"), "a\n<http://x.org/a>\n", "http://x.org/a is https://x.org/a"),
        (iris("http://schema.org/name"), iris("schema:name"), "schema:name is http://schema.org/name"),
        (iris("http://x.org/a", "urn:b"), iris("http://x.org/a", "urn:c"), None),
        (iris("http://x.org/a"), iris("x:b"), None),
        (iris("http://x.org/a"), iris("urn:a"), None),
        (encode([[literal("1", "integer"), literal("b")]], "ab"), '?a\t?b\n"1"^^xsd:integer\t"c"\n', None),
        (iris("http://e.org/a"), '{"text": "It is\\nex:a"}', "ex:a is http://e.org/a"),
        ("It is <http://x.org/a>.", "It is https://x.org/a.", "https://x.org/a is http://x.org/a"),
    ],
)
def test_iris_in_another_form(expected: str, actual: str, said: str | None) -> None:
    for score in ("exact", "f1"):
        step = {"name": "sparql_query", "output": expected, "score": score if "head" in expected else "exact"}
        steps = [{"name": "sparql_query", "output": actual}]
        [result] = run_evaluation_sync(templates([step]), [{"question_id": "q", "actual_steps": steps}])
        assert result["steps_score"] < 1
        whole = None if said is None else f"{said} but for http or https, or a prefix"
        assert result.get("failure_detail") == whole
