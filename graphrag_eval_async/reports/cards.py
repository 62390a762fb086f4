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
        value: its recent mean; empty if it has none.
        value_note: which results the recent mean is of.
        rest: the mean of all results and its interval; only the interval if all are recent.
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
    """Return the cards of the first scores, of scores without a value, and of errors."""
    overall = facts["overall"]
    cards = _merge_equal_cards(
        [_score_card(name, facts, timeline) for name in scores_of(overall)[:MAX_CARDS]]
    )
    for name, problem in _scores_without_value(overall):
        cards.append(Card(name=name, problem=problem))
    if overall["samples"]["total"]:
        cards.append(_error_card(facts, timeline))
    return cards


def _merge_equal_cards(cards: Sequence[Card]) -> list[Card]:
    """Return cards in the same order, with one for all scores that have always been equal."""
    merged: dict[tuple[object, ...], Card] = {}
    for card in cards:
        path = None if card.chart is None else card.chart.recent
        key = (card.value, card.rest, card.coverage, card.is_worse, path)
        earlier = merged.get(key)
        if earlier is None:
            merged[key] = card
        else:
            merged[key] = replace(earlier, name=f"{earlier.name} and {card.name}")
    return [*merged.values()]


def _score_card(name: str, facts: Mapping[str, Any], timeline: Timeline) -> Card:
    """Return the card of a score: its recent mean, and that of all results."""
    overall = facts["overall"]
    stats = overall["metrics"][name]
    mean = mean_of_questions(stats)
    interval = _interval_in_words(stats, facts["level"])
    missing = missing_values_of(overall["coverage"][name])
    coverage = ""
    if missing:
        coverage = f"{counted(sum(missing.values()), 'result')} without a value"

    over = counts_from_facts(facts).over(name)
    if covers_all(facts):
        recent = mean
        value = score_text(mean)
        value_note = f"all {counted(overall['samples']['total'], 'result')}"
        rest = [over, interval]
    else:
        recent = stats["window"]
        value = "no value" if recent is None else score_text(recent)
        value_note = window_in_words(facts["window"])
        rest = [f"{score_text(mean)} overall", over, interval]
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
    """Return the card of the error rate: the mean over questions, and the number of results."""
    overall = facts["overall"]
    rate = overall["error_rate"]
    mean = mean_of_questions(rate) or 0.0
    samples = overall["samples"]
    errors = overall["errors"]
    count = f"{errors['total']:,} of {counted(samples['total'], 'result')}"
    if covers_all(facts):
        recent = mean
        value = share_text(mean)
        value_note = count
        rest = ""
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
    """Return the interval of the mean over questions; "" if there is none."""
    interval = interval_of_mean(stats, "confidence")
    if interval is None:
        return ""
    low = interval["low"]
    high = interval["high"]
    digits = 2 if high - low >= 0.05 else 3
    return f"{percent(level)} interval {low:.{digits}f} to {high:.{digits}f}"


def _is_worse(name: str, facts: Mapping[str, Any]) -> bool:
    """Return whether a score, or the error rate, of all results clearly got worse."""
    return any(
        change["is_loss"] and change["metric"] == name and change["template"] is None
        for change in facts["state"]["changes"]
    )


def _chart(
    name: str, facts: Mapping[str, Any], timeline: Timeline, recent: float | None
) -> TimeChart | None:
    """Return the chart of a score or of the error rate, with the time since when it is worse."""
    progress = facts["progress"]
    until = None
    if progress["phase"] == Phase.WAITING:
        # By the minute: a page that changes each second would be sent each second.
        until = datetime.fromisoformat(facts["time"]).timestamp() // 60 * 60
    mark = None
    for change in facts["state"]["changes"]:
        if change["is_loss"] and change["metric"] == name and change["since"] is not None:
            what = "worse"
            if change["template"] is not None:
                what = one_line(change["template"], limit=MAX_MARK_CHARACTERS)
            mark = ChangeMark(what, datetime.fromisoformat(change["since"]).timestamp())
            break
    return time_chart(timeline, name, recent=recent, until=until, change=mark)


def _scores_without_value(overall: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the scores that were asked for and have no value, each with the reason."""
    return [
        (metric, counts(covered["failed"]) or "pending")
        for metric, covered in overall["coverage"].items()
        if is_score(metric) and covered["applied"] and metric not in overall["metrics"]
    ]


def missing_values_of(covered: Mapping[str, Any]) -> dict[str, int]:
    """Return why results lack a value of a metric, with their number, given its coverage.

    Errors of the agent are left out: the error rate counts them.
    """
    return {
        reason: results for reason, results in covered["failed"].items() if reason != RESPONSE_ERROR
    }
