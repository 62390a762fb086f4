"""Results and aggregates as flat rows, and rows as HTML tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.catalogue.result_columns import RESULT_COLUMNS
from graphrag_eval_async.helpers.text import escape
from graphrag_eval_async.records.snapshots import tags_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

STATISTICS = ("scope", "template", "metric", "statistic", "value")
"""The columns of the rows of a snapshot."""

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Possible starts of spreadsheet formulas: https://owasp.org/www-community/attacks/CSV_Injection"""


def escape_formula(cell: str) -> str:
    """Return the text of a cell, with an apostrophe before it if it could be a formula.

    Spreadsheets show a cell with an apostrophe as text, and do not run it.
    """
    if cell.startswith(FORMULA_STARTS):
        return f"'{cell}"
    return cell


def results_to_rows(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a flat row for each result, for example for `pandas.DataFrame`.

    All rows have the same keys in the same order: `RESULT_COLUMNS`, and then the other keys of any
    of the results, such as those of your own metrics. The value of a key that a result lacks is
    None. Lists and dicts become JSON text. Results with metrics in `pending` are skipped, since a
    complete result follows each of them.

    Args:
        results: result dicts, in any order.
    """
    rows = [flat_row(result) for result in results if "pending" not in result]
    columns = dict.fromkeys(RESULT_COLUMNS)
    for row in rows:
        columns |= dict.fromkeys(row)
    return [columns | row for row in rows]


def flat_row(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a result whose lists and dicts are JSON text."""
    return {key: _flat(value) for key, value in result.items()}


def _flat(value: Any) -> Any:
    """Return a value that fits in a cell: lists and dicts as JSON text, others unchanged."""
    if value is None or isinstance(value, str | int | float):
        return value
    return orjson.dumps(value).decode()


def statistics_of(snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each number in a snapshot; its keys are `STATISTICS`."""
    # The scope of each group, its name, and its statistics.
    groups: list[tuple[str, str | None, Mapping[str, Any]]] = [
        *(("template", name, group) for name, group in snapshot["per_template"].items()),
        *(("tag", name, group) for name, group in tags_of(snapshot).items()),
        ("micro", None, snapshot["micro"]),
        ("macro", None, snapshot["macro"]),
    ]

    rows = []
    for scope, name, group in groups:
        for metric, stats in group.items():
            # The error rate has no dict of statistics: its only number is its mean over questions.
            path = "mean_of_questions" if metric == ERROR_RATE else ""
            for statistic, value in _numbers(stats, path):
                row = (scope, name, metric, statistic, value)
                rows.append(dict(zip(STATISTICS, row, strict=True)))
    return rows


def _numbers(stats: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each number in the statistics of a metric, with its path, such as `quantiles.p95`.

    Args:
        stats: a number; or a dict, whose values may be dicts again.
        path: the path of `stats`; empty for a whole metric. A number without a path is a count.
    """
    if isinstance(stats, Mapping):
        for key, value in stats.items():
            yield from _numbers(value, f"{path}.{key}" if path else key)
    elif not isinstance(stats, str):  # The kind of an interval, for example, is text.
        yield path or "count", stats


def html_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return an HTML table in which all text is escaped; floats have four digits."""
    head = "".join(f"<th>{_html_text(heading)}</th>" for heading in headings)
    body = ""
    for row in rows:
        cells = "".join(f"<td>{_html_text(_cell_text(value))}</td>" for value in row)
        body += f"<tr>{cells}</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_list(items: Iterable[str]) -> str:
    """Return an HTML list in which all text is escaped."""
    entries = "".join(f"<li>{_html_text(item)}</li>" for item in items)
    return f"<ul>{entries}</ul>"


def _cell_text(value: Any) -> str:
    """Return the text of a cell; it is empty for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _html_text(text: str) -> str:
    """Return text as HTML, with control characters and invisible characters spelled out."""
    # Imported only here, since it takes a millisecond and only notebooks need it.
    from html import escape as escape_html

    return escape_html(escape(text))
