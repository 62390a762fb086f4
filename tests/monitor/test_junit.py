from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.monitor.junit import render_junit
from graphrag_eval_async.monitor.summary import CheckedGate, Summary
from graphrag_eval_async.text import one_line
from tests.monitor.summaries import failed, result, summary_of

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
    assert [(case.get("classname"), case.get("name")) for case in questions] == [
        ("t", name) for name in "abcd"
    ]
    told = [
        (each.tag, each.get("type"), each.get("message"), each.text) for case in questions for each in case
    ]
    half = "steps_score is 0.5, expected >= 1"
    assert told == [
        ("failure", "wrong_order", half, f"wrong_order: {half} (r.jsonl:2)"),
        ("error", "response_error", "down", "response_error: down"),
        ("skipped", None, "no score decides whether it passed", None),
    ]
    assert questions.get("time") == questions[0].get("time") == "1.250"
    assert [case.get("name") for case in checked] == ["steps_score >= 1", "g"]
    [failure] = checked.iter("failure")
    assert failure.get("message") == "steps_score >= 1: 0.75"


@given(st.text(max_size=20) | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Cn"]), max_size=5))
def test_every_text_is_xml(text: str) -> None:
    results = [result(f"q{text}", 0.0, template_id=f"t{text}", failure=f"f{text}"), failed("e", text)]
    root = parsed(summary_of(results, gates=[CheckedGate(text, False, text)], places={"e": text}))
    case, error = root[0]
    assert (case.get("classname"), case.get("name")) == (one_line(f"t{text}"), one_line(f"q{text}"))
    assert case[0].get("type") == one_line(f"f{text}")
    assert error[0].get("message") == (one_line(text) or "no message")
