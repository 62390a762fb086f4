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

# What a step came to. Integers, since there are millions of them, in the keys of counts.
RETURNED = 0
EMPTY = 1
FAILED = 2

LONGEST_NAME = 200
"""Maximum length, in characters, of a step name that is counted by name."""

MANY_STEPS = 1000
"""Maximum number of steps of one response that are kept one by one and counted by name."""

StepKinds: TypeAlias = "tuple[tuple[str | None, int, int], ...]"
"""Names of actual steps, `RETURNED`, `EMPTY` or `FAILED`, and how many. The name is None if it is
longer than `LONGEST_NAME` characters, and for the steps after `MANY_STEPS`.
"""

MAX_ERRORS = 10
"""Maximum number of failed comparisons listed in `steps_score_error`."""


class Traits(NamedTuple):
    """What many results share. The fields are those of `Evaluation`."""

    template_id: str
    failed: bool
    metrics: tuple[str, ...]
    steps: StepKinds
    outcomes: Outcomes
    tags: Tags

    def without_tags(self) -> Traits:
        """Return the same traits without tags, compared by value."""
        return Traits(*self)._replace(tags=())


class SharedTraits(Traits):
    """Traits that are compared by identity, which takes a tenth of the time of comparing fields."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __ne__ = object.__ne__


NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""The default of fields that are mappings. A dict would be copied for each evaluation."""


class Evaluation(msgspec.Struct, gc=False, eq=False):
    """One response, evaluated here or read from a result dict.

    Aggregates, comparisons and conditions read the fields up to `tags`, which are always set. The
    result dict is built from the fields after it, which are unset if it was read from one.
    """

    template_id: str
    question_id: Any  # Unchecked if read; so is `sample`.
    failed: bool  # Whether the agent failed.
    sample: Any  # Number of this response among the responses to the same question, from 1.
    metrics: tuple[str, ...] = ()  # Those that have a value. Metrics of retrieval steps may repeat.
    numbers: tuple[float, ...] = ()  # Their values, int or float.
    steps: StepKinds = ()
    # Metrics that apply but have no value, with the kind of failure; and why steps or answer are
    # wrong.
    outcomes: Outcomes = ()
    outcomes_of_error: Outcomes = ()  # The same if the values of failed responses do not count.
    fractions: tuple[str, ...] = ()  # Outputs of custom evaluations defined to be from 0 to 1.
    # Scores that several judges gave a metric.
    votes: tuple[tuple[str, Mapping[str, float]], ...] = ()
    pending: Any = None  # Metrics still to be judged, if a complete result follows.
    is_answered: bool = False  # Whether there is an answer that is not blank.
    tags: Tags = ()  # Those of its question.
    shared_traits: SharedTraits | None = (
        None  # The fields that it shares with others, if they are known.
    )

    question: Question | None = None
    response: Response | None = None
    reference_steps: list[list[dict[str, Any]]] | None = None
    # Of each matched reference step: its group, its index there, and the index of the actual step.
    matches: Sequence[tuple[int, int, int]] = ()
    # Of each reference step matched in part: its group, its index there, and what differs.
    diffs: Sequence[tuple[int, int, list[dict[str, Any]]]] = ()
    score: float | None = None  # Steps score, from 0 to 1; None if no steps were compared.
    # `TOOL_CALLS` and `VALUES`, those that are asked for.
    of_steps: Mapping[str, float | None] = NOTHING
    errors: Sequence[str] = ()  # Comparisons that failed, with the reason.
    failure: str | None = None  # Why the steps or the answer are wrong; None if nothing decides.
    facts: Any = None  # What `failure` is derived from, again after judging.
    plan: Any = None  # Metrics to judge; None without a judge.
    judged: Mapping[str, Any] = NOTHING  # Keys and values of the judged metrics.
    judged_steps: Mapping[int, Mapping[str, Any]] = NOTHING  # The same of steps, by their index.
    provenance: dict[str, Any] | None = None  # What the result records about its judge.
    execution: Mapping[str, Any] | None = None  # Where and when queries were run; None if none was.
    execution_error: str | None = None  # Why its steps have no score, as queries could not be run.
    # What running queries adds to actual steps.
    executed_steps: Mapping[int, Mapping[str, Any]] = NOTHING
    source: dict[str, Any] | None = None  # File and position of the response.
    # Once `as_dict` has built it, or what this was read from.
    result: Mapping[str, Any] | None = None

    @property
    def values(self) -> list[tuple[str, float]]:
        """Pairs of metric and value."""
        return list(zip(self.metrics, self.numbers, strict=True))

    def without_values(self) -> Evaluation:
        """Return a copy without metrics and steps, for when the values of failed responses do not
        count.
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
        """Return the result dict, which is built on the first call."""
        if self.result is None:
            self.result = _result_of(self)
        return self.result


def step_outcomes(steps: Iterable[Mapping[str, Any]]) -> StepKinds:
    """Return what steps came to, by name. Those after `MANY_STEPS` are counted without names."""
    kinds = []
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
        kinds.append((name if len(name) <= LONGEST_NAME else None, kind, 1))

    if len(kinds) <= MANY_STEPS:
        return tuple(kinds)
    times_by_kind = Counter(kind for _, kind, _ in kinds[MANY_STEPS:])
    unnamed = [(None, kind, times) for kind, times in times_by_kind.items()]
    return (*kinds[:MANY_STEPS], *unnamed)


def _result_of(evaluation: Evaluation) -> dict[str, Any]:  # noqa: C901  (a list of keys)
    """Return the result dict of an evaluation, its keys in the documented order."""
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

    # The response, and what judges say of its answer and its steps.
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
    # While metrics are pending, the failure is not known: the judged answer may change it.
    result["failure"] = evaluation.failure if evaluation.pending is None else None
    facts = evaluation.facts
    if facts is not None and facts.detail is not None and result["failure"] is not None:
        result["failure_detail"] = facts.detail

    # What else the response has.
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

    # Where it comes from, and how it was evaluated.
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
    """Return copies of the reference steps with what matched and what differs.

    So whoever changes a result does not change the reference set.
    """
    assert evaluation.response is not None  # noqa: S101
    actual_steps: Any = evaluation.response.fields.get("actual_steps")
    groups = [[step.copy() for step in group] for group in evaluation.reference_steps or ()]
    for group, index, actual_index in evaluation.matches:
        groups[group][index]["matches"] = actual_steps[actual_index].get("id")
    for group, index, differences in evaluation.diffs:
        groups[group][index]["diff"] = differences
    return groups


def _actual_steps_of(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the actual steps, with what running their queries and judging add to them."""
    assert evaluation.response is not None  # noqa: S101
    steps: list[dict[str, Any]] = evaluation.response.fields["actual_steps"]
    for keys_by_index in (evaluation.executed_steps, evaluation.judged_steps):
        if keys_by_index:
            steps = [
                {**step, **keys_by_index.get(index, NOTHING)} for index, step in enumerate(steps)
            ]
    return steps


def part_of(evaluation: Evaluation, pending: Sequence[str]) -> Evaluation:
    """Return a preliminary copy with `pending` metrics, which is safe to deliver early.

    Its result shares no data with that of `evaluation`.
    """
    part = msgspec.structs.replace(evaluation, pending=pending, result=None)
    part.result = copy_json(part.as_dict())
    return part
