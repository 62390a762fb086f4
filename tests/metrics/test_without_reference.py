"""Metrics that need no reference answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.config import ContextRelevanceConfig, FaithfulnessConfig, SparqlGroundednessConfig
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
        {"n": {"type": "uri" if cell.startswith("http") else "literal", "value": cell}} for cell in cells
    ]
    output = {"head": {"vars": ["n"]}, "results": {"bindings": bindings}}
    return {"name": "sparql_query", "status": status, "output": json.dumps(output)}


def case(answer: str | None, *steps: dict[str, Any], question: str = "Which?") -> Case:
    return Case(question, actual_answer=answer, actual_steps=steps)


def claims(*supported: bool) -> dict[str, Any]:
    found = [{"claim": f"C{i}", "reason": "so", "supported": flag} for i, flag in enumerate(supported)]
    return {"claims": found}


# Faithfulness and context relevance


async def test_faithfulness_is_the_share_of_supported_claims() -> None:
    asking = ScriptedMetricJudge(claims(True, False, True, True))
    steps = retrieval("a", None, "b"), retrieval("b", "c")
    keys = await evaluate(FAITHFULNESS, asking, case("An answer.", *steps))
    assert keys["faithfulness"] == 0.75
    assert keys["faithfulness_reason"].splitlines()[:2] == ["+ C0 (so)", "- C1 (so)"]
    assert json.loads(asking.blocks["documents"]) == ["a", "b", "c"]
    keys = await evaluate(FAITHFULNESS, ScriptedMetricJudge(claims()), case("I do not know.", *steps))
    assert keys == {"faithfulness_reason": "the answer makes no claims"}


@pytest.mark.parametrize("steps", [[retrieval()], [retrieval(None, " ")], [retrieval(), retrieval("")]])
async def test_nothing_retrieved_supports_no_claim_and_is_not_relevant(steps: list[dict[str, Any]]) -> None:
    keys = await evaluate(FAITHFULNESS, ScriptedMetricJudge(claims(True, False)), case("An answer.", *steps))
    assert keys["faithfulness"] == 0
    keys = await evaluate(RELEVANCE, ScriptedMetricJudge(), case("An answer.", *steps))
    assert keys == {"context_relevance": 0.0, "context_relevance_reason": "no text was retrieved"}


def rated(*ratings: tuple[int, int | None]) -> dict[str, Any]:
    return {"documents": [{"id": number, "reason": "", "rating": rating} for number, rating in ratings]}


@given(st.lists(st.integers(0, 2) | st.none(), min_size=1, max_size=8).filter(any), st.integers(0, 5))
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


@pytest.mark.parametrize("ratings", [[], [(1, 1)], [(1, 1), (1, 2)], [(1, 1), (2, 3)], [(1, 1), (2, -1)]])
async def test_ratings_that_are_none_are_asked_for_once_more(ratings: list[tuple[int, int]]) -> None:
    asking = ScriptedMetricJudge(rated(*ratings), rated((1, 2), (2, 2)))
    assert (await evaluate(RELEVANCE, asking, case(None, retrieval("a", "b"))))["context_relevance"] == 1


# SPARQL groundedness


def judged(**values: bool) -> dict[str, Any]:
    return {"values": [{"value": v, "reason": "so", "grounded": flag} for v, flag in values.items()]}


async def test_values_of_the_question_do_not_count() -> None:
    asked = case("Hausach has 1200.", query("Hausach", "1200"), question="Has Hausach 1,200?")
    keys = await evaluate(GROUNDEDNESS, ScriptedMetricJudge(judged()), asked)
    assert keys == {"sparql_groundedness_reason": "the answer states no values or entities"}


GROUNDED = {
    "a number is rounded": ("It is 31.2 km long.", ["31.24"], {}, 1.0),
    "a number is not rounded": ("It is 31.3 km long.", ["31.24"], {}, 0.0),
    "a number with separators": ("There are 1,200 of them.", ["1200"], {}, 1.0),
    "names": ("HAUSACH and Lindau.", ["Hausach", "Lindau"], {"x": False}, 2 / 3),
    "local names": ("urn:grid:line-7", ["urn:grid:line-7", "http://example.org/grid#Line42"], {}, 1.0),
    "no whole word": ("Hausachs are many.", ["Hausach"], {"x": False}, 0.0),
    "a short text": ("a b", ["a"], {"x": False}, 0.0),
    "a part of a date": ("It was built in 1974-05-01.", ["1974"], {"x": False}, 0.0),
    "a whole number is not rounded from one digit": ("It is 3 km.", ["2.51"], {}, 0.0),
    "zero is not rounded": ("There are 0 lines.", ["0.4"], {}, 0.0),
    "no digit is left": ("It is 0.0 km.", ["0.04"], {}, 0.0),
    "a whole number is rounded": ("It is 25 km.", ["25.49"], {}, 1.0),
    "half is rounded up": ("It is 2.68 km.", ["2.675"], {}, 1.0),
    "the judge does not tell of a number": ("There are 43 lines and 42.", ["42"], {}, 0.5),
    "the judge says where a number comes from": ("There are 2: 42, 43.", ["42", "43"], {"2": True}, 1.0),
    "the judge calls it by its unit": ("There are 43 lines and 42.", ["42"], {"43 lines": True}, 1.0),
    "the judge repeats what was found": ("There are 42 kV lines.", ["42"], {"42 kV": False}, 1.0),
    "the judge repeats itself": ("X, x, Y.", ["5"], {"X": True, "x ": False, "Y": True}, 0.5),
    "a name with a number is another value": ("Line 42.", ["42"], {"Line 42": False}, 0.5),
    "a date with a number is another value": ("On 42 May 1999.", ["42"], {"42 May 1999": False}, 0.5),
    "markers of a list": ("1. Foo\n2. Bar\n\n1) Foo", ["1.3", "2.4", "Foo"], {"Bar": False}, 0.5),
    "no markers of a list": ("7. Foo", ["Foo"], {}, 0.5),
    "a number in a name": ("It is Line 7 and 7.", ["Line 7", "7"], {}, 1.0),
    "the same number": ("It is 1,200, or 1200.", ["1200"], {}, 1.0),
}


@pytest.mark.parametrize("name", GROUNDED)
async def test_groundedness_of_values(name: str) -> None:
    answer, cells, told, expected = GROUNDED[name]
    asking = ScriptedMetricJudge(judged(**told))
    keys = await evaluate(GROUNDEDNESS, asking, case(answer, query(*cells)))
    assert keys["sparql_groundedness"] == expected, keys["sparql_groundedness_reason"]
    assert asking.blocks["rows"] == "\n".join(["n", *cells])


@pytest.mark.parametrize("output", ["<urn:t1> <urn:rated> 40 .\n<urn:t1> a <urn:T> .", {"rated": 40}])
async def test_the_judge_sees_as_text_what_is_no_table(output: Any) -> None:
    asking = ScriptedMetricJudge(judged(**{"40": True}))
    keys = await evaluate(GROUNDEDNESS, asking, case("It is 40.", query() | {"output": output}, query("x")))
    shown = output if isinstance(output, str) else '{"rated":40}'
    assert asking.blocks["rows"] == f"{shown}\n\nn\nx"
    assert keys == {"sparql_groundedness": 1.0, "sparql_groundedness_reason": "+ 40 (so)"}


async def test_each_query_has_its_share_of_the_rows_that_the_judge_sees() -> None:
    asking = ScriptedMetricJudge(judged(Foo=True))
    many = query(*(f"row {i} of the query" for i in range(2000)))
    graph = query() | {"output": "<urn:a> <urn:b> <urn:c> .\n" * 2000}
    keys = await evaluate(
        GROUNDEDNESS, asking, case("Foo", many, query("500 kV"), graph, query("long " * 9000))
    )
    parts = asking.blocks["rows"].split("\n\n")
    assert parts[1] == "n\n500 kV"
    assert [6600 < len(part) < 6800 for part in parts] == [True, False, True, True]
    heads = [1, 0]  # Lines that are no rows.
    hidden = [2000 - (part.count("\n") - 1 - head) for part, head in zip(parts[::2], heads, strict=True)]
    for part, count in zip([*parts[::2], parts[3]], [*hidden, 1], strict=True):
        assert part.endswith(f"...\n({count} more rows)")
    last = f"({sum(hidden) + 1} rows were not shown to the judge)"
    assert keys["sparql_groundedness_reason"].splitlines() == ["+ Foo (so)", last]


# What they need


@pytest.mark.parametrize(
    ("given_case", "expected"),
    [
        (case("a", retrieval("a"), query("a")), [1, 1, 1]),
        (case(None, retrieval("a"), query("a")), [0, 1, 0]),
        (case(" ", retrieval("a"), query("a")), [0, 1, 0]),
        (case("a", retrieval("a") | {"output": "x"}, query(status="error")), [0, 0, 0]),
        (case("a", retrieval("a") | {"output": [{"id": 1}]}), [0, 0, 0]),
        (case("a", retrieval("a"), query("a"), question=""), [0, 0, 0]),
    ],
)
def test_skipped_without_what_it_needs(given_case: Case, expected: list[int]) -> None:
    metrics = FAITHFULNESS, RELEVANCE, GROUNDEDNESS
    assert [applies(metric, given_case) for metric in metrics] == [[bool(flag)] for flag in expected]
