"""Reports a run at its end: rejects, aggregates, the summary, and gates."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from graphrag_eval_async.cli.command_table import OptionValues
from graphrag_eval_async.cli.files import STATE, write_aggregates, write_state
from graphrag_eval_async.cli.gates import check_each, failed_and_held
from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.helpers.text import counts, describe, one_line, tell
from graphrag_eval_async.records.snapshots import counts_of
from graphrag_eval_async.reference import NoReference, Reference
from graphrag_eval_async.reports.run_tables import run_tables
from graphrag_eval_async.reports.tables import fold, render_terminal
from graphrag_eval_async.reports.wording import unscored
from graphrag_eval_async.reports.worst import worst_questions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.cli.exits import Ending, Exit
    from graphrag_eval_async.inference.running import Interval, RunningAggregates
    from graphrag_eval_async.records import Reject, Rejects
    from graphrag_eval_async.stream.until import Decision

LISTED_REJECTS = 10
"""How many rejected lines are listed if no file takes all of them."""

REASONS_ABOUT_FILES = frozenset({"not_a_response", "not_a_result"})
"""Reasons for a rejection that hold for a whole file, so that one of its lines is listed."""

WORST_QUESTIONS = 5
"""How many of the worst questions are named."""


@dataclass(frozen=True, kw_only=True)
class SummaryOptions(OptionValues):
    """The options of commands that show the aggregates of a run at its end."""

    aggregates: str | None
    detail: bool
    gate: list[Condition]
    level: float
    rejects: str | None


class RunOutcome(Protocol):
    """What a run gave.

    Attributes:
        aggregates: the aggregates of its results.
        rejects: the lines that were rejected.
        missing: the ids of the questions of the reference set without a response.
    """

    @property
    def aggregates(self) -> RunningAggregates: ...
    @property
    def rejects(self) -> Rejects: ...
    @property
    def missing(self) -> list[str]: ...


def report(
    options: SummaryOptions,
    outcome: RunOutcome,
    ending: Ending,
    *,
    stream: TextIO | None,
    reference: Reference | None,
    by: str | None = None,
    interval: Interval | None = None,
    kept: str | None = None,
    notes: Iterable[str] = (),
    lines_known: bool = True,
    decision: Decision | None = None,
    write_page: Callable[[Mapping[str, Any]], None] | None = None,
) -> Exit:
    """Report a run at its end.

    Writes the aggregates and the page that the options ask for, shows rejected lines, tables,
    failed gates and the error. If the error came before any result or rejected line, only the error
    is shown.

    Args:
        options: the options of the command.
        outcome: the results and rejected lines of the run.
        ending: how the run ended.
        stream: where the tables go; None to show none.
        reference: the reference set, if its questions without a response are counted.
        by: the key of tags by which results are grouped; None for no tables of tags.
        interval: the kind of intervals; None for what suits the run.
        kept: the file that has all rejected lines; None if there is none.
        notes: lines that stand at the end.
        lines_known: whether rejected lines are counted, which they are not if another process read
            them.
        decision: the decision that ended the run; None if it was not to decide anything.
        write_page: writes the page of a snapshot; None for no page.

    Returns:
        The exit code of the command.
    """
    snapshot = outcome.aggregates.snapshot(detail=True, level=options.level, interval=interval)
    results, _ = counts_of(snapshot["micro"])
    if ending.error is not None and results == 0 and outcome.rejects.total == 0:
        return end(ending)

    # Files are written before anything is shown, since a terminal may wait for its reader.
    if options.aggregates is not None:
        write = _aggregates_writer(options.aggregates, outcome, snapshot, decision)
        ending = ending.attempt(write)
    if write_page is not None:
        ending = ending.attempt(partial(write_page, snapshot))
    list_rejects(outcome.rejects, kept=kept)

    # If a part of the input is missing, gates are not decided.
    if ending.is_cut or isinstance(ending.error, SourceError):
        failures = [f"{gate.text}: not decided" for gate in options.gate]
        held: list[str] = []
    else:
        checked = check_each(options.gate, snapshot, reference, set(outcome.missing))
        failures, held = failed_and_held(checked)

    # Show the tables, and lines below them.
    if stream is not None:
        lines = [_summary(outcome, snapshot, reference, decision, lines_known=lines_known)]
        if ending.error is None:
            lines += fold([unscored(snapshot["micro"])])
        lines += fold(_worst_in_words(outcome.aggregates))
        lines += notes
        lines += [one_line(f"gate held: {gate}") for gate in held]
        tables = _tables(snapshot, by, stream, detail=options.detail, reference=reference)
        ending = ending.attempt(partial(tell, stream, "\n".join([tables, "", *lines])))

    # A decision counts like a gate.
    if decision is not None and not decision.holds:
        verdict = "decided so" if decision.holds is False else "not decided"
        failures.append(f"{decision.condition}: {verdict}")
    return end(ending, outcome.rejects, failures)


def _aggregates_writer(
    path: str, outcome: RunOutcome, snapshot: Mapping[str, Any], decision: Decision | None
) -> Callable[[], None]:
    """Return a function that writes aggregates to a file: as JSON, or so that they can be merged.

    Args:
        path: the file, whose name ends in `STATE` if the aggregates can be merged.
        outcome: what the run gave.
        snapshot: the snapshot that is written as JSON.
        decision: the decision that is written with it; None without one.
    """
    if path.endswith(STATE):
        return partial(write_state, path, outcome.aggregates)
    written = dict(snapshot)
    if decision is not None:
        written["decision"] = asdict(decision)
    return partial(write_aggregates, path, written)


def _tables(
    snapshot: Mapping[str, Any],
    by: str | None,
    stream: TextIO,
    *,
    detail: bool,
    reference: Reference | None,
) -> str:
    """Return the tables of a run as text.

    Args:
        snapshot: the aggregates of the run.
        by: the key of tags whose table is shown; None for none.
        stream: where the text goes, which says how wide it is.
        detail: whether there are tables of all means, missing values, intervals and quantiles.
        reference: the reference set, if its questions without a response are counted.
    """
    questions = None
    if reference is not None and not isinstance(reference, NoReference):
        questions = len(reference)
    tables = run_tables(snapshot, by=by, detail=detail, questions=questions)
    if by is None:
        tables = [table for table in tables if table.key != "tags"]
    return render_terminal(tables, stream)


def page_stream(*line_paths: str | None) -> TextIO | None:
    """Return the stream for tables and pages; None if it is closed.

    Args:
        line_paths: the files for results and rejected lines. If one is "-", lines go to standard
            output, and pages to standard error.
    """
    return sys.stderr if "-" in line_paths else sys.stdout


def _summary(
    outcome: RunOutcome,
    snapshot: Mapping[str, Any],
    reference: Reference | None,
    decision: Decision | None,
    *,
    lines_known: bool,
) -> str:
    """Return how many results, rejected lines and questions without a response there are.

    Args:
        outcome: what the run gave.
        snapshot: the snapshot of its aggregates.
        reference: the reference set; None if its questions are not counted.
        decision: the decision that ended the run; None if it was not to decide anything.
        lines_known: whether rejected lines are counted, even if there are none.
    """
    results, _ = counts_of(snapshot["micro"])
    summary = f"results: {results}"
    if lines_known or outcome.rejects.total:
        summary += f", rejected lines: {outcome.rejects.total}"
    if reference is None or isinstance(reference, NoReference):
        return summary
    # A decision ends a run before all questions have a response.
    so_far = " so far" if decision is not None and decision.holds is not None else ""
    missing = f"{len(outcome.missing)} of {len(reference)}"
    return f"{summary}, questions without a response{so_far}: {missing}"


def _worst_in_words(aggregates: RunningAggregates) -> list[str]:
    """Return the worst questions in a sentence; [] if there are none."""
    worst = worst_questions(aggregates, WORST_QUESTIONS)
    if not worst:
        return []
    questions = [
        f"{one_line(score.question, limit=80)} ({_score_in_words(score)})" for score in worst
    ]
    return [f"worst questions by {worst[0].metric}: {', '.join(questions)}"]


def _score_in_words(score: QuestionScore) -> str:
    """Return the mean of a question and its errors, such as "0.25, 1 of 2 errors"."""
    parts = []
    if score.values:
        parts.append(f"{score.mean:.3g}")
    results = score.values + score.errors
    if score.errors and results == 1:
        parts.append("an error")
    elif score.errors:
        parts.append(f"{score.errors} of {results} errors")
    return ", ".join(parts)


def end(ending: Ending, rejects: Rejects | None = None, failures: Iterable[str] = ()) -> Exit:
    """Show why gates fail, and the error that ended the run; returns the exit code."""
    failures = [*failures]
    for failure in failures:
        tell(sys.stderr, one_line(f"gate failed: {failure}"))
    if ending.is_cut:
        tell(sys.stderr, "the output was closed by its reader, so the run ended early")
    if ending.error is not None:
        tell(sys.stderr, f"Error: {describe(ending.error)}")
    return ending.code(rejects=rejects is not None and rejects.total > 0, gates=bool(failures))


def listed_rejects(rejects: Rejects) -> list[str]:
    """Return the first rejected lines in memory, each with its place and reason.

    Of a file that is something else than results or responses, only the first line is returned.
    """
    first_by_key: dict[object, Reject] = {}
    for reject in rejects:
        key = reject.message if reject.reason in REASONS_ABOUT_FILES else reject.offset
        first_by_key.setdefault((reject.path, key), reject)
    listed = list(first_by_key.values())[:LISTED_REJECTS]
    return [f"{reject.path or '-'}: {reject}" for reject in listed]


def list_rejects(rejects: Rejects, *, kept: str | None = None, can_be_kept: bool = True) -> None:
    """Print the first rejected lines in memory, then their number by reason.

    Args:
        rejects: the rejected lines.
        kept: the file that has all of them; None if there is none.
        can_be_kept: whether the command has the option ``--rejects``.
    """
    listed = listed_rejects(rejects)
    for line in listed:
        tell(sys.stderr, one_line(line))

    hidden = rejects.total - len(listed)
    # If a file takes all rejected lines, none is in memory.
    if len(rejects) and hidden > 0:
        where = ""
        if kept is not None:
            where = f"; {kept} has all of them"
        elif can_be_kept:
            where = "; --rejects FILE keeps all of them"
        tell(sys.stderr, one_line(f"... and {hidden} more{where}"))
    if rejects.total:
        tell(sys.stderr, f"rejected: {counts(rejects.counts)}")
