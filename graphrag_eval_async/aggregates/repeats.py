"""Repeats: how often some or all samples of a question are right, and how much its scores vary."""

from __future__ import annotations

from array import array
from collections import Counter
from fractions import Fraction
from itertools import repeat
from typing import TYPE_CHECKING

from graphrag_eval_async.aggregates.exact import ONE, mean, to_units
from graphrag_eval_async.aggregates.questions import QuestionValues, Several, plus
from graphrag_eval_async.catalogue.conditions import OPERATORS
from graphrag_eval_async.catalogue.outcomes import CAUSED_BY_AGENT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.catalogue.outcomes import Outcome

MOST_SAMPLES = 100  # The largest k of pass@k and pass^k.


class Rights:
    """Which results of a group are right: those that meet `conditions`.

    `known` has 1 for each right result and 0 for each other, by the metrics that the agent left
    without a value, and "" if no value decides. If other results have one of those metrics, the
    result is wrong.
    """

    def __init__(self, conditions: Collection[Condition]) -> None:
        self._conditions = conditions
        self.known: dict[tuple[str, ...], QuestionValues] = {}
        self._samples: tuple[set[str], Counter[tuple[int, int]]] | None = None

    def of(
        self,
        failed: bool,
        outcomes: Iterable[Outcome],
        columns: Iterable[tuple[str, Sequence[float]]],
        results: int,
    ) -> Iterator[tuple[QuestionValues, array[float]]]:
        """Yield what to add to which part of `known`; nothing if a judge failed.

        The results have outcomes in common; `columns` are the values of their metrics.
        """
        self._samples = None
        known = [
            (c, own)
            for name, own in columns
            for c in self._conditions
            if name == c.metric and not failed
        ]
        absent, kinds = (
            {c.metric for c in self._conditions} - {c.metric for c, _ in known},
            dict(outcomes),
        )
        lacking = absent & kinds.keys() or (absent if failed else set())
        if (known or lacking) and (
            failed or {kinds[metric] for metric in lacking} <= CAUSED_BY_AGENT
        ):
            meet = [map(OPERATORS[c.operator], own, repeat(c.bound)) for c, own in known]
            # Most often there is one condition.
            of_all = (
                meet[0]
                if len(meet) == 1
                else map(all, zip(*meet, strict=True))
                if meet
                else [0] * results
            )
            right = array("d", of_all)
            yield (
                self.known.setdefault(
                    (*sorted(lacking), *([] if known else [""])), QuestionValues()
                ),
                right,
            )

    def merge(self, other: Rights, places: Sequence[int], *, fresh: bool) -> None:
        """Add the results of `other`, as `QuestionValues.merge` does."""
        self._samples = None
        for key, right in other.known.items():
            self.known.setdefault(key, QuestionValues()).merge(right, places, fresh=fresh)

    def samples(self, scored: set[str], unknown: int | None) -> Counter[tuple[int, int]]:
        """Return how many questions have n samples, c of them right, by (n, c), if results have
        these scores.

        The only one is (0, 0) if a result is at the place `unknown`.
        """
        if self._samples is None or self._samples[0] != scored:
            found: dict[int, tuple[int, int]] = {}
            for lacking, own in self.known.items():
                lacks = not scored.isdisjoint(lacking)
                for place, values in own.by_place() if lacks or "" not in lacking else ():
                    (units, n), (samples, right) = plus(values, (0, 0)), found.get(place, (0, 0))
                    found[place] = samples + n, right + (0 if lacks else units // ONE)
            self._samples = scored, Counter({(0, 0): 1} if unknown in found else found.values())
        return self._samples[1]


def pass_rates(questions: Mapping[tuple[int, int], int]) -> dict[str, float]:
    """Return ``pass@k``, ``pass^k`` and ``questions@k`` by k; nothing if no question has two
    samples.

    pass@k is the chance that one of k samples is right, pass^k that all are: of n samples with c
    right ones, 1 - C(n - c, k) / C(n, k) and C(c, k) / C(n, k). They are means over the questions
    with n >= k, whose number is questions@k. `questions` has how many questions have n samples, c
    of them right, by (n, c).

    Source: Chen et al. (2021), "Evaluating Large Language Models Trained on Code", equation 1.
    """
    most = min(max((n for n, _ in questions), default=0), MOST_SAMPLES)
    sums = [[0, 0, 0] for _ in range(most if most > 1 else 0)]
    for (n, c), times in questions.items():
        ways = none = every = 1
        for k, own in zip(range(n), sums, strict=False):
            ways, none, every = ways * (n - k), none * (n - c - k), every * (c - k)
            own[0] += times * to_units((ways - none) / ways)
            own[1] += times * to_units(every / ways)
            own[2] += times
    shown = {}
    for k, (one, every, number) in enumerate(sums, 1):
        shown[f"pass@{k}"], shown[f"pass^{k}"] = (
            mean(own, number, integral=False) for own in (one, every)
        )
        shown[f"questions@{k}"] = number
    return shown


def variances(values: Iterable[float], questions: Iterable[float | Several]) -> dict[str, float]:
    """Return the variances of a score `between` questions, and `within` one, between its samples.

    They are exact, unbiased estimates by analysis of variance; `between` may be below 0. Of N
    values of k
    questions, with n and the sum S of each, and T of all: `within` is (sum x² - sum S²/n) / (N -
    k), and `between` is ((sum S²/n - T²/N) / (k - 1) - within) / m with m = (N - sum n²/N) / (k -
    1). Each is absent if it would divide by 0. Source: Searle, Casella and McCulloch (1992),
    "Variance Components", section 3.6.
    """
    number = count = total = sizes = 0
    squares: Counter[int] = Counter()
    for own in questions:
        units, n = own if isinstance(own, tuple) else (to_units(own), 1)
        squares[n] += units * units
        number, count, total, sizes = number + n, count + 1, total + units, sizes + n * n
    of_sums = sum((Fraction(square, n) for n, square in squares.items()), Fraction()) / ONE**2
    of_values = Fraction(
        sum(times * to_units(value) ** 2 for value, times in Counter(values).items()), ONE**2
    )
    within = (of_values - of_sums) / ((number - count) or 1)
    among = of_sums - Fraction(total * total, number) / ONE**2 - within * (count - 1)
    between = {"between": float(among / (number - Fraction(sizes, number)))} if count > 1 else {}
    return between | ({"within": float(within)} if number > count else {})
