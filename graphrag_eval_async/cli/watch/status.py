"""The part of the screen that says how the work goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.filesize import decimal
from rich.text import Text

from graphrag_eval_async.cli.costs import by_frequency, counts, dollars
from graphrag_eval_async.cli.text import one_line
from graphrag_eval_async.records.outcomes import RESPONSE_ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GAP = "   "


def status(facts: Mapping[str, Any], width: int) -> list[Text]:
    """As many lines as it takes."""
    lines = [Text()]
    for name, value in _parts(facts):
        part = Text.assemble((f"{name} ", "dim"), value)
        gap = GAP if lines[-1] else ""
        if gap and lines[-1].cell_len + len(gap) + part.cell_len > width:
            lines.append(part)
        else:
            lines[-1].append(gap).append_text(part)
    return lines


def _parts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values; in this order, they fill three lines of 80 columns."""
    judge, lag, journal = facts["judge"], facts["lag"], facts["journal"]
    if judge is not None:
        spent = "not known" if judge["dollars"] is None else dollars(judge["dollars"])
        budget = "" if judge["budget_usd"] is None else f" of {dollars(judge['budget_usd'])}"
        yield "judge", f"{judge['calls_per_sec']:.1f} calls/s"
        yield "concurrency", f"{judge['concurrency']} of {judge['max_concurrency']}"
        yield "queued", str(judge["waiting"])
        yield "spent", spent + budget
        if judge["paused_sec"]:
            yield "paused for", f"{judge['paused_sec']:.0f} s"
        yield "retries", counts(judge["retries"]) or "none"
        if judge["errors"]:
            yield "failed", counts(judge["errors"])
    yield "in flight", str(facts["in_flight"])
    since = f"{lag['seconds']:.1f} s" if lag["seconds"] < 60 else clock(lag["seconds"])
    yield "behind", f"{decimal(lag['bytes'])}, {since}"
    yield "rejects", counts(facts["rejects"]) or "none"
    yield "unanswered", f"{facts['missing']} of {facts['questions']}"
    yield from _without_values(facts["overall"]["coverage"])
    if wrong := {reason: total for reason, total in facts["overall"]["failure"].items() if reason != "none"}:
        yield "failures", one_line(by_frequency(wrong))
    if journal is not None:
        yield "restored", str(journal["restored"])
    if facts["skipped"]:
        yield "skipped", str(facts["skipped"])


def _without_values(coverage: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Metrics that failed where the agent had not, those that failed alike together."""
    alike: dict[str, list[str]] = {}
    for metric, covered in coverage.items():
        failed = {kind: total for kind, total in covered["failed"].items() if kind != RESPONSE_ERROR}
        if failed:
            alike.setdefault(one_line(counts(failed)), []).append(one_line(metric))
    for kinds, metrics in alike.items():
        yield f"without {', '.join(metrics)}", kinds


def clock(seconds: float) -> str:
    """Such as 1:02:03."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"
