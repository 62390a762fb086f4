"""``report``: finished runs as a page for a pull request, as tests, and as annotations."""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Annotated, Any, ClassVar

from graphrag_eval_async.batch import MAX_RESULT_BYTES
from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.compare import results_of_questions
from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.cli.files import (
    check_distinct,
    html_path,
    input_path,
    make_folder_of,
    page_path,
    resumable_path,
    write_page,
)
from graphrag_eval_async.cli.gates import check_each, failed_and_held
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.regressions import RegressionGates
from graphrag_eval_async.cli.report import GateOptions, end, list_rejects, listed_rejects
from graphrag_eval_async.config.load import load_primary
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.monitor.github import render_annotations
from graphrag_eval_async.monitor.junit import render_junit
from graphrag_eval_async.monitor.markdown import render_markdown
from graphrag_eval_async.monitor.questions import NO_RESPONSE
from graphrag_eval_async.monitor.report import ReportResults, html_report
from graphrag_eval_async.monitor.summary import Reading, Summary
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.records.conditions import parse_condition
from graphrag_eval_async.records.metrics import MISSING_RATE, counts_of
from graphrag_eval_async.records.shapes import did_you_mean
from graphrag_eval_async.reference import Reference, load_reference
from graphrag_eval_async.sinks import MAX_REJECT_BYTES
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.text import tell

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable with the path of the summary of a step of GitHub Actions."""


@dataclass(frozen=True, kw_only=True)
class WriteReport(GateOptions, RegressionGates):
    """Report on results for a pull request or a build.

    Shows gates, scores with intervals, templates, the worst questions and why they failed; with a baseline
    also what changed. Without an option for output, prints Markdown.
    """

    example: ClassVar = "report results.jsonl --baseline baseline.jsonl --github --junit junit.xml"

    results: Annotated[
        list[str], options.input_argument(metavar="RESULTS...", help="Results, JSONL; - for standard input.")
    ]
    baseline: Annotated[
        str | None,
        options.input_option(
            parser=options.parser(input_path),
            metavar="FILE",
            help="Results of an earlier run, to compare with.",
        ),
    ] = None
    reference: options.ReferenceOption = None
    output: Annotated[
        str | None,
        options.output_option(
            "--output",
            "-o",
            parser=options.parser(html_path),
            metavar="FILE",
            help="Write a page here: one HTML file with scores, all results and details of the worst.",
        ),
    ] = None
    markdown: Annotated[
        str | None,
        options.output_option(
            parser=options.parser(page_path),
            metavar="FILE",
            help="Write Markdown for a pull request here: at most 60,000 characters; - for standard output.",
        ),
    ] = None
    junit: Annotated[
        str | None,
        options.output_option(
            parser=options.parser(resumable_path),
            metavar="FILE",
            help="Write JUnit XML here: a test case for each question and each gate.",
        ),
    ] = None
    github: Annotated[
        bool,
        options.output_option(
            "--github",
            help=f"Print annotations for GitHub Actions, and append the Markdown to ${STEP_SUMMARY}.",
        ),
    ] = False
    pass_if: Annotated[
        list[Any],
        options.output_option(
            "--pass-if",
            parser=options.parser(parse_condition),
            metavar="CONDITION",
            help="A question passes if its mean meets CONDITION, such as 'answer_f1 >= 0.8' or "
            "'lines:steps_score >= 0.5'. Repeatable.  [default: steps_score >= 1, answer_f1 >= 0.5 and "
            "ragas_answer_correctness >= 0.5, as far as the run has them]",
            **options.REPEATABLE,
        ),
    ]
    worst: Annotated[
        int, options.output_option(min=0, metavar="N", help="How many of the worst questions to list.")
    ] = 10
    rejects: options.Rejects = None
    max_reject_bytes: options.MaxRejectBytes = MAX_REJECT_BYTES
    interval: options.IntervalKind = None
    config: options.PrimaryConfig = None
    max_line_bytes: options.MaxResultBytes = MAX_RESULT_BYTES

    def run(self, interrupts: Interrupts) -> Exit:
        self._check()
        reference = load_reference(self.reference) if self.reference is not None else None
        reading = Reading(
            self.pass_if,
            reference,
            compares=self.baseline is not None,
            include_errors=self.include_errors,
            primary=None if self.config is None else load_primary(self.config),
        )
        baseline = [] if self.baseline is None else [(self.baseline, reading.add_baseline)]
        collected = None if self.output is None else ReportResults()

        def add(result: dict[str, Any]) -> None:
            reading.add(result)
            if collected is not None:
                collected.add(result)

        rejects, ending = read_to_end(
            [*baseline, *((path, add) for path in self.results)],
            interrupts,
            rejects=self.rejects,
            max_reject_bytes=self.max_reject_bytes,
            max_line_bytes=self.max_line_bytes,
        )
        list_rejects(rejects)
        failures: list[str] = []
        if ending.error is None and not interrupts.came:  # Half of a file would mislead.
            summary = self._summary(reading, rejects, reference)
            self._check_conditions(summary.snapshot["micro"])
            failures, _ = failed_and_held(summary.gates)
            for write in self._writers(collected, reference):
                ending = ending.attempt(partial(write, summary))
        return end(ending, rejects, failures)

    def _check(self) -> None:
        """Raise a `UsageError` if options do not go together."""
        if self.reference is None and self.gates_missing:
            raise UsageError(f"a gate on {MISSING_RATE} needs --reference REFERENCE")
        if self.baseline is None:
            options.refuse(
                {"--config": self.config is not None, **self.regression_gates}, "{} needs --baseline FILE"
            )
        read = [*self.results, self.baseline, self.reference]
        check_distinct(read, [self.rejects, self.output, self.junit, self.markdown])
        for path in filter(None, (self.junit, self.markdown)):
            make_folder_of(path)

    def _check_conditions(self, overall: Mapping[str, Any]) -> None:
        """Raise a `UsageError` if no result has the metric of a condition, not even without a value."""
        known = [name for name, stats in overall.items() if isinstance(stats, dict) and "coverage" in stats]
        for condition in self.pass_if if counts_of(overall)[0] else ():
            if condition.metric not in known:
                hint = did_you_mean(condition.metric, known)
                raise UsageError(f"--pass-if: no result has the metric {condition.metric!r}; {hint}")

    def _summary(self, reading: Reading, rejects: Rejects, reference: Reference | None) -> Summary:
        summary = reading.summary(
            level=self.level,
            interval=self.interval,
            rejected=rejects.counts,
            rejects=listed_rejects(rejects),
            listed=self.worst,
        )
        answered = {each.question_id for each in summary.questions if each.kind != NO_RESPONSE}
        missing = [] if reference is None else [each.id for each in reference if each.id not in answered]
        gates = check_each(self.gates, summary.snapshot, reference, {*missing})
        if reading.comparison is not None and summary.comparison is not None:
            gates += self.check_regressions(reading.comparison, summary.comparison)
        metrics = {each.question_id: each.score[0] for each in summary.questions if each.score is not None}
        places, texts = _places(self.results, summary.listed_questions, metrics)
        return replace(summary, gates=gates, places=places, texts=texts)

    def _writers(
        self, collected: ReportResults | None, reference: Reference | None
    ) -> Iterator[Callable[[Summary], None]]:
        """Yield what writes a report as was asked for."""
        if self.output is not None and collected is not None:
            yield partial(self._write_html, self.output, collected, reference)
        if self.markdown is not None or not (self.output or self.junit or self.github):
            page = self.markdown or "-"
            out = sys.stderr if self.rejects == "-" else sys.stdout
            yield lambda summary: write_page(page, render_markdown(summary), out)
        if (junit := self.junit) is not None:
            yield lambda summary: write_page(junit, render_junit(summary))
        if self.github:
            yield _annotate

    def _write_html(
        self, path: str, collected: ReportResults, reference: Reference | None, summary: Summary
    ) -> None:
        questions = 0 if reference is None else len(reference)
        page = html_report(
            summary.snapshot,
            collected,
            worst=summary.lowest,
            title=f"Report on {', '.join(self.results)}",
            comparison=summary.comparison,
            level=self.level,
            rejects=summary.rejected,
            gates=summary.gates,
            misnamed=summary.misnamed,
            questions=questions,
            missing=sum(each.kind == NO_RESPONSE for each in summary.questions) if questions else 0,
        )
        write_page(path, page)


def _places(
    paths: Iterable[str], questions: Collection[str], metrics: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return where the worst results of questions are, as ``NAME:LINE``, and the texts of the questions.

    Errors are worse than low scores.
    """
    texts = {}
    worst: dict[str, tuple[tuple[bool, float], str]] = {}
    for file in (file for path in paths if path != "-" for file in expand([path])):
        for question, place, result in results_of_questions(file, questions):
            if isinstance(text := result.get("question_text"), str):
                texts[question] = text
            score = result.get(metrics.get(question, ""))
            rank = result.get("status") != "error", score if isinstance(score, int | float) else inf
            if question not in worst or rank < worst[question][0]:
                worst[question] = rank, place
    return {question: place for question, (_, place) in worst.items()}, texts


def _annotate(summary: Summary) -> None:
    """Print annotations for GitHub Actions, and append the page to the summary of the step."""
    for command in render_annotations(summary):
        tell(sys.stdout, command)
    if path := os.environ.get(STEP_SUMMARY):
        with open(path, "a", encoding="utf-8") as file:
            file.write(render_markdown(summary) + "\n")
    else:
        tell(
            sys.stderr,
            f"--github: no summary is written: ${STEP_SUMMARY}, which GitHub Actions sets, is not set",
        )
