from __future__ import annotations

from typing import Any

from graphrag_eval_async import load_reference
from graphrag_eval_async.monitor.summary import Reading
from tests.cli.support import REFERENCE
from tests.monitor.summaries import failed, result, summary_of
from tests.support.cases import each

RIGHT = [result("q")]
HALF = "steps_score is 0.5, expected >= 1"
JUDGED: dict[str, Any] = {"answer_f1": 0.9, "reference_answer": "a", "actual_answer": "a"}
TIMEOUT: dict[str, Any] = {
    "answer_eval_error": "timeout: 60 s",
    "reference_answer": "a",
    "actual_answer": "a",
}
SILENT: dict[str, Any] = {"reference_answer": "a"}


@each(
    ("results", "pass_if", "expected"),
    [
        (RIGHT, [], ("passed", "", "")),
        ([result("q"), result("q", 0.0)], [], ("failed", "wrong_order", HALF)),
        ([result("q", 0.5)], ["steps_score >= 0.5"], ("passed", "", "")),
        (
            [result("q", 0.5)],
            ["other:steps_score >= 1"],
            ("skipped", "no_score", "no score decides whether it passed"),
        ),
        (
            [result("q"), failed("q", "a\nb\x1b")],
            [],
            ("error", "response_error", "a b\\x1b (1 of 2 samples)"),
        ),
        # An answer counts if the run was judged.
        ([result("q", **JUDGED, failure="none")], [], ("passed", "", "")),
        (
            [result("q", **JUDGED | {"answer_f1": 0.4})],
            [],
            ("failed", "score", "answer_f1 is 0.4, expected >= 0.5"),
        ),
        ([result("q", **TIMEOUT)], [], ("error", "timeout", "answer_f1 has no value: timeout")),
        ([result("p", **JUDGED), result("q", **SILENT)], [], ("failed", "no_answer", "no answer")),
        ([result("q", **SILENT)], [], ("passed", "", "")),
        ([result("q", **SILENT)], ["answer_f1 >= 0.5"], ("failed", "no_answer", "no answer")),
        ([result("q", None)], [], ("skipped", "no_score", "no score decides whether it passed")),
        ([result("q", pending=["answer_f1"])], [], ("skipped", "pending", "pending")),
    ],
)
def test_outcomes(results: list[dict[str, Any]], pass_if: list[str], expected: tuple[str, str, str]) -> None:
    [question] = [each for each in summary_of(results, pass_if=pass_if).questions if each.question_id == "q"]
    assert question[2:5] == expected


def test_questions_of_the_reference_set_without_a_response() -> None:
    reading = Reading(reference=load_reference(REFERENCE))
    reading.add(result("q2", template_id="colours"))
    found = {question.question_id: question.kind for question in reading.summary().questions}
    assert found == {"q1": "no_response", "q2": "", "q3": "no_response"}
