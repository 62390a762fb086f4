"""A comparison while results come: rows that may be looked at again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypedDict

from graphrag_eval_async.inference.pairs import PairSums
from graphrag_eval_async.inference.questions import position
from graphrag_eval_async.inference.verdicts import Row, look_at

if TYPE_CHECKING:
    from collections.abc import Mapping

HIGHEST_LEVEL = 1 - 2**-53
"""The last double below 1, for which there is no interval."""


class LiveRows(TypedDict):
    """Rows by metric, and by template and metric."""

    overall: dict[str, Row]
    per_template: dict[str, dict[str, Row]]


class LiveSums(NamedTuple):
    """What the rows are made of, which takes about half a millisecond for each that is new.

    Attributes:
        per_template: sums by template and metric.
        templates: by metric, how many templates the baseline has it in, and so may ever have pairs of it.
    """

    per_template: Mapping[str, Mapping[str, PairSums]]
    templates: Mapping[str, int]

    def look(self, level: float) -> LiveRows:
        """The rows; with those of templates at a level at which all of a metric hold together at `level`.

        That is Bonferroni's correction. As the baseline says how many there will be at most, it is the same
        all the time, and so the verdicts of all templates hold together at all times, too.
        """
        groups = {name: in_order(group) for name, group in sorted(self.per_template.items())}
        return {
            "overall": {metric: look_at(metric, sums, level) for metric, sums in merged(groups).items()},
            "per_template": {
                template: {
                    metric: look_at(metric, sums, _shared(level, self.templates[metric]))
                    for metric, sums in group.items()
                }
                for template, group in groups.items()
                if group
            },
        }


def _shared(level: float, count: int) -> float:
    return min(1 - (1 - level) / count, HIGHEST_LEVEL)


def in_order(rows: Mapping[str, PairSums]) -> dict[str, PairSums]:
    """The metrics that have pairs, in their order."""
    return {name: rows[name] for name in sorted(rows, key=position) if rows[name].pairs}


def merged(per_template: Mapping[str, Mapping[str, PairSums]]) -> dict[str, PairSums]:
    """The sums over all templates, of the metrics that have pairs, in their order."""
    overall: dict[str, PairSums] = {}
    for group in per_template.values():
        for name, sums in group.items():
            overall.setdefault(name, PairSums(are_fractions=sums.are_fractions)).merge(sums)
    return in_order(overall)
