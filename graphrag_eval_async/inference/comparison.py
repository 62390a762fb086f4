"""Compares two runs, question by question."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import filterfalse
from typing import TYPE_CHECKING, Any, NamedTuple

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
from graphrag_eval_async.catalogue.tags import ALL_TAGS, tag_position
from graphrag_eval_async.errors import AggregationError, UsageError, describe
from graphrag_eval_async.helpers.text import did_you_mean, plural
from graphrag_eval_async.inference.confidence import check_level
from graphrag_eval_async.inference.pairs import (
    SIDES,
    Drop,
    PairSums,
    Question,
    QuestionTags,
    SideCounts,
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

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from graphrag_eval_async.catalogue.tags import Tag
    from graphrag_eval_async.inference.pairs import Pair, Side
    from graphrag_eval_async.inference.verdicts import Rows
    from graphrag_eval_async.records.evaluation import Evaluation

JUDGED_BY = {"model": "models", "prompts": "prompts", "embedding": "embedding models"}
"""The keys that identify a result's judge, and their plurals."""

SHOWN_CHARACTERS = 60
"""Characters of the name of a judge's model that a warning shows."""

SHOWN_NAMES = 3
"""How many names of models a warning shows."""


class _Run:
    """What is known of the results of one run, besides their values.

    Attributes:
        results: number of complete results.
        metrics: the metrics with a value.
        failed: the metrics that were requested but failed.
        judges: the judges of results, by key of `JUDGED_BY`.
    """

    def __init__(self) -> None:
        """Start without results."""
        self.results = 0
        self.metrics = {ERROR_RATE}
        self.failed: set[str] = set()
        self.judges: dict[str, set[str]] = {key: set() for key in JUDGED_BY}

    def add(self, observed: Evaluation) -> None:
        """Add a complete result."""
        self.results += 1
        self.metrics.update(observed.metrics)
        # An error of the agent fails all metrics, requested or not, so that it does not count here.
        # A missing answer does: it only fails requested metrics.
        self.failed.update(metric for metric, kind in observed.outcomes if kind != RESPONSE_ERROR)
        judge = observed.as_dict().get("judge")
        if isinstance(judge, dict):
            for key, names in self.judges.items():
                name = judge.get(key)
                if isinstance(name, str):
                    names.add(name)


