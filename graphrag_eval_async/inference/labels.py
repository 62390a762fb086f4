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
from graphrag_eval_async.records.line import write_line
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.text import did_you_mean

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
    """Return the score in a result, the mean over its retrieval steps; None if it has none.

    Adds the names of all scores in the result to `metrics`.
    """
    seen = observe(result)
    metrics.update(filter(is_score, seen.metrics))
    own = [value for name, value in seen.values if name == metric]
    own = own or [value for name, value in seen.values if name == ALIASES.get(metric)]
    if not own or seen.question_id is None:
        return None
    line = write_line(result, 1, 0).data
    sha256 = sha256_of(line).hexdigest()
    return Score(str(seen.question_id), seen.sample, seen.template_id, sha256, fmean(own))


def check_metric(metric: object) -> None:
    """Check the name of a judge's metric."""
    if not isinstance(metric, str) or not metric or not is_score(metric):
        raise UsageError(
            f"metric: expected the name of a score, such as answer_f1, got {describe(metric)}"
        )


def no_score(metric: str, metrics: Collection[str]) -> UsageError:
    """Return the error for results without a metric, which have others."""
    return UsageError(
        f"{metric}: no result has it; {did_you_mean(metric, sorted(metrics) or ['none'])}"
    )


class Mark(NamedTuple):
    """What `sample-for-labels` drew: how many results, and of how many."""

    n: int
    of: int


class Label(NamedTuple):
    """What a person says of one result; `value` is None if nothing yet, `mark` if it was not
    drawn.
    """

    metric: str
    question_id: str
    sample: int | None
    sha256: str | None
    value: float | None
    mark: Mark | None

    def is_for(self, score: Score) -> bool:
        """Whether it is for this result of its question."""
        return self.sample in (None, score.sample) and self.sha256 in (None, score.sha256)

    def why_unused(self, scores: Sequence[Score], questions: Collection[str]) -> str:
        """Return why it is not for exactly one of the scores of its question: a key of `UNUSED`."""
        if self.question_id not in questions:
            return "unknown_question_id"
        if any(map(self.is_for, scores)):
            return "several_results"
        if any(map(self._replace(sha256=None).is_for, scores)):
            return "other_sha256"
        return "no_such_sample" if scores else "no_score"


def read_label(label: Any) -> Label:
    """Check a label."""
    if not isinstance(label, dict):
        raise AggregationError(f"a label must be an object, not {describe(label)}")
    question_id, metric, value = (label.get(key) for key in ("question_id", "metric", "value"))
    sample, digest, drawn = (label.get(key) for key in ("sample", "sha256", "drawn"))
    n, of = (drawn.get("n"), drawn.get("of")) if isinstance(drawn, dict) else (None, None)
    mark = Mark(n, of) if isinstance(n, int) and isinstance(of, int) else None
    checks = {
        "question_id": ("a string", isinstance(question_id, str)),
        "metric": ("a string, such as answer_f1", isinstance(metric, str)),
        "sample": ("a whole number", isinstance(sample, int | None)),
        "sha256": ("a string", isinstance(digest, str | None)),
        "value": (
            "a number from 0 to 1, true or false, or null if there is no label yet",
            "value" in label
            and (value is None or (isinstance(value, int | float) and 0 <= value <= 1)),
        ),
        "drawn": ("what sample-for-labels wrote", drawn is None or mark is not None),
    }
    for key, (wanted, holds) in checks.items():
        if not holds:
            found = describe(label[key]) if key in label else "missing"
            name = describe(question_id)
            raise AggregationError(
                f"label of question {name}: {key}: must be {wanted}, not {found}"
            )
    number = None if value is None else float(value)
    return Label(str(metric), str(question_id), sample, digest, number, mark)


class LabelSample:
    """Draws `n` of the results that have a score, each set of them equally likely.

    It takes the results with the smallest hashes of seed and line. So the draw does not depend on
    their order, the first of a smaller sample are those of a larger one, and no more than `n`
    results are kept.

    Attributes:
        total: number of results that have a score.
    """

    def __init__(self, n: int, *, metric: str, seed: int) -> None:
        check_integer("n", n)
        check_metric(metric)
        self.total = 0
        self._n, self._metric, self._seed = n, metric, seed
        self._metrics: set[str] = set()
        self._drawn: list[tuple[int, int, dict[str, Any]]] = []

    def add(self, result: Mapping[str, Any]) -> None:
        """Add a result."""
        if (score := score_of(result, self._metric, self._metrics)) is None:
            return
        self.total += 1
        place = -int(sha256_of(f"{self._seed}:{score.sha256}".encode()).hexdigest(), 16)
        shown = {key: result[key] for key in SHOWN if key in result}
        for metric, name in EVIDENCE.items():
            if self._metric.startswith(metric):
                shown["evidence"] = _outputs(result, name)
        entry = (place, self.total, {**shown, "sha256": score.sha256})
        if len(self._drawn) < self._n:
            heappush(self._drawn, entry)
        else:
            heappushpop(self._drawn, entry)

    def labels(self) -> list[dict[str, Any]]:
        """Return what was drawn, in random order, as labels whose value is still None."""
        if not self.total:
            raise no_score(self._metric, self._metrics)
        drawn = {"n": len(self._drawn), "of": self.total, "seed": self._seed}
        return [
            {**shown, "metric": self._metric, "value": None, "drawn": drawn}
            for _, _, shown in sorted(self._drawn, key=lambda entry: entry[:2], reverse=True)
        ]


def _outputs(result: Mapping[str, Any], name: str) -> list[Any]:
    return [
        step.get("executed_output") if step.get("output") is None else step["output"]
        for step in result.get("actual_steps") or ()
        if isinstance(step, dict) and (step.get("name"), step.get("status")) == (name, "success")
    ]
