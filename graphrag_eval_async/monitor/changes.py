"""Which scores and error rates have changed, as far as that can be said at every look."""

from __future__ import annotations

from math import nextafter, pi
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.inference.confidence import gap, mean_of
from graphrag_eval_async.records.metrics import BOUNDED_METRICS, ERROR_RATE
from graphrag_eval_async.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.monitor.history import Course, Courses

SHOWN = 4  # Maximum number of changes that are named.
OF_ERRORS = 0.1  # The share of the error probability that the error rate has; the scores share the rest.


class Change(NamedTuple):
    """A score or the error rate that changed, and whether for the worse."""

    gap: float  # between the confidence intervals before and after the change
    is_loss: bool
    told: str  # both means, in words


def getting_worse(courses: Courses, scores: Sequence[str], level: float) -> str:
    """Which results became clearly worse; the level holds for all looks and all of these together.

    Half of the error probability is for all results, and half for the templates, in the order in which they
    appeared. A tenth of that is for the error rate, the rest for the `scores`. What each has is divided among
    its starts. Results must come in random order.
    """
    if not courses.overall.starts:
        return f"too early to say, after {plural(courses.overall.results, 'result')}"
    alpha = (1 - level) / 2
    changes = [*_changes("", courses.overall, scores, alpha)]
    if len(courses.templates) > 1:
        for place, (name, course) in enumerate(courses.templates.items(), 1):
            changes += _changes(f"template {name}: ", course, scores, alpha * _share(place))
    worse, better = ([each.told for each in changes if each.is_loss is loss] for loss in (True, False))
    told = [f"yes: {_listed(worse)}"] if worse else []
    told += [f"{'better' if worse else 'no, better'}: {_listed(better)}"] if better else []
    return ". ".join(told) or "no clear change"


def _share(place: int) -> float:
    """Return a share for a place from 1 on; those of all places together are 1."""
    return 6 / (pi * place) ** 2


def _changes(prefix: str, course: Course, scores: Sequence[str], alpha: float) -> Iterator[Change]:
    """Yield the clearest change of each score, if there is one."""
    parts = {ERROR_RATE: OF_ERRORS}
    parts |= {name: (1 - OF_ERRORS) / len(scores) for name in scores if name in BOUNDED_METRICS}
    for name, part in parts.items():
        found = []
        for place, results, weights in course.starts:
            if name in course.weights and (before := weights.get(name)) is not None:
                after = tuple(max(0.0, a - b) for a, b in zip(course.weights[name], before, strict=True))
                level = min(1 - alpha * part * _share(place) / 2, nextafter(1.0, 0.0))
                if any(after) and (apart := gap(before, after, level)) > 0:
                    found.append((apart, results, mean_of(before), mean_of(after)))
        if found:
            apart, results, old, new = max(found)
            when = f"the first {plural(results, 'result')}"
            told = f"{name} {new:.3f} after {when}, {old:.3f} before"
            if name == ERROR_RATE:
                told = f"errors in {new:.1%} of the results after {when}, {old:.1%} before"
            yield Change(apart, (new < old) != (name == ERROR_RATE), prefix + told)


def _listed(found: Sequence[str]) -> str:
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more
