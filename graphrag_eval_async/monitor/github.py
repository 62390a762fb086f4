"""A summary as annotations of GitHub Actions: commands on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrag_eval_async.monitor.wording import missing, regressions
from graphrag_eval_async.text import counts, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.monitor.summary import Summary

MAX_ANNOTATIONS = 10  # Of each kind; GitHub shows no more for a step.

IN_MESSAGES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
IN_PROPERTIES = IN_MESSAGES | str.maketrans({":": "%3A", ",": "%2C"})


def render_annotations(summary: Summary) -> Iterator[str]:
    """Yield at most `MAX_ANNOTATIONS` commands of each kind, the last of which counts further ones.

    Errors are failed gates. Warnings are rejected lines, regressions, and errors among the worst questions;
    notices are the others of these.
    """
    yield from _commands("error", [("Gate failed", gate.told) for gate in summary.failed_gates])
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
    failed = {gate.told for gate in summary.failed_gates}
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
        shown[-1] = (f"And {len(found) - MAX_ANNOTATIONS + 1} more", "The page of the report lists them.")
    for title, message in shown:
        title, message = one_line(title).translate(IN_PROPERTIES), one_line(message).translate(IN_MESSAGES)
        yield f"::{kind} title={title}::{message}"
