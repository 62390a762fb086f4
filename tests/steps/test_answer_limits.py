"""Hostile answers cost CPU time that grows with their length only."""

from __future__ import annotations

import pytest

from graphrag_eval_async.errors import ReferenceDataError
from graphrag_eval_async.steps.answers import MAX_CHARACTERS
from tests.steps.answer_support import result_of
from tests.support.cpu import affordable

REPEATED = {
    "opening tags": "<think>",
    "closing tags": "</think>",
    "unfinished tags": "<think ",
    "folded blocks": "<details reasoning ",
    "fences": "```think\n",
    "JSON": '{"reasoning": ',
    "labels of reasoning": "Thought:\nAnswer:\n",
    "boxes": r"\boxed{",
    "fractions": r"\frac{1",
    "bold": "**1",
    "labels": "answer: .",
    "labels on lines": "Answer:1\n",
    "conclusions": "So 1. ",
    "totals": "1 so ",
    "equations": "1+1=",
    "sums": "1+",
    "corrections": "thought but ",
    "negations": "not 1 ",
    "alternatives": "1 or ",
    "digits": "9",
    "groups": "1,00",
    "fraction bars": "1/",
    "Chinese numerals": "一万",
    "parts of sums": "1万1",
    "Chinese fractions": "百分之",
    "number words": "two hundred and ",
    "powers": "two million ",
    "powers only": "million ",
    "dozens": "a dozen ",
    "links": "[a](",
    "HTML items": "<li a",
    "table rules": "|--|\n",
    "separators": ", and ",
    "doubtful separators": "a / b. ",
    "particles": "서울과 ",
    "entities": "&#1",
    "spaces": " ",
    "lines": "\n",
    "points": ".",
    "emphasis": "*a ",
    "zero-width spaces": "\u200b",
    "quotes": '"',
}


@pytest.mark.parametrize("match", ["number", "list", "contains", "exact"])
@pytest.mark.parametrize("repeated", REPEATED.values(), ids=REPEATED)
def test_hostile_answers_take_linear_time(match: str, repeated: str) -> None:
    answer = f"Thought: {repeated * (MAX_CHARACTERS // len(repeated))}"
    reference = "7" if match == "number" else "a, b"
    with affordable(len(answer)):
        assert 0 <= result_of(match, reference, answer)["answer_match"] <= 1


@pytest.mark.parametrize(
    "repeated",
    ["<think>", "</think>", "<think>a</think>", "<think ", "[THINK]", "<answer>", "<|end"],
)
def test_hostile_reasoning_takes_linear_time(repeated: str) -> None:
    answer = repeated * (2**20 // len(repeated)) + "<think>"
    with affordable(len(answer)):
        assert result_of("exact", "a", answer)["answer_match"] == 0


def test_numbers_of_any_length_are_read() -> None:
    answer = "two " + "million " * 1000 + "9" * 5000 + " 1/" + "9" * 5000 + " " + "千" * 5000
    assert result_of("number", "7", answer)["answer_match"] == 0


@pytest.mark.parametrize("match", ["number", "list"])
@pytest.mark.parametrize("repeated", ["1 ", "(", "a-", "| a "])
def test_a_reference_answer_that_is_longer_than_answers_is_refused_at_once(
    match: str, repeated: str
) -> None:
    reference = repeated * (2**20 // len(repeated))
    with (
        affordable(MAX_CHARACTERS),
        pytest.raises(ReferenceDataError, match="has more than 100,000 characters"),
    ):
        result_of(match, reference, "7")
