"""``compare``: two runs, question by question."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.cli.files import check_distinct, write_aggregates
from graphrag_eval_async.cli.gates import check_regressions, failed_and_held
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.report import end, list_rejects
from graphrag_eval_async.cli.table import draw, folded, table_of
from graphrag_eval_async.config.load import load_primary
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.verdicts import UNDECIDED
from graphrag_eval_async.monitor.wording import (
    ends,
    greatest_losses,
    headline,
    one_sided,
    short_p,
    signed,
    validity,
)
from graphrag_eval_async.text import name_cell, number, plural, tell

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.options import Given

HEADINGS = ("baseline", "candidate", "change", "interval", "p")


def run(given: Given, interrupts: Interrupts) -> Exit:
    check_distinct([given.baseline, given.candidate], [given.rejects, given.output])
    primary = None if given.config is None else load_primary(given.config)
    comparison = RunningComparison(include_errors=given.include_errors, primary=primary)
    rejects, ending = read_to_end(
        [(given.baseline, comparison.add_baseline), (given.candidate, comparison.add)],
        interrupts,
        rejects=given.rejects,
        max_reject_bytes=given.max_reject_bytes,
        max_line_bytes=given.max_line_bytes,
    )
    list_rejects(rejects)
    failures: list[str] = []
    if ending.error is None and not interrupts.came:  # Half of a file would mislead.
        snapshot = comparison.snapshot(level=given.level)
        failures, held = failed_and_held(check_regressions(given, comparison, snapshot))
        if given.output is not None:
            ending = ending.attempt(partial(write_aggregates, given.output, snapshot))
        table = sys.stderr if given.rejects == "-" else sys.stdout
        page = render_comparison(snapshot, worst=given.worst, candidate=given.candidate, detail=given.detail)
        told = "\n".join([page, *([""] if held else []), *folded(f"gate held: {gate}" for gate in held)])
        ending = ending.attempt(partial(tell, table, told))
    return end(ending, rejects, failures)


def render_comparison(
    snapshot: Mapping[str, Any], *, worst: int, candidate: str, detail: bool = False
) -> str:
    """A snapshot as plain text of `WIDTH` columns; shows where the `worst` questions are in `candidate`."""
    results = " and ".join(f"{count} of the {side}" for side, count in snapshot["results"].items())
    shared = plural(snapshot["questions"], "question")
    parts = [
        folded([headline(snapshot)]),
        folded([f"compared: {shared} that both sides have; results: {results}"]),
        folded([f"warning: {warning}" for warning in snapshot["warnings"]]),
        _overall(snapshot["overall"], snapshot["level"]),
        _detail(snapshot) if detail else [],
        _templates(snapshot["per_template"], every=detail),
        worst_table(snapshot["worse"], worst, candidate),
        folded(one_sided(snapshot)),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _overall(rows: Mapping[str, Mapping[str, Any]], level: float) -> list[str]:
    if not rows:
        return []
    lines = _table(
        ["overall", *HEADINGS],
        [
            [name_cell(metric), *_cells(row), ends(row.get("interval")), short_p(row.get("p_adjusted"))]
            for metric, row in rows.items()
        ],
    )
    lower = [metric for metric, row in rows.items() if row["direction"].startswith("lower")]
    return lines + folded([f"Lower is better: {', '.join(lower)}. {validity(rows, level)}"])


def _detail(snapshot: Mapping[str, Any]) -> list[str]:
    """A table of the questions that changed, overall."""
    rows = []
    for metric, row in snapshot["overall"].items():
        counts = [str(row[count]) for count in ("pairs", "wins", "losses", "ties")]
        rows.append([name_cell(metric), *counts, short_p(row.get("p"))])
    headings = ["overall", "questions", "better", "worse", "equal", "p alone"]
    return _table(headings, rows) if rows else []


def _templates(groups: Mapping[str, Mapping[str, Mapping[str, Any]]], *, every: bool) -> list[str]:
    """A table of the templates and scores, of those that are decided unless `every`."""
    rows = [
        [name_cell(template), name_cell(metric), *_cells(row), row["verdict"], short_p(row["p_adjusted"])]
        for template, group in groups.items()
        for metric, row in group.items()
        if "verdict" in row and (every or row["verdict"] != UNDECIDED)
    ]
    headings = ["template", "metric", "baseline", "candidate", "change", "verdict", "p"]
    return _table(headings, rows, names=2) if rows else []


def worst_table(worse: Mapping[str, Sequence[Mapping[str, Any]]], worst: int, candidate: str) -> list[str]:
    """A table of the `worst` questions of all scores, with the lines of their results."""
    shown = greatest_losses(worse, worst)
    lines: dict[str, str] = {}
    for question, place, _ in results_of_questions(candidate, {row["question_id"] for _, row in shown}):
        lines.setdefault(question, place)
    rows = [
        [name_cell(id_ := row["question_id"]), name_cell(metric), *_cells(row), lines.get(id_, "")]
        for metric, row in shown
    ]
    headings = ["got worse", "metric", "baseline", "candidate", "change", "result"]
    return _table(headings, rows, names=2) if rows else []


def results_of_questions(path: str, questions: Collection[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the results of some questions in a regular file, each after its question and its place."""
    if not questions or not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            with suppress(orjson.JSONDecodeError):
                result = orjson.loads(line)
                question = result.get("question_id") if isinstance(result, dict) else None
                if isinstance(question, str) and question in questions:
                    yield question, f"{os.path.basename(path)}:{number}", result


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [number(row["baseline"]), number(row["candidate"]), signed(row["difference"])]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> list[str]:
    return draw([table_of(headings, rows, names=names, has_lines=False)]).splitlines()
