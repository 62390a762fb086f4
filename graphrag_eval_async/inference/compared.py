"""Displays a comparison."""

from __future__ import annotations

from html import escape
from typing import Any

from graphrag_eval_async.records.tabular import html_table

SHOWN = ("pairs", "baseline", "candidate", "difference", "wins", "losses", "ties", "p", "verdict")
"""The keys of rows to show in a notebook."""


class Comparison(dict[str, Any]):
    """The result of `compare`; use ``dict(...)`` to get a plain dict, for example for YAML."""

    def __repr__(self) -> str:
        decided = {
            metric: row["verdict"] for metric, row in self["overall"].items() if "verdict" in row
        }
        verdicts = ", ".join(f"{metric} {verdict}" for metric, verdict in decided.items())
        lacking = f", {len(self['missing'])} missing from the candidate" if self["missing"] else ""
        told = f"{self['questions']} questions on both sides{lacking}"
        return f"<Comparison: {told}: {verdicts or 'no metric'}>"

    def _repr_html_(self) -> str:
        groups = {"overall": self["overall"], **self["per_template"]}
        rows = [
            (group, metric, *(row.get(key) for key in SHOWN))
            for group, metrics in groups.items()
            for metric, row in metrics.items()
        ]
        lacking = [f"{len(self['missing'])} questions are missing from the candidate"] * bool(
            self["missing"]
        )
        warnings = "".join(
            f"<li>{escape(warning)}</li>" for warning in [*lacking, *self["warnings"]]
        )
        return html_table(("", "metric", *SHOWN), rows) + (
            f"<ul>{warnings}</ul>" if warnings else ""
        )
