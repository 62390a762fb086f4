"""Results and aggregates as flat rows, and rows as HTML tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.records.snapshots import counts_of, mean_of_questions, tags_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

STATISTICS = ("scope", "template", "metric", "statistic", "value")

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Possible starts of spreadsheet formulas: https://owasp.org/www-community/attacks/CSV_Injection"""


def escape_formula(cell: str) -> str:
    """A cell that spreadsheets read as text: an apostrophe is put before anything that could be
    a formula.
    """
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell


def results_to_rows(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A flat row for each result, for example for `pandas.DataFrame`. Lists and dicts become JSON
    text.

    Skips results with metrics in `pending`: each is followed by the complete result.

    Args:
        results: result dicts, in any order.
    """
    return [flat_row(result) for result in results if "pending" not in result]


def flat_row(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result with lists and dicts as JSON text; other values are unchanged."""
    return {
        key: value if isinstance(value, str | int | float | None) else orjson.dumps(value).decode()
        for key, value in result.items()
    }


def statistics_of(snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row per number of a snapshot, with the keys in `STATISTICS`."""
    groups = [("template", name, group) for name, group in snapshot["per_template"].items()]
    groups += [("tag", name, group) for name, group in tags_of(snapshot).items()]
    groups += [(scope, None, snapshot[scope]) for scope in ("micro", "macro")]
    return [
        dict(zip(STATISTICS, (scope, template, metric, statistic, value), strict=True))
        for scope, template, group in groups
        for metric, stats in group.items()
        for statistic, value in _numbers(stats, "mean_of_questions" if metric == ERROR_RATE else "")
    ]


def _numbers(stats: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(stats, Mapping):
        for key, value in stats.items():
            yield from _numbers(value, f"{path}.{key}" if path else key)
    elif not isinstance(stats, str):  # Such as the kind of an interval.
        yield path or "count", stats


def means_table(snapshot: Mapping[str, Any]) -> str:
    """HTML table of samples, errors and means over questions by template, and of micro and
    macro.
    """
    groups = [
        *snapshot["per_template"].items(),
        ("micro", snapshot["micro"]),
        ("macro", snapshot["macro"]),
    ]
    metrics = [metric for metric, stats in snapshot["macro"].items() if "mean" in stats]
    rows = []
    for name, group in groups:
        counts = counts_of(group) if "number_of_error_samples" in group else (None, None)
        rows.append(
            [name, *counts, *(mean_of_questions(group[m]) if m in group else None for m in metrics)]
        )
    return html_table(("template", "samples", "errors", *metrics), rows)


def html_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """An HTML table with all text escaped."""
    from html import escape  # Takes a millisecond to import, and only notebooks need it.

    def cell(value: Any) -> str:
        shown = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
        return f"<td>{escape(shown)}</td>"

    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
