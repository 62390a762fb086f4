"""Reports a run at its end: rejects, aggregates, the summary, and gates."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TextIO

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
    from graphrag_eval_async.cli.command_table import Given
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


class Found(Protocol):
    """What a run found.

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
    given: Given,
    found: Found,
    ending: Ending,
    *,
    reference: Reference | None,
    table: TextIO | None = None,
    interval: Interval | None = None,
    kept: str | None = None,
    notes: Iterable[str] = (),
    lines_known: bool = True,
    decision: Decision | None = None,
    page: Callable[[Mapping[str, Any]], None] | None = None,
) -> Exit:
    """Report a run at its end.

    Writes the aggregates and the page that the options ask for, shows rejected lines, tables,
    failed gates and the error. If the error came before any result or rejected line, only the error
    is shown.

    Args:
        given: the options of the command.
        found: what the run found.
        ending: how the run ended.
        reference: the reference set, if its questions without a response are counted.
        table: where the tables go; None for where the options say.
        interval: the kind of intervals; None for what the options say.
        kept: the file that has all rejected lines; None if there is none.
        notes: lines that stand at the end.
        lines_known: whether rejected lines are counted, which they are not if another process read
            them.
        decision: the decision that ended the run; None if it was not to decide anything.
        page: writes the page of a snapshot.

    Returns:
        The exit code of the command.
    """
    interval = interval or getattr(given, "interval", None)
    snapshot = found.aggregates.snapshot(detail=True, level=given.level, interval=interval)
    results, _ = counts_of(snapshot["micro"])
    if ending.error is not None and results == 0 and found.rejects.total == 0:
        return end(ending)

    # Files are written before anything is shown, since a terminal may wait for its reader.
    if given.aggregates is not None:
        ending = ending.attempt(_aggregates_writer(given.aggregates, found, snapshot, decision))
    if page is not None:
        ending = ending.attempt(partial(page, snapshot))
    list_rejects(given, found.rejects, kept)

    failures, held = failed_and_held(check_each(given.gate, snapshot, reference, {*found.missing}))
    if ending.is_cut or isinstance(ending.error, SourceError):
        # A part of the input is missing.
        failures = [f"{gate.text}: not decided" for gate in given.gate]
        held = []
    stream = table or page_stream(given)
    if stream is not None:
        lines = [_summary(found, snapshot, reference, decision, lines_known=lines_known)]
        if ending.error is None:
            lines += fold([unscored(snapshot["micro"])])
        lines += fold(_worst(found.aggregates))
        lines += notes
        lines += [one_line(f"gate held: {gate}") for gate in held]
        shown = "\n".join([_tables(given, snapshot, stream), "", *lines])
        ending = ending.attempt(partial(tell, stream, shown))

    if decision is not None and not decision.holds:
        outcome = "decided so" if decision.holds is False else "not decided"
        failures.append(f"{decision.condition}: {outcome}")
    return end(ending, found.rejects, failures)


def _aggregates_writer(
    path: str, found: Found, snapshot: Mapping[str, Any], decision: Decision | None
) -> Callable[[], None]:
    """Return a function that writes aggregates to a file: as JSON, or so that they can be merged.

    Args:
        path: the file, whose name ends in `STATE` if the aggregates can be merged.
        found: what the run found.
        snapshot: the snapshot that is written as JSON.
        decision: the decision that is written with it; None without one.
    """
    if path.endswith(STATE):
        return partial(write_state, path, found.aggregates)
    written = dict(snapshot)
    if decision is not None:
        written["decision"] = asdict(decision)
    return partial(write_aggregates, path, written)


def _tables(given: Given, snapshot: Mapping[str, Any], stream: TextIO) -> str:
    """Return the tables of a run as text for `stream`; tags are in them if they are asked for."""
    by = getattr(given, "by", None)
    tables = run_tables(snapshot, by=by, detail=given.detail)
    if by is None:
        tables = [table for table in tables if table.key != "tags"]
    return render_terminal(tables, stream)


def page_stream(given: Given) -> TextIO | None:
    """Return the stream for pages: standard output, unless lines go there; None if it is closed."""
    lines_go_to_output = "-" in {given.rejects, getattr(given, "output", None)}
    return sys.stderr if lines_go_to_output else sys.stdout


def _summary(
    found: Found,
    snapshot: Mapping[str, Any],
    reference: Reference | None,
    decision: Decision | None,
    *,
    lines_known: bool,
) -> str:
    """Return how many results, rejected lines and questions without a response there are.

    Args:
        found: what the run found.
        snapshot: the snapshot of its aggregates.
        reference: the reference set; None if its questions are not counted.
        decision: the decision that ended the run; None if it was not to decide anything.
        lines_known: whether rejected lines are counted, even if there are none.
    """
    results, _ = counts_of(snapshot["micro"])
    summary = f"results: {results}"
    if lines_known or found.rejects.total:
        summary += f", rejected lines: {found.rejects.total}"
    if reference is None or isinstance(reference, NoReference):
        return summary
    # A decision ends a run before all questions have a response.
    so_far = " so far" if decision is not None and decision.holds is not None else ""
    missing = f"{len(found.missing)} of {len(reference)}"
    return f"{summary}, questions without a response{so_far}: {missing}"


def _worst(aggregates: RunningAggregates) -> list[str]:
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


def list_rejects(given: Given, rejects: Rejects, kept: str | None = None) -> None:
    """Print the first rejected lines in memory, then their number by reason.

    Args:
        given: the options of the command.
        rejects: the rejected lines.
        kept: the file that has all of them; None if there is none.
    """
    listed = listed_rejects(rejects)
    for line in listed:
        tell(sys.stderr, one_line(line))

    hidden = rejects.total - len(listed)
    if len(rejects) and hidden > 0:
        where = ""
        if kept is not None:
            where = f"; {kept} has all of them"
        elif hasattr(given, "rejects"):
            where = "; --rejects FILE keeps all of them"
        tell(sys.stderr, one_line(f"... and {hidden} more{where}"))
    if rejects.total:
        tell(sys.stderr, f"rejected: {counts(rejects.counts)}")
