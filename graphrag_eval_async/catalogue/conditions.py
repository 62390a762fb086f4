"""Conditions on the mean of a metric, such as ``steps_score >= 0.8`` or ``TEMPLATE:METRIC < 0.5``.

A gate may also be on the results with a tag: ``METRIC[KEY=VALUE] >= 0.8``, or ``METRIC[KEY]``.
"""

from __future__ import annotations

import math
import operator
import re
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.catalogue.metrics import range_of
from graphrag_eval_async.catalogue.tags import Tag, parse_tag, tag_name
from graphrag_eval_async.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

RIGHT_ANSWER = 0.5
"""Least F1 of a right answer: at least half of its claims or items match."""

ANSWER_SCORES = ("answer_match", "answer_f1", "ragas_answer_correctness")
"""The metrics that say whether an answer is right.

The first one that a response has decides whether the response has failed.
"""

LEAST_RIGHT_VALUES = {"steps_score": 1.0} | dict.fromkeys(ANSWER_SCORES, RIGHT_ANSWER)
"""The least value of each of these metrics that a right response may have, if it has a value."""

CONDITION = re.compile(
    r"(?:(?P<template>.*):)?"
    r"\s*(?P<metric>[^\s:<>=!\[\]]+)"
    r"(?:\[(?P<tag>.*)\])?"
    r"\s*(?P<operator>[<>]=?)"
    r"\s*(?P<bound>[^\s<>=]+)\s*",
    re.DOTALL,
)
"""The parts of a condition. A template's name may hold colons, spaces and operators."""


class Condition(NamedTuple):
    """A condition on the mean of a metric, such as ``steps_score >= 0.8``.

    Attributes:
        template: the template whose results count; None for all results.
        metric: the metric whose mean is compared.
        operator: one of `OPERATORS`.
        bound: what the mean is compared with.
        tag: the tag whose results count; only gates have one.
    """

    template: str | None
    metric: str
    operator: str
    bound: float
    tag: Tag | None = None

    @property
    def text(self) -> str:
        """The condition as it is written."""
        name = self.metric
        if self.template is not None:
            name = f"{self.template}:{name}"
        if self.tag is not None:
            name = f"{name}[{tag_name(self.tag)}]"
        return f"{name} {self.operator} {self.bound:.15g}"

    @property
    def is_lower_bound(self) -> bool:
        """Whether the mean should be above the bound; otherwise it should be below."""
        return self.operator.startswith(">")


RIGHT_CONDITIONS = tuple(
    Condition(template=None, metric=metric, operator=">=", bound=least)
    for metric, least in LEAST_RIGHT_VALUES.items()
)
"""The conditions that a right response meets, one for each of `LEAST_RIGHT_VALUES`."""


class CheckedGate(NamedTuple):
    """The outcome of a gate, which is a condition that a run must meet.

    Attributes:
        name: the condition as text.
        holds: whether the run meets it.
        explanation: why it holds or not, on one line.
    """

    name: str
    holds: bool
    explanation: str


def to_float(text: str) -> float:
    """Return the number in a text; NaN if the text is not a number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def check_bound(name: str, bound: float, limits: tuple[float, float]) -> None:
    """Check that the bound of a condition is a possible value of its metric.

    Args:
        name: the name of the metric, with which the message of an error begins.
        bound: the bound.
        limits: the least and the greatest value of the metric.

    Raises:
        UsageError: the bound is outside the limits.
    """
    low, high = limits
    if low <= bound <= high:
        return
    expected = f"{low:g} or more"
    if math.isfinite(high):
        expected = f"from {low:g} to {high:g}"
    problem = f"{name} is {expected}, not {bound:.15g}"
    is_percentage = high == 1 and 1 < bound <= 100
    if is_percentage:
        problem += f"; for {bound:g}%, write {bound / 100:g}"
    raise UsageError(problem)


def parse_condition(text: str) -> Condition:
    """Parse a condition such as ``TEMPLATE:METRIC >= 0.8``, which cannot be on a tag.

    Raises:
        ValueError: it has another form, or its bound is outside the range of the metric.
    """
    condition = parse_gate(text)
    if condition.tag is not None:
        raise ValueError(f"{text!r}: only a gate can be on a tag, [{tag_name(condition.tag)}]")
    return condition


def parse_gate(text: str) -> Condition:
    """Parse a condition that may be on a template or a tag, such as ``METRIC[KEY=VALUE] >= 0.8``.

    Raises:
        ValueError: it has another form, or its bound is outside the range of the metric.
    """
    match = CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r}: expected [TEMPLATE:]METRIC >= VALUE, or with >, <= or <")
    template: str | None = match["template"]
    if template is not None:
        template = template.strip()
    tag: Tag | None = None
    if match["tag"] is not None:
        tag = parse_tag(match["tag"])
    if template is not None and tag is not None:
        raise ValueError(f"{text!r}: expected a template or a tag, not both")
    return Condition(
        template=template,
        metric=match["metric"],
        operator=match["operator"],
        bound=parse_bound(text, match["bound"], match["metric"]),
        tag=tag,
    )


def parse_bound(text: str, value: str, metric: str) -> float:
    """Parse the bound of a condition.

    Args:
        text: the whole condition, for the message of an error.
        value: the part of the condition that is the bound.
        metric: the metric that is compared with the bound.

    Raises:
        ValueError: the bound is not a finite number, or no mean of the metric can have this value.
    """
    bound = to_float(value)
    if not math.isfinite(bound):
        raise ValueError(f"{text!r}: {value!r} is not a finite number")
    check_bound(metric, bound, range_of(metric))
    return bound


def rounded(value: float, bound: float) -> str:
    """Return a value with 3 significant digits, or more if it would seem to equal a bound.

    The rounded value is less than, equal to or greater than the bound if the value itself is.
    """
    comparisons = _comparisons(value, bound)
    # With 17 digits, a float is exact.
    for digits in range(3, 17):
        text = f"{value:.{digits}g}"
        if _comparisons(float(text), bound) == comparisons:
            return text
    return repr(value)


def _comparisons(value: float, bound: float) -> list[bool]:
    """Return, for each of the `OPERATORS`, whether it holds between a value and a bound."""
    return [holds(value, bound) for holds in OPERATORS.values()]
