"""Turns the facts of a run into what its live page shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.catalogue.metrics import (
    COST,
    RESOURCES,
    is_score,
    metric_position,
)
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.helpers.text import counted, counts, dollars, percent
from graphrag_eval_async.records.snapshots import mean_of_questions
from graphrag_eval_async.reports.cards import Card, metric_cards, missing_values_of
from graphrag_eval_async.reports.failures import explain
from graphrag_eval_async.reports.group_tables import GroupTable, tag_table, template_table
from graphrag_eval_async.reports.page_words import (
    MAX_CARDS,
    amount_text,
    covers_all,
    score_text,
    scores_of,
    window_in_words,
)
from graphrag_eval_async.reports.progress import Phase
from graphrag_eval_async.reports.wording import (
    MEANING_BY_REASON,
    RESOURCE_HEADINGS,
    not_run_in_words,
    reason_in_words,
    right_in_words,
    shown_numbers_of_samples,
    value_of,
    variances,
)
from graphrag_eval_async.steps.failure import failure_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.reports.failures import Failure, ReasonSummary
    from graphrag_eval_async.reports.history import Courses
    from graphrag_eval_async.reports.timeline import Timeline
    from graphrag_eval_async.reports.worst import WorstQuestion

MAX_TEMPLATES = 50
"""Maximum number of templates on the first page. All of them are on the page of templates."""

MAX_RESULTS = 10
"""Maximum number of the latest results on the first page."""

MAX_LISTED_METRICS = 4
"""Maximum number of metrics that a list of results shows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSource:
    """What the first page of a run is made of, besides its facts.

    Attributes:
        latest: the rows of the latest results, the latest first.
        worst: the questions with the lowest means.
        not_run: the first question whose queries could not be run, and why; empty if there is none.
        reason_summaries: what the results of each reason have in common, by reason.
        recent_failures: the latest failures.
        courses: how the scores moved with the number of results.
        timeline: how the scores of all results moved over time.
        alert_states: whether each alert is active, by its text.
        alert_log: the latest changes of alerts, the latest first.
    """

    latest: Sequence[Mapping[str, Any]]
    worst: Sequence[WorstQuestion]
    not_run: str
    reason_summaries: Mapping[str, ReasonSummary]
    recent_failures: Sequence[Failure]
    courses: Courses
    timeline: Timeline
    alert_states: Mapping[str, bool]
    alert_log: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class StateLine:
    """The state of a run in one line, and why results fail.

    Attributes:
        kind: a `StateKind`, which gives the line its colour and sign.
        text: the line.
        cause: the most frequent failure lately; empty if nothing failed.
        share_of_cause: how many of the failures it is.
        reason: the reason of this failure, whose list the page links to.
    """

    kind: str
    text: str
    cause: str = ""
    share_of_cause: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressLine:
    """How far a run is.

    Attributes:
        phase: the name of a `Phase`.
        text: the progress in one line.
        done: number of questions with a response.
        total: number of questions; None if there is no reference set, or nothing to wait for.
    """

    phase: str
    text: str
    done: int
    total: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ActiveAlert:
    """An alert that has started and not ended.

    Attributes:
        text: the alert.
        since: when it started.
        value: what its value is of, and the value now.
        note: why it is still active although its condition does not hold; "" if it holds.
    """

    text: str
    since: str
    value: str
    note: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricRow:
    """A metric without a card: its recent mean, that of all results, and the 95th percentile."""

    name: str
    recent: str
    mean: str
    p95: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReasonRow:
    """A reason why results failed.

    Attributes:
        reason: the reason, such as "step_error".
        results: number of results with it.
        text: what most of these results say, or else what the reason means.
        note: the meaning and the template of most of the results.
    """

    reason: str
    results: int
    text: str
    note: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatsRow:
    """The share of questions that are right in one (`pass_at`) or all (`pass_all`) of k samples."""

    samples: int
    pass_at: str
    pass_all: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """How well questions with several samples are answered.

    Attributes:
        rows: the shares by number of samples; empty if they say nothing.
        questions: how many questions the shares are over, in words. If fewer have more samples,
            the numbers are listed by k.
        right: which samples count as right.
        variances: how much each score varies, in words.
    """

    rows: Sequence[RepeatsRow]
    questions: str
    right: str
    variances: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class PageView:
    """All that the first page of a run shows, in the order of the page."""

    state: StateLine
    alerts: Sequence[ActiveAlert]
    progress: ProgressLine
    cards: Sequence[Card]
    notes: Sequence[tuple[str, str]]
    templates: GroupTable
    reasons: Sequence[ReasonRow]
    results: Sequence[Mapping[str, Any]]
    result_metrics: Sequence[str]
    worst: Sequence[WorstQuestion]
    tags: GroupTable
    tags_note: str
    metrics: Sequence[MetricRow]
    repeats: Repeats | None
    missing_values: Sequence[tuple[str, str, int]]
    run: Sequence[tuple[str, str]]
    judge: Sequence[tuple[str, str]]
    agreement: Sequence[tuple[str, str]]
    quiet_alerts: Sequence[str]
    alert_log: Sequence[Mapping[str, Any]]
    level: str