class RunningComparison:
    """Compares a candidate with a baseline from their results, which are added one by one.

    Pairs results by question: the values of a question on one side are averaged over its samples
    and retrieval steps. Also compares ``error_rate``, the share of samples that are errors; without
    it, a candidate that fails on hard questions would look better.

    The order of results never changes the outcome, not even by rounding; only of samples with the
    same number or none, those that were added first count as the first. Each question takes about
    two kilobytes.

    Attributes:
        fractions: names of outputs of custom evaluations that are from 0 to 1.
        lower_outputs: names of outputs of which lower values are better.
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
        margins = {} if non_inferior is None else non_inferior
        check_margins(margins)
        self.fractions: set[str] = set()
        self.lower_outputs: set[str] = set()
        self._margins = dict(margins)
        self._primary = primary
        self._questions: dict[str, Question] = {}
        self._runs = {side: _Run() for side in SIDES}

    def add_baseline(self, result: Mapping[str, Any] | Evaluation) -> None:
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
        """Add a result of one side; see `add`."""
        observed = observe(result)
        question_id = observed.question_id
        if not isinstance(question_id, str):
            raise AggregationError(f"question_id: must be a string, not {describe(question_id)}")
        rendered = observed.as_dict()
        # This may raise an error, so it is done before anything of the result is counted.
        lower_outputs = outputs_where_lower_is_better(rendered)
        question = self._questions.setdefault(question_id, Question())
        if observed.pending is not None:
            question.expect(side)
            return

        # A custom evaluation may have an output with the name of the error rate: leave it out.
        values = [(metric, value) for metric, value in observed.values if metric != ERROR_RATE]
        values.append((ERROR_RATE, float(observed.failed)))
        question.add(side, observed.template_id, values, reference_hash(rendered))
        tags = QuestionTags(
            of_candidate=side == "candidate" and bool(observed.tags), tags=observed.tags
        )
        # `QuestionTags` are ordered so that the candidate's tags replace those of the baseline.
        question.tags = max(question.tags, tags)
        question.valueless.update(
            (side, metric, kind == RESPONSE_ERROR)
            for metric, kind in observed.outcomes
            if metric != REASON
        )
        question.add_sample(side, observed)
        self._runs[side].add(observed)
        self.fractions.update(observed.fractions)
        self.lower_outputs.update(lower_outputs)

    @property
    def metrics(self) -> set[str]:
        """The metrics that results of either side have, or should have but failed."""
        metrics: set[str] = set()
        for run in self._runs.values():
            metrics |= run.metrics | run.failed
        return metrics - {REASON, OUTPUTS}

    def _shared_questions(self) -> list[Question]:
        """Return the questions with complete results on both sides."""
        return [question for question in self._questions.values() if question.is_shared]

    def shared_pairs(self) -> dict[str, list[Pair]]:
        """Return the pairs of values of the questions on both sides, by metric."""
        return paired(question.sides() for question in self._shared_questions())

    def question_means(self, side: Side) -> dict[str, list[float]]:
        """Return the means of the questions that have complete results on a side, by metric."""
        means: defaultdict[str, list[float]] = defaultdict(list)
        for question in self._questions.values():
            for metric, values in question.values.get(side, {}).items():
                question_mean, _ = mean_and_count(values)
                means[metric].append(question_mean)
        return means

    def counts(self, side: Side) -> dict[str, int]:
        """Return the number of complete results of a side, and of the questions that have some."""
        questions = sum(side in question.values for question in self._questions.values())
        return {"results": self._runs[side].results, "questions": questions}

    def missing(self) -> list[str]:
        """Return the sorted ids of questions of the baseline that the candidate lacks.

        Only complete results count.
        """
        return sorted(
            question_id
            for question_id, question in self._questions.items()
            if "baseline" in question.values and "candidate" not in question.values
        )

    def snapshot(self, *, level: float = 0.95, by: str | None = None) -> dict[str, Any]:
        """Return the full comparison in the layout of `compare`, as a new dict.

        Args:
            level: confidence level, between 0 and 1.
            by: a key of tags, or "tags" for all keys. The snapshot then has rows for each value in
                `per_tag`, which share an error budget of their own, like the rows of templates.

        Raises:
            UsageError: `level` is not between 0 and 1, no result has a metric that an argument of
                the comparison names, or no result has a tag with the key `by`.
        """
        check_level(level)
        if any(run.results for run in self._runs.values()):
            check_known("primary", filterfalse(is_metric, self._primary or ()), self.metrics)
            check_known("non_inferior", self._margins, self.metrics)

        lists = self._lists_of_questions()
        self._add_tests(lists["without_pair"], level)

        questions_by_template: defaultdict[str, list[Question]] = defaultdict(list)
        for question in self._shared_questions():
            questions_by_template[question.template].append(question)
        rows = self._rows(questions_by_template, level)

        snapshot = {
            # First, so that a reader sees it: no other part mentions these questions.
            "missing": lists["missing"],
            "level": level,
            "results": {side: run.results for side, run in self._runs.items()},
            "questions": lists["questions"],
            "overall": rows["overall"],
            "per_template": rows["per_template"],
        }
        if by is not None:
            snapshot["per_tag"] = self._rows_of_tags(by, level)
        if self._margins:
            snapshot["non_inferior"] = self._rows_of_margins(rows["overall"], level)
        return {**snapshot, **lists, "notes": {**NOTES}}

    def _lists_of_questions(self) -> dict[str, Any]:
        """Return the part of a snapshot that lists questions, and its `warnings`.

        The lists in `without_pair` have no tests yet; see `_add_tests`.
        """
        questions = dict(sorted(self._questions.items()))
        shared = {name: question for name, question in questions.items() if question.is_shared}
        regressions = []
        improvements = []
        for name, question in shared.items():
            if question.became_wrong("baseline", "candidate"):
                regressions.append(name)
            if question.became_wrong("candidate", "baseline"):
                improvements.append(name)
        lists: dict[str, Any] = {
            "missing": self.missing(),
            "questions": len(shared),
            "regressions": regressions,
            "improvements": improvements,
            "worse": _list_losses(shared, self.lower_outputs),
        }
        for side in SIDES:
            lists[f"only_in_{side}"] = [
                name for name, question in questions.items() if question.only_in == side
            ]
        lists["pending"] = {
            side: [name for name, question in questions.items() if side in question.pending]
            for side in SIDES
        }
        lists["without_pair"] = _list_one_sided(shared)
        lists["warnings"] = self.warnings()
        return lists

    def warnings(self) -> list[str]:
        """Return warnings about what makes the comparison doubtful.

        These are different judges, different reference data, and metrics that no question has on
        both sides.
        """
        warnings = _judge_warnings({side: run.judges for side, run in self._runs.items()})
        differing = sum(question.differs for question in self._questions.values())
        if differing:
            warnings.append(f"the reference sets differ in {plural(differing, 'question')}")
        warnings += [
            f"{metric}: no question has it on both sides" for metric in self._metrics_without_pair()
        ]
        return warnings

    def _metrics_without_pair(self) -> list[str]:
        """Return the metrics of either run that no question has on both sides.

        If a run has no results, the list is empty: it would name all metrics.
        """
        baseline = self._runs["baseline"]
        candidate = self._runs["candidate"]
        if not (baseline.results and candidate.results):
            return []
        metrics_of_pairs: set[str] = set()
        for question in self._shared_questions():
            baseline_values, candidate_values = question.sides()
            metrics_of_pairs |= baseline_values.keys() & candidate_values.keys()
        metrics = baseline.metrics | candidate.metrics | set(self._primary or ())
        return sorted(metrics - metrics_of_pairs, key=position)

    def _rows(self, groups: Mapping[Any, list[Question]], level: float) -> Rows:
        """Return the rows of all questions together, and those of each group.

        Args:
            groups: the questions of each group, such as a template. Both sides have them.
            level: confidence level of the verdicts.
        """
        pairs = {
            group: paired(question.sides() for question in questions)
            for group, questions in groups.items()
        }
        return finished_rows(pairs, self.fractions, level, self._primary, self.lower_outputs)

    def _rows_of_tags(self, by: str, level: float) -> dict[str, dict[str, Any]]:
        """Return the rows of the questions with each tag, by key and then by value of the tag.

        Args:
            by: the key of the tags, or `ALL_TAGS`.
            level: the confidence level.

        Raises:
            UsageError: no question that both sides have has a tag with this key.
        """
        questions_by_tag: defaultdict[Tag, list[Question]] = defaultdict(list)
        for question in self._shared_questions():
            for tag in question.tags.tags:
                questions_by_tag[tag].append(question)
        if by == ALL_TAGS:
            groups = dict(questions_by_tag)
        else:
            # The first part of a tag is its key.
            groups = {tag: questions_by_tag[tag] for tag in questions_by_tag if tag[0] == by}
        if not groups:
            hint = "there are no tags"
            if questions_by_tag:
                hint = did_you_mean(by, sorted({key for key, _ in questions_by_tag}))
            raise UsageError(f"by: no question on both sides has the tag {by!r}; {hint}")

        # `_rows` returns the rows of any groups under the key of templates.
        rows: dict[Any, Any] = self._rows(groups, level)["per_template"]
        rows_by_key: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for key, value in sorted(rows, key=tag_position):
            rows_by_key[key][value] = rows[key, value]
        return dict(rows_by_key)

    def _rows_of_margins(
        self, overall: Mapping[str, Mapping[str, Any]], level: float
    ) -> dict[str, dict[str, Any]]:
        """Return, for each metric with a margin, whether it is shown to be worse by less than that.

        Args:
            overall: the rows over all questions, by metric.
            level: confidence level of the intervals.
        """
        return {
            metric: non_inferiority(
                self.drop(metric),
                metric,
                margin,
                level,
                bounded=is_fraction(metric, self.fractions),
                row=overall.get(metric),
            )
            for metric, margin in self._margins.items()
        }

    def drop(self, metric: str) -> Drop:
        """Return how a metric changed, and how many results are errors or lack the metric.

        In scores of at most 1, errors count as 0. In other metrics, they are left out.
        """
        errors_are_zeros = metric != ERROR_RATE and (
            metric in self.fractions or range_of(metric)[1] == 1
        )
        # Count results on each side, and collect the values of questions that have some on both.
        values: dict[Side, list[float | ValueSum]] = {side: [] for side in SIDES}
        results: Counter[Side] = Counter()
        errors: Counter[Side] = Counter()
        missing: Counter[Side] = Counter()
        for question in self._shared_questions():
            if not _may_apply(metric, question):
                continue
            values_of_question = []
            for side in SIDES:
                side_values = _values_with_errors(
                    metric, question, side, errors_are_zeros=errors_are_zeros
                )
                results[side] += side_values.results
                errors[side] += side_values.errors
                missing[side] += side_values.missing
                values_of_question.append(side_values.values)
            baseline_values, candidate_values = values_of_question
            if baseline_values is not None and candidate_values is not None:
                values["baseline"].append(baseline_values)
                values["candidate"].append(candidate_values)

        pairs = pairs_of(values["baseline"], values["candidate"])
        counts = {
            side: SideCounts(results=results[side], errors=errors[side], missing=missing[side])
            for side in SIDES
        }
        return Drop(
            means=PairSums.of(pairs).means() if pairs else None,
            changes=[pair.change for pair in pairs],
            baseline=counts["baseline"],
            candidate=counts["candidate"],
            errors_are_zeros=errors_are_zeros,
            lower_is_better=metric in self.lower_outputs or lower_is_better(metric),
        )

    def _add_tests(self, without_pair: Mapping[str, dict[str, Any]], level: float) -> None:
        """Add the results of sign tests to the entries of primary metrics in `without_pair`.

        Only metrics that both sides requested are tested, whether they have values or not.

        Args:
            without_pair: for each metric, the ids of the questions that have it on one side only,
                by side.
            level: confidence level of each test.
        """
        for metric, ids_by_side in without_pair.items():
            if not is_primary(metric, self._primary, self.fractions):
                continue
            if any(metric not in run.metrics | run.failed for run in self._runs.values()):
                continue
            # The more results a question has, the more likely one of them has a value. So only
            # questions with the same number of results on both sides count.
            lost = sum(self._questions[name].is_even for name in ids_by_side["baseline"])
            gained = sum(self._questions[name].is_even for name in ids_by_side["candidate"])
            ids_by_side |= decide_values(gained, lost, level)


def _may_apply(metric: str, question: Question) -> bool:
    """Return whether a metric may apply to a question that both sides have.

    It does if either side has a value. If not, it may apply if both sides have errors without it:
    the result of an error names the metrics that it lacks.
    """
    baseline_values, candidate_values = question.sides()
    if metric in baseline_values or metric in candidate_values:
        return True
    errors_that_lack_it = [question.valueless[side, metric, True] for side in SIDES]
    return all(errors_that_lack_it)


class _ValuesWithErrors(NamedTuple):
    """The values of a metric in the results of a question on one side.

    Attributes:
        values: the values, and zeros for errors if these count; None if there are none.
        results: number of results.
        errors: how many results are errors.
        missing: number of other results without a value, though the metric applies to them.
    """

    values: float | ValueSum | None
    results: int
    errors: int
    missing: int


def _values_with_errors(
    metric: str, question: Question, side: Side, *, errors_are_zeros: bool
) -> _ValuesWithErrors:
    """Return the values of a metric of a question on one side, and how many results lack one.

    With `errors_are_zeros`, each error counts as a value of 0.
    """
    values_by_metric = question.values[side]
    values = values_by_metric.get(metric)
    error_rate, results = mean_and_count(values_by_metric[ERROR_RATE])
    errors = round(error_rate * results)

    values_count = 0
    if values is not None:
        _, values_count = mean_and_count(values)
    # The last part of the key says whether the results are errors, which are counted apart.
    missing = question.valueless[side, metric, False]
    if metric not in CONDITIONAL_METRICS:
        # Such a metric applies to all results, so those without a value lack it.
        missing = max(missing, results - errors - values_count)
    # A metric of retrieval steps may have more values than there are results.
    missing = max(missing, 0)

    if errors_are_zeros and errors:
        zeros = ValueSum(exact_sum=0, count=errors)
        values = zeros if values is None else plus(values, zeros)
    return _ValuesWithErrors(values, results=results, errors=errors, missing=missing)


def _list_losses(
    questions: Mapping[str, Question], lower_outputs: Collection[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the questions in which the candidate is worse, by metric, the greatest loss first.

    Args:
        questions: the questions that both sides have, by id.
        lower_outputs: names of outputs of custom evaluations of which lower values are better.
    """
    losses: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for question_id, question in questions.items():
        baseline_values, candidate_values = question.sides()
        for metric in filter(is_score, baseline_values.keys() & candidate_values.keys()):
            baseline, _ = mean_and_count(baseline_values[metric])
            candidate, _ = mean_and_count(candidate_values[metric])
            change = change_between(baseline, candidate)
            lower = metric in lower_outputs or lower_is_better(metric)
            is_worse = change > 0 if lower else change < 0
            if is_worse:
                losses[metric].append(
                    {
                        "question_id": question_id,
                        "template_id": question.template,
                        "baseline": baseline,
                        "candidate": candidate,
                        "difference": change,
                    }
                )
    return {
        metric: sorted(losses[metric], key=lambda loss: -abs(loss["difference"]))
        for metric in sorted(losses, key=position)
    }


