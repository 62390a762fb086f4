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

ELEMENT_BY_OUTCOME = {"failed": "failure", "error": "error", "skipped": "skipped"}
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
    # Only questions take time, and gates none.
    suite_of_questions = suites[0]
    root.set("time", suite_of_questions.get("time", ""))
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(name: str, cases: Sequence[ET.Element]) -> ET.Element:
    """Return a suite with its test cases, their counts by outcome, and their total time.

    Args:
        name: the name of the suite.
        cases: its test cases. One that did not pass has an element within that says so.
    """
    suite = ET.Element("testsuite", name=name, tests=str(len(cases)))
    attribute_by_element = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    for element, attribute in attribute_by_element.items():
        count = sum(case.find(element) is not None for case in cases)
        suite.set(attribute, str(count))
    seconds = sum(float(case.get("time", 0)) for case in cases)
    suite.set("time", f"{seconds:.3f}")
    suite.extend(cases)
    return suite


def _question_case(question: Question, summary: Summary) -> ET.Element:
    """Return the test case of a question, with the reason if it did not pass."""
    case = _case(question.template_id, question.question_id, seconds=question.seconds)
    element = ELEMENT_BY_OUTCOME.get(question.outcome)
    if element is None:
        # The question passed.
        return case
    why = f"{question.kind}: {question.explanation}"
    text = _with_place(why, summary, question.question_id)
    _add_outcome(case, element, kind=question.kind, message=question.explanation, text=text)
    return case


def _gate_case(gate: CheckedGate) -> ET.Element:
    """Return the test case of a gate, with the reason if it does not hold."""
    case = _case("gates", gate.name, seconds=0.0)
    if not gate.holds:
        text = gate.explanation
        _add_outcome(case, "failure", kind="gate", message=text, text=text)
    return case


def _case(class_name: str, name: str, *, seconds: float) -> ET.Element:
    """Return a test case, which passes unless an outcome is added to it."""
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
    """Yield the commands that make GitHub annotate a run: errors, then warnings, then notices.

    - Errors are failed gates.
    - Warnings are rejected lines, regressions, and errors among the worst questions.
    - Notices are the other worst questions.

    A question has one annotation at most. Of each kind, there are at most `MAX_ANNOTATIONS`; if
    there would be more, the last one says how many are left out.
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
    regressed = list(_regressed_questions(summary))
    return bool(summary.worst or regressed)


def _run_warnings(summary: Summary) -> Iterator[Annotation]:
    """Yield annotations of what is doubtful about a run, and of what regressed as a whole.

    They are about the run, not about single questions.
    """
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
        # A question that passes the conditions of this run has no reason.
        reason = reason_by_question.get(question_id) or "no longer"
        message = f"{question_id} was right in the baseline: {reason}"
        yield Annotation("Regression", _with_place(message, summary, question_id), question_id)


def _with_place(text: str, summary: Summary, question_id: str) -> str:
    """Return a text, followed by the place of the question's result if the place is known."""
    place = summary.places.get(question_id)
    if place is None:
        return text
    return f"{text} ({place})"


def _commands(kind: str, annotations: Sequence[Annotation], summary: Summary) -> Iterator[str]:
    """Yield the commands that make GitHub show annotations.

    Args:
        kind: "error", "warning" or "notice".
        annotations: the annotations. If there are more than `MAX_ANNOTATIONS`, the last command
            says how many are left out.
        summary: the summary of the run, which knows the lines of questions in the reference set.
    """
    shown = [*annotations]
    if len(annotations) > MAX_ANNOTATIONS:
        shown = shown[: MAX_ANNOTATIONS - 1]
        hidden = len(annotations) - len(shown)
        shown.append(Annotation(f"And {hidden} more", "The page of the report lists them."))
    for annotation in shown:
        yield _command(kind, annotation, summary)


def _command(kind: str, annotation: Annotation, summary: Summary) -> str:
    """Return the command that makes GitHub show an annotation, such as "::error title=T::text"."""
    properties = {}
    line = None
    if annotation.question_id is not None:
        line = summary.reference_lines.get(annotation.question_id)
    if line is not None:
        properties["file"] = one_line(summary.reference_file)
        properties["line"] = str(line)
    properties["title"] = one_line(annotation.title)
    listed_properties = ",".join(
        f"{name}={value.translate(ESCAPES_IN_PROPERTIES)}" for name, value in properties.items()
    )
    message = one_line(annotation.message).translate(ESCAPES_IN_MESSAGES)
    return f"::{kind} {listed_properties}::{message}"