def page_view(facts: Mapping[str, Any], source: PageSource) -> PageView:
    """Return what the first page of a run shows.

    Args:
        facts: the state of the run, as `complete` leaves it.
        source: what else the page is made of.
    """
    overall = facts["overall"]
    has_restored_results = _restored_results(facts) > 0
    return PageView(
        state=_state_line(facts, source.recent_failures),
        alerts=[_active_alert(alert) for alert in facts["alerts"]],
        progress=_progress_line(facts["progress"]),
        cards=metric_cards(facts, source.timeline),
        notes=[*_notes(facts, source.not_run)],
        templates=template_table(facts, source.courses, most=MAX_TEMPLATES),
        reasons=_reason_rows(overall, source.reason_summaries),
        results=source.latest[:MAX_RESULTS],
        result_metrics=result_metrics(source.latest, MAX_LISTED_METRICS),
        worst=source.worst,
        tags=tag_table(facts),
        tags_note=facts.get("tags_note") or "",
        metrics=_metric_rows(facts),
        repeats=_repeats(overall),
        missing_values=_missing_values(overall),
        run=_run_entries(facts),
        judge=judge_facts(facts["judge"], restored=has_restored_results),
        agreement=agreement_facts(facts.get("agreement")),
        quiet_alerts=[text for text, is_active in source.alert_states.items() if not is_active],
        alert_log=source.alert_log,
        level=percent(facts["level"]),
    )


def _restored_results(facts: Mapping[str, Any]) -> int:
    """Return how many results of earlier runs were restored from the journal; 0 without a journal.

    Args:
        facts: the state of the run.
    """
    journal = facts.get("journal")
    if journal is None:
        return 0
    restored: int = journal.get("restored") or 0
    return restored


def _state_line(facts: Mapping[str, Any], recent_failures: Sequence[Failure]) -> StateLine:
    """Return the state of a run in one line, with the most frequent reason of failure.

    If a score got worse, it is the most frequent reason since then, among the results of the
    template that got worse. Otherwise it is the most frequent reason among the recent results.

    Args:
        facts: the state of the run.
        recent_failures: the latest failures.
    """
    state = facts["state"]
    losses = [change for change in state["changes"] if change["is_loss"]]
    failures = list(recent_failures)
    losses += state["tentative_losses"]
    if losses:
        first_loss = losses[0]
        failures = [failure for failure in failures if failure.number > first_loss["since_result"]]
        when = "since then"
        template = first_loss["template"]
        # Without a template, the change is one of all results.
        if template is not None:
            failures = [failure for failure in failures if failure.template == template]
            when = f"of {template} since then"
    else:
        samples = facts["overall"]["samples"]
        results_before_window = samples["total"] - samples["window"]
        failures = [failure for failure in failures if failure.number > results_before_window]
        when = "so far" if covers_all(facts) else f"in the {window_in_words(facts['window'])}"

    explanation = explain(failures)
    if explanation is None:
        return StateLine(kind=state["kind"], text=state["text"])
    cause = reason_in_words(explanation.reason)
    if explanation.text:
        cause = f"{explanation.reason}: {explanation.text}"
    share = f"{explanation.results:,} of {counted(explanation.failures, 'failure')} {when}"
    return StateLine(
        kind=state["kind"],
        text=state["text"],
        cause=cause,
        share_of_cause=share,
        reason=explanation.reason,
    )


