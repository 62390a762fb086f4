"""A summary as JUnit XML, which continuous integration shows as tests."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from graphrag_eval_async.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphrag_eval_async.monitor.questions import Question
    from graphrag_eval_async.monitor.summary import CheckedGate, Summary

KINDS = {"failed": "failure", "error": "error", "skipped": "skipped"}
"""The element within a test case that says that it did not pass, by outcome."""

COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}
"""The attribute of a test suite that counts an element."""


def render_junit(summary: Summary) -> str:
    """Return XML with a test case for each question, and a second suite with one for each gate.

    The class of a question's test case is its template, and its time the seconds of all its samples. It has a
    `failure` if it failed, an `error` if the agent or a judge failed, and `skipped` if it was not evaluated.
    Characters that XML does not allow, control characters and the like, are replaced by escapes.
    """
    suites = [_suite("questions", [_question(each, summary.places) for each in summary.questions])]
    if summary.gates:
        suites.append(_suite("gates", map(_gate, summary.gates)))
    root = ET.Element("testsuites", name="graphrag-eval-async")
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in suites)))
    root.set("time", _time(sum(float(suite.get("time", 0)) for suite in suites)))
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(name: str, cases: Iterable[ET.Element]) -> ET.Element:
    cases = [*cases]
    suite = ET.Element("testsuite", name=name, tests=str(len(cases)))
    for attribute, element in COUNTED.items():
        suite.set(attribute, str(sum(case.find(element) is not None for case in cases)))
    suite.set("time", _time(sum(float(case.get("time", 0)) for case in cases)))
    suite.extend(cases)
    return suite


def _case(classname: str, name: str, seconds: float = 0.0) -> ET.Element:
    return ET.Element("testcase", classname=one_line(classname), name=one_line(name), time=_time(seconds))


def _time(seconds: float) -> str:
    return f"{seconds:.3f}"


def _question(question: Question, places: Mapping[str, str]) -> ET.Element:
    case = _case(question.template_id, question.question_id, question.seconds)
    if question.outcome != "passed":
        found = ET.SubElement(case, KINDS[question.outcome], message=one_line(question.told))
        if question.outcome != "skipped":
            found.set("type", one_line(question.kind))
            place = places.get(question.question_id)
            found.text = one_line(f"{question.kind}: {question.told}{f' ({place})' if place else ''}")
    return case


def _gate(gate: CheckedGate) -> ET.Element:
    case = _case("gates", gate.name)
    if not gate.holds:
        failure = ET.SubElement(case, "failure", message=one_line(gate.told), type="gate")
        failure.text = one_line(gate.told)
    return case
