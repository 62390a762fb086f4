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

MAX_ERROR_LEVELS = 5
"""How deep the text of an error is looked for in objects and lists."""

MAX_NAME_CHARACTERS = 200
"""How many characters of a step's name a detail shows."""

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
_has_letter_or_digit = re.compile(r"\w").search
_is_heading = re.compile(r"[\w.]+:").fullmatch


class Facts(NamedTuple):
    """The facts that decide the failure of a result."""

    reason: str | None = None  # Why the steps are wrong, one of `CLASSES`; None if they are right.
    # Whether the answer is missing or blank, although there is a reference answer.
    unanswered: bool = False
    has_steps: bool = True  # Whether there are reference steps; else the answer alone decides.
    detail: str | None = None  # Such as which step is missing, or which argument is wrong.


def failure_of(facts: Facts, metrics: Mapping[str, Any]) -> str:
    """Return the `failure` of a result, one of `CLASSES`.

    Args:
        facts: what is known of the steps, and whether there is an answer.
        metrics: the metrics of the answer, by name; empty if it was not evaluated.
    """
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
    """Return the facts of a response that is an error; the first line of `error` is the detail."""
    return Facts(AGENT_ERROR, detail=error_line(response.get("error")))


def step_error(steps: Sequence[Mapping[str, Any]], index: int) -> Facts:
    """Return the facts of a response in which the step at `index` failed.

    The detail names the step, and has the first line of its error if there is one.
    """
    step = steps[index]
    detail = f"actual_steps[{index}] ({str(step.get('name'))[:MAX_NAME_CHARACTERS]})"
    for key in KEYS_OF_STEP_ERRORS:
        line = error_line(step.get(key))
        if line is not None:
            detail += f": {line}"
            break
    return Facts("step_error", detail=detail)


def error_line(error: Any) -> str | None:
    """Return the first line of an error's text that says something; None if it has no text.

    Agents and tools write an error as text, or as an object or a list that holds its text. The
    object or list may itself be JSON text. If it has no text under one of `ERROR_KEYS`, it is
    quoted as JSON. A boolean only says that there is an error, so it has no text.
    """
    if error is None or isinstance(error, bool):
        return None
    text = _error_text(error, MAX_ERROR_LEVELS)
    if text is None:
        quoted = error if isinstance(error, str) else orjson.dumps(error).decode()
        text = " ".join(quoted.split())

    line = _first_line(_with_text_of_page(text))
    if line is not None and len(line) > DETAIL_CHARACTERS:
        return f"{line[:DETAIL_CHARACTERS]}..."
    return line


def _error_text(error: Any, max_levels: int) -> str | None:
    """Return the text of an error, which may be inside of objects and lists.

    Args:
        error: the text, or the object or list, also as JSON text.
        max_levels: how many levels of objects and lists are searched.

    Returns:
        None if no text is found.
    """
    document = error
    if isinstance(error, str):
        if not error.lstrip().startswith(("{", "[")):
            return error
        document = decoded(error)
        if isinstance(document, str):  # The text is not JSON.
            return document

    parts: list[Any] = []
    if isinstance(document, dict):
        parts = [document.get(key) for key in ERROR_KEYS]
    elif isinstance(document, list):
        # The first error of a list is taken for the cause of the others.
        parts = document[:1]
    if max_levels == 0:
        return None
    for part in parts:
        text = _error_text(part, max_levels - 1)
        if text is not None and text.strip():
            return text
    return None


def _with_text_of_page(text: str) -> str:
    """Return a text in which a page of HTML is replaced by its title or its first text.

    Servers and proxies send errors as pages. Without such a page, the text stays as it is.
    """
    page = _find_page(text)
    if page is None:
        return text
    beginning = text[page.start() : page.start() + PAGE_CHARACTERS]
    text_of_page = _text_of_page(beginning)
    if text_of_page is None:
        return text
    return text[: page.start()] + text_of_page


def _text_of_page(page: str) -> str | None:
    """Return the title of a page of HTML, or else its first text, on one line.

    Returns:
        None if the page has neither a title nor a text.
    """
    from html import unescape  # Takes a millisecond to import, and few errors are pages.

    first_text: str | None = None
    tag_name = ""
    # The parts are texts and the tags between them. The first is the text before the first tag.
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
        if first_text is None:
            first_text = text
    return first_text


def _first_line(text: str) -> str | None:
    """Return the first line of a text that is not only punctuation; None if all lines are blank.

    In a traceback of Python, it is the line of the exception, which follows the indented lines. A
    line such as "ValueError:" says nothing without the next line, so both are returned as one.
    """
    lines = _telling_lines(text.splitlines())
    # Of several tracebacks, the last one is of the error that was raised.
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
    """Return the lines with a letter or a digit; if there are none, those that are not blank.

    The lines are returned without spaces around them.
    """
    stripped = [line.strip() for line in lines]
    telling = [line for line in stripped if _has_letter_or_digit(line)]
    if telling:
        return telling
    return [line for line in stripped if line]


def broken_limit(
    question: Question, steps: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> Facts | None:
    """Return the facts of a response whose steps break a limit of the question.

    Args:
        question: the question, which may forbid steps or limit their number.
        steps: the actual steps; those that failed count, too.
        names: the names of steps, by all spellings that stand for them.

    Returns:
        None if the steps break no limit.
    """
    if question.forbidden_steps:
        forbidden_names = set()
        for spelling in question.forbidden_steps:
            # A spelling that stands for no known name is taken as it is.
            forbidden_name = meant_name(spelling, names) or spelling
            # The plain forms are compared, since agents may spell a name in another way.
            forbidden_names.add(plain_name(forbidden_name))
        for index, step in enumerate(steps):
            name = step.get("name")
            if name is not None and plain_name(name) in forbidden_names:
                detail = f"actual_steps[{index}] ({name[:MAX_NAME_CHARACTERS]})"
                return Facts(FORBIDDEN_STEP, detail=detail)

    if question.max_steps is not None and len(steps) > question.max_steps:
        detail = f"steps: {len(steps)}, allowed: {question.max_steps}"
        return Facts(TOO_MANY_STEPS, detail=detail)
    return None


def _is_right(metrics: Mapping[str, Any]) -> bool | None:
    """Return whether an answer is right by the first of its scores; None if that is undecided.

    It is undecided if the answer has no score, or if the judge failed and no rules matched it.
    """
    if "answer_eval_error" in metrics and metrics.get(ANSWER_MATCH) is None:
        return None
    for name in ANSWER_SCORES:
        score = metrics.get(name)
        if score is not None:
            return bool(score >= RIGHT_ANSWER)
    return None


def failure_counts(group: Mapping[str, Any]) -> dict[str, int]:
    """Return how many results of a group of aggregates have each failure, the most frequent first.

    Results that are right are not included.
    """
    count_by_failure = group.get(REASON, {})
    counts = [(name, count) for name, count in count_by_failure.items() if name != NO_FAILURE]
    # Failures of equal frequency are in alphabetical order.
    counts.sort(key=lambda pair: (-pair[1], pair[0]))
    return dict(counts)
