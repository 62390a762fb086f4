"""The conditions that a stream can end by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference import check_level
from graphrag_eval_async.records.metrics import (
    BOUNDED_METRICS,
    RESULT_METRICS,
    RETRIEVAL_METRICS,
    may_be_bounded,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_PARTS = re.compile(r"(.*)(>=|>|<=|<)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Until:
    """A question that ends a stream once it is answered: is the mean of a metric over or under a bound?

    Each response is one sample; of one with several retrieval steps it is their mean. A question that is
    asked again counts again, which says more about that question, and nothing about others. The level is that
    of one stream in one order: trying seeds of `read_jsonl` until the condition holds makes it void. A stream
    ends when the mean is far enough from the bound, so the mean in its aggregates is biased away from the
    bound; the interval of the `Decision` is not.

    Attributes:
        condition: ``[TEMPLATE:]METRIC (>=|>|<=|<) NUMBER``, over all results or those of one template, whose
            name may contain colons. The metric is from 0 to 1 by definition, or an output of a custom
            evaluation that is described as such a fraction. ``>`` and ``>=`` are decided alike, and so are
            ``<`` and ``<=``: no sample can tell them apart.
        level: the confidence level of the decision, more than 0 and less than 1: at 0.95, at most one of 20
            streams is decided wrongly.

    Raises:
        UsageError: an attribute has a value it cannot have.
    """

    condition: str
    level: float = 0.95

    def __post_init__(self) -> None:
        parse_condition(self.condition)
        check_level(self.level, name="until.level")


@dataclass(frozen=True, slots=True)
class Condition:
    """The parts of a condition.

    Attributes:
        template: its id; None for all templates.
        metric: its name.
        over: whether the mean should be over the bound, rather than under it.
        bound: more than 0 and less than 1.
    """

    template: str | None
    metric: str
    over: bool
    bound: float


def unknown_metric(metric: str, outputs: Sequence[str] = ()) -> UsageError:
    """That a condition cannot be of a metric; `outputs` are those of custom evaluations that it can be of."""
    known = [name for name in (*RESULT_METRICS, *RETRIEVAL_METRICS) if name in BOUNDED_METRICS]
    return UsageError(
        f"until: {metric!r} is none of the metrics from 0 to 1: {', '.join([*known, *outputs])}, and outputs "
        'of custom evaluations that are described as "fraction 0-1"'
    )


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
    if metric.endswith(("=", "<", ">", "!")):
        raise UsageError(f"until: expected one of the operators >=, >, <= and <, got {text!r}")
    if not metric or not may_be_bounded(metric):
        raise unknown_metric(metric)
    number = number.strip()
    try:
        bound = float(number)
    except ValueError:
        raise UsageError(f"until: expected a number such as 0.8 after {operator}, got {number!r}") from None
    if not 0 < bound < 1:
        raise UsageError(
            f"until: expected a bound between 0 and 1, got {number!r}: "
            "at 0 or 1 itself, or beyond, no number of results could decide"
        )
    return Condition(template if colon else None, metric, operator in {">", ">="}, bound)
