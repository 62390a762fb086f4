"""Two runs compared: question by question, and what that comes to."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.aggregates.pairs import PairSums, difference, pair_of, put, rounded
from graphrag_eval_async.aggregates.provenance import judge_warnings, judges, note_judge, reference_hash
from graphrag_eval_async.aggregates.reading import describe, metric_position, observe
from graphrag_eval_async.aggregates.verdicts import NOTES, decide, is_score, look_at, lower_is_better
from graphrag_eval_async.errors import AggregationError, UsageError
from graphrag_eval_async.records.metrics import ERROR_RATE

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from graphrag_eval_async.aggregates.pairs import PairedValues

Side = Literal["baseline", "candidate"]
SIDES: tuple[Side, Side] = ("baseline", "candidate")


class _Question:
    """What the sides have of a question.

    Attributes:
        values: of each side that has results of it.
        differs: whether there are results with different reference data.
    """

    __slots__ = ("_reference", "_templates", "differs", "values")

    def __init__(self) -> None:
        self.values: dict[Side, PairedValues] = {}
        self.differs = False
        self._templates: dict[Side, str] = {}
        self._reference: int | None = None

    def put(
        self, side: Side, template: str, values: Iterable[tuple[str, float]], reference: int | None
    ) -> None:
        own = self.values.setdefault(side, {})
        for metric, value in values:
            put(own, metric, value)
        self._templates[side] = min(template, self._templates.get(side, template))
        if self._reference is None:
            self._reference = reference
        self.differs |= reference not in (None, self._reference)

    @property
    def template(self) -> str:
        """That of the baseline, if it has one; the first by name, should there be several."""
        return next(self._templates[side] for side in SIDES if side in self._templates)

    @property
    def is_shared(self) -> bool:
        return len(self.values) == len(SIDES)

    def pairs(self) -> Iterator[tuple[str, float, float]]:
        """The metrics that both sides have values of, with the mean of each side."""
        if self.is_shared:
            baseline, candidate = (self.values[side] for side in SIDES)
            for metric, value in baseline.items():
                if metric in candidate:
                    yield metric, rounded(value), rounded(candidate[metric])


class RunningComparison:
    """A candidate compared with a baseline, up to date after each result of either.

    Results are paired by question: the values that a side has of a question are averaged, over its samples
    and over retrieval steps. Beside the metrics, ``error_rate`` is compared, the share of samples that are
    errors; without it, a candidate that fails where it is hard would look better.

    The order in which results come does not matter to the last bit. Each question takes about two kilobytes.

    The confidence sequences hold as long as questions come with the same mean difference all the time, as
    those that are shuffled do. They do not account for questions that are answered again, whose pairs change.
    """

    def __init__(self, *, include_errors: bool = False) -> None:
        """With `include_errors`, the metrics of results with ``status: error`` count as well."""
        self._include_errors = include_errors
        self._questions: dict[str, _Question] = {}
        self._overall: dict[str, PairSums] = {}
        self._per_template: dict[str, dict[str, PairSums]] = {}
        self._judges = {side: judges() for side in SIDES}
        self._results: Counter[Side] = Counter()

    def add_baseline(self, result: Mapping[str, Any]) -> None:
        """Count one result of the baseline, as `add` does one of the candidate."""
        self._add(result, "baseline")

    def add(self, result: Mapping[str, Any]) -> None:
        """Count one result of the candidate: a dict with the keys that an evaluation gives it.

        One with metrics in `pending` is not counted: it comes again, whole.

        Raises:
            AggregationError: it is not a result of a question, or a metric of it is not a finite number of at
                most 64 bits; nothing of it has been counted then.
        """
        self._add(result, "candidate")

    def _add(self, result: Mapping[str, Any], side: Side) -> None:
        template, values = _observe(result, include_errors=self._include_errors)
        question_id = result.get("question_id")
        if not isinstance(question_id, str):
            raise AggregationError(f"question_id: must be a string, not {describe(question_id)}")
        if "pending" in result:
            return
        reference = reference_hash(result)
        question = self._questions.get(question_id)
        if question is None:
            question = self._questions[question_id] = _Question()
        # Its pairs are taken out, and put in again as they are now.
        self._count(question, -1)
        question.put(side, template, values, reference)
        self._count(question, 1)
        note_judge(self._judges[side], result)
        self._results[side] += 1

    def _count(self, question: _Question, sign: int) -> None:
        if question.is_shared:
            group = self._per_template.setdefault(question.template, {})
            for metric, baseline, candidate in question.pairs():
                pair = pair_of(baseline, candidate)
                for rows in (group, self._overall):
                    sums = rows.get(metric)
                    if sums is None:
                        sums = rows[metric] = PairSums()
                    sums.count(pair, sign)

    def sums(self, metrics: Container[str] | None = None) -> dict[str, PairSums]:
        """Copies of what `look` shows by `look_at`, which takes up to a millisecond each; None for all."""
        names = [name for name in _names(self._overall) if metrics is None or name in metrics]
        return {name: self._overall[name].copy() for name in names}

    def look(self, *, level: float = 0.95) -> dict[str, Any]:
        """`overall` of a snapshot without the sign test, which must not be looked at while results come.

        Raises:
            UsageError: `level` is not between 0 and 1.
        """
        if not isinstance(level, float) or not 0 < level < 1:
            raise UsageError(f"level: expected a number between 0 and 1, got {describe(level)}")
        return {name: look_at(name, sums, level) for name, sums in self.sums().items()}

    def snapshot(self, *, level: float = 0.95) -> dict[str, Any]:
        """All of it, as `compare` lays it out; the dict is the caller's own.

        Args:
            level: of the confidence sequences and the tests, more than 0 and less than 1.

        Raises:
            UsageError: `level` is not that.
        """
        overall = self.look(level=level)
        per_template = {
            template: {name: look_at(name, group[name], level) for name in names}
            for template, group in sorted(self._per_template.items())
            if (names := _names(group))
        }
        decide(overall, per_template, level)
        shared = {name: question for name, question in sorted(self._questions.items()) if question.is_shared}
        return {
            "level": level,
            "results": {side: self._results[side] for side in SIDES},
            "questions": len(shared),
            "overall": overall,
            "per_template": per_template,
            "worse": _worse(shared, [name for name in overall if is_score(name)]),
            **{f"only_in_{side}": self._only_in(side) for side in SIDES},
            "without_pair": _without_pair(shared),
            "warnings": self._warnings(overall),
            "notes": {**NOTES},
        }

    def _only_in(self, side: Side) -> list[str]:
        return sorted(name for name, question in self._questions.items() if {*question.values} == {side})

    def _warnings(self, overall: Container[str]) -> list[str]:
        warnings = [*judge_warnings(*(self._judges[side] for side in SIDES))]
        if differing := sum(question.differs for question in self._questions.values()):
            warnings.append(f"the reference data differ in {differing} question{'s' * (differing > 1)}")
        lone = {metric for side in SIDES for metric in self._metrics(side) if metric not in overall}
        return warnings + [
            f"{metric}: no question has it on both sides" for metric in sorted(lone, key=_position)
        ]

    def _metrics(self, side: Side) -> set[str]:
        return {metric for question in self._questions.values() for metric in question.values.get(side, ())}


def _observe(result: Mapping[str, Any], *, include_errors: bool) -> tuple[str, list[tuple[str, float]]]:
    """The template of a result, and what is compared of it."""
    template, failed, values, *_ = observe(result, include_errors=include_errors)
    kept = [(metric, value) for metric, value in values if metric != ERROR_RATE]
    return template, [(ERROR_RATE, float(failed)), *kept]


def _names(rows: Mapping[str, PairSums]) -> list[str]:
    """The metrics that have pairs, in their order."""
    return sorted((name for name, sums in rows.items() if sums.pairs), key=_position)


def _position(metric: str) -> tuple[bool, tuple[int, str]]:
    return metric != ERROR_RATE, metric_position(metric)


def _worse(questions: Mapping[str, _Question], metrics: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """By metric, the questions in which the candidate is worse, the worst first."""
    worse: dict[str, list[tuple[float, dict[str, Any]]]] = {metric: [] for metric in metrics}
    for question_id, question in questions.items():
        for metric, *means in question.pairs():
            change = difference(*means)
            loss = change if lower_is_better(metric) else -change
            if loss > 0 and metric in worse:
                values = dict(zip((*SIDES, "difference"), (*means, change), strict=True))
                shown = {"question_id": question_id, "template_id": question.template, **values}
                worse[metric].append((loss, shown))
    return {
        metric: [shown for _, shown in sorted(found, key=lambda each: -each[0])]
        for metric, found in worse.items()
        if found
    }


def _without_pair(questions: Mapping[str, _Question]) -> dict[str, dict[str, list[str]]]:
    """By metric and side, the questions of which only that side has a value."""
    lone: dict[str, dict[str, list[str]]] = {}
    for question_id, question in questions.items():
        for side, other in zip(SIDES, reversed(SIDES), strict=True):
            for metric in question.values[side].keys() - question.values[other].keys():
                lone.setdefault(metric, {side: [] for side in SIDES})[side].append(question_id)
    return {metric: lone[metric] for metric in sorted(lone, key=_position)}
