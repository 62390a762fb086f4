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
"""The value of an argument that a step does not have, since None is a value."""


def args_comparator(step: Mapping[str, Any]) -> Compare | None:
    """Return a function that scores an actual step 1 if its arguments are as expected, else 0.

    Args:
        step: the reference step, whose `args_match` says how far they must be equal.

    Returns:
        None if the arguments are not compared.

    Raises:
        MalformedStep: arguments are to be compared, but the reference step has none.
    """
    if step.get("args_match") not in ("exact", "subset"):
        return None
    if not isinstance(step.get("args"), dict):
        raise MalformedStep("args: missing; args_match compares them; write {} if there are none")

    def compare(actual: ActualStep) -> Agreement:
        """Return 1 if the arguments of an actual step agree with those of `step`, else 0."""
        differences = args_differences(step, actual.step)
        if differences:
            return Agreement(0.0, WRONG_ARGS, differences)
        return Agreement(1.0)

    return compare


def args_differences(step: Mapping[str, Any], actual: Mapping[str, Any]) -> list[Difference]:
    """Return up to `MAX_DIFFERENCES` differences between the arguments of two steps.

    Numbers are equal by value, texts to the letter, lists as a whole. Arguments in JSON text are
    decoded, and blank text means no arguments.

    Args:
        step: the reference step. If its `args_match` asks for no comparison, nothing differs.
        actual: the actual step.
    """
    mode = step.get("args_match")
    expected_args = step.get("args")
    if mode not in ("exact", "subset") or not isinstance(expected_args, dict):
        return []

    actual_args = decoded(actual.get("args"))
    if isinstance(actual_args, str) and not actual_args.strip():
        actual_args = None
    if actual_args is None and expected_args:
        misnamed_keys = [key for key in OTHER_NAMES["args"] if actual.get(key)]
        if misnamed_keys:
            hint = f"nothing; is {misnamed_keys[0]} meant to be args?"
            return [_difference("", expected_args, hint)]
    if actual_args is None:
        actual_args = {}
    if not isinstance(actual_args, dict):
        return [_difference("", expected_args, actual_args)]

    differences = _find_differences("", expected_args, actual_args, is_subset=mode == "subset")
    return [*islice(differences, MAX_DIFFERENCES)]


def in_words(difference: Difference) -> str:
    """Return which argument differs, what was expected, and what the agent gave."""
    expected = difference.get("expected") or "nothing"
    actual = difference.get("actual") or "nothing"
    # Without a name, the arguments differ as a whole.
    place = f"args.{difference.get('arg')}".removesuffix(".")
    return f"{place}: expected {expected}, got {actual}"


def _find_differences(
    place: str, expected: Mapping[str, Any], actual: Mapping[str, Any], *, is_subset: bool
) -> Iterator[Difference]:
    """Yield the differences between two objects.

    Where both have an object under the same key, the differences inside of it are yielded.

    Args:
        place: the beginning of the names of arguments, such as "filter." inside of `filter`.
        expected: the object of the reference step.
        actual: the object of the actual step.
        is_subset: whether the actual object may have other keys.
    """
    keys = [*expected]
    if not is_subset:
        keys += [key for key in actual if key not in expected]
    for key in keys:
        expected_value = expected.get(key, _ABSENT)
        actual_value = actual.get(key, _ABSENT)
        if isinstance(expected_value, dict) and isinstance(actual_value, dict):
            yield from _find_differences(
                f"{place}{key}.", expected_value, actual_value, is_subset=is_subset
            )
            continue
        is_missing = expected_value is _ABSENT or actual_value is _ABSENT
        if is_missing or not json_equal(expected_value, actual_value):
            yield _difference(f"{place}{key}", expected_value, actual_value)


def _difference(place: str, expected: Any, actual: Any) -> Difference:
    """Return a difference of an argument, with both values as JSON text.

    Args:
        place: the name of the argument; "" for all arguments as a whole.
        expected: the value of the reference step, or `_ABSENT`.
        actual: the value of the actual step, or `_ABSENT`.
    """
    expected_text = _json_text(expected)
    actual_text = _json_text(actual)
    # Of long texts, the part around the first difference is shown.
    first_difference = _first_difference(expected_text or "", actual_text or "")
    start = first_difference - MAX_TEXT // 2
    return {
        "kind": "wrong_arg",
        "arg": shorten(place),
        "expected": _excerpt(expected_text, start),
        "actual": _excerpt(actual_text, start),
    }


def _json_text(value: Any) -> str | None:
    """Return the value of an argument as JSON text; None if there is no value."""
    if value is _ABSENT:
        return None
    return json.dumps(value, ensure_ascii=False)


def _first_difference(text: str, other: str) -> int:
    """Return the index of the first character in which two texts differ; 0 if they are equal."""
    pairs = zip_longest(text, other)
    for index, (character, other_character) in enumerate(pairs):
        if character != other_character:
            return index
    return 0


def _excerpt(text: str | None, start: int) -> str | None:
    """Return a text from an index on, at most `MAX_TEXT` characters; "…" marks what is left out.

    A negative index is the beginning. None and "" are returned as they are.
    """
    if text and start > 0:
        return shorten(f"…{text[start:]}")
    return shorten(text)
