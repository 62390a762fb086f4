"""Renders tables in LaTeX, for a paper."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphrag_eval_async.helpers.text import name_cell, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphrag_eval_async.reports.tables import Table

PREAMBLE = r"% Needs \usepackage{booktabs} in the preamble."

ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
    }
)
"""Replacements for the characters that LaTeX does not print as they are."""

LIGATURE = re.compile(r"(?<=[-,'`!?])(?=[-,'`])")
"""Where two characters would be printed as one, such as two hyphens as a dash."""

MINUS = re.compile(r"(?<![\w.-])-(?=\d)")


def escape_latex(text: str) -> str:
    """Return text from the data on one line, so that LaTeX prints it as it is.

    A hyphen before a number becomes a minus.
    """
    escaped = LIGATURE.sub("{}", one_line(text).translate(ESCAPES))
    return MINUS.sub("$-$", escaped)


def render_latex_table(table: Table) -> list[str]:
    r"""Return the lines of a table in LaTeX, with its title as caption; [] without rows.

    The table needs the package booktabs.
    """
    if not table.has_rows:
        return []
    numbers = len(table.headings) - table.words
    lines = [r"\begin{table}", r"  \centering"]
    if table.title:
        lines.append(rf"  \caption{{{escape_latex(table.title)}}}")
    lines += [
        rf"  \begin{{tabular}}{{{'l' * table.words}{'r' * numbers}}}",
        r"    \toprule",
        _latex_row(table.headings),
        r"    \midrule",
    ]
    for place, row in enumerate(table.rows):
        begins_totals = table.totals > 0 and place == len(table.rows) - table.totals
        if begins_totals:
            lines.append(r"    \midrule")
        lines.append(_latex_row(row))
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    if table.notes:
        lines.append(rf"  \par\footnotesize {' '.join(map(escape_latex, table.notes))}")
    lines.append(r"\end{table}")
    return lines


def _latex_row(cells: Iterable[str]) -> str:
    """Return the line of a row."""
    row = " & ".join(escape_latex(name_cell(cell)) for cell in cells)
    if row.startswith(("[", "*")):
        # It would be an argument of the line break before the row.
        row = "{}" + row
    return rf"    {row} \\"
