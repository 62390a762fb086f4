"""A table as facts, on a terminal, in Markdown and on a page."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len

from graphrag_eval_async.reports.tables import Table, render_markdown_table, render_terminal
from tests.support import hostile

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")

MEANS = Table(
    title="Means by template",
    headings=["template", "samples", "steps_score"],
    rows=[["[red]two[/red]", "1", "0"], ["one", "3", "0.688 [0.02, 1.00]"], ["all", "4", "0.5"]],
    totals=1,
    notes=["[low, high]: 95% interval of steps_score."],
)


def test_words_stand_left_and_numbers_right_and_totals_apart() -> None:
    assert render_terminal([MEANS]).splitlines() == [
        "Means by template",
        "template        samples         steps_score",
        "───────────────────────────────────────────",
        "[red]two[/red]        1                   0",
        "one                   3  0.688 [0.02, 1.00]",
        "",
        "all                   4                 0.5",
        "[low, high]: 95% interval of steps_score.",
    ]


def test_markdown_quotes_what_comes_from_data() -> None:
    assert render_markdown_table(MEANS, max_rows=2) == [
        "### Means by template",
        "",
        "| template | samples | `steps_score` |",
        "| --- | ---: | ---: |",
        "| `[red]two[/red]` | 1 | 0 |",
        "| `one` | 3 | 0.688 [0.02, 1.00] |",
        "",
        "*Cut: the last 1 rows.*",
        "",
        "[low, high]: 95% interval of `steps_score`.",
    ]


def test_a_table_without_rows_is_not_there() -> None:
    empty = Table(title="none", headings=["a"], rows=[])
    assert render_terminal([empty, MEANS, empty]) == render_terminal([MEANS])
    assert render_markdown_table(empty) == []


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("words", [1, 2])
def test_many_columns_and_long_names_fit_into_80_columns(encoding: str, words: int) -> None:
    names = ["list_all_transformers_within_Substation_SUBSTATION", "電" * 50, "n" * 999, "\x1b[31m"]
    metrics = [f"metric_{'m' * place}" for place in range(9)]
    table = Table(
        title="t " * 100,
        headings=[*["template", "question"][:words], *metrics, "_"],
        rows=[[name] * words + ["0.5 [0.25, 0.75]"] * 10 for name in names],
        words=words,
    )
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    text = render_terminal([table], stream)
    assert max(map(cell_len, text.splitlines())) <= 80
    assert all(c.isprintable() or c == "\n" for c in text)
    assert text.count("0.5 [0.25, 0.75]") == 10 * len(names)
    assert ("─" in text) == (encoding == "utf-8")


EVIL = "@all `<img src=x>` | [a](http://b) **c** <!-- ##[error]d #1 \\| ::error::e www.b.com _f_"


@pytest.mark.parametrize("evil", [EVIL, "``" + EVIL, EVIL + "`", f"{EVIL}\n\n# {EVIL}\n", "|\\"])
def test_nothing_from_data_is_markup(evil: str) -> None:
    table = Table(
        title=evil, headings=[evil, evil], rows=[[evil, evil]] * 3, notes=[evil, f"Note {evil}."]
    )
    page = "\n".join(render_markdown_table(table))
    tokens = [child for token in MARKDOWN.parse(page) for child in token.children or [token]]
    assert not [token for token in tokens if "html" in token.type or "link" in token.type]
    plain = "".join(token.content for token in tokens if token.type == "text")
    assert not re.search(r"[@`*#|<\\]|::|www|_f", plain)
    assert MARKDOWN.render(page).count("<tr>") == 4


def test_the_macro_of_pages_shows_the_same_cells_and_no_markup() -> None:
    pytest.importorskip("jinja2")
    from graphrag_eval_async.reports.rendering import page_environment

    template = '{% from "macros.html" import table_of_facts with context %}{{ table_of_facts(t) }}'
    table = Table(title=hostile.EVIL, headings=["a", hostile.EVIL], rows=[[hostile.EVIL] * 2])
    html = page_environment().from_string(template).render(t=table)
    assert "<img" not in html
    assert "<script" not in html
    assert not {"\x1b", "\x07", "\u202e", "\u2028"} & {*html}
    html = page_environment().from_string(template).render(t=MEANS)
    assert re.findall(r"<(?:td|th)(?: [^>]*)?>([^<]*)<", html) == [
        *MEANS.headings,
        *(cell for row in MEANS.rows for cell in row),
    ]
    assert html.count('class="total"') == 1


def test_rich_is_imported_only_to_draw() -> None:
    code = "import sys, graphrag_eval_async.reports.tables as t; print('rich' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"