def _active_alert(alert: Mapping[str, Any]) -> ActiveAlert:
    """Return an active alert as a page shows it."""
    value = value_of(alert)
    if alert["value"] is not None and alert["statistic"] is not None:
        name = alert["metric"]
        if alert["template"] is not None:
            name = f"{name} of {alert['template']}"
        value = f"{alert['statistic']} of {name} is now {value}"
    else:
        value = f"now {value}"
    note = ""
    if alert["value"] is not None and not alert["holds"]:
        note = "still active: the window must meet the bound again for its whole length"
    return ActiveAlert(text=alert["alert"], since=alert["time"], value=value, note=note)


def _progress_line(progress: Mapping[str, Any]) -> ProgressLine:
    """Return how far a run is. It has a total only while the run waits for further questions."""
    total = progress["total"]
    is_complete = total == progress["done"]
    if is_complete or progress["phase"] == Phase.ENDED:
        total = None
    text: str = progress["text"]
    # `str.capitalize` would change the other letters, too.
    capitalized_text = text[:1].upper() + text[1:]
    return ProgressLine(
        phase=progress["phase"],
        text=capitalized_text,
        done=progress["done"],
        total=total,
    )


def _notes(facts: Mapping[str, Any], not_run: str) -> Iterable[tuple[str, str]]:
    """Yield notes on why scores are not complete: a heading and a text each.

    Args:
        facts: the state of the run.
        not_run: the first question whose queries could not be run, and why; "" if there is none.
    """
    coverage = facts["overall"]["coverage"]
    unscored = not_run_in_words(coverage.get("steps_score", {}))
    if unscored and not_run:
        yield "Steps without a score", f"{unscored}; the first: {not_run}"
    elif unscored:
        yield "Steps without a score", unscored
    if facts["rejects"]:
        yield "Rejected lines", f"{counts(facts['rejects'])}; they are not evaluated"
    if facts.get("misnamed"):
        yield "Names of steps", facts["misnamed"]
    if facts.get("late"):
        yield "Late spans", facts["late"]["text"]
    for path in facts.get("not_found", ()):
        yield "Not there yet", path
    has_window_of_time = "seconds" in facts["window"]
    if has_window_of_time and _restored_results(facts):
        yield "Recent results", "only of this run: nobody knows when the restored ones came"


def _reason_rows(
    overall: Mapping[str, Any], summaries: Mapping[str, ReasonSummary]
) -> list[ReasonRow]:
    """Return the reasons why results failed, the most frequent reason first.

    Args:
        overall: the state of all results.
        summaries: what the results of each reason have in common, by reason.
    """
    return [
        _reason_row(reason, results, summaries.get(reason))
        for reason, results in failure_counts(overall).items()
    ]


def _reason_row(reason: str, results: int, summary: ReasonSummary | None) -> ReasonRow:
    """Return the row of a reason of failure.

    Args:
        reason: the reason.
        results: how many results failed for it.
        summary: what these results have in common; None if nobody knows.
    """
    meaning = MEANING_BY_REASON.get(reason, "")
    text = meaning
    notes = []
    if summary is not None and summary.text:
        text = summary.text
        if summary.results_with_text < results:
            notes.append(f"{summary.results_with_text} say so")
        notes.append(meaning)
    if summary is not None and results > 1:
        notes.append(_share_of_template(summary, results))
    note = "; ".join(note for note in notes if note)
    return ReasonRow(reason=reason, results=results, text=text, note=note)


def _share_of_template(summary: ReasonSummary, results: int) -> str:
    """Return the template with most of the results that failed for a reason, in words.

    Args:
        summary: what these results have in common.
        results: their number.

    Returns:
        "" if the template has less than half of the results.
    """
    if summary.results_of_template < results / 2:
        return ""
    if summary.results_of_template == results:
        return f"all in {summary.template}"
    return f"{summary.results_of_template} in {summary.template}"


