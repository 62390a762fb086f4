"""``aggregate``: aggregates of results that are on disk already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import MISSING_RATE
from graphrag_eval_async.cli.files import STATE, check_distinct, files_of_results, merge_aggregates
from graphrag_eval_async.cli.gates import check_read, named_tag_keys, needs_reference, on_missing
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.run_summary import report
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.reference import StepNames, load_reference, misnamed_steps

if TYPE_CHECKING:
    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Exit, Interrupts


class Found:
    """What is found in results, from whatever they are read."""

    def __init__(self, given: Given) -> None:
        self.reference = load_reference(given.reference) if given.reference is not None else None
        self.aggregates = RunningAggregates()
        self.aggregates._count_tags_first(named_tag_keys(given))
        if self.reference is not None:
            self.aggregates.order_templates(self.reference.templates)
            self.aggregates.expect_steps(self.reference.step_names)
        self.rejects = Rejects()
        self.answered: set[str] = set()  # ids of questions
        self.names = StepNames()

    def add(self, result: dict[str, Any]) -> None:
        self.aggregates.add(result)
        self.names.add(result)
        if isinstance(question_id := result.get("question_id"), str):
            self.answered.add(question_id)

    @property
    def missing(self) -> list[str]:
        """Ids of the questions without results."""
        questions = self.reference.questions if self.reference is not None else ()
        return [question_id for question_id in questions if question_id not in self.answered]


def run(given: Given, interrupts: Interrupts) -> Exit:
    needs_reference(given)
    check_distinct([*given.results, given.reference], [given.rejects, given.aggregates])
    files = files_of_results(given.results)
    states = [path for path in files if path.endswith(STATE)]
    lines = [path for path in files if path not in states]
    if on_missing(given.gate) and states:
        raise UsageError(
            f"{states[0]}: a gate on {MISSING_RATE} needs results, not their aggregates"
        )
    found = Found(given)
    for path in states:
        merge_aggregates(found.aggregates, path)
    found.rejects, ending = read_to_end(given, [(path, found.add) for path in lines], interrupts)
    notes = []
    if ending.is_complete:
        found.aggregates.finish()
        if given.gate or given.by:
            check_read(given, found.aggregates.snapshot(detail=True), found.reference)
        if told := misnamed_steps(found.reference or found.names, found.aggregates._step_names()):
            notes.append(f"warning: {told}")
    return report(
        given,
        found,
        ending,
        reference=None if states else found.reference,
        notes=notes,
        lines_known=not states,
    )
