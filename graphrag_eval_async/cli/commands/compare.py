"""``compare``: two runs, question by question, or several systems in a table."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.files import check_distinct, write_aggregates
from graphrag_eval_async.cli.gates import failed_and_held
from graphrag_eval_async.cli.reading import primary_metrics, read_to_end, results_of_questions
from graphrag_eval_async.cli.regression_gates import RegressionOptions, check_regressions
from graphrag_eval_async.cli.run_summary import end, list_rejects, page_stream
from graphrag_eval_async.errors import check_extra
from graphrag_eval_async.helpers.text import number, percent, plural, tell
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.systems import RunningSystems
from graphrag_eval_async.records.snapshots import tags_of
from graphrag_eval_async.reports.comparison_words import (
    changed_templates,
    ends,
    greatest_losses,
    headline,
    one_sided,
    short_p,
    signed,
    validity,
)
from graphrag_eval_async.reports.systems import render_systems
from graphrag_eval_async.reports.tables import Table, fold, render_terminal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.reports.systems import Format

OPTIONS_OF_TWO_RUNS = (
    "max_drop",
    "non_inferior",
    "max_regressions",
    "fail_on_regression",
    "allow_missing",
    "by",
    "worst",
)
"""The options that need exactly two runs, printed as text."""


SUFFIX = re.compile(r"\.(jsonl|json|parquet)(\.gz)?$")
"""Suffix of a file of results."""


@dataclass(frozen=True, kw_only=True)
class CompareOptions(RegressionOptions):
    """The options of ``compare``."""

    baseline: str
    candidates: list[str]
    format: Format
    output: str | None
    by: str | None
    worst: int
    config: str | None
    rejects: str | None
    level: float


def run(options: CompareOptions, interrupts: Interrupts) -> Exit:
    """Compare two runs, or make a table of several systems or in another format."""
    check_distinct([options.baseline, *options.candidates], [options.rejects, options.output])
    if len(options.candidates) == 1 and options.format == "text":
        return _compare_runs(options, interrupts)
    options.refuse(
        *OPTIONS_OF_TWO_RUNS,
        message=(
            "{} is for two runs, printed as text; compare each CANDIDATE with BASELINE on its own"
        ),
    )
    return _compare_systems(options, interrupts)


def _compare_systems(options: CompareOptions, interrupts: Interrupts) -> Exit:
    """Compare several systems, and print the tables in the chosen format."""
    if options.format == "html":
        check_extra("a page", "web", "jinja2")
    paths = [options.baseline, *options.candidates]
    names = system_names(paths)
    systems = RunningSystems(names, primary=primary_metrics(options.config))
    sources = [(path, partial(systems.add, name)) for path, name in zip(paths, names, strict=True)]
    rejects, ending = read_to_end(sources, interrupts, rejects_path=options.rejects)
    list_rejects(rejects)
    if ending.is_complete:
        snapshot = systems.snapshot(level=options.level)
        if options.output is not None:
            ending = ending.attempt(partial(write_aggregates, options.output, snapshot))
        text = render_systems(snapshot, options.format)
        ending = ending.attempt(partial(tell, page_stream(options.rejects, options.output), text))
    return end(ending, rejects)


def system_names(paths: Sequence[str]) -> list[str]:
    """Return a short name for each system, given the paths of their results; all names differ.

    - A system is named after its file, without the suffix.
    - If two files have the same name, systems are named after the parts in which the paths differ,
      such as "x" and "y" for runs/x/results.jsonl and runs/y/results.jsonl.
    - If two paths are equal, all paths are numbered.
    """
    file_names = [os.path.basename(path.rstrip("/")) for path in paths]
    names = [SUFFIX.sub("", file_name) for file_name in file_names]
    if all(names) and len(set(names)) == len(names):
        return names
    if len(set(paths)) < len(paths):
        return [f"{place}: {path}" for place, path in enumerate(paths, start=1)]

    # Remove the parts that all paths share, at the end and then at the beginning.
    split_paths = [path.split("/") for path in paths]
    while _share_part(split_paths, -1):
        split_paths = [parts[:-1] for parts in split_paths]
    while _share_part(split_paths, 0):
        split_paths = [parts[1:] for parts in split_paths]
    return ["/".join(parts) for parts in split_paths]


def _share_part(split_paths: Sequence[Sequence[str]], index: int) -> bool:
    """Return whether all paths have the same part at `index`, and other parts, too."""
    has_other_parts = all(len(parts) > 1 for parts in split_paths)
    return has_other_parts and len({parts[index] for parts in split_paths}) == 1


def _compare_runs(options: CompareOptions, interrupts: Interrupts) -> Exit:
    """Compare two runs question by question, and check the gates on that."""
    [candidate] = options.candidates
    comparison = RunningComparison(
        primary=primary_metrics(options.config),
        non_inferior=options.margin_by_metric(),
    )
    sources = [(options.baseline, comparison.add_baseline), (candidate, comparison.add)]
    rejects, ending = read_to_end(sources, interrupts, rejects_path=options.rejects)
    list_rejects(rejects)
    failures: list[str] = []
    if ending.is_complete:
        snapshot = comparison.snapshot(level=options.level, by=options.by)
        failures, held = failed_and_held(check_regressions(options, comparison, snapshot))
        if options.output is not None:
            ending = ending.attempt(partial(write_aggregates, options.output, snapshot))
        blocks = [render_comparison(snapshot, worst=options.worst, candidate=candidate)]
        if held:
            blocks.append("\n".join(fold(f"gate held: {gate}" for gate in held)))
        ending = ending.attempt(
            partial(tell, page_stream(options.rejects, options.output), "\n\n".join(blocks))
        )
    return end(ending, rejects, failures)


def render_comparison(snapshot: Mapping[str, Any], *, worst: int, candidate: str) -> str:
    """Return a comparison as plain text.

    Args:
        snapshot: the comparison.
        worst: how many of the questions that got worse are listed.
        candidate: path of the candidate's results, to show the lines of these questions.
    """
    results = ", ".join(f"{count} {side}" for side, count in snapshot["results"].items())
    questions = plural(snapshot["questions"], "question")
    blocks = [
        "\n".join(fold([headline(snapshot)])),
        "\n".join(fold([f"compared: {questions} in both runs; results: {results}"])),
        "\n".join(fold(f"warning: {warning}" for warning in snapshot["warnings"])),
        render_terminal(
            [
                _overall_table(snapshot),
                _verdicts_table("template", changed_templates(snapshot), snapshot["level"]),
                _verdicts_table("tag", _primary_rows(tags_of(snapshot)), snapshot["level"]),
                _losses_table(snapshot, worst, candidate),
            ]
        ),
        "\n".join(fold(one_sided(snapshot))),
    ]
    return "\n\n".join(filter(None, blocks))


def _overall_table(snapshot: Mapping[str, Any]) -> Table:
    """Return the table of all metrics, with their changes over all questions."""
    rows = snapshot["overall"]
    lower_is_better = [
        metric for metric, row in rows.items() if row["direction"].startswith("lower")
    ]
    note = validity(rows, snapshot["level"])
    if lower_is_better:
        note = f"Lower is better: {', '.join(lower_is_better)}. {note}"
    return Table(
        title="",
        headings=["overall", "baseline", "candidate", "change", "interval", "p"],
        rows=[
            [metric, *_cells(row), ends(row.get("interval")), short_p(row.get("p_adjusted"))]
            for metric, row in rows.items()
        ],
        notes=[note],
    )


def _primary_rows(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the rows of primary metrics, by group and metric: only these rows have a verdict."""
    return {
        name: {metric: row for metric, row in rows.items() if "verdict" in row}
        for name, rows in groups.items()
    }


