"""Why a response is wrong: the `failure` of a result whose question has reference steps or a
`match`.

A response with an `error`, or with the status "error", is an agent error, whatever its question
has. If the steps are wrong, the earliest reference step that is not fully matched gives the reason,
with the actual step that it took. If it took none, the latest of its name that no other took is to
blame, preferably one that returned something. An answer counts only if it was matched or judged;
`answer_match` comes first. If answer correctness failed, nothing replaces it, so that all answers
of a run are measured alike.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from graphrag_eval_async.catalogue.conditions import ANSWER_SCORES, RIGHT_ANSWER
from graphrag_eval_async.catalogue.media_types import GRAPHS
from graphrag_eval_async.catalogue.metrics import ANSWER_MATCH
from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, REASON
from graphrag_eval_async.records.aliases import meant_name, plain_name
from graphrag_eval_async.records.outputs import decoded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.records.question import Question

NO_FAILURE = "none"  # The class of results that are right.

FORBIDDEN_STEP, TOO_MANY_STEPS = "forbidden_step", "too_many_steps"

CLASSES = (
    FORBIDDEN_STEP,
    TOO_MANY_STEPS,
    AGENT_ERROR,
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


DETAIL_CHARACTERS = 500
"""Maximum length of the line that is quoted of an error's text."""

ERROR_KEYS = ("message", "error", "detail", "text", "content")
"""Keys under which the objects of tools, protocols and frameworks hold the text of an error."""

ERROR_LEVELS = 5
"""How deep the text of an error is looked for in objects and lists."""

TRACEBACK = "Traceback (most recent call last):\n"
"""First line of a traceback, as Python prints it. The last one in a text is of the error that
was raised.
"""


class Facts(NamedTuple):
    """The facts that decide the failure of a result."""

    reason: str | None = None  # Why the steps are wrong, one of `CLASSES`; None if they are right.
    # The answer is missing or blank, although there is a reference answer.
    unanswered: bool = False
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


def agent_error(response: Mapping[str, Any]) -> Facts:
    """Return the facts of a response that is an error, with the first line of its `error`, if
    any.
    """
    return Facts(AGENT_ERROR, detail=error_line(response.get("error")))


def step_error(steps: Sequence[Mapping[str, Any]], index: int) -> Facts:
    """Return the facts of a step that failed: which one, and the first line of its error, if it has
    one.

    The error is why its query could not be run, the step's own `error`, or else what it returned.
    """
    step = steps[index]
    detail = f"actual_steps[{index}] ({str(step.get('name'))[:200]})"
    for key in ("execution_error", "error", "output"):
        line = error_line(step.get(key))
        if line is not None:
            return Facts("step_error", detail=f"{detail}: {line}")
    return Facts("step_error", detail=detail)


def error_line(error: Any) -> str | None:
    """Return the first line of an error's text; None if it has none.

    Agents and tools write an error as text, or as an object or a list that holds its text. That may
    itself be JSON text. An object without a text under one of `ERROR_KEYS` is quoted as JSON.
    """
    text = _error_text(error, ERROR_LEVELS)
    if text is None and error is not None:
        quoted = error if isinstance(error, str) else orjson.dumps(error).decode()
        text = " ".join(quoted.split())
    return None if text is None else _first_line(text)


def _error_text(error: Any, levels: int) -> str | None:
    """Find the text of an error in at most so many levels of objects and lists; None if it is
    not there.
    """
    if isinstance(error, str):
        if not error.lstrip().startswith(("{", "[")):
            return error
        error = decoded(error)
        if isinstance(error, str):  # Not JSON.
            return error
    parts: list[Any] = []
    if isinstance(error, dict):
        parts = [error.get(key) for key in ERROR_KEYS]
    elif isinstance(error, list):
        parts = error[:1]
    for part in parts if levels else ():
        text = _error_text(part, levels - 1)
        if text is not None and text.strip():
            return text
    return None


def _first_line(text: str) -> str | None:
    """Return the first line that is not blank, shortened; None if all are blank.

    Of a traceback, it is the line with the exception, which follows the indented lines.
    """
    _, header, traceback = text.rpartition(TRACEBACK)
    lines = [line for line in text.splitlines() if line.strip()]
    if header:
        unindented = [line for line in traceback.splitlines() if line.strip() and line[0] != " "]
        lines = unindented or lines
    if not lines:
        return None
    line = lines[0].strip()
    return line if len(line) <= DETAIL_CHARACTERS else f"{line[:DETAIL_CHARACTERS]}..."


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
    scores = [metrics[name] for name in ANSWER_SCORES if metrics.get(name) is not None]
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
