"""The conditions that a stream can end by."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.metrics import BOUNDED_METRICS, RESULT_METRICS, RETRIEVAL_METRICS

_PARTS = re.compile(r"(.*)(>=|>|<=|<)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Until:
    """What a stream is to find out before it ends: whether the mean of a metric is over or under a bound.

    Attributes:
        condition: ``[TEMPLATE:]METRIC (>=|>|<=|<) NUMBER``, of a metric that is from 0 to 1 by its
            definition, over all results or over those of one template, whose name may hold colons. ``>`` and
            ``>=`` are decided alike, and so are ``<`` and ``<=``: no sample tells a mean from its neighbours.
        level: how sure the decision is to be, more than 0 and less than 1: of many streams, at most one in
            20 is decided wrongly at 0.95.
    """

    condition: str
    level: float = 0.95

    def __post_init__(self) -> None:
        """See that the values can be.

        Raises:
            UsageError: one cannot.
        """
        parse_condition(self.condition)
        if not isinstance(self.level, float) or not 0 < self.level < 1:
            raise UsageError(f"until.level: expected a number between 0 and 1, got {self.level!r}")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, taken apart.

    Attributes:
        template: its id; None for all.
        metric: the name.
        over: whether the mean is to be over the bound, or else under it.
        bound: between 0 and 1.
    """

    template: str | None
    metric: str
    over: bool
    bound: float


def parse_condition(text: object) -> Condition:
    """The parts of the text of a condition.

    Raises:
        UsageError: it is none.
    """
    parts = _PARTS.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        raise UsageError(f"until: expected [TEMPLATE:]METRIC >= NUMBER, or with >, <= or <, got {text!r}")
    name, operator, number = parts.groups()
    template, colon, metric = name.strip().rpartition(":")
    metric = metric.strip()
    if metric not in BOUNDED_METRICS:
        known = [name for name in (*RESULT_METRICS, *RETRIEVAL_METRICS) if name in BOUNDED_METRICS]
        raise UsageError(f"until: {metric!r} is none of the metrics from 0 to 1: {', '.join(known)}")
    try:
        bound = float(number)
    except ValueError:
        bound = math.nan
    if not 0 < bound < 1:
        raise UsageError(
            f"until: expected a bound between 0 and 1, got {number.strip()!r}: "
            "at 0 or 1 itself, or beyond, no number of results could decide"
        )
    return Condition(template if colon else None, metric, operator in {">", ">="}, bound)
