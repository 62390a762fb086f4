"""Compares two runs, question by question."""

from __future__ import annotations

from collections import defaultdict
from itertools import filterfalse
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates.questions import ValueSum, mean_and_count, plus
from graphrag_eval_async.catalogue.metrics import (
    CONDITIONAL_METRICS,
    ERROR_RATE,
    is_metric,
    is_primary,
    is_score,
    lower_is_better,
    range_of,
)
from graphrag_eval_async.catalogue.outcomes import OUTPUTS, REASON, RESPONSE_ERROR
from graphrag_eval_async.catalogue.tags import ALL_TAGS, Tag, tag_position
from graphrag_eval_async.errors import AggregationError, UsageError, describe
from graphrag_eval_async.inference.confidence import check_level
from graphrag_eval_async.inference.pairs import (
    SIDES,
    Drop,
    PairSums,
    Question,
    change_between,
    paired,
    pairs_of,
    reference_hash,
)
from graphrag_eval_async.inference.verdicts import (
    NOTES,
    check_known,
    check_margins,
    decide_values,
    finished_rows,
    is_fraction,
    non_inferiority,
    position,
)
from graphrag_eval_async.records.results import observe, outputs_where_lower_is_better
from graphrag_eval_async.text import did_you_mean, plural

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphrag_eval_async.inference.pairs import Side
    from graphrag_eval_async.records.evaluation import Evaluation

JUDGED_BY = {"model": "models", "prompts": "prompts", "embedding": "embedding models"}
"""The keys that identify a result's judge, and their plurals."""

SHOWN_CHARACTERS = 60


class _Run:
    """Facts about one run besides its values."""

    def __init__(self) -> None:
        self.results = 0  # Complete results.
        self.metrics = {ERROR_RATE}  # Metrics with a value.
        self.failed: set[str] = set()  # Metrics that were requested but failed.
        self.judges: dict[str, set[str]] = {key: set() for key in JUDGED_BY}

    def add(self, seen: Evaluation) -> None:
        """Add a complete result."""
        self.results += 1
        self.metrics.update(seen.metrics)
        # Skip failures of the agent: they fail all metrics, requested or not. Missing answers
        # count.
        self.failed.update([metric for metric, kind in seen.outcomes if kind != RESPONSE_ERROR])
        if isinstance(judge := seen.as_dict().get("judge"), dict):
            for key, names in self.judges.items():
                if isinstance(name := judge.get(key), str):
                    names.add(name)


