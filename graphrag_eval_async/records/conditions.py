"""Conditions on the mean of a metric, such as ``steps_score >= 0.8`` or ``TEMPLATE:METRIC < 0.5``."""

from __future__ import annotations

import math
import operator
import re
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.metrics import range_of

if TYPE_CHECKING:
    from collections.abc import Callable

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

CONDITION = re.compile(
    r"(?:(?P<template>.*):)?\s*(?P<metric>[^\s:<>=!]+)\s*(?P<operator>[<>]=?)\s*(?P<bound>[^\s<>=]+)\s*",
    re.DOTALL,
)
"""A template's name may hold colons, spaces and operators."""


class Condition(NamedTuple):
    """The parts of a condition; `template` is None for all results, `operator` one of `OPERATORS`."""

    template: str | None
    metric: str
    operator: str
    bound: float

    @property
    def over(self) -> bool:
        """Whether the mean should be above the bound; otherwise below it."""
        return self.operator in {">", ">="}


def to_float(text: str) -> float:
    """Return the number that a text spells; NaN if it spells none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def check_bound(name: str, bound: float, limits: tuple[float, float]) -> None:
    """Raise a `UsageError` if what has a name cannot be `bound`, since it has `limits`."""
    low, high = limits
    if not low <= bound <= high:
        told = f"from {low:g} to {high:g}" if math.isfinite(high) else f"{low:g} or more"
        cure = f"; for {bound:g} %, write {bound / 100:g}" if high == 1 and 1 < bound <= 100 else ""
        raise UsageError(f"{name} is {told}, not {bound:.15g}{cure}")


def parse_condition(text: str) -> Condition:
    """Parse a condition.

    Raises:
        ValueError: the text has another form, or the bound is outside the range of the metric.
    """
    match = CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r}: expected [TEMPLATE:]METRIC >= VALUE, or with >, <= or <")
    bound = parse_bound(text, match["bound"], match["metric"])
    template = match["template"]
    return Condition(template and template.strip(), match["metric"], match["operator"], bound)


def parse_bound(text: str, value: str, metric: str) -> float:
    """Parse the `value` in a `text`; one that a mean of the metric cannot have is a `ValueError`."""
    bound = to_float(value)
    if not math.isfinite(bound):
        raise ValueError(f"{text!r}: {value!r} is not a finite number")
    check_bound(metric, bound, range_of(metric))
    return bound


def rounded(value: float, bound: float) -> str:
    """Return a value in few digits that is on the same side of a bound."""
    for digits in range(3, 17):
        text = f"{value:.{digits}g}"
        if all(compare(float(text), bound) is compare(value, bound) for compare in OPERATORS.values()):
            break
    return text
