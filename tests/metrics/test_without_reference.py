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
from tests.metrics.support import ScriptedMetricJudge, evaluate, read_blocks


def retrieval(*texts: str | None) -> dict[str, Any]:
    documents = [{"id": index, "text": text} for index, text in enumerate(texts)]
    return {"name": "retrieval", "status": "success", "output": documents}


def query(*rows: dict[str, Any], status: str = "success") -> dict[str, Any]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    bindings = [
        {
            name: {"type": "uri" if value.startswith("http") else "literal", "value": value}
            for name, value in row.items()
        }
        for row in rows
    ]
    output = {"head": {"vars": names}, "results": {"bindings": bindings}}
    return {"name": "sparql_query", "status": status, "output": json.dumps(output)}


def case(answer: str | None, *steps: dict[str, Any], question: str = "Which?") -> Case:
    return Case(question, actual_answer=answer, actual_steps=steps)


def claims(*supported: bool) -> dict[str, Any]:
    return {
        "claims": [{"claim": f"C{i}", "reason": "so", "supported": flag} for i, flag in enumerate(supported)]
    }


# Faithfulness


async def test_faithfulness_is_the_share_of_supported_claims() -> None:
    asking = ScriptedMetricJudge(claims(True, False, True, True))
    metric = faithfulness(FaithfulnessConfig())
    keys = await evaluate(metric, asking, case("An answer.", retrieval("a", None, "b"), retrieval("b", "c")))
    assert keys["faithfulness"] == 0.75
    assert keys["faithfulness_reason"].splitlines()[:2] == ["+ C0 (so)", "- C1 (so)"]
    assert json.loads(read_blocks(asking.messages[0][1]["content"])["documents"]) == ["a", "b", "c"]


@pytest.mark.parametrize("steps", [[retrieval()], [retrieval(None, " ")], [retrieval(), retrieval("")]])
async def test_nothing_retrieved_supports_no_claim_and_is_not_relevant(steps: list[dict[str, Any]]) -> None:
    metric = faithfulness(FaithfulnessConfig())
    keys = await evaluate(metric, ScriptedMetricJudge(claims(True, False)), case("An answer.", *steps))
    assert keys["faithfulness"] == 0
    keys = await evaluate(metric, ScriptedMetricJudge(claims()), case("I do not know.", *steps))
    assert keys == {"faithfulness_reason": "the answer makes no claims"}
    relevance = context_relevance(ContextRelevanceConfig())
    keys = await evaluate(relevance, ScriptedMetricJudge(), case("An answer.", *steps))
    assert keys == {"context_relevance": 0.0, "context_relevance_reason": "no text was retrieved"}


async def test_an_answer_without_claims_has_no_faithfulness() -> None:
    metric = faithfulness(FaithfulnessConfig())
    keys = await evaluate(metric, ScriptedMetricJudge(claims()), case("I do not know.", retrieval("a")))
    assert keys == {"faithfulness_reason": "the answer makes no claims"}


# Context relevance


@given(st.lists(st.integers(0, 2), min_size=1, max_size=8), st.integers(0, 5))
@pytest.mark.asyncio
async def test_context_relevance_is_the_mean_rating(ratings: list[int], seed: int) -> None:
    class Asking(ScriptedMetricJudge):
        async def ask(self, prompt: Any, form: Any, *, repeat: int = 0) -> Any:
            assert repeat == 0
            shown = json.loads(read_blocks(prompt()[1]["content"])["documents"])
            rated = [{"id": each["id"], "reason": "", "rating": ratings[int(each["text"])]} for each in shown]
            return form.read({"documents": rated})

    texts = [str(index) for index in range(len(ratings))]
    metric = context_relevance(ContextRelevanceConfig(seed=seed))
    keys = await evaluate(metric, Asking(), case(None, retrieval(*texts)))
    assert keys["context_relevance"] == pytest.approx(sum(ratings) / len(ratings) / 2)
    assert keys["context_relevance_reason"].splitlines() == [
        f"{rank}: {rating} ()" for rank, rating in enumerate(ratings, 1)
    ]


@pytest.mark.parametrize("rated", [[], [(1, 1)], [(1, 1), (1, 2)], [(1, 1), (2, 3)], [(1, 1), (2, -1)]])
async def test_ratings_that_are_none_are_asked_for_once_more(rated: list[tuple[int, int]]) -> None:
    wrong = {"documents": [{"id": number, "reason": "", "rating": rating} for number, rating in rated]}
    right = {"documents": [{"id": number, "reason": "", "rating": 2} for number in (1, 2)]}
    asking = ScriptedMetricJudge(wrong, right)
    metric = context_relevance(ContextRelevanceConfig())
    assert (await evaluate(metric, asking, case(None, retrieval("a", "b"))))["context_relevance"] == 1


async def test_a_document_without_text_is_not_relevant() -> None:
    metric = context_relevance(ContextRelevanceConfig())
    replies = ScriptedMetricJudge(
        {"documents": [{"id": number, "reason": "", "rating": 2} for number in (1, 2)]}
    )
    keys = await evaluate(metric, replies, case(None, retrieval("a", None, "b"), retrieval(" ", "a")))
    assert keys["context_relevance"] == 0.5
    assert keys["context_relevance_reason"].splitlines()[1] == "2: 0 (no text)"


