"""Which scores and error rates of recent results differ clearly from those of earlier results."""

from __future__ import annotations

from itertools import chain
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.inference.one_look import upper, wilson
from graphrag_eval_async.records.metrics import BOUNDED_METRICS, ERROR_RATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.monitor.history import Change, Course, Courses

SHOWN = 4
"""Maximum number of changes that are named."""

LEAST_RESULTS = 20
"""Below this, chance explains nearly every change."""


class Recent(NamedTuple):
    """How a score or the error rate moved, of all results or those of a template.

    Attributes:
        results: number of recent results.
    """

    template: str | None
    name: str
    results: int
    change: Change

    @property
    def loss(self) -> float:
        """How much worse recent results are; negative if they are better."""
        loss = self.change.before - self.change.recent
        return -loss if self.name == ERROR_RATE else loss

    def is_clear(self, z: float) -> bool:
        """Whether the interval of the difference, with a quantile `z`, leaves 0 out.

        Method 10 of Newcombe (1998, "Interval estimation for the difference between independent
        proportions"), from Wilson's intervals for the effective
        sample sizes (Korn and Graubard 1998, "Confidence intervals for proportions with small expected number
        of positive counts estimated from survey data").
        """
        recent, before = (min(1.0, max(0.0, mean)) for mean in (self.change.recent, self.change.before))
        few, many = self.change.effective
        low, high = wilson(recent, few, z)
        low_before, high_before = wilson(before, many, z)
        if recent < before:
            return before - recent > sqrt((high - recent) ** 2 + (before - low_before) ** 2)
        return recent - before > sqrt((recent - low) ** 2 + (high_before - before) ** 2)

    @property
    def told(self) -> str:
        """Both means, in words, without the name."""
        recent, before, *_ = self.change
        of = f"{'the' if self.template is None else 'its'} last {self.results} results"
        if self.name == ERROR_RATE:
            return f"{recent:.1%} of {of}, {before:.1%} before"
        return f"{recent:.3f} in {of}, {before:.3f} before"


def getting_worse(courses: Courses, scores: Sequence[str], level: float) -> str:
    """Which recent results are clearly worse; the level holds for all of them together, at one look.

    Half of the error is for the scores of all results, and half for `scores` of the templates: many templates
    do not hide a change of all, and the other way round.
    """
    if courses.overall.results < LEAST_RESULTS:
        return f"too early to say, after {courses.overall.results} results"
    overall = [*_recents(None, courses.overall, [*courses.overall.places])]
    several = courses.templates if len(courses.templates) > 1 else {}
    templates = [
        *chain.from_iterable(
            _recents(name, course, (ERROR_RATE, *scores)) for name, course in several.items()
        )
    ]
    clear = [*_clear(overall, level), *_clear(templates, level)]
    worse, better = [each for each in clear if each.loss > 0], [each for each in clear if each.loss < 0]
    told = [
        f"{word}: {_listed(found)}"
        for word, found in (("yes" if worse else "", worse), ("better" if worse else "no, better", better))
        if found
    ]
    return ". ".join(told) or f"no clear change: {_listed(overall)}"


def recent_of(course: Course, template: str | None, name: str) -> Recent | None:
    """How a score moved; None if it has no recent or no earlier values."""
    change = course.change(name)
    return None if change is None else Recent(template, name, course.recent, change)


def _recents(template: str | None, course: Course, names: Sequence[str]) -> Iterator[Recent]:
    for name in names:
        if name == ERROR_RATE or name in BOUNDED_METRICS:
            recent = recent_of(course, template, name)
            if recent is not None:
                yield recent


def _clear(recents: Sequence[Recent], level: float) -> list[Recent]:
    """Those that differ clearly, all together with half of the error (Bonferroni)."""
    z = NormalDist().inv_cdf(upper(1 - (1 - level) / (2 * max(1, len(recents)))))
    return [each for each in recents if each.is_clear(z)]


def _listed(found: Sequence[Recent]) -> str:
    ranked = sorted(found, key=lambda each: (each.template is not None, -abs(each.loss)))
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(map(_named, ranked[:SHOWN])) + more


def _named(recent: Recent) -> str:
    where = "" if recent.template is None else f"template {recent.template}: "
    return f"{where}{'errors in' if recent.name == ERROR_RATE else recent.name} {recent.told}"
