"""A summary for continuous integration: JUnit XML, shown as tests, and annotations of GitHub
Actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from graphrag_eval_async.reports.comparison_words import missing, regressions
from graphrag_eval_async.text import counts, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.reports.summary import Summary

KINDS = {"failed": "failure", "error": "error", "skipped": "skipped"}
"""The element within a test case that says that it did not pass, by outcome."""


def render_junit(summary: Summary) -> str:
    """Return XML with a test case for each question, and a second suite with one for each gate.

    The class of a question's test case is its template, and its time the seconds of all its
    samples. It has a `failure` if it failed, an `error` if the agent or a judge failed, and
    `skipped` if it was not evaluated. Characters that XML does not allow, control characters and
    the like, are replaced by escapes.
    """
    questions = []
    for each in summary.questions:
        place = summary.places.get(each.question_id)
        text = f"{each.kind}: {each.told}{f' ({place})' if place else ''}"
        case = _case(each.template_id, each.question_id, each.seconds)
        questions.append(_with(case, KINDS.get(each.outcome, ""), each.kind, each.told, text))
    suites = [_suite("questions", questions)]
    if summary.gates:
        gates = [
            (_case("gates", gate.name), "" if gate.holds else "failure", gate)
            for gate in summary.gates
        ]
        suites.append(
            _suite(
                "gates",
                [
                    _with(case, kind, "gate", g.explanation, g.explanation)
                    for case, kind, g in gates
                ],
            )
        )
    root = ET.Element("testsuites", name="graphrag-eval-async")
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in suites)))
    root.set("time", suites[0].get("time", ""))
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(name: str, cases: Sequence[ET.Element]) -> ET.Element:
    suite = ET.Element("testsuite", name=name, tests=str(len(cases)))
    for attribute, element in (
        ("failures", "failure"),
        ("errors", "error"),
        ("skipped", "skipped"),
    ):
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


MAX_ANNOTATIONS = 10  # Of each kind; GitHub shows no more for a step.

IN_MESSAGES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
IN_PROPERTIES = IN_MESSAGES | str.maketrans({":": "%3A", ",": "%2C"})


def render_annotations(summary: Summary) -> Iterator[str]:
    """Yield at most `MAX_ANNOTATIONS` commands of each kind, the last of which counts further ones.

    Errors are failed gates. Warnings are rejected lines, regressions, and errors among the worst
    questions; notices are the others of these.
    """
    yield from _commands(
        "error", [("Gate failed", gate.explanation) for gate in summary.failed_gates]
    )
    yield from _commands("warning", [*_warnings(summary), *_of_worst(summary, errors=True)])
    yield from _commands("notice", [*_of_worst(summary, errors=False)])


def _of_worst(summary: Summary, *, errors: bool) -> Iterator[tuple[str, str]]:
    for question in summary.worst:
        if (question.outcome == "error") == errors:
            title = f"{question.question_id}: {question.kind}"
            yield title, _with_place(question.told, summary, question.question_id)


def _warnings(summary: Summary) -> Iterator[tuple[str, str]]:
    if summary.rejected:
        yield "Rejected lines", counts(summary.rejected)
    if summary.misnamed is not None:
        yield "Names of steps", summary.misnamed
    if summary.comparison is None:
        return
    if lacking := missing(summary.comparison):
        yield "Missing questions", lacking
    failed = {gate.explanation for gate in summary.failed_gates}
    for reason in regressions(summary.comparison):
        if reason not in failed:
            yield "Regression", reason
    why = {question.question_id: question.told for question in summary.questions}
    for question_id in summary.comparison["regressions"]:
        told = f"{question_id} was right in the baseline: {why.get(question_id) or 'no longer'}"
        yield "Regression", _with_place(told, summary, question_id)


def _with_place(told: str, summary: Summary, question_id: str) -> str:
    place = summary.places.get(question_id)
    return told if place is None else f"{told} ({place})"


def _commands(kind: str, found: Sequence[tuple[str, str]]) -> Iterator[str]:
    shown = [*found[:MAX_ANNOTATIONS]]
    if len(found) > MAX_ANNOTATIONS:
        shown[-1] = (
            f"And {len(found) - MAX_ANNOTATIONS + 1} more",
            "The page of the report lists them.",
        )
    for title, message in shown:
        title, message = (
            one_line(title).translate(IN_PROPERTIES),
            one_line(message).translate(IN_MESSAGES),
        )
        yield f"::{kind} title={title}::{message}"
