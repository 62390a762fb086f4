"""The verdict on a run: what a reader of a report wants to know first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, is_score, metric_position
from graphrag_eval_async.helpers.text import counted, interval_cell
from graphrag_eval_async.inference.verdicts import BETTER, WORSE, is_decided
from graphrag_eval_async.records.snapshots import interval_of_mean, mean_of_questions, means_of
from graphrag_eval_async.reports.comparison_words import headline, signed
from graphrag_eval_async.reports.kept import RANKING_SCORES
from graphrag_eval_async.reports.wording import unscored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.reports.summary import Summary

MAX_MAIN_SCORES = 6
"""How many scores stand beside the verdict."""


TONES = {WORSE: "bad", BETTER: "good"}
"""Whether a verdict on a change is good or bad."""


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
        tone: whether the change is good or bad; "" if it is neither.
    """

    name: str
    mean: str
    interval: str = ""
    over: str = ""
    change: str = ""
    verdict: str = ""
    tone: str = ""

    @property
    def in_words(self) -> str:
        """The score as a sentence, such as "steps_score 0.731 [0.64, 0.82] over 50 questions."."""
        parts = [part for part in (self.name, self.mean, self.interval, self.over) if part]
        in_words = " ".join(parts)
        if self.change:
            in_words += f"; {self.change}"
        return f"{in_words}."


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
    """Return the verdict on a run.

    Its title says what the gates and the comparison decided. Without both, it says how many
    questions passed.
    """
    verdicts: set[str] = set()
    if summary.comparison is not None:
        verdicts = _decided_verdicts(summary.comparison)
    why_unscored = unscored(summary.snapshot["micro"])
    outcomes = _outcomes_in_words(summary)

    title_parts = [*_verdict_of_gates(summary), *_verdict_of_comparison(summary, verdicts)]
    is_titled_by_outcomes = not title_parts
    if is_titled_by_outcomes and why_unscored:
        title = "nothing is scored"
    elif is_titled_by_outcomes:
        title = outcomes
    else:
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
        tone=_tone(summary, verdicts),
        title=_capitalize(title),
        sentences=sentences,
        scores=list(main_scores(summary)),
    )


def _tone(summary: Summary, verdicts: set[str]) -> Literal["good", "bad", "neutral"]:
    """Return whether a run is good, bad, or neither.

    Args:
        summary: what is said of the run.
        verdicts: the verdicts of the comparison with the baseline that are decided; empty without
            a baseline.
    """
    if summary.failed_gates or WORSE in verdicts:
        return "bad"
    # If there are gates here, they all hold.
    if summary.gates or BETTER in verdicts:
        return "good"
    return "neutral"


def _capitalize(text: str) -> str:
    """Return text with a capital first letter, and its other letters as they are."""
    return text[0].upper() + text[1:]


def _verdict_of_gates(summary: Summary) -> Iterator[str]:
    """Yield how many gates failed, or that none did; nothing without gates."""
    failed = len(summary.failed_gates)
    if failed:
        yield f"{failed} of {counted(len(summary.gates), 'gate')} failed"
    elif summary.gates:
        yield f"{counted(len(summary.gates), 'gate')} held"


def _verdict_of_comparison(summary: Summary, verdicts: set[str]) -> Iterator[str]:
    """Yield whether the run is better or worse than the baseline, then how much it lacks.

    Without a baseline, there is nothing to yield.

    Args:
        summary: what is said of the run.
        verdicts: the verdicts of the comparison that are decided: "better", "worse", both or none.
    """
    comparison = summary.comparison
    if comparison is None:
        return
    # Only primary metrics have a verdict. Two runs are equal in a metric if all pairs are ties.
    primary_rows = [row for row in comparison["overall"].values() if "verdict" in row]
    are_equal = all(row["ties"] == row["pairs"] for row in primary_rows)
    if verdicts == {WORSE, BETTER}:
        yield "partly worse, partly better than the baseline"
    elif verdicts == {WORSE}:
        yield "worse than the baseline"
    elif verdicts == {BETTER}:
        yield "better than the baseline"
    elif are_equal:
        yield "no difference from the baseline"
    else:
        # There are differences, but they may be due to chance.
        yield "no clear change from the baseline"

    missing_questions = len(comparison["missing"])
    if missing_questions:
        yield f"{counted(missing_questions, 'question')} of the baseline missing"


def _decided_verdicts(comparison: Mapping[str, Any]) -> set[str]:
    """Return the verdicts of a comparison that are decided: "better", "worse", both or none."""
    rows = [*comparison["overall"].values(), *comparison["without_pair"].values()]
    for group in comparison["per_template"].values():
        rows += group.values()
    return {row["verdict"] for row in rows if is_decided(row)}


