"""The verdict on a run: what a reader of a report wants to know first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.catalogue.metrics import is_score, metric_position
from graphrag_eval_async.helpers.text import counted, interval_cell
from graphrag_eval_async.inference.verdicts import BETTER, WORSE, is_decided
from graphrag_eval_async.records.snapshots import interval_of_mean, mean_of_questions, means_of
from graphrag_eval_async.reports.comparison_words import headline, signed
from graphrag_eval_async.reports.kept import SCORES
from graphrag_eval_async.reports.wording import unscored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.reports.summary import Summary

MAX_MAIN_SCORES = 6
"""How many scores stand beside the verdict."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MainScore:
    """A score of all results, as it stands beside the verdict.

    Attributes:
        name: the name of the metric.
        mean: its mean over questions.
        interval: the interval of the mean; "" without one.
        over: the questions that the mean is over; "" if nobody knows.
        change: the change from the baseline, such as "-0.22 from 0.95"; "" without a baseline.
        verdict: the verdict on the change; "" without one.
    """

    name: str
    mean: str
    interval: str = ""
    over: str = ""
    change: str = ""
    verdict: str = ""

    @property
    def in_words(self) -> str:
        """The score in a sentence."""
        parts = [part for part in (self.name, self.mean, self.interval, self.over) if part]
        change = f"; {self.change}" if self.change else ""
        return f"{' '.join(parts)}{change}."


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The verdict on a run.

    Attributes:
        tone: whether the verdict is good or bad, or neither.
        title: the verdict in a few words.
        sentences: what follows from the comparison with a baseline, and what was counted.
        scores: the main scores.
    """

    tone: Literal["good", "bad", "neutral"]
    title: str
    sentences: list[str]
    scores: list[MainScore]


def verdict_on(summary: Summary) -> Verdict:
    """Return the verdict on a run."""
    changes: set[str] = set()
    if summary.comparison is not None:
        changes = _decided_changes(summary.comparison)
    why_unscored = unscored(summary.snapshot["micro"])
    outcomes = _outcomes_in_words(summary)

    title_parts = [*_verdict_of_gates(summary), *_verdict_of_comparison(summary, changes)]
    is_titled_by_outcomes = not title_parts
    if is_titled_by_outcomes:
        title_parts = ["nothing is scored" if why_unscored else outcomes]
    title = "; ".join(title_parts)

    sentences: list[str] = []
    if why_unscored:
        sentences.append(why_unscored)
    if summary.comparison is not None:
        sentences.append(f"Compared with the baseline: {headline(summary.comparison)}")
    if not is_titled_by_outcomes:
        sentences.append(f"{outcomes}.")
    sentences += _lowest_template(summary)
    sentences += [f"{_capitalize(line)}." for line in summary.counts.lines]

    return Verdict(
        tone=_tone(summary, changes),
        title=_capitalize(title),
        sentences=sentences,
        scores=list(main_scores(summary)),
    )


def _tone(summary: Summary, changes: set[str]) -> Literal["good", "bad", "neutral"]:
    """Return whether a verdict is good or bad, or neither.

    Args:
        summary: what is said of the run.
        changes: the verdicts of the comparison with the baseline that are decided.
    """
    if summary.failed_gates or WORSE in changes:
        return "bad"
    if summary.gates or BETTER in changes:
        return "good"
    return "neutral"


def _capitalize(text: str) -> str:
    """Return text with a capital first letter; `str.capitalize` would change the others, too."""
    return text[0].upper() + text[1:]


def _verdict_of_gates(summary: Summary) -> Iterator[str]:
    """Yield how many gates failed, or that none did; nothing without gates."""
    failed = len(summary.failed_gates)
    if failed:
        yield f"{failed} of {counted(len(summary.gates), 'gate')} failed"
    elif summary.gates:
        yield f"{counted(len(summary.gates), 'gate')} held"


def _verdict_of_comparison(summary: Summary, changes: set[str]) -> Iterator[str]:
    """Yield whether the run is better or worse than the baseline, and what it lacks.

    Yields nothing without a baseline.

    Args:
        summary: what is said of the run.
        changes: the verdicts of the comparison that are decided.
    """
    comparison = summary.comparison
    if comparison is None:
        return
    primary_rows = [row for row in comparison["overall"].values() if "verdict" in row]
    if changes == {WORSE, BETTER}:
        yield "partly worse, partly better than the baseline"
    elif changes:
        [change] = changes
        yield f"{change} than the baseline"
    elif any(row["ties"] != row["pairs"] for row in primary_rows):
        yield "no clear change from the baseline"
    else:
        yield "no difference from the baseline"
    if comparison["missing"]:
        yield f"{counted(len(comparison['missing']), 'question')} of the baseline missing"


def _decided_changes(comparison: Mapping[str, Any]) -> set[str]:
    """Return the verdicts of a comparison that are decided: "better", "worse", or both."""
    rows = [*comparison["overall"].values(), *comparison["without_pair"].values()]
    for group in comparison["per_template"].values():
        rows += group.values()
    return {row["verdict"] for row in rows if is_decided(row)}


def _outcomes_in_words(summary: Summary) -> str:
    """Return how many questions passed, such as "38 of 50 questions passed, 12 did not"."""
    if not summary.questions:
        return "No question has a result"
    outcomes = Counter[str](question.outcome for question in summary.questions)
    in_words = f"{outcomes['passed']:,} of {counted(len(summary.questions), 'question')} passed"
    failed = outcomes["failed"] + outcomes["error"]
    if failed:
        in_words += f", {failed:,} did not"
    if outcomes["skipped"]:
        in_words += f", {outcomes['skipped']:,} not decided"
    return in_words


def _lowest_template(summary: Summary) -> Iterator[str]:
    """Yield a sentence about the template with the lowest mean of the first main score.

    There is none if the means of all templates are equal.
    """
    scores = _names_of_main_scores(summary)
    if not scores:
        return
    score = scores[0]
    means = {
        template: mean_of_questions(group[score])
        for template, group in summary.snapshot["per_template"].items()
        if "mean" in group.get(score, {})
    }
    if len(set(means.values())) > 1:
        lowest = min(means, key=lambda template: means[template])
        yield f"Lowest template: {lowest} with {score} {means[lowest]:.3f}."


def _names_of_main_scores(summary: Summary) -> list[str]:
    """Return the scores that rank results or, if there are none, the first scores of the run."""
    means = means_of(summary.snapshot["micro"])
    scores = sorted(filter(is_score, means), key=metric_position)
    ranking = [score for score in scores if score in SCORES]
    return (ranking or scores)[:MAX_MAIN_SCORES]


def main_scores(summary: Summary) -> Iterator[MainScore]:
    """Yield the main scores of a run, with their changes from the baseline."""
    changes = {} if summary.comparison is None else summary.comparison["overall"]
    for score in _names_of_main_scores(summary):
        stats = summary.snapshot["micro"][score]
        interval = interval_of_mean(stats)
        change = changes.get(score)
        yield MainScore(
            name=score,
            mean=f"{mean_of_questions(stats):.3f}",
            interval="" if interval is None else interval_cell(interval["low"], interval["high"]),
            over=summary.counts.over(score),
            change="" if change is None else _change_in_words(change, mean_of_questions(stats)),
            verdict="" if change is None else change.get("verdict", ""),
        )


def _change_in_words(row: Mapping[str, Any], mean: float) -> str:
    """Return the change of a metric, such as "-0.22 from 0.95".

    Args:
        row: the change over the questions that both runs have.
        mean: the mean of the metric over all questions of the run.
    """
    if row["ties"] == row["pairs"]:
        return "as in the baseline"
    change = f"{signed(row['difference'])} from {row['baseline']:.3f}"
    if f"{row['candidate']:.3f}" != f"{mean:.3f}":
        change += f" over {counted(row['pairs'], 'shared question')}"
    return change


def warnings_of(summary: Summary) -> Iterator[str]:
    """Yield what may be wrong with the run or with the comparison."""
    if summary.merged_systems is not None:
        yield summary.merged_systems
    if summary.misnamed is not None:
        yield summary.misnamed
    for key, error in summary.first_errors.items():
        yield f"the first {key}: {error}"
    if summary.comparison is not None:
        yield from summary.comparison["warnings"]
