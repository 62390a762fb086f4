"""Scores of a judge, what people say of the same results, and results drawn at random for them
to label.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256 as sha256_of
from heapq import heappush, heappushpop
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.judged import JUDGED
from graphrag_eval_async.catalogue.metrics import is_score
from graphrag_eval_async.errors import AggregationError, UsageError, check_integer, describe
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.records.line import write_line
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

ALIASES = {metric.name: metric.values[-1] for metric in JUDGED if metric.name not in metric.values}
"""Metrics that people may name by the section of the configuration; of several, the F1."""

UNUSED = {
    "unknown_question_id": "for a question that the results do not have; check `question_id`",
    "no_score": "for a question without a score",
    "no_such_sample": (
        "for a sample that the results do not have, or that has no score; check `sample`"
    ),
    "other_sha256": "for another line of the question, as of another run; only if the answer is "
    "the same, remove `sha256`",
    "several_results": "for several results of one question; add `sample` or `sha256`",
}
"""Why labels are not used, and what to do."""

SHOWN = (
    "question_id",
    "sample",
    "template_id",
    "question_text",
    "reference_answer",
    "actual_answer",
)
"""The keys of a result that people see. The judge's score is not among them: it would sway them."""

EVIDENCE = {metric.name: metric.evidence for metric in JUDGED if metric.evidence}
"""The steps whose outputs people need to judge a metric, by how its name begins."""


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """The judge's score of one result, and the SHA-256 of the line that `evaluate` writes for
    it.
    """

    question_id: str
    sample: object
    template_id: str
    sha256: str
    value: float


def score_of(result: Mapping[str, Any], metric: str, metrics: set[str]) -> Score | None:
    """Return the score of a result by a metric; None if the result does not have the metric.

    A metric of retrieval steps has several values, whose mean counts. The names of all scores in
    the result are added to `metrics`.
    """
    observed = observe(result)
    metrics.update(filter(is_score, observed.metrics))
    values = [value for name, value in observed.values if name == metric]
    if not values:
        # `metric` may be the name of the section that configures the metric.
        alias = ALIASES.get(metric)
        values = [value for name, value in observed.values if name == alias]
    if not values or observed.question_id is None:
        return None
    # The hash is of the result as a line of JSON, wherever the line stands in its file.
    line = write_line(result, number=1, offset=0).data
    return Score(
        question_id=str(observed.question_id),
        sample=observed.sample,
        template_id=observed.template_id,
        sha256=sha256_of(line).hexdigest(),
        value=fmean(values),
    )


def check_metric(metric: object) -> None:
    """Raise a `UsageError` unless `metric` is the name of a score."""
    if not isinstance(metric, str) or not metric or not is_score(metric):
        raise UsageError(
            f"metric: expected the name of a score, such as answer_f1, got {describe(metric)}"
        )


def no_score(metric: str, metrics: Collection[str]) -> UsageError:
    """Return the error for results that lack a metric; `metrics` are those that they have."""
    hint = did_you_mean(metric, sorted(metrics) or ["none"])
    return UsageError(f"{metric}: no result has it; {hint}")


class Mark(NamedTuple):
    """What `sample-for-labels` drew.

    Attributes:
        n: how many results it drew.
        of: the number of results with a score, from which it drew.
    """

    n: int
    of: int


class Label(NamedTuple):
    """What a person says of one result.

    Attributes:
        metric: the metric that the person judged.
        question_id: the question of the result.
        sample: the number of the result among those of its question; None if not given.
        sha256: the SHA-256 of the line of the result; None if not given.
        value: from 0 to 1; None if the person said nothing yet.
        mark: what was drawn for labelling; None if the result was not drawn.
    """

    metric: str
    question_id: str
    sample: int | None
    sha256: str | None
    value: float | None
    mark: Mark | None

    def is_for(self, score: Score) -> bool:
        """Return whether the label is for this result of its question."""
        has_sample = self.sample is None or self.sample == score.sample
        has_line = self.sha256 is None or self.sha256 == score.sha256
        return has_sample and has_line

    def why_unused(self, scores: Sequence[Score], questions: Collection[str]) -> str:
        """Return the reason why the label is not for exactly one score, as a key of `UNUSED`.

        Args:
            scores: the scores of the question.
            questions: the ids of all questions that have results.
        """
        if self.question_id not in questions:
            return "unknown_question_id"
        if any(self.is_for(score) for score in scores):
            return "several_results"
        # The label may be for another line of the question, such as that of another run.
        without_hash = self._replace(sha256=None)
        if any(without_hash.is_for(score) for score in scores):
            return "other_sha256"
        return "no_such_sample" if scores else "no_score"


