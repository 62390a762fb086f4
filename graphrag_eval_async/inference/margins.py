"""Whether a candidate is shown to be no worse than a baseline by more than a margin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import UsageError, describe
from graphrag_eval_async.inference.one_look import change_interval
from graphrag_eval_async.inference.verdicts import UNDECIDED, lower_is_better
from graphrag_eval_async.records.conditions import check_bound
from graphrag_eval_async.records.metrics import range_of

if TYPE_CHECKING:
    from graphrag_eval_async.inference.pairs import Drop

NON_INFERIOR = "non_inferior"


def check_margins(margins: object) -> None:
    """Raise a `UsageError` unless each metric can be worse by its margin."""
    if not isinstance(margins, Mapping):
        raise UsageError(f"non_inferior: expected a dict of margins by metric, got {describe(margins)}")
    for metric, margin in margins.items():
        if not isinstance(margin, int | float) or not margin > 0:
            raise UsageError(f"non_inferior: {metric}: expected a margin above 0, got {describe(margin)}")
        low, high = range_of(metric)
        check_bound(f"non_inferior: a change of {metric}", margin, (0, high - low))


def non_inferiority(drop: Drop, metric: str, margin: float, level: float, *, bounded: bool) -> dict[str, Any]:
    """Return whether a metric is shown to be worse by less than a margin, its means, and its interval.

    It is if the whole interval of the mean change is better than the margin: Hall's, see `change_interval`.
    Of a `bounded` metric, from 0 to 1, it is over the changes and three more, two by 1 for the worse and one
    for the better: questions that were not asked may lose everything, though none that was asked did. So even
    if a change is seldom and large, a candidate that is worse by the margin is shown not to be in at most
    (1 - level) / 2 of comparisons. If several metrics all must be shown, the same holds for all together:
    Berger (1982), "Multiparameter hypothesis testing and acceptance sampling".
    """
    found: dict[str, Any] = {"margin": margin, "level": level, "pairs": len(drop.changes)}
    found |= {"verdict": UNDECIDED, **(drop.means or {})}
    sign = -1.0 if lower_is_better(metric) else 1.0
    changes = [*drop.changes, *([-sign, -sign, sign] * bounded)]
    if not drop.changes or (ends := change_interval(changes, level, bounded=False)) is None:
        return found | {"reason": "too few questions have it on both sides, or all changes agree"}
    found["interval"] = {"level": level, "low": ends[0], "high": ends[1], "kind": "one_look"}
    if told := drop.lacking(metric):
        return found | {"reason": told.removeprefix("; ")}
    return found | ({"verdict": NON_INFERIOR} if min(sign * end for end in ends) > -margin else {})
