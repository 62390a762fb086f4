"""What the first page of a dashboard or report shows, made of the state of a run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.monitor.captions import agreement_facts, judge_facts, run_facts
from graphrag_eval_async.monitor.changes import getting_worse
from graphrag_eval_async.monitor.charts import chart, sparkline
from graphrag_eval_async.monitor.counting import SCORES
from graphrag_eval_async.monitor.questions import OF_AGENT
from graphrag_eval_async.monitor.windows import duration_name
from graphrag_eval_async.monitor.wording import RESOURCE_HEADINGS, greatest_losses, reason_in_words
from graphrag_eval_async.monitor.worst import WorstQuestion, score_in_words
from graphrag_eval_async.records.metrics import COST, is_score, metric_position
from graphrag_eval_async.steps.failure import failure_counts
from graphrag_eval_async.text import counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from markupsafe import Markup

SHOWN_SCORES = 6
"""Maximum number of scores that have a column in the table of templates."""

LISTED = 10
"""How many results are in a list besides all others."""

LOSSES = 20
HISTORY_POINTS = 120


class Score(NamedTuple):
    """A metric of a group of results; `low` and `high` are its interval, `recent` the mean of the window."""

    name: str
    mean: float | None
    low: float | None = None
    high: float | None = None
    recent: float | None = None
    trend: Markup | str = ""


class Row(NamedTuple):
    """The results of a template, or all of them."""

    name: str
    samples: int
    errors: int
    error_rate: float | None
    recent_error_rate: float | None
    scores: list[Score]


class History:
    """The scores of a run from its start until now, in at most `HISTORY_POINTS` points."""

    def __init__(self) -> None:
        self._points: list[tuple[float, dict[str, Mapping[str, Any]]]] = []
        self._step = 0.0

    def add(self, facts: Mapping[str, Any]) -> None:
        """Add the state of a run as the latest point; points that are too close replace each other."""
        overall, now = facts["overall"], facts["elapsed_sec"]
        if not overall["samples"]["total"]:
            return
        metrics = overall["metrics"] | {"error_rate": overall["error_rate"]}
        scores = {name: value for name, value in metrics.items() if is_score(name)}
        if len(self._points) > 1 and now - self._points[-2][0] < self._step:
            self._points.pop()
        self._points.append((now, scores))
        if len(self._points) > HISTORY_POINTS:
            self._points = self._points[::2]
            self._step = (now - self._points[0][0]) / HISTORY_POINTS * 2

    def charts(self) -> dict[str, Markup | str]:
        """A chart of each score."""
        points = [scores for _, scores in self._points]
        drawn: dict[str, Markup | str] = {}
        for name in points[-1] if points else ():
            values = [scores.get(name, {}) for scores in points]
            ends = [each.get("confidence") for each in values]
            drawn[name] = chart(
                name,
                [each.get("mean") for each in values],
                [each.get("window") for each in values],
                [None if each is None else (each["low"], each["high"]) for each in ends],
            )
        return drawn


def overview(facts: Mapping[str, Any], worst: Sequence[WorstQuestion] = ()) -> dict[str, Any]:
    """The names that `_overview.html` takes, besides those that differ between dashboard and report.

    `worst` are the worst questions, the first of which is named in the summary.
    """
    overall, comparison = facts["overall"], facts["comparison"]
    metrics = sorted(filter(is_score, overall["metrics"]), key=metric_position)
    shown = [*metrics[:SHOWN_SCORES], *(name for name in RESOURCE_HEADINGS if name in overall["metrics"])]
    templates = [_row(name, group, shown) for name, group in facts["templates"].items()]
    every = _row("all results", overall, [*shown, *metrics[SHOWN_SCORES:]])
    return {
        "facts": facts,
        "window": _window_name(facts["window"]),
        "headings": [RESOURCE_HEADINGS.get(name, name) for name in shown],
        "more_scores": metrics[SHOWN_SCORES:],
        "every": every,
        "rows": templates,
        "scores": [score for score in every.scores if is_score(score.name)],
        "failures": [(reason_in_words(each), n) for each, n in failure_counts(overall).items()],
        "worst": worst,
        "valueless": _without_value(overall),
        "lacking": _lacking(overall.get("coverage", {})),
        "summary": [*_summary(facts, every, templates, worst)],
        "changes": _changes(comparison),
        "warnings": [] if comparison is None else comparison["warnings"],
        "losses": [] if comparison is None else greatest_losses(comparison.get("worse", {}), LOSSES),
        "run": run_facts(facts),
        "judge": judge_facts(facts["judge"]),
        "agreement": agreement_facts(facts.get("agreement")),
    }


def result_list(
    name: str, title: str, results: Sequence[Mapping[str, Any]], *, more: str = "", has_filter: bool = False
) -> dict[str, Any]:
    """A list of results on the page; `more` is the text of a link to all of them."""
    return {"id": name, "title": title, "results": results, "filter": has_filter, "more": more}


def result_metrics(results: Iterable[Mapping[str, Any]], most: int) -> list[str]:
    """The scores that a list of results shows, at most so many."""
    known = {metric for result in results for metric in result["metrics"] if is_score(metric)}
    return sorted(known, key=metric_position)[:most]


def _row(name: str, group: Mapping[str, Any], metrics: Iterable[str]) -> Row:
    rate = group["error_rate"]
    scores = [_score(metric, group["metrics"].get(metric)) for metric in metrics]
    return Row(
        name, group["samples"]["total"], group["errors"]["total"], rate["mean"], rate["window"], scores
    )


def _score(name: str, value: Mapping[str, Any] | None) -> Score:
    if value is None:
        return Score(name, None)
    ends = value.get("confidence") or {}
    trend = sparkline(value.get("trend", ())) if is_score(name) else ""
    return Score(name, value["mean"], ends.get("low"), ends.get("high"), value["window"], trend)


def _window_name(window: Mapping[str, float] | None) -> str:
    """Such as "last 200" or "last 5m"; empty without a window."""
    if window is None:
        return ""
    return f"last {window['last'] if 'last' in window else duration_name(window['seconds'])}"


def _lacking(coverage: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, int]]:
    """The metric, the reason and the number of values that are missing."""
    return [
        (metric, reason, count)
        for metric, covered in coverage.items()
        if is_score(metric) or metric.endswith(COST)
        for reason, count in covered["failed"].items()
    ]


def _summary(
    facts: Mapping[str, Any], every: Row, templates: Sequence[Row], worst: Sequence[WorstQuestion]
) -> Iterable[tuple[str, str, Any]]:
    """What a person asks first: the question, the answer, and what it links to."""
    names = _main_scores(facts, every)
    for name in names:
        yield "Score", _score_in_words(name, facts, every), None
    if not names:
        yield "Score", f"no result{' has a score' if every.samples else ''} yet", None
    if facts["window"] is not None and every.samples:
        yield "Getting worse?", getting_worse(facts, _window_name(facts["window"])), None
    if every.errors:
        answer = f"{every.errors} of {every.samples} responses are errors ({every.error_rate:.1%})"
        yield "Errors", answer, None
    for name in names:
        if lowest := _lowest(name, templates):
            yield "Lowest template", lowest, None
    failures = failure_counts(facts["overall"])
    if failures:
        most = max(failures.values())
        first = [reason for reason, count in failures.items() if count == most]
        each = " each" if len(first) > 1 else ""
        yield (
            "Most frequent failure",
            f"{'; '.join(map(reason_in_words, first))}: {most} of {every.samples} results{each}",
            None,
        )
    if worst:
        answer = "; ".join(filter(None, (score_in_words(worst[0].score), worst[0].why)))
        yield "Worst question", answer, worst[0]


def _main_scores(facts: Mapping[str, Any], every: Row) -> list[str]:
    """The scores that are told first: those of `SCORES` with a value or asked for, or else any one."""
    known = [score.name for score in every.scores if is_score(score.name)]
    asked = {*known, *(name for name, _ in _without_value(facts["overall"]))}
    return [name for name in SCORES if name in asked] or known[:1]


def _score_in_words(name: str, facts: Mapping[str, Any], every: Row) -> str:
    """The mean of a score, its interval and number of values, and how many a judge failed to give."""
    score = next((each for each in every.scores if each.name == name), Score(name, None))
    covered = facts["overall"]["coverage"].get(name, {})
    values = covered.get("values", every.samples)
    failed = Counter({k: n for k, n in covered.get("failed", {}).items() if k not in OF_AGENT})
    missing = f"; {failed.total()} failed: {counts(failed)}" if failed else ""
    if score.mean is None:
        return f"{name} has no value{missing}"
    interval = "" if score.low is None else f" [{score.low:.2f}, {score.high:.2f}]"
    of = "" if values == every.samples else f"{values} of "
    return f"{name} {score.mean:.3f}{interval} over {of}{every.samples} results{missing}"


def _without_value(overall: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The scores that were asked for and have no value, and why."""
    return [
        (metric, counts(covered["failed"]) or "pending")
        for metric, covered in overall.get("coverage", {}).items()
        if is_score(metric) and covered["applied"] and metric not in overall["metrics"]
    ]


def _lowest(name: str, templates: Sequence[Row]) -> str:
    """The template with the lowest mean of a score, if there are several; and how many share it."""
    means = [
        (own.mean, row.name)
        for row in templates
        for own in row.scores
        if own.name == name and own.mean is not None
    ]
    if len(means) < 2:
        return ""
    mean, template = min(means)
    same = sum(other == mean for other, _ in means) - 1
    more = f", as in {same} other{'s' * (same > 1)}" if same else ""
    return f"{template}: {name} {mean:.3f}{more}"


def _changes(comparison: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Rows of the comparison with a baseline: overall, then the templates that are decided."""
    if comparison is None:
        return []
    rows = [{"template": None, "metric": metric, **row} for metric, row in comparison["overall"].items()]
    rows += [
        {"template": template, "metric": metric, **row}
        for template, group in comparison["per_template"].items()
        for metric, row in group.items()
        if row.get("verdict") in {"better", "worse"}
    ]
    return [row | {"interval": row.get("interval", row.get("confidence"))} for row in rows]