# SPARQL groundedness


def judged(**values: bool) -> dict[str, Any]:
    return {"values": [{"value": v, "reason": "so", "grounded": flag} for v, flag in values.items()]}


@pytest.mark.parametrize(
    ("answer", "rows", "found"),
    [
        ("It is 31.2 km long.", [{"l": "31.24"}], ["31.2"]),
        ("It is 31.3 km long.", [{"l": "31.24"}], []),
        ("There are 1,200 of them.", [{"n": "1200"}], ["1,200"]),
        ("Hausach and Lindau.", [{"n": "Hausach"}, {"n": "Lindau"}], ["Hausach", "Lindau"]),
        ("It is in HAUSACH.", [{"n": "Hausach"}], ["Hausach"]),
        ("See urn:grid:line-7.", [{"i": "urn:grid:line-7"}], ["line-7"]),
        ("The line Line42.", [{"i": "http://example.org/grid#Line42"}], ["Line42"]),
        ("Hausachs are many.", [{"n": "Hausach"}], []),
        ("a b", [{"n": "a"}], []),
        ("It was built in 1974-05-01.", [{"d": "1974"}], []),
    ],
)
async def test_values_that_stand_in_the_rows(
    answer: str, rows: list[dict[str, str]], found: list[str]
) -> None:
    asking = ScriptedMetricJudge(judged(other=False))
    metric = sparql_groundedness(SparqlGroundednessConfig())
    keys = await evaluate(metric, asking, case(answer, query(*rows)))
    blocks = read_blocks(asking.messages[0][1]["content"])
    assert json.loads(blocks["found"]) == found
    assert keys["sparql_groundedness"] == len(found) / (len(found) + 1)
    assert all(value in blocks["rows"] for row in rows for value in row.values())


async def test_values_of_the_question_do_not_count() -> None:
    asking = ScriptedMetricJudge(judged())
    metric = sparql_groundedness(SparqlGroundednessConfig())
    question = "Is Hausach at 220 kV?"
    keys = await evaluate(
        metric, asking, case("Hausach is at 220 kV.", query({"n": "Hausach"}), question=question)
    )
    assert keys == {"sparql_groundedness_reason": "the answer states no values or entities"}


async def test_a_value_that_was_found_is_not_counted_twice() -> None:
    asking = ScriptedMetricJudge(judged(hausach=False, Lindau=True))
    metric = sparql_groundedness(SparqlGroundednessConfig())
    keys = await evaluate(metric, asking, case("Hausach, Lindau", query({"n": "Hausach"}, {"n": "Ulm"})))
    assert keys["sparql_groundedness"] == 1
    assert keys["sparql_groundedness_reason"] == "+ Hausach (in the rows)\n+ Lindau (so)"


GROUNDED = {
    "a whole number is not rounded from one digit": ("It is 3 km.", ["2.51"], {}, 0.0),
    "zero is not rounded": ("There are 0 lines.", ["0.4"], {}, 0.0),
    "no digit is left": ("It is 0.0 km.", ["0.04"], {}, 0.0),
    "a whole number is rounded": ("It is 25 km.", ["25.49"], {}, 1.0),
    "half is rounded up": ("It is 2.68 km.", ["2.675"], {}, 1.0),
    "the judge does not tell of a number": ("There are 43 lines and 42.", ["42"], {}, 0.5),
    "the judge says where a number comes from": ("There are 2: 42, 43.", ["42", "43"], {"2": True}, 1.0),
    "the judge calls it by its unit": ("There are 43 lines and 42.", ["42"], {"43 lines": True}, 1.0),
    "the judge repeats what was found": ("There are 42 kV lines.", ["42"], {"42 kV": False}, 1.0),
    "a name with a number is another value": ("Line 42.", ["42"], {"Line 42": False}, 0.5),
    "a date with a number is another value": ("On 42 May 1999.", ["42"], {"42 May 1999": False}, 0.5),
    "markers of a list": ("1. Foo\n2. Bar\n\n1) Foo", ["1.3", "2.4", "Foo"], {"Bar": False}, 0.5),
    "no markers of a list": ("7. Foo", ["Foo"], {}, 0.5),
    "a number in a name": ("It is Line 7 and 7.", ["Line 7", "7"], {}, 1.0),
    "a number in a name only": ("It is Line 7.", ["Line 7"], {}, 1.0),
    "the same number": ("It is 1,200, or 1200.", ["1200"], {}, 1.0),
}


@pytest.mark.parametrize("name", GROUNDED)
async def test_groundedness_of_numbers(name: str) -> None:
    answer, cells, told, expected = GROUNDED[name]
    asking = ScriptedMetricJudge(judged(**told))
    metric = sparql_groundedness(SparqlGroundednessConfig())
    keys = await evaluate(metric, asking, case(answer, query(*({"n": cell} for cell in cells))))
    assert keys["sparql_groundedness"] == expected, keys["sparql_groundedness_reason"]


