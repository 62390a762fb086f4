"""``aggregate``: aggregates of results that are on disk already."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import MISSING_RATE
from graphrag_eval_async.cli.files import STATE, check_distinct, files_of_results, merge_aggregates
from graphrag_eval_async.cli.gates import (
    check_gates_after_reading,
    check_reference_for_gates,
    has_gate_on_missing,
    named_tag_keys,
)
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.repeats import RepeatedQuestions
from graphrag_eval_async.cli.run_summary import SummaryOptions, page_stream, report
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import one_line
from graphrag_eval_async.inference.running import RunningAggregates
from graphrag_eval_async.records import Rejects
from graphrag_eval_async.reference import Reference, StepNames, load_reference, misnamed_steps

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.inference.running import Interval


@dataclass(frozen=True, kw_only=True)
class AggregateOptions(SummaryOptions):
    """The options of ``aggregate``."""

    results: list[str]
    repeats: bool
    reference: str | None
    by: str | None
    interval: Interval | None


class MergedResults:
    """What is known of results from several files, in the layout that `report` reads.

    Attributes:
        aggregates: the aggregates of all files.
        rejects: the lines that are no results.
        repeated: which files answer the same questions in other ways.
    """

    def __init__(
        self, paths: Sequence[str], reference: Reference | None, tag_keys: Collection[str]
    ) -> None:
        """Start without results.

        Args:
            paths: the files whose results will be added.
            reference: the reference set; None if it is not known.
            tag_keys: the keys of tags that options name. They are counted even if results have more
                keys of tags than aggregates count.
        """
        self.aggregates = RunningAggregates()
        self.aggregates._count_tags_first(tag_keys)
        self.rejects = Rejects()
        self.repeated = RepeatedQuestions(paths)
        self._reference = reference
        self._answered_questions: set[str] = set()
        self._step_names = StepNames()
        if reference is not None:
            self.aggregates.order_templates(reference.templates)
            self.aggregates.expect_steps(reference.step_names)

    def add(self, path: str, result: dict[str, Any]) -> None:
        """Add a result from the file `path` to the aggregates and the other counts."""
        self.aggregates.add(result)
        self.repeated.add(path, result)
        self._step_names.add(result)
        question_id = result.get("question_id")
        if isinstance(question_id, str):
            self._answered_questions.add(question_id)

    @property
    def missing(self) -> list[str]:
        """The ids of the questions of the reference set that have no result."""
        if self._reference is None:
            return []
        return [
            question_id
            for question_id in self._reference.questions
            if question_id not in self._answered_questions
        ]

    def misnamed_steps(self) -> str | None:
        """Return a warning if agents seem to call reference steps by other names."""
        return misnamed_steps(self._reference or self._step_names, self.aggregates._step_names())


def run(options: AggregateOptions, interrupts: Interrupts) -> Exit:
    """Merge kept aggregates, add the results of the other files, and print the summary."""
    check_reference_for_gates(options.gate, options.reference)
    check_distinct([*options.results, options.reference], [options.rejects, options.aggregates])
    files = files_of_results(options.results)
    kept_aggregates = [path for path in files if path.endswith(STATE)]
    result_files = [path for path in files if not path.endswith(STATE)]
    if has_gate_on_missing(options.gate) and kept_aggregates:
        raise UsageError(
            f"{kept_aggregates[0]}: a gate on {MISSING_RATE} needs results, not their aggregates"
        )

    # First add the kept aggregates, which are quick to read, and then the results.
    reference = load_reference(options.reference) if options.reference is not None else None
    merged = MergedResults(result_files, reference, named_tag_keys(options.gate, options.by))
    for path in kept_aggregates:
        merge_aggregates(merged.aggregates, path)
    sources = [(path, partial(merged.add, path)) for path in result_files]
    merged.rejects, ending = read_to_end(sources, interrupts, rejects_path=options.rejects)

    # Check the options that name tags and metrics, and find what the user should know.
    notes = []
    if ending.is_complete:
        merged.aggregates.finish()
        if options.gate or options.by:
            snapshot = merged.aggregates.snapshot(detail=True)
            check_gates_after_reading(options.gate, options.by, snapshot, reference)
        misnamed = merged.misnamed_steps()
        if misnamed is not None:
            notes.append(f"warning: {misnamed}")
        merged_systems = merged.repeated.warning()
        if merged_systems is not None and not options.repeats:
            # The warning is one long line: a user may copy the command in it.
            notes.append(one_line(f"warning: {merged_systems}"))
    return report(
        options,
        merged,
        ending,
        stream=page_stream(options.rejects),
        # Aggregates do not say which questions have no result.
        reference=None if kept_aggregates else reference,
        by=options.by,
        interval=options.interval,
        notes=notes,
        lines_known=not kept_aggregates,
    )
