"""What the first page of a dashboard or report shows, made of the state of a run."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.catalogue.metrics import COST, is_score, metric_position
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.records.snapshots import interval_of_mean, mean_of_questions
from graphrag_eval_async.reports.charts import charts_of, sparkline
from graphrag_eval_async.reports.comparison_words import detectable, greatest_losses, headline
from graphrag_eval_async.reports.kept import SCORES
from graphrag_eval_async.reports.windows import duration_name
from graphrag_eval_async.reports.wording import (
    RESOURCE_HEADINGS,
    not_run_in_words,
    reason_in_words,
    repeats_rows,
    right_in_words,
    variances,
)
from graphrag_eval_async.steps.failure import failure_counts
from graphrag_eval_async.text import counts, dollars, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.reports.history import Course, Courses
    from graphrag_eval_async.reports.kept import Reasons
    from graphrag_eval_async.reports.worst import WorstQuestion

SHOWN_SCORES = 6  # that have a column in the table of templates
LISTED, LOSSES = 10, 20  # of the latest results, and of the questions that got worse


class Score(NamedTuple):
    """A metric of a group of results: its mean over questions, and that of the window.

    `low` and `high` are the interval of the mean or, with repeats, that of the mean of `first`
    samples. `trend` is the path of a sparkline.
    """

    name: str
    mean: float | None
    low: float | None = None
    high: float | None = None
    recent: float | None = None
    trend: str = ""
    first: float | None = None


class Row(NamedTuple):
    """The results of a template, or all of them."""

    name: str
    samples: int
    errors: int
    error_rate: float | None
    recent_error_rate: float | None
    scores: list[Score]


def overview(
    facts: Mapping[str, Any],
    worst: Sequence[WorstQuestion],
    reasons: Reasons,
    courses: Courses | None = None,
) -> dict[str, Any]:
    """The names that `_overview.html` takes, besides those that differ between dashboard and
    report.
    """
    overall, window = facts["overall"], facts["window"]
    comparison = facts.get("comparison")  # Of a report with a baseline.
    metrics = sorted(filter(is_score, overall["metrics"]), key=metric_position)
    shown = [
        *metrics[:SHOWN_SCORES],
        *(name for name in RESOURCE_HEADINGS if name in overall["metrics"]),
    ]
    moved = {} if courses is None else courses.templates
    rows = [_row(name, group, shown, moved.get(name)) for name, group in facts["templates"].items()]
    every = _row("all results", overall, [*shown, *metrics[SHOWN_SCORES:]])
    restored = bool((facts.get("journal") or {}).get("restored"))
    return {
        "facts": facts,
        "window": f"last {window.get('last') or duration_name(window['seconds'])}"
        if window
        else "",
        "starts_empty": bool(window) and "seconds" in window and restored,
        "headings": [RESOURCE_HEADINGS.get(name, name) for name in shown],
        "more_scores": metrics[SHOWN_SCORES:],
        "every": every,
        "rows": rows,
        "tag_rows": [_row(name, group, shown) for name, group in facts.get("tags", {}).items()],
        "scores": [score for score in every.scores if is_score(score.name)],
        "failures": [(reason_in_words(each), n) for each, n in failure_counts(overall).items()],
        "worst": worst,
        "valueless": _without_value(overall),
        "lacking": [
            (metric, reason, count)
            for metric, covered in overall["coverage"].items()
            if is_score(metric) or metric.endswith(COST)
            for reason, count in covered["failed"].items()
        ],
        "summary": [*_summary(facts, every, worst, courses, reasons)],
        "charts": {} if courses is None else charts_of(courses.overall, overall, facts["level"]),
        "changes": [] if comparison is None else _changes(comparison),
        "warnings": [] if comparison is None else comparison["warnings"],
        "losses": [] if comparison is None else greatest_losses(comparison, LOSSES),
        "run": run_facts(facts),
        "judge": judge_facts(facts["judge"], restored=restored),
        "repeats": _repeats(overall, facts.get("right", RIGHT_CONDITIONS)),
        "agreement": agreement_facts(facts.get("agreement")),
    }


def _repeats(overall: Mapping[str, Any], right: Iterable[Condition]) -> list[tuple[str, str]]:
    told = [
        (
            plural(int(k), "sample"),
            f"pass@{k} {one}, pass^{k} {every}, {plural(int(of), 'question')}",
        )
        for k, one, every, of in repeats_rows(overall)
    ]
    told += [("right", right_in_words(right))] if told else []
    return [*told, *variances(overall["metrics"]).items()]


def result_metrics(results: Iterable[Mapping[str, Any]], most: int) -> list[str]:
    """The scores that a list of results shows, at most so many."""
    known = {metric for result in results for metric in result["metrics"] if is_score(metric)}
    return sorted(known, key=metric_position)[:most]


def _row(
    name: str, group: Mapping[str, Any], metrics: Iterable[str], course: Course | None = None
) -> Row:
    rate, samples, errors = group["error_rate"], group["samples"]["total"], group["errors"]["total"]
    scores = [_score(metric, group["metrics"].get(metric), course) for metric in metrics]
    return Row(name, samples, errors, mean_of_questions(rate), rate["window"], scores)


def _score(name: str, value: Mapping[str, Any] | None, course: Course | None) -> Score:
    if value is None:
        return Score(name, None)
    ends = value.get("confidence") or {}
    # A quarter of the results at each point, since few values vary by chance alone.
    trend = "" if course is None else sparkline(course.recents(name, course.results // 4))
    mean, first = (
        mean_of_questions(value),
        None if interval_of_mean(value, "confidence") else ends.get("mean"),
    )
    return Score(name, mean, ends.get("low"), ends.get("high"), value["window"], trend, first)


def _summary(
    facts: Mapping[str, Any],
    every: Row,
    worst: Sequence[WorstQuestion],
    courses: Courses | None,
    reasons: Reasons,
) -> Iterable[tuple[str, str, Any]]:
    """What a person asks first: the question, the answer, and the template or question that it
    names.
    """
    names = _main_scores(facts, every)
    comparison = facts.get("comparison")
    if comparison is not None:
        yield (
            "Compared with the baseline",
            headline(comparison) + detectable(comparison["overall"]),
            None,
        )
    if nothing := facts.get("unscored"):
        yield "Score", nothing, None
    elif not names:
        yield "Score", f"no result{' has a score' if every.samples else ''} yet", None
    if courses is not None and every.samples:
        state = facts.get("state")
        if state is not None:
            yield "Getting worse?", state["text"], None
    yield from _not_scored(facts, every, reasons)
    if facts.get("misnamed"):
        yield "Names of steps", facts["misnamed"], None
    if lowest := _lowest(facts["templates"], names):
        yield "Lowest template", lowest[1], lowest[0]
    if failures := failure_counts(facts["overall"]):
        most = max(failures.values())
        first = [reason_in_words(reason) for reason, count in failures.items() if count == most]
        each = " each" if len(first) > 1 else ""
        yield (
            "Most frequent failure",
            f"{'; '.join(first)}: {most} of {every.samples} results{each}",
            None,
        )
    if worst:
        yield "Worst question", worst[0].told, worst[0]


def _not_scored(
    facts: Mapping[str, Any], every: Row, reasons: Reasons
) -> Iterable[tuple[str, str, None]]:
    if every.errors:
        answer = (
            f"{every.errors} of {every.samples} responses are errors "
            f"({every.errors / every.samples:.1%})"
        )
        yield "Errors", answer + (f", the latest: {reasons.error}" if reasons.error else ""), None
    if unscored := not_run_in_words(facts["overall"]["coverage"].get("steps_score", {})):
        example = f"; the first: {reasons.not_run}" if reasons.not_run else ""
        yield "Steps without a score", f"{unscored}{example}", None
    if facts["rejects"]:
        yield "Rejected lines", f"{counts(facts['rejects'])}; they are not evaluated", None
    if facts.get("late"):
        yield "Late spans", facts["late"]["text"], None


def _main_scores(facts: Mapping[str, Any], every: Row) -> list[str]:
    """The scores that are told first: those of `SCORES` with a value or asked for, or else any
    one.
    """
    known = [score.name for score in every.scores if is_score(score.name)]
    asked = {*known, *(name for name, _ in _without_value(facts["overall"]))}
    return [name for name in SCORES if name in asked] or known[:1]


def _without_value(overall: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The scores that were asked for and have no value, and why."""
    return [
        (metric, counts(covered["failed"]) or "pending")
        for metric, covered in overall["coverage"].items()
        if is_score(metric) and covered["applied"] and metric not in overall["metrics"]
    ]