class RunningComparison:
    """Compares a candidate with a baseline from their results, which are added one by one.

    Pairs results by question: the values of a question on one side are averaged over its samples
    and retrieval steps. Also compares ``error_rate``, the share of samples that are errors; without
    it, a candidate that fails on hard questions would look better.

    The order of results never changes the outcome, not even by rounding; only of samples with the
    same number or none, those that were added first count as the first. Each question takes about
    two kilobytes.
    """

    def __init__(
        self,
        *,
        primary: Collection[str] | None = None,
        non_inferior: Mapping[str, float] | None = None,
    ) -> None:
        """Create a comparison without results.

        Args:
            primary: the metrics that are decided; see `is_primary` for the default.
            non_inferior: by metric, the margin by which it may be worse; see `non_inferiority`.
        """
        check_margins(margins := {} if non_inferior is None else non_inferior)
        self._margins = dict(margins)
        self._primary = primary
        self._questions: dict[str, Question] = {}
        self._runs = {side: _Run() for side in SIDES}
        self._fractions: set[str] = set()
        self._lower_outputs: set[str] = set()

    def add_baseline(self, result: Mapping[str, Any]) -> None:
        """Add one result of the baseline; see `add`."""
        self._add(result, "baseline")

    def add(self, result: Mapping[str, Any] | Evaluation) -> None:
        """Add one result of the candidate: a dict with the keys of an evaluated result.

        Results with metrics in `pending` do not count: the complete version follows. Snapshots list
        questions without a complete result as `pending`.

        Raises:
            AggregationError: `result` is not a result of a question, or one of its metrics is not a
                finite number of at most 64 bits. Then nothing of it is counted.
        """
        self._add(result, "candidate")

    def _add(self, result: Mapping[str, Any] | Evaluation, side: Side) -> None:
        seen = observe(result)
        question_id = seen.question_id
        if not isinstance(question_id, str):
            raise AggregationError(f"question_id: must be a string, not {describe(question_id)}")
        rendered = seen.as_dict()
        lower_outputs = outputs_where_lower_is_better(rendered)
        question = self._questions.get(question_id)
        if question is None:
            question = self._questions[question_id] = Question()
        if seen.pending is not None:
            question.expect(side)
            return
        # An output of the same name is dropped.
        values = [each for each in seen.values if each[0] != ERROR_RATE]
        values.append((ERROR_RATE, float(seen.failed)))
        question.add(side, seen.template_id, values, reference_hash(rendered))
        question.tags = max(question.tags, (side == "candidate" and bool(seen.tags), seen.tags))
        outcomes = [outcome for outcome in seen.outcomes if outcome[0] != REASON]
        question.valueless.update(
            (side, metric, kind == RESPONSE_ERROR) for metric, kind in outcomes
        )
        question.add_sample(side, seen)
        self._runs[side].add(seen)
        self._fractions.update(seen.fractions)
        self._lower_outputs.update(lower_outputs)

    @property
    def _shared(self) -> list[Question]:
        """The questions with complete results on both sides."""
        return [question for question in self._questions.values() if question.is_shared]

    def _facts_of_questions(self) -> dict[str, Any]:
        """Return a snapshot's lists of questions and its `warnings`, without tests."""
        known = sorted(self._questions.items())
        shared = {name: question for name, question in known if question.is_shared}
        lone = {
            side: [name for name, question in known if question.only_in == side] for side in SIDES
        }
        return {
            "missing": [
                name
                for name, each in known
                if "baseline" in each.values and "candidate" not in each.values
            ],
            "questions": len(shared),
            "regressions": [name for name, each in shared.items() if each.became_wrong(*SIDES)],
            "improvements": [
                name for name, each in shared.items() if each.became_wrong(*SIDES[::-1])
            ],
            "worse": _worse(shared, self._lower_outputs),
            **{f"only_in_{side}": names for side, names in lone.items()},
            "pending": {
                side: [name for name, each in known if side in each.pending] for side in SIDES
            },
            "without_pair": _without_pair(shared),
            "warnings": self._warnings(),
        }

    def _warnings(self) -> list[str]:
        warnings = _judge_warnings({side: run.judges for side, run in self._runs.items()})
        differing = sum(question.differs for question in self._questions.values())
        if differing:
            warnings.append(f"the reference sets differ in {plural(differing, 'question')}")
        return warnings + self._without_any_pair()

    def snapshot(self, *, level: float = 0.95, by: str | None = None) -> dict[str, Any]:
        """Return the full comparison in the layout of `compare`, as a new dict.

        `by` is a key of tags, or "tags" for all: `per_tag` then has rows for each value, which
        share an error budget of their own, as those of templates do. An unknown key is a
        `UsageError`.
        """
        check_level(level)
        if any(run.results for run in self._runs.values()):
            check_known("primary", filterfalse(is_metric, self._primary or ()), self.metrics)
            check_known("non_inferior", self._margins, self.metrics)
        found = self._facts_of_questions()
        by_template: defaultdict[str, list[Question]] = defaultdict(list)
        for question in self._shared:
            by_template[question.template].append(question)
        pairs = {
            template: paired(map(Question.sides, questions))
            for template, questions in by_template.items()
        }
        rows = finished_rows(pairs, self._fractions, level, self._primary, self._lower_outputs)
        self._test_values(found["without_pair"], level)
        return {
            "missing": found["missing"],  # First, since nothing else tells of these questions.
            "level": level,
            "results": {side: own.results for side, own in self._runs.items()},
            "questions": found["questions"],
            **rows,
            **({} if by is None else self._per_tag(by, level)),
            **self._non_inferiority(level, rows["overall"]),
            **found,
            "notes": {**NOTES},
        }

    def _per_tag(self, by: str, level: float) -> dict[str, Any]:
        shared: defaultdict[Tag, list[Question]] = defaultdict(list)
        for question in self._shared:
            for tag in question.tags[1]:
                shared[tag].append(question)
        groups = {tag: own for tag, own in shared.items() if by in (tag[0], ALL_TAGS)}
        if not groups:
            hint = (
                did_you_mean(by, sorted({key for key, _ in shared}))
                if shared
                else "there are no tags"
            )
            raise UsageError(f"by: no question on both sides has the tag {by!r}; {hint}")
        pairs: dict[Any, Any] = {
            tag: paired(map(Question.sides, own)) for tag, own in groups.items()
        }
        rows: dict[Any, Any] = finished_rows(
            pairs, self._fractions, level, self._primary, self._lower_outputs
        )["per_template"]
        per_tag: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for key, value in sorted(rows, key=tag_position):
            per_tag[key][value] = rows[key, value]
        return {"per_tag": dict(per_tag)}

    def _non_inferiority(
        self, level: float, overall: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the key `non_inferior` of a snapshot; nothing if no metric has a margin.

        `overall` has the rows by metric.
        """
        if not self._margins:
            return {}
        rows = {
            metric: non_inferiority(
                self.drop(metric),
                metric,
                margin,
                level,
                bounded=is_fraction(metric, self._fractions),
                row=overall.get(metric),
            )
            for metric, margin in self._margins.items()
        }
        return {"non_inferior": rows}

    @property
    def metrics(self) -> set[str]:
        """The metrics that results of either side have, or should have but failed."""
        return set().union(*(run.metrics | run.failed for run in self._runs.values())) - {
            REASON,
            OUTPUTS,
        }

    def drop(self, metric: str) -> Drop:
        """Return how a metric changed if errors count: as 0 in scores up to 1."""
        fills = metric != ERROR_RATE and (metric in self._fractions or range_of(metric)[1] == 1)
        pairs, failed, missing, results = [], [0, 0], [0, 0], [0, 0]
        for question in self._shared:
            known, valueless = [own.get(metric) for own in question.sides()], question.valueless
            if known == [None, None] and not all(valueless[side, metric, True] for side in SIDES):
                continue  # Nobody knows whether the metric applies.
            for place, (side, values, own) in enumerate(
                zip(SIDES, question.sides(), known, strict=True)
            ):
                rate, samples = mean_and_count(values[ERROR_RATE])
                errors = round(rate * samples)
                lacking = samples - errors - (0 if own is None else mean_and_count(own)[1])
                missing[place] += max(
                    valueless[side, metric, False], 0 if metric in CONDITIONAL_METRICS else lacking
                )
                results[place] += samples
                failed[place] += errors
                if fills and errors:
                    zeros = ValueSum(exact_sum=0, count=errors)
                    known[place] = zeros if own is None else plus(own, zeros)
            if None not in known:
                pairs.append(known)
        found = pairs_of(*zip(*pairs, strict=True)) if pairs else []
        means, changes = (
            PairSums.of(found).means() if found else None,
            [pair.change for pair in found],
        )
        lower = metric in self._lower_outputs or lower_is_better(metric)
        return Drop(means, changes, failed, missing, results, fills, lower)

    def _test_values(self, without_pair: Mapping[str, dict[str, Any]], level: float) -> None:
        """Add tests for the primary metrics that both sides requested, whether they have values
        or not.
        """
        for metric, sides in without_pair.items():
            primary = is_primary(metric, self._primary, self._fractions)
            if primary and all(metric in own.metrics | own.failed for own in self._runs.values()):
                lost, gained = (
                    sum(self._questions[name].is_even for name in sides[side]) for side in SIDES
                )
                sides |= decide_values(gained, lost, level)

    def _without_any_pair(self) -> list[str]:
        baseline, candidate = self._runs.values()
        if not (baseline.results and candidate.results):
            return []
        shared: set[str] = set()
        for question in self._shared:
            values, others = question.sides()
            shared |= values.keys() & others.keys()
        lone = (baseline.metrics | candidate.metrics | {*(self._primary or ())}) - shared
        return [
            f"{metric}: no question has it on both sides" for metric in sorted(lone, key=position)
        ]


def _worse(
    questions: Mapping[str, Question], lower_outputs: Collection[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the questions in which the candidate is worse, by score, the worst first.

    Of `lower_outputs`, as of some built-in metrics, lower values are better.
    """
    losses: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for question_id, question in questions.items():
        values, others = question.sides()
        for metric in filter(is_score, values.keys() & others.keys()):
            (baseline, _), (candidate, _) = (
                mean_and_count(values[metric]),
                mean_and_count(others[metric]),
            )
            change = change_between(baseline, candidate)
            lower = metric in lower_outputs or lower_is_better(metric)
            if change > 0 if lower else change < 0:
                place = {"question_id": question_id, "template_id": question.template}
                means = {"baseline": baseline, "candidate": candidate, "difference": change}
                losses[metric].append(place | means)
    return {
        metric: sorted(losses[metric], key=lambda shown: -abs(shown["difference"]))
        for metric in sorted(losses, key=position)
    }


def _without_pair(questions: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
    """Return the questions that have a value on one side only, by metric and side."""
    lone: dict[str, dict[str, Any]] = {}
    for question_id, question in questions.items():
        for side, other in zip(SIDES, reversed(SIDES), strict=True):
            for metric in question.values[side].keys() - question.values[other].keys():
                lone.setdefault(metric, {side: [] for side in SIDES})[side].append(question_id)
    return {metric: lone[metric] for metric in sorted(lone, key=position)}


def _judge_warnings(judges: Mapping[str, Mapping[str, set[str]]]) -> list[str]:
    """Return warnings about different judges, between the two runs or within one."""
    warnings = []
    for key, kinds in JUDGED_BY.items():
        names = {side: _listed(sorted(own[key])) for side, own in judges.items() if own[key]}
        if len(names) == len(SIDES) and judges["baseline"][key] != judges["candidate"][key]:
            told = "; ".join(f"{side}: {listed}" for side, listed in names.items())
            warnings.append(f"the two were judged by different {kinds}: {told}")
        else:
            warnings += [
                f"the {side} was judged by several {kinds}: {listed}"
                for side, listed in names.items()
                if len(judges[side][key]) > 1
            ]
    return warnings


def _listed(names: list[str]) -> str:
    shown = [name[:SHOWN_CHARACTERS] for name in names[:3]]
    return ", ".join(shown + [f"{len(names) - 3} more"] * (len(names) > 3))
