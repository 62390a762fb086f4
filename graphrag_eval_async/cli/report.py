"""Reports a run at its end: rejects, aggregates, the page of scores, and gates."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, TextIO

from graphrag_eval_async.aggregates.questions import QuestionScore
from graphrag_eval_async.cli.exits import Ending, Exit
from graphrag_eval_async.cli.files import STATE, write_aggregates, write_state
from graphrag_eval_async.cli.gates import check_each, failed_and_held
from graphrag_eval_async.cli.options import Given
from graphrag_eval_async.cli.table import failure_reasons, folded, render_detail, render_means
from graphrag_eval_async.inference.running import Interval, RunningAggregates
from graphrag_eval_async.monitor.wording import unscored
from graphrag_eval_async.monitor.worst import worst_questions
from graphrag_eval_async.records import Reject, Rejects
from graphrag_eval_async.records.metrics import counts_of
from graphrag_eval_async.reference import NoReference, Reference
from graphrag_eval_async.scale.file_evaluation import EvaluatedFile
from graphrag_eval_async.scale.redis.results import Run
from graphrag_eval_async.stream.until import Decision
from graphrag_eval_async.text import counts, describe, one_line, percent, tell

LISTED_REJECTS = 10  # how many rejects are listed where no file takes them
OF_FILE = {"not_a_response", "not_a_result"}  # reasons that say what a file is, as all of its lines do
WORST_QUESTIONS = 5


def report(
    given: Given,
    found: EvaluatedFile,
    ending: Ending,
    *,
    reference: Reference | None,
    table: TextIO | None,
    interval: Interval | None = None,
    kept: str | None = None,
    notes: Iterable[str] = (),
    lines_known: bool = True,
    decision: Decision | None = None,
    page: Callable[[Mapping[str, Any]], None] | None = None,
) -> Exit:
    """Write the aggregates; show rejects, tables, `notes`, failed gates and the error of `ending`.

    Args:
        given: the options.
        found: what was found.
        ending: how the run ended.
        reference: the reference set, if its questions should be counted.
        table: where the tables go; None shows none.
        interval: the kind of intervals; None if how the run ended decides.
        kept: the file that has all rejects, if some are also listed.
        notes: lines at the end.
        lines_known: whether this process read the lines, so that the number of rejects is known.
        decision: what --until decided.
        page: writes a report of the aggregates.
    """
    aggregates = found.aggregates
    snapshot = aggregates.snapshot(detail=True, level=given.level, interval=interval)
    if given.aggregates is not None:
        # Before anything is shown, which may wait for a reader.
        more = {} if decision is None else {"decision": asdict(decision)}
        if given.aggregates.endswith(STATE):
            ending = ending.attempt(partial(write_state, given.aggregates, aggregates))
        else:
            ending = ending.attempt(partial(write_aggregates, given.aggregates, snapshot | more))
    if page is not None:
        ending = ending.attempt(partial(page, snapshot))
    list_rejects(found.rejects, kept)
    summary = _summary(found, snapshot["micro"], reference, decision, lines_known=lines_known)
    gates = check_each(given.gate, snapshot, reference, {*found.missing})
    failures, held = failed_and_held(gates)
    nothing = unscored(snapshot["micro"]) if ending.error is None else ""
    lines = [summary, *folded([nothing, *failure_reasons(snapshot)]), *_worst(aggregates)]
    lines += [*notes, *(one_line(f"gate held: {gate}") for gate in held)]
    if table is not None:
        parts = [render_means(snapshot, table), render_detail(snapshot, table) if given.detail else ""]
        told = ["\n\n".join(filter(None, parts)), "", *lines]
        ending = ending.attempt(partial(tell, table, "\n".join(told)))
    if decision is not None and not decision.holds:
        decided = "decided so" if decision.holds is False else "not decided"
        failures.append(f"{decision.condition}: {decided}")
    return end(ending, found.rejects, failures)


def _worst(aggregates: RunningAggregates) -> list[str]:
    """The worst questions, in a line."""
    worst = worst_questions(aggregates, WORST_QUESTIONS)
    told = ", ".join(f"{one_line(each.question, limit=80)} ({_mean(each)})" for each in worst)
    return folded([f"worst questions by {worst[0].metric}: {told}"] if worst else [])


def _mean(score: QuestionScore) -> str:
    errors = f", {score.errors} of {score.values + score.errors} errors" if score.errors else ""
    return f"{score.mean:.3g}{errors}"


def _summary(
    found: EvaluatedFile,
    micro: Mapping[str, int],
    reference: Reference | None,
    decision: Decision | None,
    *,
    lines_known: bool,
) -> str:
    summary = f"results: {counts_of(micro)[0]}"
    if lines_known or found.rejects.total:
        summary += f", rejected lines: {found.rejects.total}"
    if reference is None or isinstance(reference, NoReference):
        return summary
    so_far = " so far" if decision is not None and decision.holds is not None else ""
    return f"{summary}, questions without a response{so_far}: {len(found.missing)} of {len(reference)}"


def end(ending: Ending, rejects: Rejects | None = None, failures: Iterable[str] = ()) -> Exit:
    """Show why gates fail, and the error that ended the run; returns the exit code."""
    failures = [*failures]
    for failure in failures:
        tell(sys.stderr, one_line(f"gate failed: {failure}"))
    if ending.error is not None:
        tell(sys.stderr, f"Error: {describe(ending.error)}")
    return ending.code(rejects=rejects is not None and rejects.total > 0, gates=bool(failures))


def listed_rejects(rejects: Rejects) -> list[str]:
    """The first rejects in memory; of a file that is something else, the first line alone."""
    first: dict[object, Reject] = {}
    for reject in rejects:
        first.setdefault((reject.path, reject.message if reject.reason in OF_FILE else reject.offset), reject)
    return [f"{reject.path or '-'}: {reject}" for reject in [*first.values()][:LISTED_REJECTS]]


def list_rejects(rejects: Rejects, kept: str | None = None) -> None:
    """Print the first rejects in memory, then the counts by reason; the file `kept` has all rejects."""
    listed = listed_rejects(rejects)
    for told in listed:
        tell(sys.stderr, one_line(told))
    more = rejects.total - len(listed)
    if len(rejects) and more > 0:
        told = "--rejects FILE keeps all of them" if kept is None else f"{kept} has all of them"
        tell(sys.stderr, one_line(f"... and {more} more; {told}"))
    if rejects.total:
        tell(sys.stderr, f"rejected: {counts(rejects.counts)}")


def journaling(stream: Run) -> list[str]:
    """Return a line about what the journal held, if there is one."""
    journal = stream.journal
    if journal is None:
        return []
    damaged = (
        f", {journal.damaged} damaged lines set aside in {journal.path}.damaged" if journal.damaged else ""
    )
    found = f"{journal.restored} results and {journal.rejected} rejects from before"
    return [one_line(f"journal {journal.path}: {found}, {stream.skipped} lines skipped as done{damaged}")]


def deciding(decision: Decision) -> list[str]:
    """Return lines about what was decided, and how many responses were not needed."""
    found = {None: "is open", True: "holds", False: "does not hold"}[decision.holds]
    failed = f", {decision.failed} of them failed" if decision.failed else ""
    interval = f"{percent(decision.level)}: {decision.low:.4g} to {decision.high:.4g}"
    lines = [
        one_line(
            f"{'not ' if decision.holds is None else ''}decided after {decision.responses} responses "
            f"to {decision.questions} questions: "
            f"{decision.condition} {found} ({interval}; {decision.samples} samples{failed})"
        )
    ]
    if decision.remaining:
        lines.append(f"skipped: {decision.remaining} responses")
    return lines
