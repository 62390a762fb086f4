"""Why a response failed: the `failure` of a result whose question has reference steps.

The steps are right if their score is 1, whichever groups `steps_groups` selects. Otherwise one reference step
gives the reason: the earliest, in the groups compared, without a match of score 1. The actual step to blame
is the one that it took. If it took none, candidates are the actual steps with an accepted name that no other
reference step took: the latest that returned something, else the latest. Without any candidate, the agent
never took that step; this is also `no_steps`.

Reasons such as `missing_rows` need partial credit (`score: f1`). Steps that are compared exactly are not
searched for rows that agree in part: theirs is `wrong_query_result`.

A response that ended in an error has no score: its failure is `step_error` if it has steps, else `no_steps`.

If the steps are right, and the answer is missing or blank although the reference set has one, this is
`no_answer`. Otherwise the answer counts only if it was judged. It is right if `answer_f1` is at least
`RIGHT_ANSWER`. If answer correctness is off, `ragas_answer_correctness` replaces it. If it failed, nothing
replaces it, so that all answers of a run are measured alike.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.records.outcomes import REASON

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RIGHT_ANSWER = 0.5
"""Minimum F1 of a right answer: at least half of its claims and the reference's match."""

NO_FAILURE = "none"
"""The class of results that are right."""

_ANSWER_METRICS = ("answer_f1", "ragas_answer_correctness")


class Facts(NamedTuple):
    """The facts that decide the failure of a result.

    Attributes:
        right_steps: the steps score is 1. All below the answer is of the step to blame if it is not.
        right_answer: whether the judged metrics say that the answer is right; None if there are none.
        unanswered: the answer is missing or blank, although the question has a reference answer.
        attempted: there is an actual step to blame.
        invalid_query: it carries a SPARQL query that does not parse.
        failed: it did not succeed.
        empty: it returned nothing, and the reference something.
        lacks_columns: it returned SPARQL results with fewer columns than are required.
        only_disordered: it returned what is required, except for the order of the rows.
        misses_documents: it is a retrieval, with a recall below 1.
        misses_rows, has_extra_rows, has_wrong_values: with partial credit for rows and cells, what explains
            most of the cells that do not agree; at most one of them.
        misses_triples, has_extra_triples: with partial credit for triples, what explains most of the triples
            that do not agree; at most one of them.
    """

    right_steps: bool = False
    right_answer: bool | None = None
    unanswered: bool = False
    attempted: bool = False
    invalid_query: bool = False
    failed: bool = False
    empty: bool = False
    lacks_columns: bool = False
    only_disordered: bool = False
    misses_documents: bool = False
    misses_rows: bool = False
    has_extra_rows: bool = False
    has_wrong_values: bool = False
    misses_triples: bool = False
    has_extra_triples: bool = False


ALL_RIGHT = Facts(right_steps=True)
UNANSWERED = Facts(right_steps=True, unanswered=True)

# The first rule that holds decides.
_RULES: tuple[tuple[str, Callable[[Facts], object]], ...] = (
    ("no_answer", lambda facts: facts.right_steps and facts.unanswered),
    (NO_FAILURE, lambda facts: facts.right_steps and facts.right_answer is not False),
    ("right_steps_wrong_answer", lambda facts: facts.right_steps),
    ("wrong_steps_right_answer", lambda facts: facts.right_answer),
    ("no_steps", lambda facts: not facts.attempted),
    ("query_invalid", lambda facts: facts.invalid_query),
    ("step_error", lambda facts: facts.failed),
    ("empty_result", lambda facts: facts.empty),
    ("missing_columns", lambda facts: facts.lacks_columns),
    ("wrong_order", lambda facts: facts.only_disordered),
    ("missing_rows", lambda facts: facts.misses_rows),
    ("extra_rows", lambda facts: facts.has_extra_rows),
    ("wrong_values", lambda facts: facts.has_wrong_values),
    ("missing_triples", lambda facts: facts.misses_triples),
    ("extra_triples", lambda facts: facts.has_extra_triples),
    ("missed_retrieval", lambda facts: facts.misses_documents),
    ("wrong_query_result", lambda _: True),
)


CLASSES = tuple(name for name, _ in _RULES)
"""All values of `failure`, including `NO_FAILURE`."""


@cache  # There are few combinations of facts.
def failure_of(facts: Facts) -> str:
    """Return the name of the first rule that holds."""
    return next(name for name, holds in _RULES if holds(facts))


def right_answer(result: Mapping[str, Any]) -> bool | None:
    """Whether the answer is right by its judged metrics; None without a metric that decides."""
    if "answer_eval_error" in result:
        return None
    scores = [result[metric] for metric in _ANSWER_METRICS if result.get(metric) is not None]
    return scores[0] >= RIGHT_ANSWER if scores else None


def failure_counts(group: Mapping[str, Any]) -> dict[str, int]:
    """How many results of a group of aggregates are wrong, by class, the most frequent first."""
    wrong = ((name, count) for name, count in group.get(REASON, {}).items() if name != NO_FAILURE)
    return dict(sorted(wrong, key=lambda each: (-each[1], each[0])))
