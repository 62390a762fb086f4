"""Displays a comparison."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records.tabular import html_table

if TYPE_CHECKING:
    from collections.abc import Mapping

INTERVAL = "interval"
"""The column of the intervals of differences."""

COLUMNS = (
    *("pairs", "baseline", "candidate", "difference", INTERVAL),
    *("wins", "losses", "ties", "p_adjusted", "verdict"),
)
"""The keys of rows to show in a notebook."""


class Comparison(dict[str, Any]):
    """The result of `compare`; use ``dict(...)`` to get a plain dict, for example for YAML."""

    def __repr__(self) -> str:
        questions = f"{self['questions']} questions on both sides"
        if self["missing"]:
            questions += f", {len(self['missing'])} missing from the candidate"
        verdicts = [
            f"{metric} {row['verdict']}"
            for metric, row in self["overall"].items()
            if "verdict" in row
        ]
        return f"<Comparison: {questions}: {', '.join(verdicts) or 'no metric'}>"

    def _repr_html_(self) -> str:
        """Return the comparison as HTML: a table of overall and template rows, a list of doubts."""
        groups = {"overall": self["overall"], **self["per_template"]}
        rows = [
            (group, metric, *(_cell(row, column) for column in COLUMNS))
            for group, rows_by_metric in groups.items()
            for metric, row in rows_by_metric.items()
        ]
        table = html_table(("", "metric", *COLUMNS), rows)

        doubts = []
        if self["missing"]:
            doubts.append(f"{len(self['missing'])} questions are missing from the candidate")
        doubts += self["warnings"]
        if not doubts:
            return table
        items = "".join(f"<li>{escape(doubt)}</li>" for doubt in doubts)
        return f"{table}<ul>{items}</ul>"


def _cell(row: Mapping[str, Any], column: str) -> Any:
    """Return the cell of a row in a column.

    It is None if the row has no such value, for example too few pairs for an interval.
    """
    if column != INTERVAL:
        return row.get(column)
    interval = row.get("interval")
    if interval is None:
        return None
    return f"{interval['low']:+.3g} to {interval['high']:+.3g}"
