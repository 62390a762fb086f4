"""A run as one HTML file that needs nothing else: it opens from disk, and can be sent and
printed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.reports.rendering import csp_hash, render, static
from graphrag_eval_async.reports.report_page import report_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.reports.report_results import ReportResults
    from graphrag_eval_async.reports.summary import Summary


def html_report(
    summary: Summary,
    results: ReportResults,
    *,
    title: str = "Evaluation report",
    judge: Mapping[str, Any] | None = None,
    late: str = "",
) -> str:
    """Return a run as an HTML page without any reference to other files.

    Args:
        summary: what is said of the run.
        results: the results of the run, some of which the page shows in detail.
        title: the title of the page.
        judge: the state of the judge, as `judge_state` returns it; None without one.
        late: a warning of spans that came too late; "" without any.
    """
    from markupsafe import Markup

    style = static("style.css")
    script = static("live.js")
    # The page may use its own style and script, and load nothing.
    policy = (
        f"default-src 'none'; style-src {csp_hash(style)}; script-src {csp_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    # The style and the script are files of this package, and no text from data.
    inline = {"policy": policy, "style": Markup(style), "script": Markup(script)}  # noqa: S704
    made = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    return render(
        "report.html",
        **report_names(summary, results, judge=judge, late=late),
        title=title,
        made=f"Made {made}",
        base="",
        inline=inline,
    )
