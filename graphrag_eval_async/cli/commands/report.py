"""``report``: finished runs as a page for a pull request, as tests, and as annotations."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.files import (
    check_distinct,
    files_of_results,
    make_folder_of,
    write_page,
)
from graphrag_eval_async.cli.gates import (
    check_each,
    check_gates_after_reading,
    check_reference_for_gates,
    failed_and_held,
    metrics_read,
    named_tag_keys,
)
from graphrag_eval_async.cli.reading import primary_metrics, read_to_end, results_of_questions
from graphrag_eval_async.cli.regression_gates import RegressionOptions, check_regressions
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
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.cli.exits import Ending, Exit, Interrupts
    from graphrag_eval_async.inference.running import Interval
    from graphrag_eval_async.records import Rejects
    from graphrag_eval_async.reference import Reference

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable with the path of the summary of a step of GitHub Actions."""

REPOSITORY = "GITHUB_WORKSPACE"
"""The environment variable with the folder of the repository in GitHub Actions."""


OPTIONS_OF_COMPARISON = (
    "config",
    "max_drop",
    "non_inferior",
    "max_regressions",
    "fail_on_regression",
    "allow_missing",
)
"""The options that need a baseline."""


@dataclass(frozen=True, kw_only=True)
class ReportOptions(RegressionOptions):
    """The options of ``report``."""

    results: list[str]
    repeats: bool
    reference: str | None
    baseline: str | None
    output: str | None
    markdown: str | None
    junit: str | None
    github: bool
    by: str | None
    gate: list[Condition]
    config: str | None
    pass_if: list[Condition]
    worst: int
    rejects: str | None
    level: float
    interval: Interval | None


def run(options: ReportOptions, interrupts: Interrupts) -> Exit:
    """Read finished results, and write a report in each format that the options ask for."""
    _check_options(options)
    files = files_of_results(options.results)
    reference = None
    if options.reference is not None:
        reference = load_reference(options.reference)
    reading = Reading(
        options.pass_if,
        reference,
        compares=options.baseline is not None,
        primary=primary_metrics(options.config),
        non_inferior=options.margin_by_metric(),
        first_tag_keys=named_tag_keys(options.gate, options.by),
    )
    repeated = RepeatedQuestions(files)
    collected = None
    if options.output is not None:
        # It needs the extra `web`.
        collected = ReportResults()

    def add_result(path: str, result: dict[str, Any]) -> None:
        reading.add(result)
        repeated.add(path, result)
        if collected is not None:
            collected.add(result)

    sources: list[tuple[str, Callable[[dict[str, Any]], object]]] = []
    if options.baseline is not None:
        sources.append((options.baseline, reading.add_baseline))
    sources += [(path, partial(add_result, path)) for path in files]
    rejects, ending = read_to_end(sources, interrupts, rejects_path=options.rejects)
    list_rejects(rejects)

    merged_systems = None if options.repeats else repeated.warning()
    if merged_systems is not None:
        tell(sys.stderr, one_line(f"warning: {merged_systems}"))
    failures: list[str] = []
    if ending.is_complete:
        summary = _summary(options, reading, rejects, reference)
        summary = replace(summary, merged_systems=merged_systems)
        _check_conditions(options, summary.snapshot, reference)
        failures, _ = failed_and_held(summary.gates)
        ending = _write(options, ending, summary, collected)
    return end(ending, rejects, failures)


def _check_options(options: ReportOptions) -> None:
    """Check that options go together, and make the folders of files that will be written.

    Raises:
        UsageError: they do not, or a folder cannot be made.
    """
    check_reference_for_gates(options.gate, options.reference)
    if options.baseline is None:
        options.refuse(*OPTIONS_OF_COMPARISON, message="{} needs --baseline FILE")
    check_distinct(
        [*options.results, options.baseline, options.reference],
        [options.rejects, options.output, options.junit, options.markdown],
    )
    for path in (options.junit, options.markdown):
        if path:
            make_folder_of(path)


def _check_conditions(
    options: ReportOptions, snapshot: Mapping[str, Any], reference: Reference | None
) -> None:
    """Raise a `UsageError` if no result has the metric of a condition, not even without a value."""
    check_gates_after_reading(options.gate, options.by, snapshot, reference)
    metrics = metrics_read(snapshot["micro"])
    if metrics is None:
        return
    for condition in options.pass_if:
        if condition.metric not in metrics:
            hint = did_you_mean(condition.metric, metrics)
            raise UsageError(f"--pass-if: no result has the metric {condition.metric!r}; {hint}")


def _summary(
    options: ReportOptions, reading: Reading, rejects: Rejects, reference: Reference | None
) -> Summary:
    """Return the summary of all results, with its gates checked and its questions found.

    Args:
        options: the options of the command.
        reading: the results.
        rejects: the lines that are no results.
        reference: the reference set; None if it is not known.
    """
    summary = reading.summary(
        level=options.level,
        interval=options.interval,
        rejected=rejects.counts,
        rejects=listed_rejects(rejects),
        listed=options.worst,
        by=options.by,
    )
    missing: set[str] = set()
    if reference is not None:
        answered = {
            question.question_id for question in summary.questions if question.kind != NO_RESPONSE
        }
        missing = set(reference.questions) - answered
    gates = check_each(options.gate, summary.snapshot, reference, missing)
    if reading.comparison is not None and summary.comparison is not None:
        gates += check_regressions(options, reading.comparison, summary.comparison)
    places, texts = _find_questions(options.results, summary)
    return replace(summary, gates=gates, places=places, texts=texts)


def _find_questions(
    paths: Sequence[str], summary: Summary
) -> tuple[dict[str, str], dict[str, str]]:
    """Read the results of the listed questions again.

    Args:
        paths: the files of the results.
        summary: the summary, which lists the questions.

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
    for file in expand([path for path in paths if path != "-"]):
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
    options: ReportOptions,
    ending: Ending,
    summary: Summary,
    collected: ReportResults | None,
) -> Ending:
    """Write a report in each format that the options ask for."""
    if collected is not None and options.output is not None:
        page = html_report(summary, collected, title=f"Report on {', '.join(options.results)}")
        ending = ending.attempt(partial(write_page, options.output, page))
    has_another_format = options.output or options.junit or options.github
    if options.markdown is not None or not has_another_format:
        path = options.markdown or "-"
        text = render_markdown(summary)
        ending = ending.attempt(
            partial(write_page, path, text, page_stream(options.rejects, options.output))
        )
    if options.junit is not None:
        ending = ending.attempt(partial(write_page, options.junit, render_junit(summary)))
    if not options.github:
        return ending
    if options.reference is not None:
        summary = replace(
            summary,
            reference_file=_path_in_repository(options.reference),
            reference_lines=lines_of_questions(options.reference),
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
