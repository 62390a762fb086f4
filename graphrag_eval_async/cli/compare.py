"""``compare``: two runs, question by question."""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import wrap
from typing import Annotated, Any, ClassVar

import typer
from rich.table import Table

from graphrag_eval_async.batch import MAX_RESULT_BYTES
from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.cli.files import aggregates_path, check_distinct, write_aggregates
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.report import end, list_rejects
from graphrag_eval_async.cli.table import GAP, WIDTH, draw, name_cell
from graphrag_eval_async.cli.text import number, one_line, percent, tell
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.comparison import RunningComparison
from graphrag_eval_async.inference.verdicts import UNDECIDED, is_score
from graphrag_eval_async.records.metrics import ERROR_RATE
from graphrag_eval_async.sinks import MAX_REJECT_BYTES

LISTED_IDS = 10  # how many ids of questions on one side only are listed
HEADINGS = ("baseline", "candidate", "change", "better", "worse", "equal")


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Compare the results of two runs, question by question.

    Shows how much each metric changed, whether that may be chance, which questions got worse, and which only
    one run has.
    """

    example: ClassVar = "compare baseline.jsonl candidate.jsonl --fail-on-regression"

    baseline: Annotated[
        str,
        options.input_argument(
            metavar="BASELINE", help="Results of the earlier run, JSONL; - for standard input."
        ),
    ]
    candidate: Annotated[
        str, options.input_argument(metavar="CANDIDATE", help="Results of the other run, JSONL.")
    ]
    output: Annotated[
        str | None,
        options.file_option(
            "--output",
            "-o",
            parser=options.parser(aggregates_path),
            rich_help_panel=options.OUTPUT,
            help="Write the whole comparison here: .yaml, .yml or .json.",
        ),
    ] = None
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression",
            rich_help_panel=options.GATES,
            help="Fail if a score or the error rate got worse by more than chance, overall or in a template, "
            "if questions lost their scores, or if there is no score to compare.",
        ),
    ] = False
    level: options.Level = "0.95"
    worst: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            rich_help_panel=options.OUTPUT,
            help="How many of the questions that got worse to list.",
        ),
    ] = 10
    include_errors: options.IncludeErrors = False
    rejects: options.Rejects = None
    max_reject_bytes: options.MaxRejectBytes = MAX_REJECT_BYTES
    max_line_bytes: options.MaxResultBytes = MAX_RESULT_BYTES

    def run(self, interrupts: Interrupts) -> Exit:
        if self.baseline == self.candidate == "-":
            raise UsageError("only one of the two can come from standard input")
        check_distinct([self.baseline, self.candidate], [self.rejects, self.output])
        comparison = RunningComparison(include_errors=self.include_errors)
        rejects, ending = read_to_end(
            [(self.baseline, comparison.add_baseline), (self.candidate, comparison.add)],
            interrupts,
            rejects=self.rejects,
            max_reject_bytes=self.max_reject_bytes,
            max_line_bytes=self.max_line_bytes,
        )
        list_rejects(rejects)
        failures: list[str] = []
        if ending.error is None and not interrupts.came:  # Half of a file would mislead.
            snapshot = comparison.snapshot(level=self.level)
            failures = regressions(snapshot) if self.fail_on_regression else []
            if self.output is not None:
                ending = ending.attempt(partial(write_aggregates, self.output, snapshot))
            table = sys.stderr if self.rejects == "-" else sys.stdout
            ending = ending.attempt(partial(tell, table, render_comparison(snapshot, worst=self.worst)))
        return end(ending, rejects, failures)


def render_comparison(snapshot: Mapping[str, Any], *, worst: int) -> str:
    """A snapshot as plain text of `WIDTH` columns, with the `worst` questions of each score."""
    results = " and ".join(f"{count} of the {side}" for side, count in snapshot["results"].items())
    parts = [
        folded([f"compared: {_questions(snapshot['questions'])} that both sides have; results: {results}"]),
        folded([f"warning: {warning}" for warning in snapshot["warnings"]]),
        _overall(snapshot["overall"]),
        folded(sentences(snapshot["overall"])),
        *_templates(snapshot),
        *worst_questions(snapshot["worse"], worst),
        folded(one_sided(snapshot)),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def regressions(snapshot: Mapping[str, Any]) -> list[str]:
    """Why a candidate counts as a regression: scores got worse, lost values, or do not exist."""
    scores = [metric for metric in snapshot["overall"] if is_score(metric)]
    reasons = [] if {*scores} - {ERROR_RATE} else ["no question has a score on both sides"]
    groups = [("", snapshot["overall"])]
    groups += [(f"{template}:", group) for template, group in snapshot["per_template"].items()]
    reasons += [
        f"{prefix}{metric} is worse: {_change(group[metric])}; {_tested(group[metric])}"
        for prefix, group in groups
        for metric in scores
        if metric in group and group[metric]["verdict"] == "worse"
    ]
    return reasons + [
        f"{metric} {_values(sides)}"
        for metric, sides in snapshot["without_pair"].items()
        if sides.get("verdict") == "worse"
    ]


def sentences(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [f"{metric}: {_sentence(row)}" for metric, row in rows.items() if is_score(metric)]


def _sentence(row: Mapping[str, Any]) -> str:
    told = _change(row)
    if "confidence" in row:
        ends = (signed(row["confidence"][end]) for end in ("low", "high"))
        told += f" ({percent(row['confidence']['level'])}: {' to '.join(ends)})"
    told += f"; {_tested(row)}"
    return f"{told}: {row['verdict']}" if "verdict" in row else told


def _tested(row: Mapping[str, Any]) -> str:
    told = f"{_questions(row['wins'])} better, {row['losses']} worse, {row['ties']} equal"
    if "p_holm" in row:
        return f"{told}; sign test p {_p_value(row['p_holm'])}, corrected"
    return f"{told}; sign test p {_p_value(row['p'])}" if "p" in row else told


def _values(sides: Mapping[str, Any]) -> str:
    lost, gained = _questions(len(sides["baseline"])), len(sides["candidate"])
    return f"has lost its value in {lost}, gained it in {gained}; sign test p {_p_value(sides['p'])}"


def _change(row: Mapping[str, Any]) -> str:
    return f"{number(row['baseline'])} -> {number(row['candidate'])}, {signed(row['difference'])}"


def _overall(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    lines = _table(
        ["overall", *HEADINGS], [[name_cell(metric), *_cells(row)] for metric, row in rows.items()]
    )
    lower = [metric for metric, row in rows.items() if row["direction"].startswith("lower")]
    return lines + folded([f"Lower is better: {', '.join(lower)}."])


def _templates(snapshot: Mapping[str, Any]) -> Iterator[list[str]]:
    """A table for each score that is not equal everywhere, with what is decided."""
    for metric, row in snapshot["overall"].items():
        if not is_score(metric) or row["ties"] == row["pairs"]:
            continue
        groups = {name: each[metric] for name, each in snapshot["per_template"].items() if metric in each}
        rows = [
            [name_cell(name), *_cells(group), _p_value(group["p_holm"]).removeprefix("= ").replace(" ", "")]
            for name, group in groups.items()
        ]
        note = f"p: sign test, {_correction(groups.values())}; {decided(groups) or 'undecided'}."
        yield _table([name_cell(metric), *HEADINGS, "p"], rows) + folded([note])


def decided(groups: Mapping[str, Mapping[str, Any]]) -> str:
    """The templates that are better or worse in a score, by its rows."""
    verdicts = {name: row.get("verdict", UNDECIDED) for name, row in groups.items()}
    return ", ".join(
        f"{one_line(name)} is {verdict}" for name, verdict in verdicts.items() if verdict != UNDECIDED
    )


def _correction(groups: Collection[Mapping[str, Any]]) -> str:
    tested = sum(group["tested"] for group in groups)
    if not tested:
        return "not corrected: in no template did enough questions change to tell"
    told = f"by Holm's correction for {tested} template{'s' * (tested > 1)}"
    others = len(groups) - tested
    return f"{told}, without {others} in which too few questions changed to tell" if others else told


def worst_questions(worse: Mapping[str, Sequence[Mapping[str, Any]]], worst: int) -> Iterator[list[str]]:
    """A table for each score, of its `worst` questions."""
    for metric, questions in worse.items() if worst else ():
        rows = [
            [
                *(name_cell(question[key]) for key in ("question_id", "template_id")),
                *(number(question[side]) for side in ("baseline", "candidate")),
                signed(question["difference"]),
            ]
            for question in questions[:worst]
        ]
        more = f", the worst {worst} of them" if len(questions) > worst else ""
        heading = f"{name_cell(metric)}: {_questions(len(questions))} got worse{more}"
        headings = ["question", "template", "baseline", "candidate", "change"]
        yield [heading, *_table(headings, rows, names=2)]


def one_sided(snapshot: Mapping[str, Any]) -> Iterator[str]:
    """What only one side has: questions, pending ones, and values of metrics."""
    lone = {f"only in the {side}": snapshot[f"only_in_{side}"] for side in ("baseline", "candidate")}
    lone |= {f"pending in the {side}, and not compared": ids for side, ids in snapshot["pending"].items()}
    for told, ids in lone.items():
        if ids:
            yield f"{told}: {_questions(len(ids))}: {_listed(ids)}"
    alike: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for metric, sides in snapshot["without_pair"].items():
        for side in ("baseline", "candidate"):
            if ids := sides[side]:
                alike[side, (*ids,)].append(metric)
    for (side, same), metrics in alike.items():
        yield f"{', '.join(metrics)} only in the {side}: {_questions(len(same))}: {_listed(same)}"
    for metric, sides in snapshot["without_pair"].items():
        if sides.get("verdict", UNDECIDED) != UNDECIDED:
            yield f"{metric} {_values(sides)}: {sides['verdict']}"


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - LISTED_IDS} more" if len(ids) > LISTED_IDS else ""
    return ", ".join(map(name_cell, ids[:LISTED_IDS])) + more


def _questions(count: int) -> str:
    return f"{count} question{'s' * (count != 1)}"


def _cells(row: Mapping[str, Any]) -> list[str]:
    means = [number(row["baseline"]), number(row["candidate"]), signed(row["difference"])]
    return means + [str(row[key]) for key in ("wins", "losses", "ties")]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> list[str]:
    """Lines with columns of names, which are folded, and of numbers."""
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    for i, heading in enumerate(headings):
        if i < names:
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return draw([table]).splitlines()


def folded(lines: Iterable[str]) -> list[str]:
    """Lines wrapped at `WIDTH`."""
    return [part for line in lines for part in wrap(one_line(line), WIDTH, subsequent_indent="  ")]


def signed(value: float) -> str:
    """A difference with its sign, in two or three digits."""
    text = number(value) if abs(value) >= 1000 else f"{value:.2g}" if abs(value) < 0.1 else f"{value:.3g}"
    return text if text.startswith("-") or not value else f"+{text}"


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"
