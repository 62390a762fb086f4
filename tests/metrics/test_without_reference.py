"""Metrics that need no reference answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.catalogue.judged import (
    ContextRelevanceConfig,
    FaithfulnessConfig,
    SparqlGroundednessConfig,
)
from graphrag_eval_async.metrics.context_relevance import context_relevance
from graphrag_eval_async.metrics.faithfulness import faithfulness
from graphrag_eval_async.metrics.metric import Case
from graphrag_eval_async.metrics.sparql_groundedness import sparql_groundedness
from tests.metrics.support import ScriptedMetricJudge, applies, evaluate

FAITHFULNESS = faithfulness(FaithfulnessConfig())
RELEVANCE = context_relevance(ContextRelevanceConfig())
GROUNDEDNESS = sparql_groundedness(SparqlGroundednessConfig())


def retrieval(*texts: str | None) -> dict[str, Any]:
    documents = [{"id": index, "text": text} for index, text in enumerate(texts)]
    return {"name": "retrieval", "status": "success", "output": documents}


def query(*cells: str, status: str = "success") -> dict[str, Any]:
    bindings = [
        {"n": {"type": "uri" if cell.startswith("http") else "literal", "value": cell}}
        for cell in cells
    ]
    output = {"head": {"vars": ["n"]}, "results": {"bindings": bindings}}
    return {"name": "sparql_query", "status": status, "output": json.dumps(output)}


def case(answer: str | None, *steps: dict[str, Any], question: str = "Which?") -> Case:
    return Case(question, actual_answer=answer, actual_steps=steps)


def claims(*supported: bool) -> dict[str, Any]:
    found = [
        {"claim": f"C{i}", "reason": "so", "supported": flag} for i, flag in enumerate(supported)
    ]
    return {"claims": found}


async def test_faithfulness_is_the_share_of_supported_claims() -> None:
    asking = ScriptedMetricJudge(claims(True, False, True, True))
    steps = retrieval("a", None, "b"), retrieval("b", "c")
    keys = await evaluate(FAITHFULNESS, asking, case("An answer.", *steps))
    assert keys["faithfulness"] == 0.75
    assert keys["faithfulness_reason"].splitlines()[:2] == ["+ C0 (so)", "- C1 (so)"]
    assert json.loads(asking.blocks["documents"]) == ["a", "b", "c"]
    keys = await evaluate(
        FAITHFULNESS, ScriptedMetricJudge(claims()), case("I do not know.", *steps)
    )
    assert keys == {"faithfulness_reason": "the answer makes no claims"}


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([retrieval()], id="no documents"),
        pytest.param([retrieval(None, " ")], id="blank documents"),
        pytest.param([retrieval(), retrieval("")], id="two steps"),
    ],
)
async def test_nothing_retrieved_supports_no_claim_and_is_not_relevant(
    steps: list[dict[str, Any]],
) -> None:
    keys = await evaluate(
        FAITHFULNESS, ScriptedMetricJudge(claims(True, False)), case("An answer.", *steps)
    )
    assert keys["faithfulness"] == 0
    keys = await evaluate(RELEVANCE, ScriptedMetricJudge(), case("An answer.", *steps))
    assert keys == {"context_relevance": 0.0, "context_relevance_reason": "no text was retrieved"}


def rated(*ratings: tuple[int, int | None]) -> dict[str, Any]:
    return {
        "documents": [{"id": number, "reason": "", "rating": rating} for number, rating in ratings]
    }


@given(
    st.lists(st.integers(0, 2) | st.none(), min_size=1, max_size=8).filter(any), st.integers(0, 5)
)
async def test_context_relevance_is_the_mean_rating(ratings: list[int | None], seed: int) -> None:
    def reply(blocks: dict[str, str]) -> Any:
        return rated(*((d["id"], ratings[int(d["text"])]) for d in json.loads(blocks["documents"])))

    texts = [None if rating is None else str(index) for index, rating in enumerate(ratings)]
    metric = context_relevance(ContextRelevanceConfig(seed=seed))
    keys = await evaluate(metric, ScriptedMetricJudge(reply), case(None, retrieval(*texts)))
    assert keys["context_relevance"] == pytest.approx(sum(filter(None, ratings)) / len(ratings) / 2)
    assert keys["context_relevance_reason"].splitlines() == [
        f"{rank}: 0 (no text)" if rating is None else f"{rank}: {rating} ()"
        for rank, rating in enumerate(ratings, 1)
    ]


@pytest.mark.parametrize(
    "ratings",
    [
        pytest.param([], id="none"),
        pytest.param([(1, 1)], id="one missing"),
        pytest.param([(1, 1), (1, 2)], id="twice the same"),
        pytest.param([(1, 1), (2, 3)], id="too high"),
        pytest.param([(1, 1), (2, -1)], id="negative"),
    ],
)
async def test_ratings_that_are_none_are_asked_for_once_more(
    ratings: list[tuple[int, int]],
) -> None:
    asking = ScriptedMetricJudge(rated(*ratings), rated((1, 2), (2, 2)))
    assert (await evaluate(RELEVANCE, asking, case(None, retrieval("a", "b"))))[
        "context_relevance"
    ] == 1


def judged(**values: bool) -> dict[str, Any]:
    return {
        "values": [{"value": v, "reason": "so", "grounded": flag} for v, flag in values.items()]
    }


async def test_values_of_the_question_do_not_count() -> None:
    asked = case(
        "Hausach has 1200, 15.", query("Hausach", "1200"), question="Has Hausach 1,200 of 10/15?"
    )
    keys = await evaluate(GROUNDEDNESS, ScriptedMetricJudge(judged()), asked)
    assert keys == {"sparql_groundedness_reason": "the answer states no values or entities"}
    other = case("It is 1 %.", query("Hausach"), question="Is it 100 %?")
    assert (await evaluate(GROUNDEDNESS, ScriptedMetricJudge(judged()), other))[
        "sparql_groundedness"
    ] == 0


GROUNDED = {
    "a number is rounded": ("It is 31.2 km long.", ["31.24"], {}, 1.0),
    "names": ("HAUSACH and Lindau.", ["Hausach", "Lindau"], {"x": False}, 2 / 3),
    "local names": (
        "urn:grid:line-7",
        ["urn:grid:line-7", "http://example.org/grid#Line42"],
        {},
        1.0,
    ),
    "German digits": ("It is 12.345 km and 1,5 m.", ["12345", "1.5"], {}, 1.0),
    "a word after it": ("1.5 million, 45%", ["1500000", "0.45"], {}, 1.0),
    "as without the word": ("1.5 million", ["1.5"], {"1.5 million": False}, 1.0),
    "the year of a date": ("In 2021, ten.", ["2021-05-03"], {}, 1.0),
    "a count of rows": ("3 lines, of three", ["L1x", "L2x", "L3x"], {}, 1.0),
    "a word or a part of a name is not missed": ("Two of 110kV.", ["Hausach"], {"x": True}, 1.0),
    "letters after it": ("It has 110kV.", ["110"], {}, 1.0),
    "a part of a date": ("It was built in 1974-05-01.", ["1974"], {"x": False}, 0.0),
    "a whole number is not rounded from one digit": ("It is 3 km.", ["2.51"], {}, 0.0),
    "a whole number is rounded": ("It is 25 km.", ["25.49"], {}, 1.0),
    "the judge does not tell of a number": ("There are 43 lines and 42.", ["42"], {}, 0.5),
    "the judge says where a number comes from": (
        "There are 2: 42, 43.",
        ["42", "43"],
        {"2": True},
        1.0,
    ),
    "the judge repeats what was found": ("There are 42 kV lines.", ["42"], {"42 kV": False}, 1.0),
    "a name with a number is another value": ("Line 42.", ["42"], {"Line 42": False}, 0.5),
    "markers of a list": ("1. Foo\n2. Bar\n\n1) Foo", ["1.3", "2.4", "Foo"], {"Bar": False}, 0.5),
}


@pytest.mark.parametrize("name", GROUNDED)
async def test_groundedness_of_values(name: str) -> None:
    answer, cells, told, expected = GROUNDED[name]
    asking = ScriptedMetricJudge(judged(**told))
    keys = await evaluate(GROUNDEDNESS, asking, case(answer, query(*cells)))
    assert keys["sparql_groundedness"] == expected, keys["sparql_groundedness_reason"]
    assert asking.blocks["rows"] == "\n".join(["n", *cells])


async def test_each_query_has_its_share_of_the_rows_that_the_judge_sees() -> None:
    asking = ScriptedMetricJudge(judged(Foo=True))
    many, graph = query(*["a row"] * 9000), query() | {"output": "<urn:a> <urn:b> 5 .\n" * 2000}
    keys = await evaluate(GROUNDEDNESS, asking, case("Foo", many, query("500 kV"), graph))
    shown = asking.blocks["rows"].split("\n\n")
    assert [9000 < len(part) < 11_000 for part in shown] == [True, False, True]
    assert shown[1] == "n\n500 kV"
    hidden = 11_000 - (shown[0].count("\n") - 2) - (shown[2].count("\n") - 1)
    last = f"({hidden} rows were not shown to the judge)"
    assert keys["sparql_groundedness_reason"].splitlines() == ["+ Foo (so)", last]


@pytest.mark.parametrize(
    ("given_case", "expected"),
    [
        pytest.param(case("a", retrieval("a"), query("a")), [1, 1, 1], id="all there"),
        pytest.param(case(None, retrieval("a"), query("a")), [0, 1, 0], id="no answer"),
        pytest.param(
            case("a", retrieval("a") | {"output": "x"}, query(status="error")),
            [0, 0, 0],
            id="nothing retrieved",
        ),
    ],
)
def test_skipped_without_what_it_needs(given_case: Case, expected: list[int]) -> None:
    metrics = FAITHFULNESS, RELEVANCE, GROUNDEDNESS
    assert [applies(metric, given_case) for metric in metrics] == [
        [bool(flag)] for flag in expected
    ]
