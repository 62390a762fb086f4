"""``report``: finished runs as a page for a pull request, as tests, and as annotations."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.command_table import refuse
from graphrag_eval_async.cli.files import (
    check_distinct,
    files_of_results,
    make_folder_of,
    write_page,
)
from graphrag_eval_async.cli.gates import (
    check_each,
    check_read,
    failed_and_held,
    metrics_read,
    named_tag_keys,
    needs_reference,
)
from graphrag_eval_async.cli.reading import primary_of, read_to_end, results_of_questions
from graphrag_eval_async.cli.regression_gates import check_regressions, margins_of
from graphrag_eval_async.cli.repeats import RepeatedQuestions
from graphrag_eval_async.cli.run_summary import end, list_rejects, listed_rejects, page_stream
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import did_you_mean, one_line, tell
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.reference.lines import lines_of_questions
from graphrag_eval_async.reports.ci import (
    has_annotated_questions,
    render_annotations,
    render_junit,
)
from graphrag_eval_async.reports.html_report import html_report
from graphrag_eval_async.reports.markdown import render_markdown
from graphrag_eval_async.reports.questions import NO_RESPONSE
from graphrag_eval_async.reports.report_results import ReportResults
from graphrag_eval_async.reports.summary import Reading, Summary
from graphrag_eval_async.sources.reading import expand

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts
    from graphrag_eval_async.records import Rejects
    from graphrag_eval_async.reference import Reference

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable with the path of the summary of a step of GitHub Actions."""

REPOSITORY = "GITHUB_WORKSPACE"
"""The environment variable with the folder of the repository in GitHub Actions."""


def run(given: Given, interrupts: Interrupts) -> Exit:
    _check(given)
    files = files_of_results(given.results)
    reference = load_reference(given.reference) if given.reference is not None else None
    reading = Reading(
        given.pass_if,
        reference,
        compares=given.baseline is not None,
        primary=primary_of(given),
        non_inferior=margins_of(given),
        first_tag_keys=named_tag_keys(given),
    )
    collected = None if given.output is None else ReportResults()  # It needs the extra `web`.

    repeated = RepeatedQuestions(files)

    def add(path: str, result: dict[str, Any]) -> None:
        reading.add(result)
        repeated.add(path, result)
        if collected is not None:
            collected.add(result)

    sources: list[tuple[str, Callable[[dict[str, Any]], object]]] = []
    if given.baseline is not None:
        sources.append((given.baseline, reading.add_baseline))
    sources += [(path, partial(add, path)) for path in files]
    rejects, ending = read_to_end(given, sources, interrupts)
    list_rejects(given, rejects)
    merged_systems = None if given.repeats else repeated.warning()
    if merged_systems is not None:
        tell(sys.stderr, one_line(f"warning: {merged_systems}"))
    failures: list[str] = []
    if ending.is_complete:
        summary = replace(
            _summary(given, reading, rejects, reference), merged_systems=merged_systems
        )
        _check_conditions(given, summary.snapshot, reference)
        failures, _ = failed_and_held(summary.gates)
        ending = _write(given, ending, summary, collected)
    return end(ending, rejects, failures)


def _check(given: Given) -> None:
    """Raise a `UsageError` if options do not go together."""
    needs_reference(given)
    if given.baseline is None:
        names = "config max_drop non_inferior max_regressions fail_on_regression allow_missing"
        refuse(given, names, "{} needs --baseline FILE")
    written = [given.junit, given.markdown]
    check_distinct(
        [*given.results, given.baseline, given.reference], [given.rejects, given.output, *written]
    )
    for path in filter(None, written):
        make_folder_of(path)


def _check_conditions(
    given: Given, snapshot: Mapping[str, Any], reference: Reference | None
) -> None:
    """Raise a `UsageError` if no result has the metric of a condition, not even without a value."""
    check_read(given, snapshot, reference)
    known = metrics_read(snapshot["micro"])
    for condition in given.pass_if:
        if known is not None and condition.metric not in known:
            hint = did_you_mean(condition.metric, known)
            raise UsageError(f"--pass-if: no result has the metric {condition.metric!r}; {hint}")


