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
from graphrag_eval_async.catalogue.metrics import ANSWER_MATCH
from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, REASON
from graphrag_eval_async.records.aliases import meant_name, plain_name
from graphrag_eval_async.records.outputs import decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.records.question import Question

NO_FAILURE = "none"
"""The class of results that are right."""

FORBIDDEN_STEP = "forbidden_step"
TOO_MANY_STEPS = "too_many_steps"

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

ERROR_KEYS = (
    "message",
    "error",
    "exception",
    "detail",
    "text",
    "content",
    "errors",
    "msg",
    "reason",
)
"""Keys under which the objects of tools, protocols and frameworks hold the text of an error.

The first that has a text counts. `errors` is of GraphQL, `msg` of FastAPI, `reason` of
Elasticsearch.
"""

ERROR_LEVELS = 5
"""How deep the text of an error is looked for in objects and lists."""

KEYS_OF_STEP_ERRORS = ("execution_error", "error", "exception", "output", "message")
"""Keys of a step that failed which may hold its error: why its query could not be run, what the
step says itself, or what it returned. The first that has a text counts.
"""

TRACEBACK = "Traceback (most recent call last):\n"
"""First line of a traceback, as Python prints it. The last one in a text is of the error that
was raised.
"""

PAGE_CHARACTERS = 4_000
"""Characters of a page of HTML in which its title or its first text is looked for.

They are fewer than the digits that Python converts to a number, as a page may write a character by
a number of any length.
"""

# None of these patterns backtracks, whatever the text.
_find_page = re.compile(r"(?<!\S)<(?:!doctype html|html|\?xml)\b", re.IGNORECASE).search
_TAG = re.compile(r"<([^<>]*)>")
_says_something = re.compile(r"\w").search
_is_heading = re.compile(r"[\w.]+:").fullmatch


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
    """
    step = steps[index]
    detail = f"actual_steps[{index}] ({str(step.get('name'))[:200]})"
    for key in KEYS_OF_STEP_ERRORS:
        line = error_line(step.get(key))
        if line is not None:
            return Facts("step_error", detail=f"{detail}: {line}")
    return Facts("step_error", detail=detail)


def error_line(error: Any) -> str | None:
    """Return the first line of an error's text that says something; None if it has no text.

    Agents and tools write an error as text, or as an object or a list that holds its text. That may
    itself be JSON text. An object without a text under one of `ERROR_KEYS` is quoted as JSON. A
    boolean only says that there is an error.
    """
    if isinstance(error, bool):
        return None
    text = _error_text(error, ERROR_LEVELS)
    if text is None and error is not None:
        quoted = error if isinstance(error, str) else orjson.dumps(error).decode()
        text = " ".join(quoted.split())
    if text is None:
        return None
    line = _first_line(_with_text_of_page(text))
    if line is not None and len(line) > DETAIL_CHARACTERS:
        return f"{line[:DETAIL_CHARACTERS]}..."
    return line


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


def _with_text_of_page(text: str) -> str:
    """Return a text in which a page of HTML, as servers and proxies send it, is replaced by its
    title.
    """
    page = _find_page(text)
    if page is None:
        return text
    text_of_page = _text_of_page(text[page.start() : page.start() + PAGE_CHARACTERS])
    if text_of_page is None:
        return text
    return text[: page.start()] + text_of_page


def _text_of_page(page: str) -> str | None:
    """Return the title of a page of HTML, or else its first text, on one line; None if it has
    neither.
    """
    from html import unescape  # Takes a millisecond to import, and few errors are pages.

    first_text: str | None = None
    tag_name = ""
    # Texts and tags take turns; the first is the text before the first tag.
    for index, part in enumerate(_TAG.split(page)):
        is_tag = index % 2 == 1
        if is_tag:
            tag_name = part.partition(" ")[0].lower()
            continue
        text = " ".join(unescape(part).split())
        if not text or tag_name in ("script", "style"):
            continue
        if tag_name == "title":
            return text
        first_text = first_text or text
    return first_text


def _first_line(text: str) -> str | None:
    """Return the first line that says something; None if all are blank.

    Of a traceback, it is the line with the exception, which follows the indented lines. A heading
    such as "ValueError:" says nothing without the line after it, so both are returned as one.
    """
    lines = _telling_lines(text.splitlines())
    _, header, traceback = text.rpartition(TRACEBACK)
    if header:
        unindented = [line for line in traceback.splitlines() if not line.startswith(" ")]
        lines = _telling_lines(unindented) or lines
    if not lines:
        return None
    if len(lines) > 1 and _is_heading(lines[0]):
        return f"{lines[0]} {lines[1]}"
    return lines[0]


def _telling_lines(lines: Iterable[str]) -> list[str]:
    """Return the lines that hold a letter or a digit; if none does, those that are not blank."""
    stripped = [line.strip() for line in lines]
    telling = [line for line in stripped if _says_something(line)]
    return telling or [line for line in stripped if line]


def broken_limit(
    question: Question, steps: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> Facts | None:
    """Return which limit of a question the steps break; None if they break none.

    Args:
        question: the question, which may forbid steps or limit their number.
        steps: the actual steps; those that failed count, too.
        names: the names of steps by all spellings that mean them.
    """
    if question.forbidden_steps:
        forbidden = {
            plain_name(meant_name(name, names) or name) for name in question.forbidden_steps
        }
        for index, step in enumerate(steps):
            name = step.get("name")
            if name is not None and plain_name(name) in forbidden:
                return Facts(FORBIDDEN_STEP, detail=f"actual_steps[{index}] ({name[:200]})")
    if question.max_steps is not None and len(steps) > question.max_steps:
        return Facts(TOO_MANY_STEPS, detail=f"steps: {len(steps)}, allowed: {question.max_steps}")
    return None


def _is_right(metrics: Mapping[str, Any]) -> bool | None:
    """Return whether an answer is right by its metrics; None if no metric decides."""
    if "answer_eval_error" in metrics and metrics.get(ANSWER_MATCH) is None:
        return None
    for name in ANSWER_SCORES:
        score = metrics.get(name)
        if score is not None:
            return bool(score >= RIGHT_ANSWER)
    return None


def failure_counts(group: Mapping[str, Any]) -> dict[str, int]:
    """Return how many results of a group of aggregates are wrong, by class, the most frequent
    first.
    """
    counts = [(name, count) for name, count in group.get(REASON, {}).items() if name != NO_FAILURE]
    return dict(sorted(counts, key=lambda pair: (-pair[1], pair[0])))
