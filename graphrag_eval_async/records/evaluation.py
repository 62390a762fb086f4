"""The evaluation of one response. Each stage sets its fields; the result dict is built last."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from graphrag_eval_async.catalogue.metrics import RESOURCES
from graphrag_eval_async.catalogue.outcomes import EXECUTION_ERROR
from graphrag_eval_async.records.decoding import copy_json
from graphrag_eval_async.records.outputs import returned_nothing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.catalogue.outcomes import Outcomes
    from graphrag_eval_async.catalogue.tags import Tags
    from graphrag_eval_async.records.question import Question
    from graphrag_eval_async.records.response import Response

# The outcomes of a step: it returned something, it returned nothing, or it failed. They are ints,
# since there are millions of them in the keys of counts, where an enum would be slow.
RETURNED = 0
EMPTY = 1
FAILED = 2

LONGEST_NAME = 200
"""Maximum length, in characters, of a step name that is counted by name."""

MANY_STEPS = 1000
"""Maximum number of steps of one response that are kept one by one and counted by name."""

StepKinds: TypeAlias = "tuple[tuple[str | None, int, int], ...]"
"""The steps of a response: for each, its name, `RETURNED`, `EMPTY` or `FAILED`, and how many equal
steps it stands for. The name is None if it is longer than `LONGEST_NAME` characters. So are those
of the steps after the first `MANY_STEPS`.
"""

MAX_ERRORS = 10
"""Maximum number of failed comparisons listed in `steps_score_error`."""


class Traits(NamedTuple):
    """The fields of an `Evaluation` that many results have in common.

    Aggregates count results with equal traits together, which is faster. The fields are described
    in `Evaluation`.
    """

    template_id: str
    failed: bool
    metrics: tuple[str, ...]
    steps: StepKinds
    outcomes: Outcomes
    tags: Tags

    def without_tags(self) -> Traits:
        """Return a copy without tags, which is compared by its fields even if this is not."""
        return Traits(*self)._replace(tags=())


class SharedTraits(Traits):
    """Traits of which many evaluations share one object.

    They are compared by identity, which takes a tenth of the time of comparing fields.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __ne__ = object.__ne__


NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""The default of fields that are mappings. A dict would be copied for each evaluation."""


class Evaluation(msgspec.Struct, gc=False, eq=False):
    """The evaluation of one response, made by an evaluator or read from a result dict.

    Aggregates, comparisons and conditions read the fields up to `shared_traits`, which are always
    set. The result dict is built from the fields after it. They are unset if the evaluation was
    read from a result dict.

    Attributes:
        template_id: id of the template of its question.
        question_id: id of its question; of any type if it was read from a result dict.
        failed: whether the agent failed.
        sample: number of this response among those to the same question, from 1; of any type if it
            was read from a result dict.
        metrics: the metrics that have a value. A metric repeats if there are several retrieval
            steps.
        numbers: the values of `metrics`, in the same order.
        steps: names and outcomes of its steps.
        outcomes: the metrics that apply but have no value, with the cause; and the reason why the
            steps or the answer are wrong.
        outcomes_of_error: the outcomes that replace `outcomes` if the values of failed responses do
            not count.
        fractions: names of outputs of custom evaluations that are from 0 to 1 by definition.
        votes: the metrics that several judges scored, with the score of each judge.
        pending: the metrics that a judge still has to score; None unless a complete result follows.
        is_answered: whether there is an answer that is not blank.
        tags: the tags of its question.
        shared_traits: an object with those fields that many evaluations have in common; None if
            there is no such object.
        question: its question.
        response: the response.
        reference_steps: groups of reference steps of its question; None if it has none.
        matches: for each matched reference step, the index of its group, its index in the group,
            and the index of the actual step.
        diffs: for each reference step that is matched in part, the index of its group, its index in
            the group, and the differences.
        paired_columns: for each reference step whose table has columns that are paired although
            their names differ, the index of its group, its index in the group, and the name of the
            actual column by that of the reference column.
        score: the steps score, from 0 to 1; None if no steps were compared.
        of_steps: the values of those metrics of steps that are switched on.
        errors: why comparisons of steps failed.
        failure: why the steps or the answer are wrong; None if they are right, or if nobody knows.
        facts: what `failure` is derived from, before and after judging.
        plan: the metrics to judge; None without a judge.
        judged: keys that judging adds to the result.
        judged_steps: keys that judging adds to actual steps, by index of the step.
        provenance: what the result records about its judge.
        execution: where and when queries were run; None if none was.
        execution_error: why queries could not be run, so that the steps have no score.
        executed_steps: keys that running queries adds to actual steps, by index of the step.
        source: file and position of the response.
        result: the result dict that `as_dict` has built, or that this was read from; None before.
    """

    template_id: str
    question_id: Any
    failed: bool
    sample: Any
    metrics: tuple[str, ...] = ()
    numbers: tuple[float, ...] = ()
    steps: StepKinds = ()
    outcomes: Outcomes = ()
    outcomes_of_error: Outcomes = ()
    fractions: tuple[str, ...] = ()
    votes: tuple[tuple[str, Mapping[str, float]], ...] = ()
    pending: Any = None
    is_answered: bool = False
    tags: Tags = ()
    shared_traits: SharedTraits | None = None

    question: Question | None = None
    response: Response | None = None
    reference_steps: list[list[dict[str, Any]]] | None = None
    matches: Sequence[tuple[int, int, int]] = ()
    diffs: Sequence[tuple[int, int, list[dict[str, Any]]]] = ()
    paired_columns: Sequence[tuple[int, int, dict[str, str]]] = ()
    score: float | None = None
    of_steps: Mapping[str, float | None] = NOTHING
    errors: Sequence[str] = ()
    failure: str | None = None
    facts: Any = None
    plan: Any = None
    judged: Mapping[str, Any] = NOTHING
    judged_steps: Mapping[int, Mapping[str, Any]] = NOTHING
    provenance: dict[str, Any] | None = None
    execution: Mapping[str, Any] | None = None
    execution_error: str | None = None
    executed_steps: Mapping[int, Mapping[str, Any]] = NOTHING
    source: dict[str, Any] | None = None
    result: Mapping[str, Any] | None = None

    @property
    def values(self) -> list[tuple[str, float]]:
        """Pairs of a metric and its value."""
        return list(zip(self.metrics, self.numbers, strict=True))

    def without_values(self) -> Evaluation:
        """Return a copy of a failed evaluation without its metrics and steps.

        It is for aggregates and comparisons in which the values of failed responses do not count.
        """
        return msgspec.structs.replace(
            self,
            metrics=(),
            numbers=(),
            steps=(),
            outcomes=self.outcomes_of_error,
            shared_traits=None,
        )

    def as_dict(self) -> Any:
        """Return the result dict. The first call builds it."""
        if self.result is None:
            self.result = _result_of(self)
        return self.result


def step_outcomes(steps: Iterable[Mapping[str, Any]]) -> StepKinds:
    """Return the name and the outcome of each step.

    Names that are too long are None. Steps after the first `MANY_STEPS` have no names, and those
    with the same outcome are joined.
    """
    outcomes = []
    for step in steps:
        name = step.get("name")
        if not isinstance(name, str):
            continue
        if step.get("status") == "error":
            kind = FAILED
        elif returned_nothing(step):
            kind = EMPTY
        else:
            kind = RETURNED
        is_short = len(name) <= LONGEST_NAME
        counted_name = name if is_short else None
        outcomes.append((counted_name, kind, 1))

    if len(outcomes) <= MANY_STEPS:
        return tuple(outcomes)
    times_by_kind = Counter(kind for _, kind, _ in outcomes[MANY_STEPS:])
    unnamed = [(None, kind, times) for kind, times in times_by_kind.items()]
    return (*outcomes[:MANY_STEPS], *unnamed)


def _result_of(evaluation: Evaluation) -> dict[str, Any]:  # noqa: C901  (a list of keys)
    """Return the result dict of an evaluation, with its keys in the documented order."""
    question = evaluation.question
    response = evaluation.response
    assert question is not None and response is not None  # noqa: PT018, S101
    fields = response.fields

    # The question.
    result: dict[str, Any] = {
        "template_id": question.template_id,
        "question_id": question.id,
        "question_text": question.text,
    }
    if evaluation.reference_steps is not None:
        result["reference_steps"] = _reference_steps_of(evaluation)
    if question.reference_answer is not None:
        result["reference_answer"] = question.reference_answer

    # The response, and the scores that judges gave its answer and its steps.
    result["status"] = "error" if evaluation.failed else "success"
    for key in ("error", "actual_answer"):
        if key in fields:
            result[key] = fields[key]
    result |= evaluation.judged
    if "actual_steps" in fields:
        result["actual_steps"] = _actual_steps_of(evaluation)

    # The score of the steps, and why they or the answer are wrong.
    result["steps_score"] = evaluation.score
    if evaluation.errors:
        result["steps_score_error"] = "; ".join(evaluation.errors[:MAX_ERRORS])
    if evaluation.of_steps:
        result |= evaluation.of_steps
    if evaluation.execution_error is not None:
        result[EXECUTION_ERROR] = evaluation.execution_error
    # While metrics are pending, the failure is not known, since the judge may change it.
    failure = evaluation.failure if evaluation.pending is None else None
    result["failure"] = failure
    facts = evaluation.facts
    if failure is not None and facts is not None and facts.detail is not None:
        result["failure_detail"] = facts.detail

    # Other fields of the response.
    for key in RESOURCES:
        if key in fields:
            result[key] = fields[key]
    if evaluation.sample is not None:
        result["sample"] = evaluation.sample
    if "id" in fields:
        result["response_id"] = fields["id"]
    if "trace_problems" in fields:
        result["trace_problems"] = fields["trace_problems"]
    if response.metadata:
        result["metadata"] = response.metadata

    # Where the response was read, and how it was evaluated.
    if evaluation.source is not None:
        result["source"] = evaluation.source
    if question.tags:
        result["tags"] = dict(question.tags)
    if evaluation.pending is not None:
        result["pending"] = evaluation.pending
    if evaluation.execution is not None:
        result["execution"] = evaluation.execution
    if evaluation.provenance is not None:
        result["judge"] = evaluation.provenance
    return result


def _reference_steps_of(evaluation: Evaluation) -> list[list[dict[str, Any]]]:
    """Return the groups of reference steps for a result.

    Each matched step has the id of its actual step, and the columns that are paired although their
    names differ. Each step that is matched in part has the differences. The steps are copies, so
    that changing a result does not change the reference set.
    """
    assert evaluation.response is not None  # noqa: S101
    actual_steps: Any = evaluation.response.fields.get("actual_steps")
    groups = [[step.copy() for step in group] for group in evaluation.reference_steps or ()]
    for group_index, step_index, actual_index in evaluation.matches:
        groups[group_index][step_index]["matches"] = actual_steps[actual_index].get("id")
    for group_index, step_index, differences in evaluation.diffs:
        groups[group_index][step_index]["diff"] = differences
    for group_index, step_index, pairs in evaluation.paired_columns:
        groups[group_index][step_index]["paired_columns"] = pairs
    return groups


def _actual_steps_of(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the actual steps, with the keys that running their queries and judging add."""
    assert evaluation.response is not None  # noqa: S101
    steps: list[dict[str, Any]] = evaluation.response.fields["actual_steps"]
    for added_by_index in (evaluation.executed_steps, evaluation.judged_steps):
        if added_by_index:
            steps = [
                {**step, **added_by_index.get(index, NOTHING)} for index, step in enumerate(steps)
            ]
    return steps


def part_of(evaluation: Evaluation, pending: Sequence[str]) -> Evaluation:
    """Return a preliminary copy of an evaluation, which can be delivered before it is judged.

    Its result dict shares no data with that of the evaluation, which judging changes.

    Args:
        evaluation: the evaluation before it is judged.
        pending: the names of the metrics that a judge still has to score.
    """
    part = msgspec.structs.replace(evaluation, pending=pending, result=None)
    part.result = copy_json(part.as_dict())
    return part
