"""What the readers of benchmarks share: how questions are checked and steps are scored."""

from __future__ import annotations

import re
from typing import Any

from graphrag_eval_async.errors import UsageError, describe
from graphrag_eval_async.reference.reading import read_templates
from graphrag_eval_async.steps.tokens import form_of

_QUESTION_PLACE = re.compile(r"templates\[0\]\.questions\[(\d+)\][.:] ?(.*)", re.DOTALL)


SCORES = ("exact", "f1", "values_f1")
"""Values of the key `score` of a reference step."""


def check_score(score: str) -> None:
    """Check the `score` that a caller asks for.

    Raises:
        UsageError: it is none of `SCORES`.
    """
    if score not in SCORES:
        raise UsageError(f"score: expected {', '.join(SCORES)}, got {describe(score)}")


def check_questions(templates: list[dict[str, Any]]) -> list[str]:
    """Return what is wrong with the questions of a single template, each with its id."""
    problems = []
    for problem in read_templates(templates, {}).problems:
        match = _QUESTION_PLACE.match(problem)
        if match is not None:
            question = templates[0]["questions"][int(match[1])]
            problem = f"question {question['id']!r}: {match[2]}"
        problems.append(problem)
    return problems


def scored(step: dict[str, Any], score: str | None) -> dict[str, Any]:
    """Return a reference step with a `score`, if `score` is not None and the step returns a table.

    A step without a query counts as one that returns a table.
    """
    returns_table = form_of(step.get("reference_query", "ASK {}")) in ("SELECT", "ASK")
    if score is None or not returns_table:
        return step
    return {**step, "score": score}


def place_first(error: Exception) -> str:
    """Return the message of an error of msgspec, with the place moved before the reason."""
    # The message ends with the place, such as " - at `$.id`".
    reason, _, place = str(error).partition(" - at `$")
    if not place:
        return reason
    return f"{place.strip('.`')}: {reason}"
