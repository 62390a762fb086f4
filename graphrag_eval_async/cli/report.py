"""What a run tells at its end: rejects, aggregates, a table, and the gates that fail."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TextIO

from graphrag_eval_async.cli.files import write_aggregates
from graphrag_eval_async.cli.gates import Gate, Measures
from graphrag_eval_async.cli.table import failure_reasons, render_detail, render_table
from graphrag_eval_async.cli.text import counts, describe, dollars, one_line, percent, tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

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
        reference: the reference set, if there is one.
        answered: ids of the questions that the results answer.
        notes: more lines to tell.
        decision: about the condition that was to end it, if there was one.
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
    tell_failures(failures)
    tell_error(ending)
    return ending.code(rejects=bool(run.rejected), gates=bool(failures))


def tell_failures(failures: Iterable[str]) -> None:
    """Show why gates fail."""
    for failure in failures:
        tell(sys.stderr, one_line(f"gate does not hold: {failure}"))


def tell_error(ending: Ending) -> None:
    """Show what ended a run, if it was an error."""
    if ending.error is not None:
        tell(sys.stderr, f"Error: {describe(ending.error)}")


def list_rejects(rejected: Mapping[Reason, int], listed: Sequence[str]) -> None:
    """Show rejects: those to list, then how many there are by reason."""
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


def journaling(stream: EvaluationStream) -> list[str]:
    """What became of the journal, in a line, if there is one."""
    journal = stream.journal
    if journal is None:
        return []
    damaged = (
        f", {journal.damaged} damaged lines set aside in {journal.path}.damaged" if journal.damaged else ""
    )
    found = f"{journal.restored} results and {journal.rejected} rejects from before"
    return [one_line(f"journal {journal.path}: {found}, {stream.skipped} lines skipped as done{damaged}")]


def deciding(decision: Decision, *, judged: bool) -> list[str]:
    """What was decided about the condition, and what that saved, in lines."""
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
        lines.append(f"left out: {decision.remaining} responses{_saved(decision) if judged else ''}")
    return lines


def _saved(decision: Decision) -> str:
    if decision.saved_calls is None:
        return ""
    cost = "" if decision.saved_dollars is None else f", about {dollars(decision.saved_dollars)}"
    return f"; judging them would have taken about {decision.saved_calls} calls{cost}"
