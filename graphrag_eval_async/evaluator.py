"""One response in, one result out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.concurrency import run_in_thread
from graphrag_eval_async.errors import ComparisonBudgetExceeded, RejectedResponse, UsageError
from graphrag_eval_async.records import Line, Reject, read_record, write_line
from graphrag_eval_async.records.copying import copier
from graphrag_eval_async.reference import Groups, Reference, Templates, load_reference
from graphrag_eval_async.steps import QUICK_SEARCH_STEPS, Budget, prepare_step, score_steps

if TYPE_CHECKING:
    import os

    from graphrag_eval_async.records import Question, Record, Response
    from graphrag_eval_async.steps import Comparator, StepsScore

StepsGroups = Literal["last", "all"]

LARGE_BYTES = 128 * 1024
"""From this size on, of a response or of its reference steps, scoring is done in a thread: comparing large
tables would hold up the event loop."""

MAX_ERRORS = 10
"""How many failed comparisons `steps_score_error` tells."""


class Evaluator:
    """Evaluates single responses against a reference set.

    Attributes:
        reference: the reference set.
    """

    def __init__(
        self,
        reference: str | os.PathLike[str] | Templates | Reference,
        *,
        comparators: Mapping[str, Comparator] | None = None,
        steps_groups: StepsGroups = "last",
    ) -> None:
        """Prepare the reference set.

        Args:
            reference: a path to YAML or JSON, a list of template dicts, or a `Reference`.
            comparators: by name of reference step, what compares it with an actual step of that name:
                ``(reference_step, actual_step) -> float`` in [0, 1]. It takes the place of a built-in one. It
                should depend on the two steps alone: it may be called from a worker thread, and twice.
            steps_groups: "last" scores the last group of reference steps, "all" the mean over all groups.

        Raises:
            ReferenceDataError: the reference set cannot be right.
            UsageError: an argument has a value it cannot have.
        """
        if steps_groups not in ("last", "all"):
            raise UsageError(f'steps_groups: expected "last" or "all", got {steps_groups!r}')
        if not isinstance(comparators, Mapping | None):
            raise UsageError(f"comparators: expected a dict of functions, got {comparators!r}")
        for name, comparator in (comparators or {}).items():
            if not isinstance(name, str) or not callable(comparator):
                raise UsageError(f"comparators[{name!r}]: expected a function, got {comparator!r}")
        self.reference = load_reference(reference, comparators=comparators)
        self._mode: StepsGroups = steps_groups
        self._groups = self.reference.prepared
        if comparators and self.reference is reference:  # Loaded before, and without them.
            self._groups = _with_comparators(self.reference, comparators)
        self._large = {question.id for question in self.reference if _is_large(question)}
        self._blanks = {question.id: copier(_blank(question)) for question in self.reference}

    async def evaluate(self, response: Mapping[str, Any] | bytes | str, *, sample: int = 1) -> dict[str, Any]:
        """The result of one response: a dict, or the same as JSON text.

        Args:
            response: is not changed; the result holds copies.
            sample: the `sample` that the result carries.

        Raises:
            RejectedResponse: the response cannot be evaluated.
        """
        text = response.encode(errors="surrogatepass") if isinstance(response, str) else response
        if isinstance(text, bytes | bytearray):
            record: Record = Line(1, 0, bytes(text))
        else:
            record = write_line(text, 1, 0)
        read = read_record(record, self.reference.questions)
        if isinstance(read, Reject):
            raise RejectedResponse(read)
        return self.score_at_once(record, read, sample) or await self.score_in_thread(read, sample)

    def score_at_once(self, record: Record, response: Response, sample: int) -> dict[str, Any] | None:
        """The result of the response in `record`, or None where finding it would hold up an event loop."""
        if weight(record) or response.question_id in self._large:
            return None
        try:
            return self._score(response, sample, Budget(QUICK_SEARCH_STEPS), quick=True)
        except ComparisonBudgetExceeded:
            return None

    async def score_in_thread(self, response: Response, sample: int) -> dict[str, Any]:
        """The result of one response, however long it takes; a cancellation ends the work, too."""
        budget = Budget()
        return await run_in_thread(partial(self._score, response, sample, budget), budget.stop)

    def _score(
        self, response: Response, sample: int, budget: Budget, *, quick: bool = False
    ) -> dict[str, Any]:
        steps = response.fields.get("actual_steps")
        groups = self._groups.get(response.question_id)
        scored = None
        if groups is not None and steps is not None and not response.failed:
            scored = score_steps(groups, steps, budget, mode=self._mode, quick=quick)
        result: dict[str, Any] = self._blanks[response.question_id]()
        _fill(result, response, sample, scored)
        return result


def weight(record: Record) -> int:
    """The size of a record in units of `LARGE_BYTES`."""
    return len(record.data) // LARGE_BYTES if isinstance(record, Line) else 0


def _is_large(question: Question) -> bool:
    outputs = (step.get("output") for group in question.reference_steps or () for step in group)
    return sum(len(output) for output in outputs if isinstance(output, str)) >= LARGE_BYTES


def _with_comparators(reference: Reference, comparators: Mapping[str, Comparator]) -> Mapping[str, Groups]:
    """The prepared steps of a reference set, those with a comparator of the caller's prepared anew."""
    return {
        question_id: tuple(
            tuple(
                prepare_step(step.step, comparators) if step.step["name"] in comparators else step
                for step in group
            )
            for group in groups
        )
        for question_id, groups in reference.prepared.items()
    }


def _blank(question: Question) -> dict[str, Any]:
    """What every result of a question begins with."""
    blank: dict[str, Any] = {
        "template_id": question.template_id,
        "question_id": question.id,
        "question_text": question.text,
    }
    if question.reference_steps is not None:
        blank["reference_steps"] = question.reference_steps
    if question.reference_answer is not None:
        blank["reference_answer"] = question.reference_answer
    return blank


def _fill(result: dict[str, Any], response: Response, sample: int, scored: StepsScore | None) -> None:
    """Add the keys that depend on the response, in their documented order."""
    fields = response.fields
    result["status"] = "error" if response.failed else "success"
    for key in ("error", "actual_answer", "actual_steps"):
        if key in fields:
            result[key] = fields[key]
    if scored is not None:
        for group, index, actual in scored.matches:
            result["reference_steps"][group][index]["matches"] = fields["actual_steps"][actual].get("id")
        result["steps_score"] = scored.score
        if scored.errors:
            result["steps_score_error"] = "; ".join(scored.errors[:MAX_ERRORS])
    for key in ("input_tokens", "output_tokens", "total_tokens", "elapsed_sec"):
        if key in fields:
            result[key] = fields[key]
    result["sample"] = sample
    if "id" in fields:
        result["response_id"] = fields["id"]
    if response.metadata:
        result["metadata"] = response.metadata
