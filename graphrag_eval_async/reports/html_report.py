"""A run as one HTML file that needs nothing else: it opens from disk, and can be sent and
printed.
"""

from __future__ import annotations

from bisect import insort
from datetime import UTC, datetime
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.conditions import RIGHT_CONDITIONS
from graphrag_eval_async.errors import check_extra
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.records.snapshots import cut_note, tags_of
from graphrag_eval_async.reports.evidence import result_names
from graphrag_eval_async.reports.groups import add_detail, group_facts
from graphrag_eval_async.reports.kept import Reasons, quality, shorten, text_of
from graphrag_eval_async.reports.overview import result_metrics
from graphrag_eval_async.reports.rendering import csp_hash, render, static
from graphrag_eval_async.reports.report_page import report_names
from graphrag_eval_async.reports.wording import VALIDITY, unscored
from graphrag_eval_async.reports.worst import explained

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphrag_eval_async.aggregates.questions import QuestionScore
    from graphrag_eval_async.reports.summary import CheckedGate

DETAILED = 200  # How many of the worst results have their steps and reasons in a report.
LISTED = 20_000  # How many of the worst results are in the table.

DETAIL_CHARACTERS = 1_500_000
"""About how much text the details may have; the rest of the worst results is in the table only."""

SHOWN_METRICS = 6


class ReportResults:
    """Collects the results of a run for `html_report`: all in short, and the worst whole."""

    def __init__(self) -> None:
        check_extra("a report", "web", "jinja2")
        self.count = 0
        self.reasons = Reasons()
        # By their rank; the worst are listed.
        self.shorts: list[tuple[float, int, dict[str, Any]]] = []
        self._worst: list[tuple[float, int, Mapping[str, Any]]] = []

    def add(self, result: Mapping[str, Any]) -> None:
        """Add a result, unless it is pending."""
        if "pending" in result:
            return
        self.count += 1
        seen = observe(result, include_errors=True)
        known = quality(seen)
        rank = 2.0 if known is None else max(known, 0.0)  # Errors are as bad as scores of 0.
        self.reasons.add(seen)
        self.shorts.append((rank, self.count, shorten(seen) | {"question": text_of(result)}))
        if known is not None and known < 1:
            insort(self._worst, (rank, self.count, result))
            del self._worst[DETAILED:]
        if len(self.shorts) > 2 * LISTED:
            self.shorts = nsmallest(LISTED, self.shorts)

    def details(self) -> Iterator[dict[str, Any]]:
        """What the sections of the worst results show, the worst first, as many as fit."""
        room = DETAIL_CHARACTERS
        for _, place, result in self._worst:
            if room < 0:
                return
            names, sample = result_names(result), result.get("sample")
            room -= len(repr(names))
            title = text_of(result) or str(
                result.get("question_id") or "a result without a question"
            )
            more = f" (sample {sample})" if sample not in (None, 1) else ""
            yield {"place": place, "anchor": f"result-{place}", "title": title + more, **names}

    def listed(self, anchors: Mapping[int, str]) -> list[dict[str, Any]]:
        """Results in short, in the order in which they were added, with the anchors of their
        details.
        """
        found = {place: short for _, place, short in nsmallest(LISTED, self.shorts)}
        return [found[n] | ({"anchor": anchors[n]} if n in anchors else {}) for n in sorted(found)]


STATE: dict[str, Any] = {"level": 0.95, "rejects": {}, "questions": 0, "missing": 0}
STATE |= {"window": None, "judge": None, "misnamed": None, "late": None, "right": RIGHT_CONDITIONS}
"""What a report shows of a run unless it is told more, in the layout of the state of a run."""


def html_report(
    snapshot: Mapping[str, Any],
    results: ReportResults,
    *,
    worst: Sequence[QuestionScore] = (),
    title: str = "Evaluation report",
    gates: Sequence[CheckedGate] = (),
    by: str | None = None,
    **state: Any,
) -> str:
    """A run as an HTML page without any reference to other files.

    `snapshot` has details and intervals; `results` are those that it counts, and `worst` are from
    `worst_questions`. Tags of the key `by` are shown, or of all keys. `state` has keys of `STATE`,
    and may have a `comparison`: a snapshot of one with a baseline.
    """
    from markupsafe import Markup

    micro, state = snapshot["micro"], STATE | state
    facts = {
        **state,
        "overall": _group(micro),
        "templates": {name: _group(group) for name, group in snapshot["per_template"].items()},
        "tags": {name: _group(group) for name, group in tags_of(snapshot, by).items()},
        "tags_note": cut_note(snapshot, by),
        "unscored": "" if state["judge"] else unscored(micro),
        "agreement": snapshot.get("agreement"),
    }
    details = [*results.details()]
    of_questions = {
        str(each["result"]["question_id"]): each["anchor"] for each in reversed(details)
    }
    listed = results.listed({each["place"]: each["anchor"] for each in details})
    hidden = results.count - len(listed)
    style, script = static("style.css"), static("live.js")
    policy = (
        f"default-src 'none'; style-src {csp_hash(style)}; script-src {csp_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    kinds = {
        each["interval"]["kind"]
        for each in micro.values()
        if isinstance(each, dict) and "interval" in each
    }
    return render(
        "report.html",
        **report_names(facts, explained(results.reasons, worst, of_questions), results.reasons),
        title=title,
        made=f"Made {datetime.now(UTC).isoformat(sep=' ', timespec='seconds')}",
        base="",
        inline={"policy": policy, "style": Markup(style), "script": Markup(script)},  # noqa: S704  (our own)
        validity="; ".join(VALIDITY[kind] for kind in sorted(kinds)),
        gates=gates,
        results=listed,
        results_title=f"Results{f', without the {hidden} best' if hidden else ''}",
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
