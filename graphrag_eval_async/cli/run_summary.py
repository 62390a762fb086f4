"""Reports a run at its end: rejects, aggregates, the summary, and gates."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from graphrag_eval_async.cli.files import STATE, write_aggregates, write_state
from graphrag_eval_async.cli.gates import check_each, failed_and_held
from graphrag_eval_async.errors import SourceError
from graphrag_eval_async.records.snapshots import counts_of
from graphrag_eval_async.reference import NoReference, Reference
from graphrag_eval_async.reports.run_tables import run_tables
from graphrag_eval_async.reports.tables import fold, render_terminal
from graphrag_eval_async.reports.wording import unscored
from graphrag_eval_async.reports.worst import worst_questions
from graphrag_eval_async.text import counts, describe, one_line, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Ending, Exit
    from graphrag_eval_async.inference.running import Interval, RunningAggregates
    from graphrag_eval_async.records import Reject, Rejects
    from graphrag_eval_async.stream.until import Decision

LISTED_REJECTS = 10  # how many rejects are listed where no file takes them
# reasons that say what a file is, as all of its lines do
OF_FILE = {
    "not_a_response",
    "not_a_result",
}
WORST_QUESTIONS = 5


class Found(Protocol):
    """What a run found; `missing` are the ids of the questions without a response."""

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
    """Write the aggregates and the `page`; show rejects, tables, `notes`, failed gates, and the
    error.

    Only the error, if it came before any result or reject.

    The questions of a `reference` are counted. `table` and `interval` replace what the options say.
    `kept` is the file with all rejects; if another process read the lines, their number is not
    known.
    """
    interval, table = interval or getattr(given, "interval", None), table or page_stream(given)
    snapshot = found.aggregates.snapshot(detail=True, level=given.level, interval=interval)
    if ending.error is not None and not counts_of(snapshot["micro"])[0] and not found.rejects.total:
        return end(ending)
    if given.aggregates is not None:  # Before anything is shown, which may wait for a reader.
        decided: dict[str, Any] = {} if decision is None else {"decision": asdict(decision)}
        write = partial(write_aggregates, given.aggregates, snapshot | decided)
        if given.aggregates.endswith(STATE):
            write = partial(write_state, given.aggregates, found.aggregates)
        ending = ending.attempt(write)
    if page is not None:
        ending = ending.attempt(partial(page, snapshot))
    list_rejects(given, found.rejects, kept)
    failures, held = failed_and_held(check_each(given.gate, snapshot, reference, {*found.missing}))
    if ending.is_cut or isinstance(ending.error, SourceError):  # A part of the input is missing.
        failures, held = [f"{gate.text}: not decided" for gate in given.gate], []
    if table is not None:
        summary = _summary(found, snapshot, reference, decision, lines_known=lines_known)
        nothing = unscored(snapshot["micro"]) if ending.error is None else ""
        lines = [
            summary,
            *fold([nothing, *_worst(found.aggregates)]),
            *notes,
        ]
        lines += [one_line(f"gate held: {gate}") for gate in held]
        by = getattr(given, "by", None)
        tables = run_tables(snapshot, by=by, detail=given.detail)
        if by is None:
            # On a terminal, tags are shown only if they are asked for.
            tables = [each for each in tables if each.key != "tags"]
        told = [render_terminal(tables, table), "", *lines]
        ending = ending.attempt(partial(tell, table, "\n".join(told)))
    if decision is not None and not decision.holds:
        decided_so = "decided so" if decision.holds is False else "not decided"
        failures.append(f"{decision.condition}: {decided_so}")
    return end(ending, found.rejects, failures)


def page_stream(given: Given) -> TextIO | None:
    """Return the stream for pages: standard output, unless lines go there; None if it is closed."""
    return sys.stderr if "-" in {given.rejects, getattr(given, "output", None)} else sys.stdout


def _summary(
    found: Found,
    snapshot: Mapping[str, Any],
    reference: Reference | None,
    decision: Decision | None,
    *,
    lines_known: bool,
) -> str:
    summary = f"results: {counts_of(snapshot['micro'])[0]}"
    if lines_known or found.rejects.total:
        summary += f", rejected lines: {found.rejects.total}"
    if reference is None or isinstance(reference, NoReference):
        return summary
    so_far = " so far" if decision is not None and decision.holds is not None else ""
    return (
        f"{summary}, questions without a response{so_far}: {len(found.missing)} of {len(reference)}"
    )


def _worst(aggregates: RunningAggregates) -> list[str]:
    """The worst questions, in a line."""
    told = []
    for each in (worst := worst_questions(aggregates, WORST_QUESTIONS)):
        results = each.values + each.errors
        mean = [f"{each.mean:.3g}"] * bool(each.values)
        errors = [f"{each.errors} of {results} errors" if results > 1 else "an error"] * bool(
            each.errors
        )
        told.append(f"{one_line(each.question, limit=80)} ({', '.join(mean + errors)})")
    return [f"worst questions by {worst[0].metric}: {', '.join(told)}"] if worst else []


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
    """The first rejects in memory; of a file that is something else, the first line alone."""
    first: dict[object, Reject] = {}
    for reject in rejects:
        first.setdefault(
            (reject.path, reject.message if reject.reason in OF_FILE else reject.offset), reject
        )
    return [f"{reject.path or '-'}: {reject}" for reject in [*first.values()][:LISTED_REJECTS]]


def list_rejects(given: Given, rejects: Rejects, kept: str | None = None) -> None:
    """Print the first rejects in memory, then the counts by reason; the file `kept` has all
    rejects.
    """
    listed = listed_rejects(rejects)
    for told in listed:
        tell(sys.stderr, one_line(told))
    more = rejects.total - len(listed)
    if len(rejects) and more > 0:
        told = "; --rejects FILE keeps all of them" if hasattr(given, "rejects") else ""
        told = told if kept is None else f"; {kept} has all of them"
        tell(sys.stderr, one_line(f"... and {more} more{told}"))
    if rejects.total:
        tell(sys.stderr, f"rejected: {counts(rejects.counts)}")
