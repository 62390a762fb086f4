"""Why a response is wrong: the `failure` of a result whose question has reference steps or a
`match`.

If the steps are wrong, the earliest reference step that is not fully matched gives the reason, with
the actual step that it took. If it took none, the latest of its name that no other took is to
blame, preferably one that returned something. An answer counts only if it was matched or judged;
`answer_match` comes first. If answer correctness failed, nothing replaces it, so that all answers
of a run are measured alike.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.records.aliases import meant_name, plain_name
from graphrag_eval_async.records.conditions import OF_ANSWERS, RIGHT_ANSWER
from graphrag_eval_async.records.metrics import ANSWER_MATCH
from graphrag_eval_async.records.outcomes import REASON
from graphrag_eval_async.records.shapes import GRAPHS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.records.question import Question

NO_FAILURE = "none"  # The class of results that are right.

FORBIDDEN_STEP, TOO_MANY_STEPS = "forbidden_step", "too_many_steps"

CLASSES = (
    FORBIDDEN_STEP,
    TOO_MANY_STEPS,
    "no_answer",
    NO_FAILURE,
    "right_steps_wrong_answer",
    "wrong_answer",
    "wrong_steps_right_answer",
    "no_steps",
    "missing_step",
    "wrong_step_order",
    "query_invalid",
    "step_error",
    "wrong_args",
    "empty_result",
    "missing_columns",
    "wrong_order",
    "missing_rows",
    "extra_rows",
    "wrong_values",
    "missing_triples",
    "extra_triples",
    "missed_retrieval",
    "wrong_query_result",
)
"""All values of `failure`, including `NO_FAILURE`. The first that holds counts."""


class Facts(NamedTuple):
    """The facts that decide the failure of a result."""

    reason: str | None = None  # Why the steps are wrong, one of `CLASSES`; None if they are right.
    unanswered: bool = (
        False  # The answer is missing or blank, although there is a reference answer.
    )
    has_steps: bool = True  # Whether there are reference steps; else the answer alone decides.
    detail: str | None = None  # Such as which step is missing, or which argument is wrong.


def failure_of(facts: Facts, metrics: Mapping[str, Any]) -> str:
    """Return the class of a result with these metrics of its answer."""
    is_right = _is_right(metrics) if metrics else None
    if facts.reason in (FORBIDDEN_STEP, TOO_MANY_STEPS):
        return facts.reason
    if facts.reason is not None:
        return "wrong_steps_right_answer" if is_right else facts.reason
    if facts.unanswered:
        return "no_answer"
    if is_right is False:
        return "right_steps_wrong_answer" if facts.has_steps else "wrong_answer"
    return NO_FAILURE


def broken_limit(
    question: Question, steps: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> Facts | None:
    """Return which limit of a question the steps, renamed by `names`, break, if any; failed
    steps count.
    """
    forbidden = {plain_name(meant_name(name, names) or name) for name in question.forbidden_steps}
    for index, step in enumerate(steps) if forbidden else ():
        if (name := step.get("name")) is not None and plain_name(name) in forbidden:
            return Facts(FORBIDDEN_STEP, detail=f"actual_steps[{index}] ({name[:200]})")
    if question.max_steps is not None and len(steps) > question.max_steps:
        return Facts(TOO_MANY_STEPS, detail=f"steps: {len(steps)}, allowed: {question.max_steps}")
    return None


def _is_right(metrics: Mapping[str, Any]) -> bool | None:
    """Whether an answer is right by its metrics; None without one that decides."""
    if "answer_eval_error" in metrics and metrics.get(ANSWER_MATCH) is None:
        return None
    scores = [metrics[name] for name in OF_ANSWERS if metrics.get(name) is not None]
    return scores[0] >= RIGHT_ANSWER if scores else None


def failure_counts(group: Mapping[str, Any]) -> dict[str, int]:
    """How many results of a group of aggregates are wrong, by class, the most frequent first."""
    wrong = ((name, count) for name, count in group.get(REASON, {}).items() if name != NO_FAILURE)
    return dict(sorted(wrong, key=lambda each: (-each[1], each[0])))


_is_absolute = re.compile(r"urn:|.*?://").match
MAX_CHARACTERS = 50_000  # Characters of an output whose IRIs are looked at: a few milliseconds.

# Escapes of JSON, and the names of datatypes after a literal, are no part of an IRI.
_split = re.compile(r"(?:\^\^[\w.-]*:[\w.-]+|\\[bfnrt]|[\s\"<>,|{}\\])+").split


def other_form(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str | None:
    """Say if an output has an expected IRI with http for https or the other way round, or with a
    prefix.
    """
    if expected.get("output_media_type") in GRAPHS:  # Prefixes are part of their formats.
        return None
    wanted, found = _iris(expected.get("output")), _iris(actual.get("output"))
    others = [text for text in found if text not in wanted]
    forms = {text.partition(":")[2]: text for text in others if not _is_absolute(text)}
    forms |= {_with_http(text): text for text in others}
    for text in wanted:
        if "://" in text and text not in found:
            other = forms.get(_with_http(text)) or forms.get(re.split("[/#]", text)[-1])
            if other:
                return f"{other[:200]} and {text[:200]} differ only in http/https or the prefix"
    return None


def _iris(output: Any) -> dict[str, None]:
    """All in an output that may be an IRI, in whatever format."""
    parts = _split((output if isinstance(output, str) else str(output))[:MAX_CHARACTERS])
    return dict.fromkeys(
        text for part in parts if ":" in part and ":" in (text := part.strip("':.;()[]"))
    )


def _with_http(text: str) -> str:
    return text.replace("https://", "http://", 1)