def _summary(
    given: Given, reading: Reading, rejects: Rejects, reference: Reference | None
) -> Summary:
    """Return the summary of all results, with its gates checked and its questions found."""
    summary = reading.summary(
        level=given.level,
        interval=given.interval,
        rejected=rejects.counts,
        rejects=listed_rejects(rejects),
        listed=given.worst,
        by=given.by,
    )
    missing: set[str] = set()
    if reference is not None:
        answered = {
            question.question_id for question in summary.questions if question.kind != NO_RESPONSE
        }
        missing = {*reference.questions} - answered
    gates = check_each(given.gate, summary.snapshot, reference, missing)
    if reading.comparison is not None and summary.comparison is not None:
        gates += check_regressions(given, reading.comparison, summary.comparison)
    places, texts = _find_questions(given, summary)
    return replace(summary, gates=gates, places=places, texts=texts)


def _find_questions(given: Given, summary: Summary) -> tuple[dict[str, str], dict[str, str]]:
    """Read the results of the listed questions again.

    Returns:
        The place of the worst result of each question as ``NAME:LINE``, and the text of the
        question, both by its id. Errors are worse than low scores.
    """
    metrics = {
        question.question_id: question.score[0]
        for question in summary.questions
        if question.score is not None
    }
    texts: dict[str, str] = {}
    places: dict[str, str] = {}
    ranks: dict[str, tuple[bool, float]] = {}
    # Standard input cannot be read again.
    for file in expand([path for path in given.results if path != "-"]):
        for question, place, result in results_of_questions(file, summary.listed_questions):
            text = result.get("question_text")
            if isinstance(text, str):
                texts[question] = text
            rank = _rank_of_result(result, metrics.get(question, ""))
            if question not in ranks or rank < ranks[question]:
                ranks[question] = rank
                places[question] = place
    return places, texts


def _rank_of_result(result: Mapping[str, Any], metric: str) -> tuple[bool, float]:
    """Return a key that sorts worse results of a question first: errors, then low scores."""
    is_error = result.get("status") == "error"
    score = result.get(metric)
    return not is_error, score if isinstance(score, int | float) else inf


def _write(
    given: Given,
    ending: Ending,
    summary: Summary,
    collected: ReportResults | None,
) -> Ending:
    """Write a report in each format that the options ask for."""
    if collected is not None:
        page = html_report(summary, collected, title=f"Report on {', '.join(given.results)}")
        ending = ending.attempt(partial(write_page, given.output, page))
    has_another_format = given.output or given.junit or given.github
    if given.markdown is not None or not has_another_format:
        path = given.markdown or "-"
        text = render_markdown(summary)
        ending = ending.attempt(partial(write_page, path, text, page_stream(given)))
    if given.junit is not None:
        ending = ending.attempt(partial(write_page, given.junit, render_junit(summary)))
    if not given.github:
        return ending
    if given.reference is not None:
        summary = replace(
            summary,
            reference_file=_path_in_repository(given.reference),
            reference_lines=lines_of_questions(given.reference),
        )
    return ending.attempt(partial(_annotate, summary))


def _path_in_repository(path: str) -> str:
    """Return the path of a file relative to the repository that GitHub Actions checked out.

    Returns:
        the path as it is, if it is outside of the repository, or there is none.
    """
    repository = os.environ.get(REPOSITORY)
    if repository is None:
        return path
    relative = os.path.relpath(os.path.realpath(path), os.path.realpath(repository))
    if relative.startswith(os.pardir):
        return path
    return relative


def _annotate(summary: Summary) -> None:
    """Print annotations for GitHub Actions, and append the page to the summary of the step."""
    for command in render_annotations(summary):
        tell(sys.stdout, command)
    if not summary.reference_file and has_annotated_questions(summary):
        tell(
            sys.stderr,
            "--github: annotations are not attached to questions; add --reference FILE, with the "
            "path of the reference set in the repository",
        )
    if path := os.environ.get(STEP_SUMMARY):
        with open(path, "a", encoding="utf-8") as file:
            file.write(render_markdown(summary) + "\n")
    else:
        tell(
            sys.stderr,
            f"--github: no summary is written: ${STEP_SUMMARY}, which GitHub Actions sets, is not "
            "set",
        )
