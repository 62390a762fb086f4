"""What a run leaves at its end: rejects, aggregates, a table, and the gates that do not hold."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TextIO

from graphrag_eval_async.cli.costs import counts
from graphrag_eval_async.cli.detail import failure_reasons, render_detail
from graphrag_eval_async.cli.files import write_aggregates
from graphrag_eval_async.cli.gates import Gate, Measures
from graphrag_eval_async.cli.table import render_table
from graphrag_eval_async.cli.text import describe, one_line, tell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from graphrag_eval_async.cli.exits import Ending, Exit
    from graphrag_eval_async.inference.running import RunningAggregates
    from graphrag_eval_async.records import Reason
    from graphrag_eval_async.reference import Reference
    from graphrag_eval_async.stream import EvaluationStream
    from graphrag_eval_async.stream.ending import Decision

LISTED_REJECTS = 10
"""How many rejects are listed where no file takes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run came to.

    Attributes:
        level: of the confidence that is shown.
        ending: how it ended.
        aggregates: of its results.
        rejected: how many lines were rejected, by reason.
        listed: the rejects to list, as text.
        reference: the reference set, where there is one.
        answered: ids of the questions that the results answer.
        notes: what else is to be told, in lines.
        decision: about the condition that was to end it, where there was one.
    """

    level: float
    ending: Ending
    aggregates: RunningAggregates
    rejected: Mapping[Reason, int]
    listed: Sequence[str]
    reference: Reference | None
    answered: Set[str]
    notes: Sequence[str] = ()
    decision: Decision | None = None


def report(run: Run, *, aggregates: str | None, gates: Sequence[Gate], table: TextIO | None) -> Exit:
    """Write and show what `run` came to; returns the exit code."""
    snapshot = run.aggregates.snapshot(detail=True, level=run.level)
    ending = run.ending
    try:
        # Before anything is told, which may wait for somebody to read it.
        if aggregates is not None:
            decision = {} if run.decision is None else {"decision": asdict(run.decision)}
            write_aggregates(aggregates, snapshot | decision)
    except OSError as error:
        ending = ending._replace(error=ending.error or error)
    list_rejects(run.rejected, run.listed)
    try:
        if table is not None:
            tables = [text for render in (render_table, render_detail) if (text := render(snapshot, table))]
            summary = [_summary(run, snapshot["micro"]), *failure_reasons(snapshot), *run.notes]
            tell(table, "\n".join(["\n\n".join(tables), "", *summary]))
    except OSError as error:
        ending = ending._replace(error=ending.error or error)
    measures = Measures(snapshot, run.reference, run.answered)
    failures = [failure for gate in gates if (failure := measures.failure(gate))]
    if run.decision is not None and not run.decision.holds:
        decided = "decided so" if run.decision.holds is False else "not decided"
        failures.append(f"{run.decision.condition}: {decided}")
    for failure in failures:
        tell(sys.stderr, one_line(f"gate does not hold: {failure}"))
    tell_error(ending)
    return ending.code(rejects=bool(run.rejected), gates=bool(failures))


def tell_error(ending: Ending) -> None:
    """Show what ended a run, if it was an error."""
    if ending.error is not None:
        tell(sys.stderr, f"Error: {describe(ending.error)}")


def journaling(stream: EvaluationStream) -> list[str]:
    """What became of the journal, in a line, where there is one."""
    journal = stream.journal
    if journal is None:
        return []
    damaged = (
        f", {journal.damaged} damaged lines set aside in {journal.path}.damaged" if journal.damaged else ""
    )
    found = f"{journal.restored} results and {journal.rejected} rejects from before"
    return [one_line(f"journal {journal.path}: {found}, {stream.skipped} lines skipped as done{damaged}")]


def list_rejects(rejected: Mapping[Reason, int], listed: Sequence[str]) -> None:
    """Show rejects: how many there are by reason, after those that are to be listed."""
    for line in listed:
        tell(sys.stderr, one_line(line))
    more = sum(rejected.values()) - len(listed)
    if listed and more:
        tell(sys.stderr, f"... and {more} more; --rejects FILE keeps all of them")
    if rejected:
        tell(sys.stderr, f"rejected: {counts(rejected)}")


def _summary(run: Run, micro: Mapping[str, int]) -> str:
    results = micro["number_of_error_samples"] + micro["number_of_success_samples"]
    summary = f"results: {results}, rejected lines: {sum(run.rejected.values())}"
    if run.reference is None:
        return summary
    missing = sum(question_id not in run.answered for question_id in run.reference.questions)
    so_far = " so far" if run.decision is not None and run.decision.holds is not None else ""
    return f"{summary}, questions without a response{so_far}: {missing} of {len(run.reference)}"
