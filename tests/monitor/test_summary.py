"""What a summary says of each question, and how JUnit XML and annotations of GitHub say it."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import load_reference
from graphrag_eval_async.monitor.github import render_annotations
from graphrag_eval_async.monitor.junit import render_junit
from graphrag_eval_async.monitor.summary import CheckedGate, Reading, Summary
from graphrag_eval_async.text import one_line
from tests.cli.support import REFERENCE
from tests.monitor.summaries import failed, result, summary_of
from tests.support.cases import each

RIGHT = [result("q")]
HALF = "steps_score is 0.5, expected >= 1"
NOTHING = ("skipped", "no_score", "no score decides whether it passed")
UNANSWERED = ("failed", "no_answer", "no answer")
SILENT: dict[str, Any] = {"reference_answer": "a"}
ANSWERED: dict[str, Any] = {"reference_answer": "a", "actual_answer": "a"}


@each(
    ("results", "pass_if", "expected"),
    [
        (RIGHT, [], ("passed", "", "")),
        ([result("q"), result("q", 0.0)], [], ("failed", "wrong_order", HALF)),
        ([result("q", 0.5)], ["steps_score >= 0.5"], ("passed", "", "")),
        ([result("q", 0.5)], ["other:steps_score >= 1"], NOTHING),
        (
            [result("q"), failed("q", "a\nb\x1b")],
            [],
            ("error", "response_error", "a b\\x1b (1 of 2 samples)"),
        ),
        # An answer counts if the run was judged.
        ([result("q", **ANSWERED, answer_f1=0.9, failure="none")], [], ("passed", "", "")),
        (
            [result("q", **ANSWERED, answer_f1=0.4)],
            [],
            ("failed", "score", "answer_f1 is 0.4, expected >= 0.5"),
        ),
        (
            [result("q", **ANSWERED, answer_eval_error="timeout: 60 s")],
            [],
            ("error", "timeout", "answer_f1 has no value: timeout"),
        ),
        ([result("p", **ANSWERED, answer_f1=0.9), result("q", **SILENT)], [], UNANSWERED),
        ([result("q", **SILENT)], [], ("passed", "", "")),
        ([result("q", **SILENT)], ["answer_f1 >= 0.5"], UNANSWERED),
        ([result("q", None)], [], NOTHING),
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


class Command(NamedTuple):
    kind: str
    properties: dict[str, str]
    message: str


ESCAPES = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}


def decode(text: str, escapes: list[str]) -> str:
    for escape in escapes:
        text = text.replace(escape, ESCAPES[escape])
    return text


def commands(summary: Summary) -> list[Command]:
    """The annotations, read as the runner of GitHub Actions does."""
    read = []
    for line in render_annotations(summary):
        found = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
        assert found, line
        pairs = [each.split("=", 1) for each in found[2].split(",")]
        properties = {key: decode(value, [*ESCAPES]) for key, value in pairs}
        read.append(Command(found[1], properties, decode(found[3], ["%0D", "%0A", "%25"])))
    return read


def test_annotations_of_gates_regressions_and_the_worst_questions() -> None:
    results = [result("a"), result("b", 0.5), failed("c", "down")]
    told = "steps_score >= 1: 0.75"
    gates = [CheckedGate("steps_score >= 1", False, told), CheckedGate("held", True, "held")]
    summary = summary_of(
        results,
        [result(name) for name in "ab"],
        gates=gates,
        places={"b": "r.jsonl:2"},
        rejected={"invalid_json": 2},
    )
    assert commands(summary) == [
        ("error", {"title": "Gate failed"}, told),
        ("warning", {"title": "Rejected lines"}, "2 invalid_json"),
        ("warning", {"title": "Regression"}, f"b was right in the baseline: {HALF} (r.jsonl:2)"),
        ("warning", {"title": "c: response_error"}, "down"),
        ("notice", {"title": "b: wrong_order"}, f"{HALF} (r.jsonl:2)"),
    ]


def test_no_more_annotations_than_github_shows() -> None:
    gates = [CheckedGate(f"g{i}", False, f"g{i} failed") for i in range(12)]
    results = [result(f"q{i}", 0.0) for i in range(30)]
    summary = summary_of(results, [result(f"q{i}") for i in range(30)], gates=gates, listed=11)
    found = commands(summary)
    assert Counter(command.kind for command in found) == {"error": 10, "warning": 10, "notice": 10}
    last = {command.kind: command.properties["title"] for command in found}
    assert last == {"error": "And 3 more", "warning": "And 23 more", "notice": "And 2 more"}


ALLOWED = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"testcase"}),
    "testcase": ({"classname", "name", "time"}, {"failure", "error", "skipped"}),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message"}, set()),
}
"""The attributes and children of elements that are written: a part of the schema of Jenkins."""


def parsed(summary: Summary) -> ET.Element:
    """The XML, which fits the schema and whose counts are right."""
    root = ET.fromstring(render_junit(summary).encode())  # noqa: S314  (it is our own)
    for element in root.iter():
        attributes, children = ALLOWED[element.tag]
        assert {*element.keys()} == attributes
        assert {child.tag for child in element} <= children
        if "tests" in attributes:
            found = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
            for attribute in found.keys() & attributes:
                assert int(element.get(attribute, "")) == len([*element.iter(found[attribute])])
            times = [float(case.get("time", "")) for case in element.iter("testcase")]
            assert abs(float(element.get("time", "")) - sum(times)) < 1e-9
    return root


def test_questions_and_gates_are_test_cases() -> None:
    results = [result("a", elapsed_sec=1.25), result("b", 0.5), failed("c", "down"), result("d", None)]
    gates = [CheckedGate("steps_score >= 1", False, "steps_score >= 1: 0.75"), CheckedGate("g", True, "held")]
    root = parsed(summary_of(results, gates=gates, places={"b": "r.jsonl:2"}))
    questions, checked = root
    assert [suite.get("name") for suite in root] == ["questions", "gates"]
    cases = [(case.get("classname"), case.get("name")) for case in questions]
    assert cases == [("t", name) for name in "abcd"]
    told = [
        (each.tag, each.get("type"), each.get("message"), each.text) for case in questions for each in case
    ]
    assert told == [
        ("failure", "wrong_order", HALF, f"wrong_order: {HALF} (r.jsonl:2)"),
        ("error", "response_error", "down", "response_error: down"),
        ("skipped", None, "no score decides whether it passed", None),
    ]
    assert questions.get("time") == questions[0].get("time") == "1.250"
    assert [case.get("name") for case in checked] == ["steps_score >= 1", "g"]
    [failure] = checked.iter("failure")
    assert failure.get("message") == "steps_score >= 1: 0.75"


@given(
    st.text(max_size=20)
    | st.text(st.sampled_from("%:,\r\n=;a"), max_size=20)
    | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Cn"]), max_size=5)
)
def test_every_text_is_one_command_and_xml(text: str) -> None:
    wrong = result(f"q{text}", 0.0, template_id=f"t{text}", failure=f"f{text}")
    gates = [CheckedGate("g", False, text)]
    summary = summary_of([wrong, failed(f"e{text}", text)], gates=gates, places={f"q{text}": text})
    root = parsed(summary)
    case, error = root[0]
    assert (case.get("classname"), case.get("name")) == (one_line(f"t{text}"), one_line(f"q{text}"))
    assert case[0].get("type") == one_line(f"f{text}")
    shown = one_line(text) or "no message"
    assert error[0].get("message") == shown
    [gate, warning, _] = commands(summary)
    assert gate.message == one_line(text)
    assert warning == ("warning", {"title": one_line(f"e{text}: response_error")}, shown)
