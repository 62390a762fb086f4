"""What every trace becomes, whatever its format."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest

from graphrag_eval_async import load_reference
from graphrag_eval_async.traces.plain import as_json
from graphrag_eval_async.traces.trace import QuestionTexts, Trace, to_response
from tests.support.data import question, template

TEXTS = ("Which feeders leave Harbour?", "Which feeders leave Lindau?", "Twice", "Twice")
SET = template(
    *(question(question_id=f"q{n}", question_text=text) for n, text in enumerate(TEXTS, 1))
)
NEARLY = "the question was found by its text, ignoring case, blanks and punctuation"


@pytest.mark.parametrize(
    ("text", "found", "problem"),
    [
        pytest.param("which feeders  leave harbour", "q1", NEARLY, id="case"),
        pytest.param("Which FEEDERS leave 'Harbour'?!", "q1", NEARLY, id="punctuation"),
        pytest.param(
            "Which feeders leave Harbor?",
            None,
            "no question has the text 'Which feeders leave Harbor?'",
            id="spelling",
        ),
        pytest.param(
            "Twice",
            None,
            "2 questions of the reference set have the text 'Twice': 'q3', 'q4'",
            id="two questions",
        ),
        pytest.param("?", None, "no question has the text '?'", id="only punctuation"),
        pytest.param(None, None, "no question id, and no text of a question", id="nothing"),
    ],
)
def test_a_question_is_found_by_its_words_or_not_guessed(
    text: str | None, found: Any, problem: str
) -> None:
    trace = Trace("chat")
    if text is not None:
        trace.start_turn(text)
    response = to_response(trace, questions=QuestionTexts(load_reference(SET)))
    assert response.get("question_id") == found
    assert response["trace_problems"] == [problem]
    assert found or response.get("question") == text


def test_objects_of_frameworks_as_json() -> None:
    class Model:
        def model_dump(self) -> dict[str, Any]:
            return {"text": "x", "parts": (1, {2})}

    @dataclass
    class Data:
        model: Any

    named = namedtuple("named", "a b")
    value = {"m": Data(Model()), "e": ValueError("no"), "n": named(1, None), "t": int}
    assert as_json(value) == {
        "m": {"model": {"text": "x", "parts": [1, [2]], "class": "Model"}},
        "e": {"type": "ValueError", "message": "no"},
        "n": [1, None],
        "t": "<class 'int'>",
    }