async def test_numbers_are_not_missing_from_rows_that_cannot_be_read() -> None:
    metric = sparql_groundedness(SparqlGroundednessConfig())
    broken = query({"n": "42"}) | {"output": "There are 43."}
    steps = [query({"n": "42"}), broken]
    keys = await evaluate(metric, ScriptedMetricJudge(judged()), case("42 and 43.", *steps))
    assert keys == {"sparql_groundedness": 1.0, "sparql_groundedness_reason": "+ 42 (in the rows)"}


@pytest.mark.parametrize("output", ["<urn:t1> <urn:rated> 40 .\n<urn:t1> a <urn:T> .", {"rated": 40}])
async def test_the_judge_sees_as_text_what_is_no_table(output: Any) -> None:
    metric = sparql_groundedness(SparqlGroundednessConfig())
    asking = ScriptedMetricJudge(judged(**{"40": True}))
    graph = query() | {"output": output}
    keys = await evaluate(metric, asking, case("It is rated 40.", graph, query({"n": "x"})))
    shown = output if isinstance(output, str) else '{"rated":40}'
    assert read_blocks(asking.messages[0][1]["content"])["rows"] == f"{shown}\n\nn\nx"
    assert keys == {"sparql_groundedness": 1.0, "sparql_groundedness_reason": "+ 40 (so)"}


async def test_a_long_text_is_cut_by_lines() -> None:
    metric = sparql_groundedness(SparqlGroundednessConfig())
    asking = ScriptedMetricJudge(judged(Foo=True))
    graph = query() | {"output": "<urn:a> <urn:b> <urn:c> .\n" * 2000}
    keys = await evaluate(metric, asking, case("Foo", graph))
    *shown, _, last = read_blocks(asking.messages[0][1]["content"])["rows"].splitlines()
    hidden = 2000 - len(shown)
    assert last == f"({hidden} more rows)"
    assert keys["sparql_groundedness_reason"].endswith(f"({hidden} rows were not shown to the judge)")


async def test_a_number_of_the_question_does_not_count_in_another_form() -> None:
    metric = sparql_groundedness(SparqlGroundednessConfig())
    asked = case("Not 1200.", query({"n": "5"}), question="Is it 1,200?")
    keys = await evaluate(metric, ScriptedMetricJudge(judged()), asked)
    assert "sparql_groundedness" not in keys


async def test_a_value_that_the_judge_repeats_counts_once() -> None:
    metric = sparql_groundedness(SparqlGroundednessConfig())
    values = [{"value": v, "reason": "so", "grounded": flag} for v, flag in (("X", True), ("x ", False))]
    asking = ScriptedMetricJudge({"values": [*values, {"value": "Y", "reason": "so", "grounded": True}]})
    keys = await evaluate(metric, asking, case("X, x, Y.", query({"n": "5"})))
    assert keys["sparql_groundedness"] == 0.5


async def test_each_query_has_its_share_of_the_rows_that_the_judge_sees() -> None:
    metric = sparql_groundedness(SparqlGroundednessConfig())
    asking = ScriptedMetricJudge(judged(Foo=True))
    many = [query(*({"n": f"row {i} of the query {q}"} for i in range(2000))) for q in range(2)]
    steps = [many[0], query({"n": "500 kV"}), many[1], query({"n": "long " * 9000})]
    keys = await evaluate(metric, asking, case("Foo", *steps))
    parts = read_blocks(asking.messages[0][1]["content"])["rows"].split("\n\n")
    assert parts[1] == "n\n500 kV"
    assert [6600 < len(part) < 6800 for part in parts] == [True, False, True, True]
    hidden = []
    for part in parts[::2]:
        *shown, _, last = part.splitlines()
        hidden.append(2000 - (len(shown) - 1))
        assert last == f"({hidden[-1]} more rows)"
    assert parts[3].endswith("...\n(1 more rows)")
    assert keys["sparql_groundedness_reason"].splitlines() == [
        "+ Foo (so)",
        f"({sum(hidden) + 1} rows were not shown to the judge)",
    ]


METRICS = [
    faithfulness(FaithfulnessConfig()),
    context_relevance(ContextRelevanceConfig()),
    sparql_groundedness(SparqlGroundednessConfig()),
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
@pytest.mark.parametrize(
    "given_case",
    [
        case("An answer."),
        case("An answer.", retrieval("a") | {"output": "x"}, query(status="error")),
        case("An answer.", retrieval("a") | {"output": [{"id": 1}]}),
        case("An answer.", {"name": "other", "status": "success", "output": "a"}),
        Case("", actual_answer="a", actual_steps=[retrieval("a"), query({"n": "a"})]),
    ],
)
def test_skipped_without_what_it_needs(metric: Any, given_case: Case) -> None:
    assert [task.call for task in metric.tasks(given_case)] == [None]


async def test_the_answer_need_not_be_known_for_the_relevance_of_texts() -> None:
    for answer, metrics in (("a", [1, 1, 1]), (None, [0, 1, 0]), (" ", [0, 1, 0])):
        tasks = [metric.tasks(case(answer, retrieval("a"), query({"n": "a"}))) for metric in METRICS]
        assert [int(task.call is not None) for (task,) in tasks] == metrics
