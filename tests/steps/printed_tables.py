"""Tables as packages of Python print them, recorded from them.

All hold the same rows: two films with their titles, and the minutes of the first.
"""

# ruff: noqa: E501

from __future__ import annotations

PRINTED: dict[str, str] = {
    "pandas-csv-na": "\n".join(
        [
            "film,title,minutes",
            "http://e.org/film/1,Metropolis,153.0",
            'http://e.org/film/2,"M, a city",NULL',
            "",
        ]
    ),
    "pandas-tsv-na": "\n".join(
        [
            "film\ttitle\tminutes",
            "http://e.org/film/1\tMetropolis\t153.0",
            "http://e.org/film/2\tM, a city\tNULL",
            "",
        ]
    ),
    "pandas-csv-index": "\n".join(
        [
            ",film,title,minutes",
            "0,http://e.org/film/1,Metropolis,153.0",
            '1,http://e.org/film/2,"M, a city",',
            "",
        ]
    ),
    "pandas-markdown": "\n".join(
        [
            "|    | film                | title      |   minutes |",
            "|---:|:--------------------|:-----------|----------:|",
            "|  0 | http://e.org/film/1 | Metropolis |       153 |",
            "|  1 | http://e.org/film/2 | M, a city  |       nan |",
        ]
    ),
    "pandas-markdown-without-index": "\n".join(
        [
            "| film                | title      |   minutes |",
            "|:--------------------|:-----------|----------:|",
            "| http://e.org/film/1 | Metropolis |       153 |",
            "| http://e.org/film/2 | M, a city  |       nan |",
        ]
    ),
    "pandas-string": "\n".join(
        [
            "                  film       title  minutes",
            "0  http://e.org/film/1  Metropolis    153.0",
            "1  http://e.org/film/2   M, a city      NaN",
        ]
    ),
    "pandas-string-without-index": "\n".join(
        [
            "               film      title  minutes",
            "http://e.org/film/1 Metropolis    153.0",
            "http://e.org/film/2  M, a city      NaN",
        ]
    ),
    "pandas-string-of-objects": "\n".join(
        [
            "                  film       title minutes",
            "0  http://e.org/film/1  Metropolis   153.0",
            "1  http://e.org/film/2   M, a city    None",
        ]
    ),
    "pandas-string-of-integers": "\n".join(
        [
            "                  film       title  minutes",
            "0  http://e.org/film/1  Metropolis      153",
            "1  http://e.org/film/2   M, a city     <NA>",
        ]
    ),
    "pandas-dict": "\n".join(
        [
            "{'film': {0: 'http://e.org/film/1', 1: 'http://e.org/film/2'}, 'title': {0: 'Metropolis', 1: 'M, a city'}, 'minutes': {0: 153.0, 1: nan}}",
        ]
    ),
    "pandas-values": "\n".join(
        [
            "[['http://e.org/film/1', 'Metropolis', 153.0], ['http://e.org/film/2', 'M, a city', nan]]",
        ]
    ),
    "polars": "\n".join(
        [
            "shape: (2, 3)",
            "┌─────────────────────┬────────────┬─────────┐",
            "│ film                ┆ title      ┆ minutes │",
            "│ ---                 ┆ ---        ┆ ---     │",
            "│ str                 ┆ str        ┆ i64     │",
            "╞═════════════════════╪════════════╪═════════╡",
            "│ http://e.org/film/1 ┆ Metropolis ┆ 153     │",
            "│ http://e.org/film/2 ┆ M, a city  ┆ null    │",
            "└─────────────────────┴────────────┴─────────┘",
        ]
    ),
    "polars-markdown": "\n".join(
        [
            "shape: (2, 3)",
            "| film                | title      | minutes |",
            "| ---                 | ---        | ---     |",
            "| str                 | str        | i64     |",
            "|---------------------|------------|---------|",
            "| http://e.org/film/1 | Metropolis | 153     |",
            "| http://e.org/film/2 | M, a city  | null    |",
        ]
    ),
    "polars-ascii": "\n".join(
        [
            "shape: (2, 3)",
            "+---------------------+------------+---------+",
            "| film                | title      | minutes |",
            "| ---                 | ---        | ---     |",
            "| str                 | str        | i64     |",
            "+============================================+",
            "| http://e.org/film/1 | Metropolis | 153     |",
            "|---------------------+------------+---------|",
            "| http://e.org/film/2 | M, a city  | null    |",
            "+---------------------+------------+---------+",
        ]
    ),
    "polars-nothing": "\n".join(
        [
            "shape: (2, 3)",
            " film                 title       minutes ",
            " ---                  ---         ---     ",
            " str                  str         i64     ",
            " http://e.org/film/1  Metropolis  153     ",
            " http://e.org/film/2  M, a city   null    ",
        ]
    ),
    "duckdb": "\n".join(
        [
            "┌─────────────────────┬────────────┬─────────┐",
            "│        film         │   title    │ minutes │",
            "│       varchar       │  varchar   │  int64  │",
            "├─────────────────────┼────────────┼─────────┤",
            "│ http://e.org/film/1 │ Metropolis │     153 │",
            "│ http://e.org/film/2 │ M, a city  │    NULL │",
            "└─────────────────────┴────────────┴─────────┘",
            "",
        ]
    ),
    "tabulate-simple": "\n".join(
        [
            "film                 title         minutes",
            "-------------------  ----------  ---------",
            "http://e.org/film/1  Metropolis        153",
            "http://e.org/film/2  M, a city",
        ]
    ),
    "tabulate-plain": "\n".join(
        [
            "film                 title         minutes",
            "http://e.org/film/1  Metropolis        153",
            "http://e.org/film/2  M, a city",
        ]
    ),
    "tabulate-rst": "\n".join(
        [
            "===================  ==========  =========",
            "film                 title         minutes",
            "===================  ==========  =========",
            "http://e.org/film/1  Metropolis        153",
            "http://e.org/film/2  M, a city",
            "===================  ==========  =========",
        ]
    ),
    "tabulate-tsv": "\n".join(
        [
            "film               \ttitle     \t  minutes",
            "http://e.org/film/1\tMetropolis\t      153",
            "http://e.org/film/2\tM, a city",
        ]
    ),
    "tabulate-jira": "\n".join(
        [
            "|| film                || title      ||   minutes ||",
            "| http://e.org/film/1 | Metropolis |       153 |",
            "| http://e.org/film/2 | M, a city  |           |",
        ]
    ),
    "tabulate-fancy-grid": "\n".join(
        [
            "╒═════════════════════╤════════════╤═══════════╕",
            "│ film                │ title      │   minutes │",
            "╞═════════════════════╪════════════╪═══════════╡",
            "│ http://e.org/film/1 │ Metropolis │       153 │",
            "├─────────────────────┼────────────┼───────────┤",
            "│ http://e.org/film/2 │ M, a city  │           │",
            "╘═════════════════════╧════════════╧═══════════╛",
        ]
    ),
    "tabulate-double-grid": "\n".join(
        [
            "╔═════════════════════╦════════════╦═══════════╗",
            "║ film                ║ title      ║   minutes ║",
            "╠═════════════════════╬════════════╬═══════════╣",
            "║ http://e.org/film/1 ║ Metropolis ║       153 ║",
            "╠═════════════════════╬════════════╬═══════════╣",
            "║ http://e.org/film/2 ║ M, a city  ║           ║",
            "╚═════════════════════╩════════════╩═══════════╝",
        ]
    ),
    "tabulate-mixed-outline": "\n".join(
        [
            "┍━━━━━━━━━━━━━━━━━━━━━┯━━━━━━━━━━━━┯━━━━━━━━━━━┑",
            "│ film                │ title      │   minutes │",
            "┝━━━━━━━━━━━━━━━━━━━━━┿━━━━━━━━━━━━┿━━━━━━━━━━━┥",
            "│ http://e.org/film/1 │ Metropolis │       153 │",
            "│ http://e.org/film/2 │ M, a city  │           │",
            "┕━━━━━━━━━━━━━━━━━━━━━┷━━━━━━━━━━━━┷━━━━━━━━━━━┙",
        ]
    ),
    "tabulate-heavy-outline": "\n".join(
        [
            "┏━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━┓",
            "┃ film                ┃ title      ┃   minutes ┃",
            "┣━━━━━━━━━━━━━━━━━━━━━╋━━━━━━━━━━━━╋━━━━━━━━━━━┫",
            "┃ http://e.org/film/1 ┃ Metropolis ┃       153 ┃",
            "┃ http://e.org/film/2 ┃ M, a city  ┃           ┃",
            "┗━━━━━━━━━━━━━━━━━━━━━┻━━━━━━━━━━━━┻━━━━━━━━━━━┛",
        ]
    ),
    "tabulate-rounded-grid": "\n".join(
        [
            "╭─────────────────────┬────────────┬───────────╮",
            "│ film                │ title      │   minutes │",
            "├─────────────────────┼────────────┼───────────┤",
            "│ http://e.org/film/1 │ Metropolis │       153 │",
            "├─────────────────────┼────────────┼───────────┤",
            "│ http://e.org/film/2 │ M, a city  │           │",
            "╰─────────────────────┴────────────┴───────────╯",
        ]
    ),
    "prettytable": "\n".join(
        [
            "+---------------------+------------+---------+",
            "|         film        |   title    | minutes |",
            "+---------------------+------------+---------+",
            "| http://e.org/film/1 | Metropolis |   153   |",
            "| http://e.org/film/2 | M, a city  |   None  |",
            "+---------------------+------------+---------+",
        ]
    ),
    "prettytable-plain": "\n".join(
        [
            "        film                 title           minutes        ",
            "http://e.org/film/1        Metropolis          153          ",
            "http://e.org/film/2        M, a city           None         ",
        ]
    ),
    "prettytable-word": "\n".join(
        [
            "|         film        |   title    | minutes |",
            "| http://e.org/film/1 | Metropolis |   153   |",
            "| http://e.org/film/2 | M, a city  |   None  |",
        ]
    ),
    "prettytable-single-border": "\n".join(
        [
            "┌─────────────────────┬────────────┬─────────┐",
            "│         film        │   title    │ minutes │",
            "├─────────────────────┼────────────┼─────────┤",
            "│ http://e.org/film/1 │ Metropolis │   153   │",
            "│ http://e.org/film/2 │ M, a city  │   None  │",
            "└─────────────────────┴────────────┴─────────┘",
        ]
    ),
    "rich-heavy-head": "\n".join(
        [
            "┏━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━┓",
            "┃ film                ┃ title      ┃ minutes ┃",
            "┡━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━┩",
            "│ http://e.org/film/1 │ Metropolis │ 153     │",
            "│ http://e.org/film/2 │ M, a city  │         │",
            "└─────────────────────┴────────────┴─────────┘",
            "",
        ]
    ),
    "rich-rounded": "\n".join(
        [
            "╭─────────────────────┬────────────┬─────────╮",
            "│ film                │ title      │ minutes │",
            "├─────────────────────┼────────────┼─────────┤",
            "│ http://e.org/film/1 │ Metropolis │ 153     │",
            "│ http://e.org/film/2 │ M, a city  │         │",
            "╰─────────────────────┴────────────┴─────────╯",
            "",
        ]
    ),
    "rich-simple": "\n".join(
        [
            "                                              ",
            "  film                  title        minutes  ",
            " ──────────────────────────────────────────── ",
            "  http://e.org/film/1   Metropolis   153      ",
            "  http://e.org/film/2   M, a city             ",
            "                                              ",
            "",
        ]
    ),
    "rich-minimal": "\n".join(
        [
            "                      ╷            ╷          ",
            "  film                │ title      │ minutes  ",
            "╶─────────────────────┼────────────┼─────────╴",
            "  http://e.org/film/1 │ Metropolis │ 153      ",
            "  http://e.org/film/2 │ M, a city  │          ",
            "                      ╵            ╵          ",
            "",
        ]
    ),
    "rich-horizontals": "\n".join(
        [
            " ──────────────────────────────────────────── ",
            "  film                  title        minutes  ",
            " ──────────────────────────────────────────── ",
            "  http://e.org/film/1   Metropolis   153      ",
            "  http://e.org/film/2   M, a city             ",
            " ──────────────────────────────────────────── ",
            "",
        ]
    ),
    "rich-double": "\n".join(
        [
            "╔═════════════════════╦════════════╦═════════╗",
            "║ film                ║ title      ║ minutes ║",
            "╠═════════════════════╬════════════╬═════════╣",
            "║ http://e.org/film/1 ║ Metropolis ║ 153     ║",
            "║ http://e.org/film/2 ║ M, a city  ║         ║",
            "╚═════════════════════╩════════════╩═════════╝",
            "",
        ]
    ),
    "rdflib-txt": "\n".join(
        [
            "        film         |   title    |                     minutes                     ",
            "-------------------------------------------------------------------------------------",
            '<http://e.org/film/1>|"Metropolis"|"153"^^<http://www.w3.org/2001/XMLSchema#integer>',
            '<http://e.org/film/2>|"M, a city" |-                                                ',
            "",
        ]
    ),
    "rdflib-rows": "\n".join(
        [
            "(rdflib.term.URIRef('http://e.org/film/1'), rdflib.term.Literal('Metropolis'), rdflib.term.Literal('153', datatype=rdflib.term.URIRef('http://www.w3.org/2001/XMLSchema#integer')))",
            "(rdflib.term.URIRef('http://e.org/film/2'), rdflib.term.Literal('M, a city'), None)",
        ]
    ),
    "rdflib-bindings": "\n".join(
        [
            "[{rdflib.term.Variable('film'): rdflib.term.URIRef('http://e.org/film/1'), rdflib.term.Variable('title'): rdflib.term.Literal('Metropolis'), rdflib.term.Variable('minutes'): rdflib.term.Literal('153', datatype=rdflib.term.URIRef('http://www.w3.org/2001/XMLSchema#integer'))}, {rdflib.term.Variable('film'): rdflib.term.URIRef('http://e.org/film/2'), rdflib.term.Variable('title'): rdflib.term.Literal('M, a city')}]",
        ]
    ),
    "rdflib-n3": "\n".join(
        [
            "[{'film': '<http://e.org/film/1>', 'title': '\"Metropolis\"', 'minutes': '\"153\"^^<http://www.w3.org/2001/XMLSchema#integer>'}, {'film': '<http://e.org/film/2>', 'title': '\"M, a city\"'}]",
        ]
    ),
    "pyoxigraph-rows": "\n".join(
        [
            "[['<http://e.org/film/2>', '\"M, a city\"', 'None'], ['<http://e.org/film/1>', '\"Metropolis\"', '\"153\"^^<http://www.w3.org/2001/XMLSchema#integer>']]",
        ]
    ),
    "pandas-html": "\n".join(
        [
            '<table border="1" class="dataframe">',
            "  <thead>",
            '    <tr style="text-align: right;">',
            "      <th></th>",
            "      <th>film</th>",
            "      <th>title</th>",
            "      <th>minutes</th>",
            "    </tr>",
            "  </thead>",
            "  <tbody>",
            "    <tr>",
            "      <th>0</th>",
            "      <td>http://e.org/film/1</td>",
            "      <td>Metropolis</td>",
            "      <td>153.0</td>",
            "    </tr>",
            "    <tr>",
            "      <th>1</th>",
            "      <td>http://e.org/film/2</td>",
            "      <td>M, a city</td>",
            "      <td>NaN</td>",
            "    </tr>",
            "  </tbody>",
            "</table>",
        ]
    ),
    "tabulate-html": "\n".join(
        [
            "<table>",
            "<thead>",
            '<tr><th>film               </th><th>title     </th><th style="text-align: right;">  minutes</th></tr>',
            "</thead>",
            "<tbody>",
            '<tr><td>http://e.org/film/1</td><td>Metropolis</td><td style="text-align: right;">      153</td></tr>',
            '<tr><td>http://e.org/film/2</td><td>M, a city </td><td style="text-align: right;">         </td></tr>',
            "</tbody>",
            "</table>",
        ]
    ),
}
