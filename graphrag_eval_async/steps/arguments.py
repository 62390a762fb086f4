"""The arguments of steps: compared where a reference step has `args_match`."""

from __future__ import annotations

import json
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.misnamed import OTHER_NAMES
from graphrag_eval_async.records.outputs import decoded
from graphrag_eval_async.steps.differences import MAX_DIFFERENCES, MAX_TEXT, Agreement, shorten
from graphrag_eval_async.steps.json_values import json_equal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.steps.actual import ActualStep, Compare
    from graphrag_eval_async.steps.differences import Difference

WRONG_ARGS = "wrong_args"
"""Why a step does not match, of `failure.CLASSES`, if its arguments differ."""

_ABSENT: Any = object()


def args_comparator(step: Mapping[str, Any]) -> Compare | None:
    """Return a comparator: 1 if the arguments are as `args_match` asks; None if it does not ask."""
    if step.get("args_match") not in ("exact", "subset"):
        return None
    if not isinstance(step.get("args"), dict):
        raise MalformedStep("args: missing; args_match compares them; write {} if there are none")

    def compare(actual: ActualStep) -> Agreement:
        differences = args_differences(step, actual.step)
        return Agreement(0.0, WRONG_ARGS, differences) if differences else Agreement(1.0)

    return compare


def args_differences(step: Mapping[str, Any], actual: Mapping[str, Any]) -> list[Difference]:
    """Return how arguments differ from those of a reference step; nothing if these are not
    compared.

    Numbers are equal by value, texts to the letter, lists as a whole. Arguments in JSON text are
    decoded, and blank text is none.
    """
    mode, expected, found = step.get("args_match"), step.get("args"), decoded(actual.get("args"))
    found = None if isinstance(found, str) and not found.strip() else found
    if mode not in ("exact", "subset") or not isinstance(expected, dict):
        return []
    if (
        expected
        and found is None
        and (others := [key for key in OTHER_NAMES["args"] if actual.get(key)])
    ):
        found = f"nothing; is {others[0]} meant to be args?"
    if not isinstance(found, dict) and found is not None:
        return [_difference("", expected, found)]
    differences = _differences("", expected, found or {}, is_subset=mode == "subset")
    return [*islice(differences, MAX_DIFFERENCES)]


def in_words(difference: Difference) -> str:
    """Return which argument differs, what was expected, and what the agent gave."""
    expected, actual = (difference.get(key) or "nothing" for key in ("expected", "actual"))
    place = f"args.{difference.get('arg')}".removesuffix(".")
    return f"{place}: expected {expected}, got {actual}"


def _differences(
    place: str, expected: Mapping[str, Any], actual: Mapping[str, Any], *, is_subset: bool
) -> Iterator[Difference]:
    for key in [*expected, *(() if is_subset else (key for key in actual if key not in expected))]:
        wanted, found = (side.get(key, _ABSENT) for side in (expected, actual))
        if isinstance(wanted, dict) and isinstance(found, dict):
            yield from _differences(f"{place}{key}.", wanted, found, is_subset=is_subset)
        elif wanted is _ABSENT or found is _ABSENT or not json_equal(wanted, found):
            yield _difference(f"{place}{key}", wanted, found)


def _difference(place: str, *values: Any) -> Difference:
    """A difference with both values as JSON text; of long texts, from shortly before they
    differ.
    """
    texts = [
        None if value is _ABSENT else json.dumps(value, ensure_ascii=False) for value in values
    ]
    pairs = enumerate(zip_longest(*(text or "" for text in texts)))
    start = next((at for at, (one, other) in pairs if one != other), 0) - MAX_TEXT // 2
    expected, actual = (
        shorten(f"…{text[start:]}" if text and start > 0 else text) for text in texts
    )
    return {"kind": "wrong_arg", "arg": shorten(place), "expected": expected, "actual": actual}