def read_label(label: Any) -> Label:
    """Check a label that was read from JSON, and return it.

    Raises:
        AggregationError: a value of the label has the wrong type.
    """
    if not isinstance(label, dict):
        raise AggregationError(f"a label must be an object, not {describe(label)}")
    question_id = label.get("question_id")
    metric = label.get("metric")
    sample = label.get("sample")
    sha256 = label.get("sha256")
    value = label.get("value")
    drawn = label.get("drawn")
    mark = _read_mark(drawn)

    _check_value(label, "question_id", "a string", isinstance(question_id, str))
    _check_value(label, "metric", "a string, such as answer_f1", isinstance(metric, str))
    _check_value(label, "sample", "a whole number", isinstance(sample, int | None))
    _check_value(label, "sha256", "a string", isinstance(sha256, str | None))
    is_value = value is None or (isinstance(value, int | float) and 0 <= value <= 1)
    _check_value(
        label,
        "value",
        "a number from 0 to 1, true or false, or null if there is no label yet",
        "value" in label and is_value,
    )
    _check_value(label, "drawn", "what sample-for-labels wrote", drawn is None or mark is not None)
    return Label(
        metric=str(metric),
        question_id=str(question_id),
        sample=sample,
        sha256=sha256,
        value=None if value is None else float(value),
        mark=mark,
    )


def _read_mark(drawn: Any) -> Mark | None:
    """Return the mark that `sample-for-labels` left in a label; None if `drawn` is no mark."""
    if not isinstance(drawn, dict):
        return None
    n = drawn.get("n")
    of = drawn.get("of")
    if isinstance(n, int) and isinstance(of, int):
        return Mark(n, of)
    return None


def _check_value(label: Mapping[str, Any], key: str, expected: str, is_valid: bool) -> None:
    """Raise an error about a value of a label, unless it is valid.

    Args:
        label: the label.
        key: the key of the value.
        expected: what the value must be, in words.
        is_valid: whether the value is valid.

    Raises:
        AggregationError: `is_valid` is false.
    """
    if is_valid:
        return
    question = describe(label.get("question_id"))
    actual = describe(label[key]) if key in label else "missing"
    raise AggregationError(f"label of question {question}: {key}: must be {expected}, not {actual}")


class _DrawnResult(NamedTuple):
    """A result that a sample holds at present.

    Attributes:
        priority: the greatest is kept longest: the negated hash of seed and line.
        place: the place of the result among those with a score, from 1.
        shown: the keys of the label that people see.
    """

    priority: int
    place: int
    shown: dict[str, Any]


class LabelSample:
    """Draws `n` of the results that have a score, each set of them equally likely.

    It takes the results with the smallest hashes of seed and line. So the draw does not depend on
    their order, the first of a smaller sample are those of a larger one, and no more than `n`
    results are kept.

    Attributes:
        total: number of results that have a score.
    """

    def __init__(self, n: int, *, metric: str, seed: int) -> None:
        """Create a sample without results.

        Args:
            n: how many results to draw.
            metric: the metric of which a result must have a score.
            seed: another seed draws other results.

        Raises:
            UsageError: `n` is below 1, or `metric` is not a name of a score.
        """
        check_integer("n", n)
        check_metric(metric)
        self.total = 0
        self._n = n
        self._metric = metric
        self._seed = seed
        self._metrics_in_results: set[str] = set()
        # A heap, whose first element is the drawn result that is replaced next.
        self._drawn: list[_DrawnResult] = []

    def add(self, result: Mapping[str, Any]) -> None:
        """Draw a result, if its priority is among the `n` highest so far.

        A result without a score is left out. The priority is a hash of the seed and the result, so
        that the same results are drawn in any order and in any file.
        """
        score = score_of(result, self._metric, self._metrics_in_results)
        if score is None:
            return
        self.total += 1
        shown = {key: result[key] for key in SHOWN if key in result}
        for metric, step_name in EVIDENCE.items():
            if self._metric.startswith(metric):
                shown["evidence"] = _outputs_of_steps(result, step_name)
        shown["sha256"] = score.sha256

        # The smaller the hash, the higher the priority. If more than `n` results are drawn, the one
        # with the lowest priority is dropped.
        digest = sha256_of(f"{self._seed}:{score.sha256}".encode()).hexdigest()
        entry = _DrawnResult(priority=-int(digest, 16), place=self.total, shown=shown)
        if len(self._drawn) < self._n:
            heappush(self._drawn, entry)
        else:
            heappushpop(self._drawn, entry)

    def labels(self) -> list[dict[str, Any]]:
        """Return the drawn results as labels whose value is still None.

        They are in the order of their priority, which is random.
        Raises:
            UsageError: no result has a score.
        """
        if not self.total:
            raise no_score(self._metric, self._metrics_in_results)
        drawn = {"n": len(self._drawn), "of": self.total, "seed": self._seed}
        in_order = sorted(
            self._drawn, key=lambda entry: (entry.priority, entry.place), reverse=True
        )
        return [
            {**entry.shown, "metric": self._metric, "value": None, "drawn": drawn}
            for entry in in_order
        ]


def _outputs_of_steps(result: Mapping[str, Any], name: str) -> list[Any]:
    """Return the outputs of the successful steps of a result that have a name."""
    outputs = []
    for step in result.get("actual_steps") or ():
        if not isinstance(step, dict):
            continue
        if step.get("name") == name and step.get("status") == "success":
            output = step.get("output")
            # If the agent did not log an output, the evaluation may have executed the query.
            outputs.append(step.get("executed_output") if output is None else output)
    return outputs