def _metric_rows(facts: Mapping[str, Any]) -> list[MetricRow]:
    """Return the metrics without a card: further scores, tokens, seconds and costs."""
    overall = facts["overall"]
    scores_without_card = scores_of(overall)[MAX_CARDS:]
    resources = [name for name in RESOURCES if name in overall["metrics"]]
    rows = [
        _metric_row(name, overall["metrics"][name]) for name in (*scores_without_card, *resources)
    ]
    cost = overall.get("cost")
    if cost is not None:
        recent = "" if cost["window"] is None else dollars(cost["window"])
        mean = dollars(cost["mean"])
        rows.append(MetricRow(name="cost of judging a result", recent=recent, mean=mean, p95=""))
    return rows


def _metric_row(metric: str, stats: Mapping[str, Any]) -> MetricRow:
    """Return the row of a metric without a card: its recent mean, its mean and a quantile.

    Args:
        metric: the name of the metric.
        stats: its statistics over all results.
    """
    name = metric
    if not is_score(metric):
        name = RESOURCE_HEADINGS.get(metric, metric.replace("_", " "))
    recent = stats["window"]
    quantiles = stats.get("quantiles", {})
    return MetricRow(
        name=name,
        recent="" if recent is None else amount_text(recent),
        mean=amount_text(mean_of_questions(stats)),
        p95=amount_text(quantiles["p95"]) if "p95" in quantiles else "",
    )


