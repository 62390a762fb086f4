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

OPERATORS: Mapping[str, Callable[[float, float], bool]]
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

RIGHT_ANSWER = 0.5
"""Least F1 of a right answer: at least half of its claims or items match."""

ANSWER_SCORES = ("answer_match", "answer_f1", "ragas_answer_correctness")
"""The metrics that say whether an answer is right; the first that a response has decides its
failure.
"""

LEAST_RIGHT_VALUES = {"steps_score": 1.0} | dict.fromkeys(ANSWER_SCORES, RIGHT_ANSWER)
"""The least values of a response that is right, for those of these metrics that it has."""

CONDITION = re.compile(
    r"(?:(.*):)?\s*([^\s:<>=!\[\]]+)(?:\[(.*)\])?\s*([<>]=?)\s*([^\s<>=]+)\s*", re.DOTALL
)
"""Template, metric, tag, operator and bound. A template's name may hold colons, spaces and
operators.
"""


class Condition(NamedTuple):
    """The parts of a condition; `template` is None for all results, `operator` one of
    `OPERATORS`.
    """

    template: str | None
    metric: str
    operator: str
    bound: float
    tag: Tag | None = None  # Whose results count, only of gates.

    @property
    def text(self) -> str:
        """The condition as it is written."""
        name = self.metric if self.template is None else f"{self.template}:{self.metric}"
        name += "" if self.tag is None else f"[{tag_name(self.tag)}]"
        return f"{name} {self.operator} {self.bound:.15g}"

    @property
    def is_lower_bound(self) -> bool:
        """Whether the mean should be above the bound; otherwise below it."""
        return self.operator.startswith(">")


RIGHT_CONDITIONS = tuple(
    Condition(None, metric, ">=", least) for metric, least in LEAST_RIGHT_VALUES.items()
)
"""The conditions of `LEAST_RIGHT_VALUES`."""


class CheckedGate(NamedTuple):
    """A gate: its condition, whether it holds, and why, on one line."""

    name: str
    holds: bool
    told: str


def to_float(text: str) -> float:
    """The number that a text spells; NaN if it spells none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def check_bound(name: str, bound: float, limits: tuple[float, float]) -> None:
    """Raise a `UsageError` if what has a name cannot be `bound`, since it has `limits`."""
    low, high = limits
    if not low <= bound <= high:
        told = f"from {low:g} to {high:g}" if math.isfinite(high) else f"{low:g} or more"
        cure = f"; for {bound:g}%, write {bound / 100:g}" if high == 1 and 1 < bound <= 100 else ""
        raise UsageError(f"{name} is {told}, not {bound:.15g}{cure}")


def parse_condition(text: str) -> Condition:
    """Parse a condition; another form, or a bound outside the range of the metric, is a
    `ValueError`.
    """
    condition = parse_gate(text)
    if condition.tag is not None:
        raise ValueError(f"{text!r}: only a gate can be on a tag, [{tag_name(condition.tag)}]")
    return condition


def parse_gate(text: str) -> Condition:
    """Parse a condition that may be on a tag; errors are as those of `parse_condition`."""
    match = CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r}: expected [TEMPLATE:]METRIC >= VALUE, or with >, <= or <")
    template, metric, tag, operator_, value = match.groups()
    if template is not None and tag is not None:
        raise ValueError(f"{text!r}: expected a template or a tag, not both")
    bound, of_tag = parse_bound(text, value, metric), None if tag is None else parse_tag(tag)
    return Condition(template and template.strip(), metric, operator_, bound, of_tag)


def parse_bound(text: str, value: str, metric: str) -> float:
    """Parse the `value` in a `text`; one that a mean of the metric cannot have is a
    `ValueError`.
    """
    bound = to_float(value)
    if not math.isfinite(bound):
        raise ValueError(f"{text!r}: {value!r} is not a finite number")
    check_bound(metric, bound, range_of(metric))
    return bound


def rounded(value: float, bound: float) -> str:
    """A value in few digits that is on the same side of a bound."""
    texts = (f"{value:.{digits}g}" for digits in range(3, 17))
    sides = [compare(value, bound) for compare in OPERATORS.values()]
    same = (text for text in texts if [f(float(text), bound) for f in OPERATORS.values()] == sides)
    return next(same, repr(value))