def quality(group: Mapping[str, Any], names: Iterable[str] = SCORES) -> float:
    """The mean of the scores of a group, with 0 for its errors; 1 if it has neither."""
    scores = [
        mean_of_questions(group["metrics"][name]) for name in names if name in group["metrics"]
    ]
    mean = fsum(scores) / len(scores) if scores else 1.0
    return mean * (1 - (mean_of_questions(group["error_rate"]) or 0.0))


def _lowest(templates: Mapping[str, Any], names: Sequence[str]) -> tuple[str, str] | None:
    """The template with the lowest `quality`, if there are several; its scores and errors."""
    ranks = {
        template: quality(group, names)
        for template, group in templates.items()
        if group["errors"]["total"] or group["metrics"].keys() & names
    }
    if len(ranks) < 2:
        return None
    lowest = min(ranks, key=lambda name: (ranks[name], name))
    metrics, errors = templates[lowest]["metrics"], templates[lowest]["errors"]["total"]
    told = [f"{name} {mean_of_questions(metrics[name]):.3f}" for name in names if name in metrics]
    told += [f"{ranks[lowest]:.3f} with {plural(errors, 'error')} as 0"] * bool(errors)
    same = [*ranks.values()].count(ranks[lowest]) - 1
    return lowest, "; ".join(told) + (f"; as low in {plural(same, 'other')}" if same else "")


