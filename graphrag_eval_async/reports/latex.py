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
"""A hyphen before a digit that does not follow a letter, a digit, a point or a hyphen."""


def escape_latex(text: str) -> str:
    """Return text from the data on one line, so that LaTeX prints it as it is.

    A hyphen before a number becomes a minus sign.
    """
    escaped = one_line(text).translate(ESCAPES)
    # Empty braces keep two characters apart.
    without_ligatures = LIGATURE.sub("{}", escaped)
    return MINUS.sub("$-$", without_ligatures)


def render_latex_table(table: Table) -> list[str]:
    """Return the lines of a table in LaTeX, with its title as caption.

    The table needs the package booktabs.

    Returns:
        [] if the table has no rows.
    """
    if not table.has_rows:
        return []
    # Columns of words are aligned to the left, and columns of numbers to the right.
    alignment = "l" * table.words + "r" * (len(table.headings) - table.words)
    lines = [r"\begin{table}", r"  \centering"]
    if table.title:
        lines.append(rf"  \caption{{{escape_latex(table.title)}}}")
    lines += [
        rf"  \begin{{tabular}}{{{alignment}}}",
        r"    \toprule",
        _latex_row(table.headings),
        r"    \midrule",
    ]
    first_total = len(table.rows) - table.totals
    for place, row in enumerate(table.rows):
        if table.totals > 0 and place == first_total:
            lines.append(r"    \midrule")
        lines.append(_latex_row(row))
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    if table.notes:
        notes = " ".join(escape_latex(note) for note in table.notes)
        lines.append(rf"  \par\footnotesize {notes}")
    lines.append(r"\end{table}")
    return lines


def _latex_row(cells: Iterable[str]) -> str:
    r"""Return the line of a table's row in LaTeX, such as "lines & 0.9 \\"."""
    row = " & ".join(escape_latex(name_cell(cell)) for cell in cells)
    if row.startswith(("[", "*")):
        # Such a character would be read as an argument of the line break before the row.
        row = "{}" + row
    return rf"    {row} \\"
