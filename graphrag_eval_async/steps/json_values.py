"""JSON values: reading and equality."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.decoding import MAX_DEPTH, nests_deeper
from graphrag_eval_async.steps.actual import read_output
from graphrag_eval_async.steps.differences import Agreement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.steps.actual import ActualStep, Compare


def read_json(output: Any) -> Any:
    """Return the JSON value of a step's output, which is JSON text or already decoded.

    Raises:
        MalformedStep: the output is text that is no JSON, or that nests too deep.
    """
    if not isinstance(output, str):
        return output
    try:
        # Unlike orjson, msgspec keeps all digits of integers.
        value = msgspec.json.decode(output)
    except ValueError as error:
        raise MalformedStep(f"not JSON: {error}") from None
    except RecursionError:
        raise MalformedStep("not JSON: nested too deep") from None
    # Counting brackets is quick. Few texts have enough of them to nest too deep.
    brackets = output.count("[") + output.count("{")
    if brackets > MAX_DEPTH and nests_deeper(value, MAX_DEPTH):
        raise MalformedStep("not JSON: nested too deep")
    return value


def json_equal(value: Any, other: Any) -> bool:
    """Return whether two decoded JSON values are equal: 1 equals 1.0, but true does not equal 1.

    Raises:
        MalformedStep: the values nest too deep.
    """
    try:
        if value != other:
            return False
    except RecursionError:
        raise MalformedStep("nested too deep") from None
    return _have_booleans_in_same_places(value, other)


def _have_booleans_in_same_places(value: Any, other: Any) -> bool:
    """Return whether two equal JSON values have booleans in the same places.

    To Python, true equals 1 and false equals 0, so comparing the values does not tell.
    """
    pairs = [(value, other)]
    while pairs:
        part, other_part = pairs.pop()
        if isinstance(part, dict):
            pairs.extend((item, other_part[key]) for key, item in part.items())
        elif isinstance(part, list):
            pairs.extend(zip(part, other_part, strict=True))
        elif isinstance(part, bool) != isinstance(other_part, bool):
            return False
    return True


def json_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a function that compares the outputs of actual steps with a reference step's, as JSON.

    White space and the order of keys are ignored.

    Raises:
        MalformedStep: the reference step has no output, or one that is no JSON.
    """
    expected = read_output(step, read_json)

    def compare(actual: ActualStep) -> Agreement:
        """Return a score of 1 if the output of an actual step equals `expected`, else 0."""
        is_equal = json_equal(expected, actual.output(read_json))
        return Agreement(float(is_equal))

    return compare


def same_output_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a function that compares the outputs of actual steps with a reference step's exactly.

    Texts must have the same characters. Decoded values must be equal as JSON.

    Raises:
        MalformedStep: the reference step has no output.
    """
    expected = read_output(step, lambda output: output)

    def compare(actual: ActualStep) -> Agreement:
        """Return a score of 1 if the output of an actual step equals `expected`, else 0."""
        is_equal = json_equal(expected, actual.step.get("output"))
        return Agreement(float(is_equal))

    return compare
