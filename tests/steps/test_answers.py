"""Answers that are matched with reference answers without a judge."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import (
    ConfigError,
    Evaluator,
    ReferenceDataError,
    RunningAggregates,
    evaluate_stream,
    load_config,
    load_reference,
    save_reference,
)
from graphrag_eval_async.steps.answers import match_answer
from graphrag_eval_async.steps.numbers import numbers_in
from tests.cli.support import Folder, run
from tests.metrics.support import Judge, claims
from tests.steps.answer_support import result_of

if TYPE_CHECKING:
    from pathlib import Path

READ = [
    pytest.param(
        "In 2023 there were 1,234.5 MW, 7 of them new.",
        [{2023}, {1234.5}, {7}],
        id="year and megawatts",
    ),
    pytest.param(
        "1.234,5 or 1'234.5 or 1\u202f234,5 or 1\u00a0234",
        [{1234.5}] * 3 + [{1234}],
        id="thousands",
    ),
    pytest.param("12.345 and 12,345", [{12.345, 12345}] * 2, id="either reading"),
    pytest.param(
        "10,000 or 1.234.567 or 0,125 or 0.125",
        [{10000}, {1234567}, {0.125}, {0.125}],
        id="dots and commas",
    ),
    pytest.param("-3, \u22123.5 and 10-5", [{-3}, {-3.5}], id="minus"),
    pytest.param(
        "1e6, 2.5E-3, 3 x 10^8, 3·10⁻³", [{1e6}, {0.0025}, {3e8}, {0.003}], id="powers of ten"
    ),
    pytest.param(
        "1.5 million, 2 Mrd. Euro, two thousand, 5bn",
        [{1.5e6}, {2e9}, {2000}, {5e9}],
        id="words of size",
    ),
    pytest.param("45 %, 45% or 45 percent", [{45, 0.45}] * 3, id="percent"),
    pytest.param("three of 110kV", [{3}, {110}], id="unit"),
    pytest.param("Zero of twelve", [{0}, {12}], id="words"),
    pytest.param(
        "3.5M, 2k and 1.5B, but 5m and 300 K; **3** million",
        [{3.5e6}, {2e3}, {1.5e9}, {5}, {300}, {3e6}],
        id="letters of size",
    ),
    pytest.param(
        "1 000 000 or -1 234.5; 7 1500, 110 220 15",
        [{1e6}, {-1234.5}, {7}, {1500}, {110}, {220}, {15}],
        id="spaces",
    ),
    pytest.param(
        "minus 3, \u20133, minus five, .5 and 3-million",
        [{-3}, {-3}, {-5}, {0.5}, {3e6}],
        id="words of sign",
    ),
    pytest.param(
        "five hundred, 5/6, 3/5/2021, 10\u201315, 5:30, 2^3, 1_000",
        [{500}, {5 / 6}],
        id="not sizes",
    ),
    pytest.param("2021-05-03, v1.2.3, 10.0.0.1, T1, 1,2,3 and " + "9" * 400, [], id="no numbers"),
]


@pytest.mark.parametrize(("text", "expected"), READ)
def test_numbers_in_prose(text: str, expected: list[set[float]]) -> None:
    assert [
        {reading.value for reading in number.readings} for number in numbers_in(text)
    ] == expected


@given(
    st.decimals(-(10**12), 10**12, places=2), st.sampled_from([",.", ".,", "\u2009,", "'.", " ,"])
)
def test_numbers_as_people_write_them(value: Any, marks: str) -> None:
    written = f"{value:,.2f}".translate(str.maketrans(",.", marks))
    [number] = numbers_in(f"It is {written}.")
    assert float(value) in [reading.value for reading in number.readings]


MATCHED = [
    pytest.param("exact", "Nordnett \ufb01n", "  NORDNETT\n fin ", 1, id="exact spelling"),
    pytest.param("exact", "Nordnett", "It is Nordnett.", 0, id="exact and more"),
    pytest.param("contains", "12", "120 lines", 0, id="contains part of a number"),
    pytest.param("contains", "Berlin\nKöln\n", "KO\u0308LN, and Berlin", 1, id="contains all"),
    pytest.param("contains", "Berlin\nBonn", "Berlin", 0, id="contains one of two"),
    pytest.param(
        "contains", "5", "1.5, 5,000, 5.5, -5 and \u22125", 0, id="contains other numbers"
    ),
    pytest.param("contains", "5", "From 5.", 1, id="contains number"),
    pytest.param(
        "number", "1234.5 MW", "In 2023 there were 1.234,5 MW", 1, id="number among others"
    ),
    pytest.param("number", "0.45", "45 %", 1, id="number as percent"),
    pytest.param("number", "45 %", "0.45 %", 0, id="percent of percent"),
    pytest.param("number", "5", "5 million", 0, id="number of millions"),
    pytest.param("number", "0", "none", 1, id="number none"),
    pytest.param("number", "1000000", "1000001", 1, id="number within tolerance"),
    pytest.param("number", "1000000", "1000001.1", 0, id="number beyond tolerance"),
    pytest.param("regex", r"(?i)line \d+$", "It is LINE 42", 1, id="regex ends"),
    pytest.param("regex", "^42", "It is 42", 0, id="regex begins"),
    pytest.param("regex", "(a*)*b", "a" * 30_000, 0, id="regex hostile"),
    pytest.param(
        "list", "Berlin, Bonn", "The cities are:\n1. **Bonn**\n2. Berlin.", 1, id="list numbered"
    ),
    pytest.param("list", "A, B and C", "a; B & D", 2 / 3, id="list partly"),
    pytest.param(
        "list",
        "Trinidad and Tobago\n1,234",
        "- 1,234\n- Trinidad and Tobago",
        1,
        id="list with and",
    ),
    pytest.param("list", "110, 220, 380", "110,220,380", 1, id="list with commas"),
    pytest.param("list", "110,220,380", "110, 220", 0.8, id="list one missing"),
    pytest.param("list", "110,220,380", "380,220,110", 1, id="list reversed"),
    pytest.param("list", "1,000\n1,235", "1000; 1235", 1, id="list thousands"),
    pytest.param("list", "1,235", "1", 0, id="list part of a number"),
    pytest.param("list", "urn:a, b", 'The items are: ["<urn:a>", "b"]', 1, id="list quoted"),
    pytest.param("list", "a, b", "(1) a\n\u2013 b | a", 1, id="list bulleted"),
    pytest.param("list", "a, b", "I do not know.", 0, id="list not known"),
    pytest.param("list", "a, b", "...", 0, id="list of dots"),
]


@pytest.mark.parametrize(("match", "reference", "answer", "score"), MATCHED)
def test_answers_are_matched(match: Any, reference: str, answer: str, score: float) -> None:
    assert match_answer(match, reference, answer, None)[0] == score


def asked(name: str, answer: Any, **more: Any) -> dict[str, Any]:
    return {"id": name, "question_text": "?", "reference_answer": answer, **more}


STEPS = [[{"name": "look_up", "output": "x"}]]
TOOK = [{"name": "look_up", "status": "success", "output": "x"}]


def templates(*questions: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"template_id": "t", "questions": [*questions]}]


OF_ALL = templates(
    asked("near", "100", match="number", tolerance=0.01, reference_steps=STEPS),
    asked("both", ["Berlin", "Bonn"], match="contains", reference_steps=STEPS, tags=["two"]),
    asked("own", "Lindau", reference_steps=STEPS),
    asked("alone", "5", match="number"),
    {"id": "none", "question_text": "?"},
)
GIVEN: list[tuple[dict[str, Any], Any, Any]] = [
    ({"question_id": "near", "actual_answer": "101 MW"}, 1.0, "none"),
    ({"question_id": "near", "actual_answer": "x 5 " * 5000 + "x 101"}, 1.0, "none"),
    ({"question_id": "near", "actual_answer": "102 MW"}, 0.0, "right_steps_wrong_answer"),
    ({"question_id": "both", "actual_answer": "Bonn, Berlin"}, 1.0, "none"),
    ({"question_id": "near", "actual_answer": " "}, 0.0, "no_answer"),
    ({"question_id": "near", "actual_answer": "100", "error": "lost"}, None, "agent_error"),
    ({"question_id": "alone", "actual_answer": "5"}, 1.0, "none"),
    ({"question_id": "alone", "actual_answer": "6"}, 0.0, "wrong_answer"),
    ({"question_id": "alone"}, None, "no_answer"),
    ({"question_id": "alone", "error": "lost"}, None, "agent_error"),
    (
        {"question_id": "both", "actual_answer": "Berlin, Bonn", "actual_steps": []},
        1.0,
        "wrong_steps_right_answer",
    ),
]


async def test_a_question_that_says_match_has_the_metric() -> None:
    responses = [{"actual_steps": TOOK, **response} for response, *_ in GIVEN]
    evaluator, read = Evaluator(OF_ALL), RunningAggregates()
    async with evaluate_stream(OF_ALL, responses, ordered=True) as stream:
        results = [result async for result in stream]
    for response, result, (_, score, failure) in zip(responses, results, GIVEN, strict=True):
        assert (result["answer_match"], result["failure"]) == (score, failure), result
        again = await copy.copy(evaluator).evaluate(response)
        assert again == result | {"sample": 1}
        read.add(result)
    read.finish()
    snapshot = stream.aggregates.snapshot(detail=True)
    assert snapshot == read.snapshot(detail=True)
    coverage = {
        "applied": 11,
        "values": 8,
        "failed": {"no_answer": 1, "response_error": 2},
        "pending": 0,
    }
    assert snapshot["micro"]["answer_match"]["coverage"] == coverage


async def test_the_configuration_matches_the_other_answers() -> None:
    own = {"question_id": "own", "actual_answer": "lindau"}
    for config in ("exact", {"match": "exact"}):
        evaluator = Evaluator(OF_ALL, config={"answer_match": config})
        result = await copy.copy(evaluator).evaluate(own)
        assert (result["answer_match"], result["answer_match_reason"]) == (1, "exact: matches")
        assert (await evaluator.evaluate({"question_id": "near", "actual_answer": "99"}))[
            "answer_match"
        ] == 1
        assert "answer_match" not in await evaluator.evaluate(
            {"question_id": "none", "actual_answer": "x"}
        )
        assert evaluator.fingerprints() != Evaluator(OF_ALL).fingerprints()
    assert "answer_match" not in await Evaluator(OF_ALL).evaluate(own)
    with pytest.raises(
        ReferenceDataError, match="question 'own': reference_answer: must have one number"
    ):
        Evaluator(OF_ALL, config={"answer_match": "number"})


async def test_a_match_comes_before_a_judge() -> None:
    judge = Judge(replies=claims(4, 4, 0))
    async with Evaluator(OF_ALL, judge=judge) as evaluator:
        own = {"question_id": "near", "actual_answer": "100", "actual_steps": TOOK}
        result = await evaluator.evaluate(own)
        other = await evaluator.evaluate(own | {"question_id": "own"})
    assert (result["answer_match"], result["answer_f1"], result["failure"]) == (1, 0, "none")
    assert other["failure"] == "right_steps_wrong_answer"


WRONG = [
    pytest.param(
        None,
        {"match": "exact"},
        "reference_answer: missing; `match` compares answers with it",
        id="missing",
    ),
    pytest.param(" ", {"match": "exact"}, "reference_answer: is blank", id="blank"),
    pytest.param("", {"match": "list"}, "reference_answer: is blank", id="blank list"),
    pytest.param(
        "12 of 13",
        {"match": "number"},
        "reference_answer: must have one number for `match: number`, has 2",
        id="two numbers",
    ),
    pytest.param(
        "(?=a)", {"match": "regex"}, "reference_answer: Invalid regular expression", id="look-ahead"
    ),
    pytest.param(
        ["a"],
        {"match": "exact"},
        "reference_answer: a list needs `match: contains`",
        id="list for exact",
    ),
    pytest.param([], {"match": "list"}, "reference_answer: is blank", id="empty list"),
    pytest.param(["a"], {}, "reference_answer: a list needs", id="list alone"),
    pytest.param(
        [1],
        {"match": "list"},
        "reference_answer[0]: expected text, got the number 1",
        id="list of a number",
    ),
    pytest.param("5", {"tolerance": 0.1}, "tolerance: needs `match: number`", id="tolerance alone"),
    pytest.param(
        "5",
        {"match": "number", "tolerance": 5},
        "tolerance: is relative and must be below 1; 0.05 is 5%",
        id="tolerance too high",
    ),
    pytest.param(
        "5",
        {"match": "number", "tolerance": -1},
        "tolerance: expected a number of 0 or more",
        id="tolerance negative",
    ),
    pytest.param(
        "5",
        {"match": "numbr"},
        "match: expected contains, exact, list, number or regex, got 'numbr'; did you mean number?",
        id="misspelt",
    ),
]


@pytest.mark.parametrize(("answer", "more", "problem"), WRONG)
def test_questions_that_cannot_be_matched(answer: Any, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(templates(asked("q", answer, **more)))
    assert caught.value.problems[0].startswith(f"templates[0].questions[0].{problem}")


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        pytest.param("numbr", 'answer_match: expected "exact" or', id="misspelt"),
        pytest.param(
            None, "answer_match: expected a way to match, such as exact, got nothing", id="nothing"
        ),
        pytest.param(
            {"match": "number", "tolerance": 5},
            "answer_match.tolerance: is for `match: number`, relative",
            id="tolerance too high",
        ),
        pytest.param(
            {"match": "exact", "tolerance": 1},
            "answer_match.tolerance: is for `match: number`",
            id="tolerance of exact",
        ),
        pytest.param(
            {"mach": "exact"},
            "answer_match.mach: unknown key; did you mean match?",
            id="unknown key",
        ),
    ],
)
def test_configurations_that_cannot_match(section: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"answer_match": section})
    assert problem in str(caught.value)


def test_sets_with_matches_are_saved(tmp_path: Path) -> None:
    reference = load_reference(OF_ALL)
    save_reference(reference, tmp_path / "saved.yaml")
    assert [*load_reference(tmp_path / "saved.yaml")] == [*reference]
    assert reference.questions["both"].reference_answer == "Berlin\nBonn"


def test_a_run_says_that_answers_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, told = Folder(tmp_path), "answers are not compared: set"
    question = asked("own", "Lindau")
    for questions, answer, expected, *options in (
        ([question], "Lindau", True),
        ([question], "Lindau", True, "--jobs", "2"),
        ([question], " ", False),
        ([question, asked("q", "1", match="exact")], "Lindau", False),
        ([question | {"reference_answer": None}], "Lindau", False),
    ):
        reference = folder.write("reference.json", orjson.dumps(templates(*questions)))
        run(
            "evaluate",
            reference,
            folder.lines({"question_id": "own", "actual_answer": answer}),
            *options,
        )
        assert (told in capsys.readouterr().err) == expected


@pytest.mark.parametrize("match", ["exact", "contains", "list", "number", "regex"])
@pytest.mark.parametrize("answer", ["", " ", "\n\t"], ids=repr)
def test_an_answer_of_blanks_is_wrong(match: Any, answer: str) -> None:
    result = result_of(match, "5", answer)
    assert result["answer_match"] == 0
    assert result["answer_match_reason"] == f"{match}: the answer is blank"
    assert result["failure"] == "no_answer"