def _list_one_sided(questions: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
    """Return the ids of questions that have a value on one side only, by metric and then by side.

    Args:
        questions: the questions that both sides have, by id.
    """
    one_sided: dict[str, dict[str, Any]] = {}

    def add(side: Side, metrics: Iterable[str], question_id: str) -> None:
        """Add a question to the lists of `side` for the metrics."""
        for metric in metrics:
            ids_by_side = one_sided.setdefault(metric, {side: [] for side in SIDES})
            ids_by_side[side].append(question_id)

    for question_id, question in questions.items():
        baseline_values, candidate_values = question.sides()
        add("baseline", baseline_values.keys() - candidate_values.keys(), question_id)
        add("candidate", candidate_values.keys() - baseline_values.keys(), question_id)
    return {metric: one_sided[metric] for metric in sorted(one_sided, key=position)}


def _judge_warnings(judges: Mapping[Side, Mapping[str, set[str]]]) -> list[str]:
    """Return warnings if the two runs, or the results of one run, had different judges.

    Args:
        judges: the names of judges, by side and then by key of `JUDGED_BY`.
    """
    warnings = []
    for key, plural_of_key in JUDGED_BY.items():
        baseline = judges["baseline"][key]
        candidate = judges["candidate"][key]
        if baseline and candidate and baseline != candidate:
            names = f"baseline: {_list_names(baseline)}; candidate: {_list_names(candidate)}"
            warnings.append(f"the two were judged by different {plural_of_key}: {names}")
            continue
        for side in SIDES:
            names_of_side = judges[side][key]
            if len(names_of_side) > 1:
                names = _list_names(names_of_side)
                warnings.append(f"the {side} was judged by several {plural_of_key}: {names}")
    return warnings


def _list_names(names: Iterable[str]) -> str:
    """Return names of judges as text: the first ones in alphabetical order, and how many follow."""
    in_order = sorted(names)
    shown = [name[:SHOWN_CHARACTERS] for name in in_order[:SHOWN_NAMES]]
    if len(in_order) > SHOWN_NAMES:
        shown.append(f"{len(in_order) - SHOWN_NAMES} more")
    return ", ".join(shown)