def _verdicts_table(
    heading: str, groups: Mapping[str, Mapping[str, Mapping[str, Any]]], level: float
) -> Table:
    """Return a table of the verdicts on templates or tags; `heading` says which."""
    return Table(
        title="",
        headings=[heading, "metric", "baseline", "candidate", "change", "verdict", "p"],
        rows=[
            [group, metric, *_cells(row), row["verdict"], short_p(row["p_adjusted"])]
            for group, rows_of_group in groups.items()
            for metric, row in rows_of_group.items()
        ],
        words=2,
        notes=[f"Verdicts and p of {heading}s hold together, at {percent(level)}."],
    )


def _losses_table(snapshot: Mapping[str, Any], worst: int, candidate: str) -> Table:
    """Return a table of the questions that got worse most.

    Args:
        snapshot: the comparison.
        worst: greatest number of questions in the table.
        candidate: path of the candidate's results, to show the line of each result.
    """
    losses = greatest_losses(snapshot, worst)
    question_ids = {row["question_id"] for _, row in losses}
    place_by_question: dict[str, str] = {}
    for question_id, place, _ in results_of_questions(candidate, question_ids):
        # A question with several samples shows the line of the first one.
        place_by_question.setdefault(question_id, place)
    rows = []
    for metric, row in losses:
        question_id = row["question_id"]
        rows.append([question_id, metric, *_cells(row), place_by_question.get(question_id, "")])
    return Table(
        title="",
        headings=["got worse", "metric", "baseline", "candidate", "change", "result"],
        rows=rows,
        words=2,
    )


def _cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells with the two means of a row and their difference."""
    return [number(row["baseline"]), number(row["candidate"]), signed(row["difference"])]
