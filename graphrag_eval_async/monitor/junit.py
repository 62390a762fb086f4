"""A summary as JUnit XML, which continuous integration shows as tests."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from graphrag_eval_async.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.monitor.summary import Summary

KINDS = {"failed": "failure", "error": "error", "skipped": "skipped"}
"""The element within a test case that says that it did not pass, by outcome."""


def render_junit(summary: Summary) -> str:
    """Return XML with a test case for each question, and a second suite with one for each gate.

    The class of a question's test case is its template, and its time the seconds of all its samples. It has a
    `failure` if it failed, an `error` if the agent or a judge failed, and `skipped` if it was not evaluated.
    Characters that XML does not allow, control characters and the like, are replaced by escapes.
    """
    questions = []
    for each in summary.questions:
        place = summary.places.get(each.question_id)
        text = f"{each.kind}: {each.told}{f' ({place})' if place else ''}"
        case = _case(each.template_id, each.question_id, each.seconds)
        questions.append(_with(case, KINDS.get(each.outcome, ""), each.kind, each.told, text))
    suites = [_suite("questions", questions)]
    if summary.gates:
        gates = [(_case("gates", gate.name), "" if gate.holds else "failure", gate) for gate in summary.gates]
        suites.append(_suite("gates", [_with(case, kind, "gate", g.told, g.told) for case, kind, g in gates]))
    root = ET.Element("testsuites", name="graphrag-eval-async")
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in suites)))
    root.set("time", suites[0].get("time", ""))
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(name: str, cases: Sequence[ET.Element]) -> ET.Element:
    suite = ET.Element("testsuite", name=name, tests=str(len(cases)))
    for attribute, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(element) is not None for case in cases)))
    suite.set("time", f"{sum(float(case.get('time', 0)) for case in cases):.3f}")
    suite.extend(cases)
    return suite


def _case(classname: str, name: str, seconds: float = 0.0) -> ET.Element:
    time = f"{seconds:.3f}"
    return ET.Element("testcase", classname=one_line(classname), name=one_line(name), time=time)


def _with(case: ET.Element, element: str, kind: str, told: str, text: str) -> ET.Element:
    """A test case with an element that says why it did not pass, if it did not."""
    if element:
        found = ET.SubElement(case, element, message=one_line(told))
        if element != "skipped":
            found.set("type", one_line(kind))
            found.text = one_line(text)
    return case
