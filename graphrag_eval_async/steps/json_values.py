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

    from graphrag_eval_async.steps.actual import Compare


def read_json(output: Any) -> Any:
    """Return the value of a step's output, which is JSON text or already decoded."""
    if not isinstance(output, str):
        return output
    try:
        value = msgspec.json.decode(output)  # Unlike orjson, it keeps all digits of integers.
    except ValueError as error:
        raise MalformedStep(f"not JSON: {error}") from None
    except RecursionError:
        raise MalformedStep("not JSON: nested too deep") from None
    # Counting brackets is an upper bound that spares nearly every text the walk.
    if output.count("[") + output.count("{") > MAX_DEPTH and nests_deeper(value, MAX_DEPTH):
        raise MalformedStep("not JSON: nested too deep")
    return value


def json_equal(left: Any, right: Any) -> bool:
    """Whether two decoded JSON values are equal: 1 is 1.0, and true is not 1."""
    try:
        if left != right:
            return False
    except RecursionError:
        raise MalformedStep("nested too deep") from None
    return _same_booleans(left, right)


def _same_booleans(left: Any, right: Any) -> bool:
    """Whether values that are equal in Python have booleans in the same places."""
    pairs = [(left, right)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, dict):
            pairs.extend((value, right[key]) for key, value in left.items())
        elif isinstance(left, list):
            pairs.extend(zip(left, right, strict=True))
        elif isinstance(left, bool) != isinstance(right, bool):
            return False
    return True


def json_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a comparator: 1 if the outputs are equal as JSON, ignoring white space and key
    order.
    """
    expected = read_output(step, read_json)
    return lambda actual: Agreement(float(json_equal(expected, actual.output(read_json))))


def same_output_comparator(step: Mapping[str, Any]) -> Compare:
    """Return a comparator: 1 if the outputs are equal, texts exactly and decoded values as JSON."""
    expected = read_output(step, lambda output: output)
    return lambda actual: Agreement(float(json_equal(expected, actual.step.get("output"))))