def _outcomes_in_words(summary: Summary) -> str:
    """Return how many questions passed, such as "38 of 50 questions passed, 12 did not".

    Questions without a response or a score are "not decided".
    """
    if not summary.questions:
        return "No question has a result"
    questions = len(summary.questions)
    passed = sum(question.outcome == "passed" for question in summary.questions)
    failed = sum(question.did_not_pass for question in summary.questions)
    undecided = questions - passed - failed
    in_words = f"{passed:,} of {counted(questions, 'question')} passed"
    if failed:
        in_words += f", {failed:,} did not"
    if undecided:
        in_words += f", {undecided:,} not decided"
    return in_words


def _lowest_template(summary: Summary) -> Iterator[str]:
    """Yield a sentence about the template with the lowest mean of the first main score.

    Nothing is yielded if the means of all templates are equal.
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
    have_equal_means = len(set(means.values())) <= 1
    if not have_equal_means:
        lowest = min(means, key=lambda template: means[template])
        yield f"Lowest template: {lowest} with {score} {means[lowest]:.3f}."


def _names_of_main_scores(summary: Summary) -> list[str]:
    """Return the names of the scores that stand beside the verdict, at most `MAX_MAIN_SCORES`.

    These are the scores that rank results. If the run has none of them, they are all its scores.
    """
    means = means_of(summary.snapshot["micro"])
    scores = sorted(filter(is_score, means), key=metric_position)
    ranking_scores = [score for score in scores if score in RANKING_SCORES]
    if ranking_scores:
        return ranking_scores[:MAX_MAIN_SCORES]
    return scores[:MAX_MAIN_SCORES]


def main_scores(summary: Summary) -> Iterator[MainScore]:
    """Yield the main scores of a run, with their changes from the baseline.

    The error rate follows if a result is an error of the agent, or if it changed.
    """
    rows: Mapping[str, Any] = {}
    if summary.comparison is not None:
        rows = summary.comparison["overall"]
    has_errors = summary.counts.errors > 0
    for score in _names_of_main_scores(summary):
        stats = summary.snapshot["micro"][score]
        mean = mean_of_questions(stats)
        interval_text = ""
        interval = interval_of_mean(stats)
        if interval is not None:
            interval_text = interval_cell(interval["low"], interval["high"])
        change = ""
        verdict = ""
        row = rows.get(score)
        if row is not None:
            change = _change_in_words(row, mean)
            verdict = row.get("verdict", "")
        over = summary.counts.over(score)
        if has_errors:
            over = f"{over}, without errors".removeprefix(", ")
        yield MainScore(
            name=score,
            mean=f"{mean:.3f}",
            interval=interval_text,
            over=over,
            change=change,
            verdict=verdict,
            tone=TONES.get(verdict, ""),
        )

    error_change = rows.get(ERROR_RATE)
    has_changed = error_change is not None and error_change["ties"] != error_change["pairs"]
    if has_errors or has_changed:
        yield _main_error_rate(summary, error_change)


def _main_error_rate(summary: Summary, change: Mapping[str, Any] | None) -> MainScore:
    """Return the error rate of a run, with its change from the baseline; None without one."""
    counts = summary.counts
    mean = summary.snapshot["micro"][ERROR_RATE]
    verdict = ""
    tone = ""
    change_in_words = ""
    if change is not None:
        verdict = change.get("verdict", "")
        change_in_words = _change_in_words(change, mean)
        # Errors are bad even if their rise may be due to chance.
        has_risen = change["difference"] > 0
        tone = "bad" if has_risen else TONES.get(verdict, "")
    return MainScore(
        name=ERROR_RATE,
        mean=f"{mean:.3f}",
        over=f"in {counts.errors:,} of {counted(counts.results, 'result')}",
        change=change_in_words,
        verdict=verdict,
        tone=tone,
    )


def _change_in_words(row: Mapping[str, Any], mean: float) -> str:
    """Return the change of a metric, such as "-0.22 from 0.95".

    Args:
        row: the change over the questions that both runs have.
        mean: the mean of the metric over all questions of the run.
    """
    is_equal_in_each_question = row["ties"] == row["pairs"]
    if is_equal_in_each_question:
        return "as in the baseline"
    change = f"{signed(row['difference'])} from {row['baseline']:.3f}"
    shows_another_mean = f"{row['candidate']:.3f}" != f"{mean:.3f}"
    if shows_another_mean:
        # The run has further questions: say that the change is not over the questions of its mean.
        change += f" over {counted(row['pairs'], 'shared question')}"
    return change


def warnings_of(summary: Summary) -> Iterator[str]:
    """Yield warnings of what may be wrong with the run or with its comparison."""
    if summary.merged_systems is not None:
        yield summary.merged_systems
    if summary.misnamed is not None:
        yield summary.misnamed
    for key, error in summary.first_errors.items():
        yield f"the first {key}: {error}"
    if summary.comparison is not None:
        yield from summary.comparison["warnings"]
