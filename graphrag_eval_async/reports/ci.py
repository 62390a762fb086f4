"""A summary for continuous integration: JUnit XML, shown as tests, and annotations of GitHub
Actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

from graphrag_eval_async.helpers.text import counts, one_line
from graphrag_eval_async.reports.comparison_words import missing, regressions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.catalogue.conditions import CheckedGate
    from graphrag_eval_async.reports.questions import Question
    from graphrag_eval_async.reports.summary import Summary

ELEMENTS = {"failed": "failure", "error": "error", "skipped": "skipped"}
"""By outcome of a question, the element within its test case that says that it did not pass."""

MAX_ANNOTATIONS = 10
"""Most annotations of each kind: GitHub shows no more for a step."""

ESCAPES_IN_MESSAGES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
ESCAPES_IN_PROPERTIES = ESCAPES_IN_MESSAGES | str.maketrans({":": "%3A", ",": "%2C"})


def render_junit(summary: Summary) -> str:
    """Return XML with a test case for each question, and a second suite with one for each gate.

    The class of a question's test case is its template, and its time the seconds of all its
    samples. It has a `failure` if it failed, an `error` if the agent or a judge failed, and
    `skipped` if it was not evaluated. Characters that XML does not allow, control characters and
    the like, are replaced by escapes.
    """
    question_cases = [_question_case(question, summary) for question in summary.questions]
    suites = [_suite("questions", question_cases)]
    if summary.gates:
        suites.append(_suite("gates", [_gate_case(gate) for gate in summary.gates]))

    root = ET.Element("testsuites", name="graphrag-eval-async")
    for attribute in ("tests", "failures", "errors"):
        total = sum(int(suite.get(attribute, 0)) for suite in suites)
        root.set(attribute, str(total))
    root.set("time", suites[0].get("time", ""))
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(name: str, cases: Sequence[ET.Element]) -> ET.Element:
    """Return the element of a suite with its test cases, their counts and their total time."""
    suite = ET.Element("testsuite", name=name, tests=str(len(cases)))
    for attribute, element in (
        ("failures", "failure"),
        ("errors", "error"),
        ("skipped", "skipped"),
    ):
        count = sum(case.find(element) is not None for case in cases)
        suite.set(attribute, str(count))
    suite.set("time", f"{sum(float(case.get('time', 0)) for case in cases):.3f}")
    suite.extend(cases)
    return suite


def _question_case(question: Question, summary: Summary) -> ET.Element:
    """Return the test case of a question."""
    case = _case(question.template_id, question.question_id, seconds=question.seconds)
    element = ELEMENTS.get(question.outcome)
    if element is not None:
        text = _with_place(
            f"{question.kind}: {question.explanation}", summary, question.question_id
        )
        _add_outcome(case, element, kind=question.kind, message=question.explanation, text=text)
    return case


def _gate_case(gate: CheckedGate) -> ET.Element:
    """Return the test case of a gate."""
    case = _case("gates", gate.name, seconds=0.0)
    if not gate.holds:
        text = gate.explanation
        _add_outcome(case, "failure", kind="gate", message=text, text=text)
    return case


def _case(class_name: str, name: str, *, seconds: float) -> ET.Element:
    return ET.Element(
        "testcase",
        classname=one_line(class_name),
        name=one_line(name),
        time=f"{seconds:.3f}",
    )


def _add_outcome(case: ET.Element, element: str, *, kind: str, message: str, text: str) -> None:
    """Add the element to a test case that says why it did not pass.

    Args:
        case: the test case.
        element: name of the element. If it is "skipped", it has a message only.
        kind: the kind of failure or error.
        message: why the case did not pass, in words.
        text: the same with its kind and its place.
    """
    outcome = ET.SubElement(case, element, message=one_line(message))
    if element != "skipped":
        outcome.set("type", one_line(kind))
        outcome.text = one_line(text)


class Annotation(NamedTuple):
    """A message that GitHub shows with a run.

    If it is about a question, GitHub shows it at the question in the reference set.
    """

    title: str
    message: str
    question_id: str | None = None


def render_annotations(summary: Summary) -> Iterator[str]:
    """Yield at most `MAX_ANNOTATIONS` commands of each kind, the last of which counts further ones.

    Errors are failed gates. Warnings are rejected lines, regressions, and errors among the worst
    questions; notices are the others of these. Each question has one annotation.
    """
    gates = [Annotation("Gate failed", gate.explanation) for gate in summary.failed_gates]
    yield from _commands("error", gates, summary)

    warnings = [*_run_warnings(summary), *_regressed_questions(summary)]
    annotated = {annotation.question_id for annotation in warnings}
    notices = []
    for question in summary.worst:
        if question.question_id in annotated:
            continue
        annotation = Annotation(
            title=f"{question.question_id}: {question.kind}",
            message=_with_place(question.explanation, summary, question.question_id),
            question_id=question.question_id,
        )
        if question.outcome == "error":
            warnings.append(annotation)
        else:
            notices.append(annotation)
    yield from _commands("warning", warnings, summary)
    yield from _commands("notice", notices, summary)


def has_annotated_questions(summary: Summary) -> bool:
    """Return whether an annotation is about a question."""
    return bool(summary.worst) or any(True for _ in _regressed_questions(summary))


def _run_warnings(summary: Summary) -> Iterator[Annotation]:
    """Yield what is doubtful about a run, or got worse in the comparison with its baseline."""
    if summary.rejected:
        yield Annotation("Rejected lines", counts(summary.rejected))
    if summary.merged_systems is not None:
        yield Annotation("Several systems", summary.merged_systems)
    if summary.misnamed is not None:
        yield Annotation("Names of steps", summary.misnamed)
    if summary.comparison is None:
        return
    missing_questions = missing(summary.comparison)
    if missing_questions:
        yield Annotation("Missing questions", missing_questions)
    explanations = {gate.explanation for gate in summary.failed_gates}
    for reason in regressions(summary.comparison):
        # The annotation of the failed gate says the same.
        if reason not in explanations:
            yield Annotation("Regression", reason)


def _regressed_questions(summary: Summary) -> Iterator[Annotation]:
    """Yield an annotation for each question that was right in the baseline and is not."""
    if summary.comparison is None:
        return
    reason_by_question = {
        question.question_id: question.explanation for question in summary.questions
    }
    for question_id in summary.comparison["regressions"]:
        reason = reason_by_question.get(question_id) or "no longer"
        message = f"{question_id} was right in the baseline: {reason}"
        yield Annotation("Regression", _with_place(message, summary, question_id), question_id)


def _with_place(text: str, summary: Summary, question_id: str) -> str:
    """Return a text with the place of the question's result, if that is known."""
    place = summary.places.get(question_id)
    if place is None:
        return text
    return f"{text} ({place})"


def _commands(kind: str, annotations: Sequence[Annotation], summary: Summary) -> Iterator[str]:
    """Yield the commands that make GitHub show annotations of a kind."""
    shown = [*annotations]
    if len(annotations) > MAX_ANNOTATIONS:
        hidden = len(annotations) - MAX_ANNOTATIONS + 1
        shown = [
            *annotations[: MAX_ANNOTATIONS - 1],
            Annotation(f"And {hidden} more", "The page of the report lists them."),
        ]
    for annotation in shown:
        properties = {"title": one_line(annotation.title)}
        line = summary.reference_lines.get(annotation.question_id or "")
        if line is not None:
            properties = {"file": one_line(summary.reference_file), "line": str(line)} | properties
        listed = ",".join(
            f"{name}={value.translate(ESCAPES_IN_PROPERTIES)}" for name, value in properties.items()
        )
        message = one_line(annotation.message).translate(ESCAPES_IN_MESSAGES)
        yield f"::{kind} {listed}::{message}"
