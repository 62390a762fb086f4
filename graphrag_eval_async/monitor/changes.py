"""Which scores and error rates of recent results differ clearly from those of earlier results."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.inference.one_look import upper, wilson
from graphrag_eval_async.records.metrics import BOUNDED_METRICS, is_score

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SHOWN = 4
"""How many changes are told."""


class Recent(NamedTuple):
    """A score or the error rate of recent results, and of all.

    Attributes:
        change: recent mean less that of earlier results, negated for error rates: negative if worse.
        counts: number of recent values, and of earlier ones.
    """

    template: str | None
    name: str
    recent: float
    mean: float
    change: float
    counts: tuple[float, float]

    def is_clear(self, z: float) -> bool:
        """Whether the interval of the difference, with a quantile `z`, leaves 0 out.

        Method 10 of Newcombe (1998, "Interval estimation for the difference between independent
        proportions"), from Wilson's intervals. Scores from 0 to 1 vary at most as much as shares.
        """
        few, many = self.counts
        recent = self.recent
        earlier = min(1.0, max(0.0, (self.mean * (few + many) - recent * few) / many))
        low, high = wilson(recent, few, z)
        low_before, high_before = wilson(earlier, many, z)
        if recent < earlier:
            return earlier - recent > sqrt((high - recent) ** 2 + (earlier - low_before) ** 2)
        return recent - earlier > sqrt((recent - low) ** 2 + (high_before - earlier) ** 2)

    def told(self, window: str) -> str:
        """Both means, in words."""
        where = "" if self.template is None else f"template {self.template}: "
        if self.name == "errors":
            return f"{where}errors: {self.recent:.1%} of the {window}, {self.mean:.1%} of all"
        return f"{where}{self.name} {self.recent:.3f} in the {window}, {self.mean:.3f} over all"


def getting_worse(facts: Mapping[str, Any], window: str) -> str:
    """Which recent scores are clearly worse; the level holds for all of them together, at one look."""
    samples = facts["overall"]["samples"]
    if samples["window"] >= samples["total"]:
        return f"too early to say: all results are within the {window}"
    every = [*_recents(None, facts["overall"])]
    overall = len(every)
    for template, group in facts["templates"].items():
        every += _recents(template, group)
    if not every:
        return f"the {window} have no score"
    z = NormalDist().inv_cdf(upper(1 - (1 - facts["level"]) / len(every)))
    clear = [each for each in every if each.is_clear(z)]
    worse, better = [each for each in clear if each.change < 0], [each for each in clear if each.change > 0]
    told = [
        f"{word}: {_listed(found, window)}"
        for word, found in (("yes" if worse else "", worse), ("better" if worse else "no, better", better))
        if found
    ]
    return ". ".join(told) or f"no clear change: {_listed(every[:overall], window)}"


def _listed(found: Sequence[Recent], window: str) -> str:
    ranked = sorted(found, key=lambda each: (each.template is not None, -abs(each.change)))
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(each.told(window) for each in ranked[:SHOWN]) + more


def _recents(template: str | None, group: Mapping[str, Any]) -> Iterator[Recent]:
    """The error rate and the scores of a group that has recent results and earlier ones."""
    total, recent = group["samples"]["total"], group["samples"]["window"]
    rate = group["error_rate"]
    if 0 < recent < total:
        yield _recent(template, "errors", rate, (recent, total - recent))
    right, recent_right = total - group["errors"]["total"], recent - group["errors"]["window"]
    for name, value in group["metrics"].items():
        if is_score(name) and name in BOUNDED_METRICS and value["window"] is not None:
            known = group.get("coverage", {}).get(name, {}).get("values", right)
            share = min(1.0, known / right) if right else 0.0  # Recent values are not counted by metric.
            if 0 < recent_right < right and share:
                yield _recent(template, name, value, (recent_right * share, (right - recent_right) * share))


def _recent(
    template: str | None, name: str, value: Mapping[str, float], counts: tuple[float, float]
) -> Recent:
    few, many = counts
    change = (value["window"] - value["mean"]) * (few + many) / many
    return Recent(
        template, name, value["window"], value["mean"], -change if name == "errors" else change, counts
    )
