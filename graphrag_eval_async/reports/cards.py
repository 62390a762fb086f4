"""The cards of the live page: one for each metric of all results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, is_score
from graphrag_eval_async.catalogue.outcomes import RESPONSE_ERROR
from graphrag_eval_async.helpers.text import counted, counts, one_line, percent
from graphrag_eval_async.records.snapshots import interval_of_mean, mean_of_questions
from graphrag_eval_async.reports.charts import ChangeMark, time_chart
from graphrag_eval_async.reports.counts import counts_from_facts
from graphrag_eval_async.reports.page_words import (
    MAX_CARDS,
    covers_all,
    score_text,
    scores_of,
    share_text,
    window_in_words,
)
from graphrag_eval_async.reports.progress import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.reports.charts import TimeChart
    from graphrag_eval_async.reports.timeline import Timeline

MAX_MARK_CHARACTERS = 24
"""Maximum characters of a template's name in a chart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """A score of all results.

    Attributes:
        name: the score; several scores with equal values share a card.
        value: its recent mean or, after the end of the run, that of all results; empty if it has
            none.
        value_note: which results this mean is of.
        rest: the other of these two means, and the interval of that of all results.
        coverage: how many results have no value, besides errors of the agent.
        problem: why the score has no value at all.
        is_worse: whether the score clearly fell.
        chart: how it moved; None if there is nothing to see.
    """

    name: str
    value: str = ""
    value_note: str = ""
    rest: str = ""
    coverage: str = ""
    problem: str = ""
    is_worse: bool = False
    chart: TimeChart | None = None


def metric_cards(facts: Mapping[str, Any], timeline: Timeline) -> list[Card]:
    """Return the cards of a run.

    They are the cards of the first `MAX_CARDS` scores, then of scores without a value, then of the
    error rate, if there are results.

    Args:
        facts: the state of the run.
        timeline: how its scores moved over time.
    """
    overall = facts["overall"]
    shown_scores = scores_of(overall)[:MAX_CARDS]
    cards = _merge_equal_cards([_score_card(name, facts, timeline) for name in shown_scores])
    for name, problem in _scores_without_value(overall):
        cards.append(Card(name=name, problem=problem))
    if overall["samples"]["total"]:
        cards.append(_error_card(facts, timeline))
    return cards


def _merge_equal_cards(cards: Sequence[Card]) -> list[Card]:
    """Return the cards in their order, with equal ones merged into one with all their names.

    Cards are equal if their numbers are, and the lines in their charts.
    """
    card_by_content: dict[tuple[object, ...], Card] = {}
    for card in cards:
        line_in_chart = None
        if card.chart is not None:
            line_in_chart = card.chart.recent
        content = (card.value, card.rest, card.coverage, card.is_worse, line_in_chart)
        earlier = card_by_content.get(content)
        if earlier is None:
            card_by_content[content] = card
        else:
            card_by_content[content] = replace(earlier, name=f"{earlier.name} and {card.name}")
    return [*card_by_content.values()]


def _score_card(name: str, facts: Mapping[str, Any], timeline: Timeline) -> Card:
    """Return the card of a score: its mean over the recent results, and over all results."""
    overall = facts["overall"]
    stats = overall["metrics"][name]
    mean = mean_of_questions(stats)
    number_of_questions = counts_from_facts(facts).over(name)
    interval = _interval_in_words(stats, facts["level"])
    if covers_all(facts):
        recent = mean
        value = score_text(mean)
        value_note = f"all {counted(overall['samples']['total'], 'result')}"
        rest = [number_of_questions, interval]
    elif facts["progress"]["phase"] == Phase.ENDED:
        recent = stats["window"]
        value = score_text(mean)
        value_note = f"all {counted(overall['samples']['total'], 'result')}"
        recent_in_words = ""
        if recent is not None:
            recent_in_words = f"{score_text(recent)} in the {window_in_words(facts['window'])}"
        rest = [number_of_questions, interval, recent_in_words]
    else:
        recent = stats["window"]
        value = "no value" if recent is None else score_text(recent)
        value_note = window_in_words(facts["window"])
        rest = [f"{score_text(mean)} overall", number_of_questions, interval]

    coverage = ""
    missing = missing_values_of(overall["coverage"][name])
    if missing:
        coverage = f"{counted(sum(missing.values()), 'result')} without a value"
    return Card(
        name=name,
        value=value,
        value_note=value_note,
        rest=", ".join(filter(None, rest)),
        coverage=coverage,
        is_worse=_is_worse(name, facts),
        chart=_chart(name, facts, timeline, recent),
    )


def _error_card(facts: Mapping[str, Any], timeline: Timeline) -> Card:
    """Return the card of the error rate: the mean over questions, and what it is of.

    With repeats, the share of errors among results may differ from the mean. Then the number of
    questions stands beside the mean.
    """
    overall = facts["overall"]
    rate = overall["error_rate"]
    # It is None without results.
    mean = mean_of_questions(rate) or 0.0
    errors = overall["errors"]["total"]
    results = overall["samples"]["total"]
    count = f"{errors:,} of {counted(results, 'result')}"
    if results and share_text(errors / results) != share_text(mean):
        count = counts_from_facts(facts).over(ERROR_RATE) or "the mean over questions"
    if covers_all(facts):
        recent = mean
        value = share_text(mean)
        value_note = count
        rest = ""
    elif facts["progress"]["phase"] == Phase.ENDED:
        recent = rate["window"]
        value = share_text(mean)
        value_note = count
        rest = ""
        if recent is not None:
            rest = f"{share_text(recent)} in the {window_in_words(facts['window'])}"
    else:
        recent = rate["window"]
        value = "no results" if recent is None else share_text(recent)
        value_note = window_in_words(facts["window"])
        rest = f"{share_text(mean)} overall: {count}"
    return Card(
        name=ERROR_RATE,
        value=value,
        value_note=value_note,
        rest=rest,
        is_worse=_is_worse(ERROR_RATE, facts),
        chart=_chart(ERROR_RATE, facts, timeline, recent),
    )


def _interval_in_words(stats: Mapping[str, Any], level: float) -> str:
    """Return the confidence interval of a score's mean over questions; "" if there is none.

    Args:
        stats: the means and the intervals of the score.
        level: the confidence level.
    """
    interval = interval_of_mean(stats, "confidence")
    if interval is None:
        return ""
    low = interval["low"]
    high = interval["high"]
    # The ends of a narrow interval may be equal in two digits.
    digits = 2 if high - low >= 0.05 else 3
    return f"{percent(level)} interval {low:.{digits}f} to {high:.{digits}f}"


def _is_worse(name: str, facts: Mapping[str, Any]) -> bool:
    """Return whether a score, or the error rate, of all results clearly got worse."""
    for change in facts["state"]["changes"]:
        is_of_all_results = change["template"] is None
        if change["is_loss"] and change["metric"] == name and is_of_all_results:
            return True
    return False


def _chart(
    name: str, facts: Mapping[str, Any], timeline: Timeline, recent: float | None
) -> TimeChart | None:
    """Return the chart of a score or of the error rate, with a mark where it got worse.

    Args:
        name: the score, or `ERROR_RATE`.
        facts: the state of the run.
        timeline: how the scores of the run moved over time.
        recent: the recent mean that stands beside the chart; None if there is none.

    Returns:
        None if the chart would show nothing.
    """
    until = None
    if facts["progress"]["phase"] == Phase.WAITING:
        # By the minute: a page that changes each second would be sent each second.
        until = datetime.fromisoformat(facts["time"]).timestamp() // 60 * 60
    mark = None
    for change in facts["state"]["changes"]:
        if change["is_loss"] and change["metric"] == name and change["since"] is not None:
            # The template that got worse; None stands for all results.
            mark_name = "worse"
            if change["template"] is not None:
                mark_name = one_line(change["template"], limit=MAX_MARK_CHARACTERS)
            since = datetime.fromisoformat(change["since"])
            mark = ChangeMark(mark_name, since.timestamp())
            break
    return time_chart(timeline, name, recent=recent, until=until, change=mark)


def _scores_without_value(overall: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the scores that apply to results and have no value yet, each with the reason."""
    scores = []
    for metric, coverage in overall["coverage"].items():
        applies = coverage["applied"] > 0
        has_value = metric in overall["metrics"]
        if is_score(metric) and applies and not has_value:
            # Without a failure, the results wait for a judge.
            reason = counts(coverage["failed"]) or "pending"
            scores.append((metric, reason))
    return scores


def missing_values_of(coverage: Mapping[str, Any]) -> dict[str, int]:
    """Return how many results lack a value of a metric, by reason.

    Errors of the agent are left out: the error rate counts them.

    Args:
        coverage: how many results have a value of the metric, and why others have none.
    """
    return {
        reason: results
        for reason, results in coverage["failed"].items()
        if reason != RESPONSE_ERROR
    }