def _changes(comparison: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of the comparison with a baseline: overall, then the templates that are decided."""
    groups = [(None, comparison["overall"]), *comparison["per_template"].items()]
    return [
        {"interval": row.get("confidence"), **row, "template": template, "metric": metric}
        for template, group in groups
        for metric, row in group.items()
        if template is None or row.get("verdict") in {"better", "worse"}
    ]


def run_facts(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Progress of the run."""
    told = [("results", str(facts["overall"]["samples"]["total"]))]
    if facts.get("results_per_sec") is not None:
        told.append(("results per second", f"{facts['results_per_sec']:.1f}"))
        told.append(("in flight", str(facts["in_flight"])))
    if (lag := facts.get("lag")) is not None:
        told.append(("behind", f"{lag['bytes']} bytes, {lag['seconds']:.0f} s"))
    told.append(("rejected lines", counts(facts["rejects"]) or "none"))
    if facts["questions"]:
        told.append(("questions without a response", f"{facts['missing']} of {facts['questions']}"))
    if facts.get("skipped"):
        told.append(("skipped as done", str(facts["skipped"])))
    if facts.get("journal") is not None:
        told.append(("restored", str(facts["journal"]["restored"])))
    told += [("not there yet", path) for path in facts.get("not_found", ())]
    return told


def judge_state(usage: JudgeUsage, config: Config | None) -> dict[str, Any] | None:
    """The judge's model, limits and counts; None if no metric is judged."""
    model = judge_of(config)
    limits = None if config is None or config.llm is None or model is None else config.llm.limits
    if limits is None and not usage.calls:
        return None
    return {
        "model": model if limits else None,
        "max_concurrency": limits and limits.max_concurrency,
        "budget_usd": limits and limits.budget_usd,
        **usage.as_dict(),
    }


def judge_facts(
    judge: Mapping[str, Any] | None, *, restored: bool = False
) -> list[tuple[str, str]]:
    """What the judge did so far; nothing without a judge. `restored` says that earlier runs used
    it, too.
    """
    if judge is None:
        return []
    budget = "" if judge.get("budget_usd") is None else f" of {dollars(judge['budget_usd'])}"
    most = f" of {judge['max_concurrency']}" if judge.get("max_concurrency") else ""
    told = [
        ("model", str(judge.get("model") or "")),
        ("calls", str(judge["calls"])),
        ("requests", str(judge["attempts"])),
        ("cached", str(judge["cache_hits"])),
        ("spent in all runs" if restored else "spent", dollars(judge["dollars"]) + budget),
        ("tokens", f"{judge['input_tokens']} in, {judge['output_tokens']} out"),
        ("concurrency", f"{judge['concurrency']}{most}"),
        ("waiting", str(judge["waiting"])),
        ("retries", counts(judge["retries"]) or "none"),
        ("judge errors", counts(judge["errors"]) or "none"),
    ]
    if judge["paused_sec"]:
        told.append(("paused for", f"{judge['paused_sec']:.0f} s"))
    if restored:
        told.append(("all but the costs", "since the restart"))
    return [each for each in told if each[1]]


def agreement_facts(agreement: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """How well several judges agree, by metric."""
    told = []
    for metric, each in (agreement or {}).items():
        if (alpha := each.get("krippendorff_alpha")) is None:
            told.append((metric, "no variation"))
        else:
            told.append((metric, f"Krippendorff's alpha {alpha:.3f}"))
    return told
