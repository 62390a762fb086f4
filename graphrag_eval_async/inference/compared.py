"""What a comparison takes from a result: its values, who judged it, and by which reference data."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.aggregates.failures import RESPONSE_ERROR
from graphrag_eval_async.aggregates.reading import describe, observe
from graphrag_eval_async.errors import AggregationError
from graphrag_eval_async.records.metrics import ERROR_RATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.inference.pairs import Side

REFERENCE_KEYS = ("question_text", "reference_answer", "reference_steps")

JUDGED_BY = {"model": "models", "prompts": "prompts", "embedding": "embedding models"}
"""What a result says about its judge: the keys, and a plural for each."""

SHOWN_CHARACTERS = 60


class Compared(NamedTuple):
    """What is compared of one result.

    Attributes:
        values: by metric, ``error_rate`` included; several of one metric if several retrieval steps have it.
        failed: metrics that were asked for and failed; none if the agent failed, since any may be named then.
            An answer that is not there counts, whoever would have judged it.
        fractions: outputs of custom evaluations that are from 0 to 1 by definition.
        judge: what the result says about its judge.
        reference: a hash of the reference data in a complete result.
    """

    question: str
    template: str
    is_pending: bool
    values: list[tuple[str, float]]
    failed: list[str]
    fractions: Sequence[str]
    judge: object
    reference: int | None


def observe_compared(result: Mapping[str, Any], *, include_errors: bool) -> Compared:
    """What a comparison takes from one result; nothing else here reads results.

    Raises:
        AggregationError: it is not a result of a question, or a metric of it is not a finite number of at
            most 64 bits.
    """
    seen = observe(result, include_errors=include_errors)
    question = result.get("question_id")
    if not isinstance(question, str):
        raise AggregationError(f"question_id: must be a string, not {describe(question)}")
    values = [(ERROR_RATE, float(seen.failed))]
    values += [(metric, value) for metric, value in seen.values if metric != ERROR_RATE]
    failed = [metric for metric, kind in seen.failures if kind != RESPONSE_ERROR]
    is_pending = "pending" in result
    reference = None if is_pending else reference_hash(result)
    judge = result.get("judge")
    return Compared(question, seen.template, is_pending, values, failed, seen.fractions, judge, reference)


class Judges(defaultdict[str, set[str]]):
    """The judges of one run: by key of `JUDGED_BY`, all names that its results give."""

    def __init__(self) -> None:
        super().__init__(set)

    def add(self, judge: object) -> None:
        """Add what one result says about its judge."""
        if isinstance(judge, dict):
            for key in JUDGED_BY:
                if isinstance(name := judge.get(key), str):
                    self[key].add(name)


def judge_warnings(judges: Mapping[Side, Judges]) -> Iterator[str]:
    """Judges that differ between the two runs or within one; if only one was judged, they do not differ."""
    for key, plural in JUDGED_BY.items():
        names = {side: sorted(own[key]) for side, own in judges.items()}
        if all(names.values()) and names["baseline"] != names["candidate"]:
            told = "; ".join(f"{side}: {_listed(own)}" for side, own in names.items())
            yield f"the two were judged by different {plural}: {told}"
        else:
            for side, own in names.items():
                if len(own) > 1:
                    yield f"the {side} was judged by several {plural}: {_listed(own)}"


def _listed(names: list[str]) -> str:
    shown = [name[:SHOWN_CHARACTERS] for name in names[:3]]
    return ", ".join(shown + [f"{len(names) - 3} more"] * (len(names) > 3))


def reference_hash(result: Mapping[str, Any]) -> int | None:
    """A hash of the reference data in a result, without what scoring adds; None if there are none."""
    reference = [result.get(key) for key in REFERENCE_KEYS]
    if reference.count(None) == len(reference):
        return None
    if isinstance(reference[-1], list):
        reference[-1] = [
            [_without_matches(step) for step in group] if isinstance(group, list) else group
            for group in reference[-1]
        ]
    try:
        return hash(orjson.dumps(reference, option=orjson.OPT_SORT_KEYS))
    except TypeError:  # It holds what orjson does not write, such as a lone surrogate or an int of 65 bits.
        return hash(repr(reference))


def _without_matches(step: Any) -> Any:
    return {key: value for key, value in step.items() if key != "matches"} if isinstance(step, dict) else step