def _missing_values(overall: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """Return how many results lack a value of a score or cost.

    Args:
        overall: the state of all results.

    Returns:
        the metric, the reason in words, and the number of results.
    """
    rows = []
    for metric, coverage in overall["coverage"].items():
        if is_score(metric) or metric.endswith(COST):
            for reason, results in missing_values_of(coverage).items():
                rows.append((metric, reason.replace("_", " "), results))
    return rows


def _repeats(overall: Mapping[str, Any]) -> Repeats | None:
    """Return how well questions with several samples are answered.

    Args:
        overall: the state of all results. Its `repeats` has "pass@k", "pass^k" and "questions@k"
            for each number k of samples.

    Returns:
        None if no question has two samples.
    """
    repeats = overall.get("repeats")
    if not repeats:
        return None
    rows = [
        RepeatsRow(
            samples=k,
            pass_at=score_text(repeats[f"pass@{k}"]),
            pass_all=score_text(repeats[f"pass^{k}"]),
        )
        for k in shown_numbers_of_samples(repeats)
    ]
    return Repeats(
        rows=rows,
        questions=_questions_in_words(
            {k: repeats[f"questions@{k}"] for k in shown_numbers_of_samples(repeats)}
        ),
        right=right_in_words(RIGHT_CONDITIONS),
        variances=variances(overall["metrics"]),
    )


def _questions_in_words(questions_by_k: Mapping[int, int]) -> str:
    """Return how many questions have at least k samples, for each k that is shown."""
    if len(set(questions_by_k.values())) == 1:
        return counted(max(questions_by_k.values()), "question")
    counts = [f"{questions:,} for k = {k}" for k, questions in questions_by_k.items()]
    return f"the questions with k samples or more: {', '.join(counts)}"


def result_metrics(results: Iterable[Mapping[str, Any]], most: int) -> list[str]:
    """Return the names of the scores that a list of results shows, the most important first.

    Args:
        results: the rows of the list.
        most: the maximum number of scores.
    """
    names = {metric for result in results for metric in result["metrics"] if is_score(metric)}
    return sorted(names, key=metric_position)[:most]


def _run_entries(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return further numbers of a run: pairs of a name and a value. Zeros are left out."""
    entries = []
    if facts["in_flight"]:
        entries.append(("in flight", counted(facts["in_flight"], "response")))
    lag = facts.get("lag")
    if lag is not None and lag["bytes"]:
        entries.append(("behind the log", f"{lag['bytes']:,} bytes, {lag['seconds']:.0f} s"))
    if facts["missing"]:
        entries.append(("questions without a response", f"{facts['missing']:,}"))
    if facts.get("skipped"):
        entries.append(("skipped, since already done", counted(facts["skipped"], "line")))
    restored = _restored_results(facts)
    if restored:
        entries.append(("restored from an earlier run", counted(restored, "result")))
    return entries


def run_facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return how far a run is: pairs of a name and a value. What is not known is left out."""
    entries = [("results", str(facts["overall"]["samples"]["total"]))]
    if facts.get("results_per_sec") is not None:
        entries.append(("results per second", f"{facts['results_per_sec']:.1f}"))
        entries.append(("in flight", str(facts["in_flight"])))
    lag = facts.get("lag")
    if lag is not None:
        entries.append(("behind", f"{lag['bytes']} bytes, {lag['seconds']:.0f} s"))
    entries.append(("rejected lines", counts(facts["rejects"]) or "none"))
    if facts["questions"]:
        missing = f"{facts['missing']} of {facts['questions']}"
        entries.append(("questions without a response", missing))
    if facts.get("skipped"):
        entries.append(("skipped as done", str(facts["skipped"])))
    if facts.get("journal") is not None:
        entries.append(("restored", str(facts["journal"]["restored"])))
    return entries + [("not there yet", path) for path in facts.get("not_found", ())]


def judge_state(usage: JudgeUsage, config: Config | None) -> dict[str, Any] | None:
    """Return the model of the judge, its limits and its counts; None if no metric is judged.

    Args:
        usage: what the judge has used so far.
        config: the configuration of the run, which has the model and the limits; None without one.
    """
    model = judge_of(config)
    limits = None
    if config is not None and config.llm is not None and model is not None:
        limits = config.llm.limits
    # Without a configuration, a judge that was called is one that the caller brought.
    if limits is None and not usage.calls:
        return None
    state: dict[str, Any] = {"model": None, "max_concurrency": None, "budget_usd": None}
    if limits is not None:
        state["model"] = model
        state["max_concurrency"] = limits.max_concurrency
        state["budget_usd"] = limits.budget_usd
    return state | usage.as_dict()


def judge_facts(
    judge: Mapping[str, Any] | None, *, restored: bool = False
) -> list[tuple[str, str]]:
    """Return what the judge did so far: pairs of a name and a value.

    Args:
        judge: the state of the judge, as `judge_state` returns it; None without a judge.
        restored: whether results of earlier runs were restored. Their costs are part of the costs.

    Returns:
        [] if there is no judge.
    """
    if judge is None:
        return []
    spent = dollars(judge["dollars"])
    if judge.get("budget_usd") is not None:
        spent += f" of {dollars(judge['budget_usd'])}"
    concurrency = str(judge["concurrency"])
    if judge.get("max_concurrency"):
        concurrency += f" of {judge['max_concurrency']}"

    entries = []
    if judge.get("model"):
        entries.append(("model", str(judge["model"])))
    entries += [
        ("calls", str(judge["calls"])),
        ("requests", str(judge["attempts"])),
        ("cached", str(judge["cache_hits"])),
        ("spent in all runs" if restored else "spent", spent),
        ("tokens", f"{judge['input_tokens']} in, {judge['output_tokens']} out"),
        ("concurrency", concurrency),
        ("waiting", str(judge["waiting"])),
        ("retries", counts(judge["retries"]) or "none"),
        ("judge errors", counts(judge["errors"]) or "none"),
    ]
    if judge["paused_sec"]:
        entries.append(("paused for", f"{judge['paused_sec']:.0f} s"))
    if restored:
        entries.append(("all but the costs", "since the restart"))
    return entries


def agreement_facts(agreement: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return how well several judges agree: pairs of a metric and the agreement in words.

    Args:
        agreement: the statistics of each metric; None with a single judge.
    """
    if agreement is None:
        return []
    entries = []
    for metric, statistics in agreement.items():
        alpha = statistics.get("krippendorff_alpha")
        if alpha is None:
            # Alpha is not defined if all scores are equal.
            entries.append((metric, "no variation"))
        else:
            entries.append((metric, f"Krippendorff's alpha {alpha:.3f}"))
    return entries
