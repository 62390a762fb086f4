"""A run as one HTML file that needs nothing else: it opens from disk, and can be sent and printed."""

from __future__ import annotations

from bisect import insort
from datetime import UTC, datetime
from heapq import nsmallest
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import check_extra
from graphrag_eval_async.monitor.captions import about_result, shown_fields
from graphrag_eval_async.monitor.counting import is_wrong, quality
from graphrag_eval_async.monitor.evidence import pairs_of, values_of
from graphrag_eval_async.monitor.facts import add_detail, group_facts
from graphrag_eval_async.monitor.kept import in_short
from graphrag_eval_async.monitor.overview import overview, result_metrics
from graphrag_eval_async.monitor.rendering import csp_hash, render, static
from graphrag_eval_async.monitor.wording import VALIDITY, unscored
from graphrag_eval_async.monitor.worst import Reasons

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.monitor.summary import CheckedGate

DETAILED = 200
"""How many of the worst results have their steps and reasons in a report."""

LISTED = 20_000
"""How many of the worst results are in the table."""

DETAIL_CHARACTERS = 1_500_000
"""About how much text the details may have; the rest of the worst results is in the table only."""

SHOWN_METRICS = 6


class ReportResults:
    """Collects the results of a run for `html_report`: all in short, and the worst whole."""

    def __init__(self) -> None:
        check_extra("a report", "web", "jinja2")
        self.shorts: list[dict[str, Any]] = []
        self.count = 0
        self.reasons = Reasons()
        self._worst: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []

    def add(self, result: Mapping[str, Any]) -> None:
        """Add a result, unless it is pending."""
        if "pending" in result:
            return
        self.count += 1
        short = in_short(result) | {"place": self.count}
        self.shorts.append(short)
        self.reasons.add(short)
        insort(self._worst, (short, result), key=lambda pair: _rank(pair[0]))
        del self._worst[DETAILED:]
        if len(self.shorts) > 2 * LISTED:
            self.shorts = nsmallest(LISTED, self.shorts, key=_rank)

    def details(self) -> Iterator[dict[str, Any]]:
        """What the sections of the worst results show, the worst first, as many as fit."""
        room = DETAIL_CHARACTERS
        for short, result in self._worst:
            if room < 0 or not is_wrong(short):
                continue
            pairs, values, fields = pairs_of(result), [*values_of(result)], shown_fields(result)
            room -= len(repr((pairs, values, fields)))
            yield {
                "place": short["place"],
                "anchor": f"result-{short['place']}",
                "question_id": short["question_id"],
                "title": _title(short),
                "about": about_result(result),
                "result": fields,
                "metrics": values,
                "pairs": pairs,
            }

    def listed(self) -> list[dict[str, Any]]:
        """Results in short, in the order in which they were added."""
        return sorted(nsmallest(LISTED, self.shorts, key=_rank), key=itemgetter("place"))


def _rank(short: Mapping[str, Any]) -> tuple[float, int]:
    """Errors are as bad as scores of 0."""
    known = quality(short)
    return (2.0 if known is None else max(known, 0.0)), short["place"]


def html_report(
    snapshot: Mapping[str, Any],
    results: ReportResults,
    *,
    worst: Sequence[QuestionScore] = (),
    title: str = "Evaluation report",
    comparison: Mapping[str, Any] | None = None,
    level: float = 0.95,
    rejects: Mapping[Any, int] | None = None,
    questions: int = 0,
    missing: int = 0,
    judge: Mapping[str, Any] | None = None,
    late: Mapping[str, Any] | None = None,
    gates: Sequence[CheckedGate] = (),
    misnamed: str | None = None,
) -> str:
    """A run as an HTML page without any reference to other files.

    Args:
        snapshot: aggregates, from ``RunningAggregates.snapshot(detail=True)``.
        results: the results that they count.
        worst: the worst questions, from `worst_questions`.
        title: title of the page.
        comparison: a snapshot of the comparison with a baseline.
        level: confidence level of the intervals in `snapshot`.
        rejects: number of rejected lines by reason.
        questions: number of questions in the reference set; 0 without one.
        missing: number of questions without a response.
        judge: counts of the judge's calls.
        late: counts of late spans, from ``EvaluationStream.late.facts()``.
        gates: the gates that were asked for, with their outcomes.
        misnamed: the warning of `misnamed_steps`.
    """
    from markupsafe import Markup

    check_extra("a report", "web", "jinja2")
    facts: dict[str, Any] = {
        "window": None,
        "level": level,
        "overall": _group(snapshot["micro"]),
        "templates": {name: _group(group) for name, group in snapshot["per_template"].items()},
        "comparison": comparison,
        "unscored": "" if judge else unscored(snapshot["micro"]),
        "rejects": rejects or {},
        "questions": questions,
        "missing": missing,
        "judge": judge,
        "misnamed": misnamed,
        "late": late,
        "agreement": snapshot.get("agreement"),
    }
    details = [*results.details()]
    anchors = {each["place"]: {"anchor": each["anchor"]} for each in details}
    of_questions = {each["question_id"]: each["anchor"] for each in reversed(details)}
    listed = [short | anchors.get(short["place"], {}) for short in results.listed()]
    hidden = results.count - len(listed)
    more = f", without the {hidden} best" if hidden else ""
    style, script = static("style.css"), static("live.js")
    policy = (
        f"default-src 'none'; style-src {csp_hash(style)}; script-src {csp_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    kinds = {
        stats["interval"]["kind"]
        for stats in snapshot["micro"].values()
        if isinstance(stats, dict) and "interval" in stats
    }
    return render(
        "report.html",
        **overview(facts, results.reasons.rows(worst, of_questions), results.reasons),
        title=title,
        made=f"Made {datetime.now(UTC).isoformat(sep=' ', timespec='seconds')}",
        base="",
        inline={"policy": policy, "style": Markup(style), "script": Markup(script)},  # noqa: S704  (our own)
        validity="; ".join(VALIDITY[kind] for kind in sorted(kinds)),
        gates=gates,
        results=listed,
        results_title=f"Results{more}",
        result_metrics=result_metrics(listed, SHOWN_METRICS),
        details=details,
    )


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group of a snapshot in the layout of the state of a run."""
    facts = group_facts(group)
    add_detail(facts, group)
    for metric, shown in facts["metrics"].items():
        shown["confidence"] = group[metric].get("interval")
    return facts


def _title(short: Mapping[str, Any]) -> str:
    name = short["question"] or short["question_id"] or "a result without a question"
    return str(name) if short["sample"] is None else f"{name} (sample {short['sample']})"
