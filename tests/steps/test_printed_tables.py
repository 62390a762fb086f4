"""Tables as people and packages print them, and what their cells stand for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async.catalogue.media_types import CSV
from tests.steps.printed_tables import PRINTED
from tests.steps.support import encode, literal, query, result_of, score_of, texts, to_tsv, to_xml

IRI = "http://e.org/film/"
NAMES = ["film", "title", "minutes"]
TABLE = [
    [{"type": "uri", "value": f"{IRI}1"}, literal("Metropolis"), literal("153", "integer")],
    [{"type": "uri", "value": f"{IRI}2"}, literal("M, a city"), None],
]
FILMS = encode(TABLE, NAMES)
ROWS: list[list[Any]] = [[f"{IRI}1", "Metropolis", 153], [f"{IRI}2", "M, a city", None]]
OBJECTS = json.dumps([dict(zip(NAMES, row, strict=True)) for row in ROWS])
CSV_TEXT = f'film,title,minutes\n{IRI}1,Metropolis,153\n{IRI}2,"M, a city",\n'
MARKDOWN = (
    "| film | title | minutes |\n|---|---|---|\n"
    f"| {IRI}1 | Metropolis | 153 |\n| {IRI}2 | M, a city |  |\n"
)
XML = to_xml(TABLE, NAMES)
TSV = to_tsv(TABLE, NAMES)

WRITTEN: dict[str, str] = {
    "csv-with-blanks": CSV_TEXT.replace(",", ", ").replace("M,  a", "M, a"),
    "csv-number-of-rows": f"{CSV_TEXT}(2 rows)\n",
    "csv-number-of-rows-plural": f"{CSV_TEXT}2 row(s)\n",
    "csv-number-of-rows-and-time": f"{CSV_TEXT}2 rows returned in 3 ms\n",
    "tsv-number-of-rows": f"{TSV}(2 rows)\n",
    "tsv-number-of-rows-below": f"{TSV}\n2 rows\n",
    "tsv-stripped": TSV.rstrip(),
    "psql-unaligned": f"film|title|minutes\n{IRI}1|Metropolis|153\n{IRI}2|M, a city|\n(2 rows)\n",
    "markdown-below-footnote": f"[1] See below.\n\n{MARKDOWN}",
    "markdown-links": MARKDOWN.replace(f"{IRI}1", f"[Metropolis]({IRI}1)").replace(
        f"{IRI}2", f"[e:2](<{IRI}2>)"
    ),
    "markdown-code": MARKDOWN.replace(f"{IRI}1", f"`{IRI}1`").replace("153", "`153`"),
    "markdown-bold": MARKDOWN.replace("Metropolis", "**Metropolis**"),
    "json-below-a-line": f"Found 2 rows.\n{OBJECTS}",
    "json-on-the-line": f"Result: {FILMS}",
    "json-on-the-line-with-a-note": f"Query executed. Results: {OBJECTS}\nDone.",
    "json-below-two-lines": f"I ran the query.\nHere are the rows\n\n{OBJECTS}",
    "json-below-footnote": f"[1] See below.\n\n{OBJECTS}",
    "xml-above-a-note": f"{XML}\nThat is all.",
    "xml-below-a-line": f"I got this.\n{XML}",
    "xml-in-tildes": f"~~~xml\n{XML}\n~~~",
    "json-in-tildes": f"Look\n~~~json\n{OBJECTS}\n~~~\n",
    "comunica-json": json.dumps(
        [
            {
                "?film": f"{IRI}1",
                "?title": '"Metropolis"',
                "?minutes": '"153"^^http://www.w3.org/2001/XMLSchema#integer',
            },
            {"?film": f"{IRI}2", "?title": '"M, a city"'},
        ]
    ),
    "html-virtuoso": '<table class="sparql" border="1">\n  <tr>\n    <th>film</th>\n'
    "    <th>title</th>\n    <th>minutes</th>\n  </tr>\n  <tr>\n"
    f'    <td><a href="{IRI}1">{IRI}1</a></td>\n    <td><pre>Metropolis</pre></td>\n'
    "    <td><pre>153</pre></td>\n  </tr>\n  <tr>\n"
    f'    <td><a href="{IRI}2">{IRI}2</a></td>\n    <td>M&#44; a city</td>\n    <td></td>\n'
    "  </tr>\n</table>",
    "a-tuple-a-line": "\n".join(str(tuple(row)) for row in ROWS),
    "a-dict-a-line": "\n".join(str(dict(zip(NAMES, row, strict=True))) for row in ROWS),
    "csv-empty-quotes": CSV_TEXT.replace('city",', 'city",""'),
    "json-empty-text": OBJECTS.replace("null", '""'),
    "json-nan": OBJECTS.replace("null", "NaN"),
    **{
        f"csv-{word}": CSV_TEXT.replace('city",', f'city",{word}')
        for word in ("NULL", "null", "None", "nan", "NaN", "<NA>", "NA", "N/A", "UNDEF", "\\N")
    },
    **{f"json-{word}": OBJECTS.replace("null", f'"{word}"') for word in ("NULL", "None")},
    **{
        f"markdown-{word}": MARKDOWN.replace("|  |", f"| {word} |")
        for word in ("NULL", "None", "nan")
    },
    **PRINTED,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_table_as_it_is_printed_is_the_same_table(name: str) -> None:
    assert score_of(query(FILMS), WRITTEN[name]) == 1
    assert score_of(query(FILMS, score="f1"), WRITTEN[name]) == 1


@pytest.mark.parametrize("name", WRITTEN)
def test_a_table_as_it_is_printed_with_another_cell_is_another_table(name: str) -> None:
    assert score_of(query(FILMS.replace("film/2", "film/3")), WRITTEN[name]) == 0
    bound = FILMS.replace('"M, a city"}', '"M, a city"}, "minutes": {"value": "110"}')
    assert bound != FILMS
    assert score_of(query(bound), WRITTEN[name]) == 0


@pytest.mark.parametrize("word", ["NULL", "None", "nan", "NA", ""])
def test_a_word_for_unbound_that_the_reference_has_is_text(word: str) -> None:
    reference = query(encode([[literal("a"), literal(word)], [literal("b"), None]], "xy"))
    as_text = [{"x": "a", "y": word}, {"x": "b", "y": None}]
    assert score_of(reference, as_text) == 1
    assert score_of(reference, [{"x": "a", "y": None}, {"x": "b", "y": None}]) == 0
    assert score_of(reference, [{"x": "a", "y": word}, {"x": "b", "y": word}]) == 0


def test_no_other_text_stands_for_an_unbound_cell() -> None:
    reference = query(encode([[literal("a"), None]], "xy"))
    for text in ("-", "0", "unknown", "no value"):
        assert score_of(reference, f"x,y\na,{text}\n") == 0
    assert score_of(query(encode([[literal("a"), literal("b")]], "xy")), "x,y\na,NULL\n") == 0


@pytest.mark.parametrize("cell", ['"a"', "`a`", "[a](http://e.org/b)", "*a*"])
def test_marks_that_the_reference_has_are_text(cell: str) -> None:
    for keys in ({}, {"score": "f1"}):
        assert score_of(query(texts((cell,)), **keys), [{"x": cell}]) == 1
        assert score_of(query(texts((cell,)), **keys), [{"x": "a"}]) == 0


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("[]\n\n(0 rows)", id="array-above-a-note"),
        pytest.param("Found 0 rows.\n[]", id="array-below-a-note"),
        pytest.param("No results\n\n[]", id="array-below-words"),
    ],
)
def test_an_empty_array_with_a_number_of_rows(output: str) -> None:
    assert score_of(query(encode([], NAMES)), output) == 1
    assert score_of(query(FILMS), output) == 0


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("[]\nError: timeout", id="array-above-an-error"),
        pytest.param("Error: timeout\n[]", id="array-below-an-error"),
        pytest.param("[] is what I found", id="array-in-a-sentence"),
    ],
)
def test_an_empty_array_beside_other_words_is_no_table(output: str) -> None:
    assert score_of(query(encode([], NAMES)), output) == 0


@pytest.mark.parametrize(
    ("output", "words"),
    [
        pytest.param("     x   y\n0    0   0\n..  ..  ..\n99  9  9\n", "shortened", id="two-dots"),
        pytest.param(
            "     x   y\n0    1   2\n..  ...  ...\n9    3   4\n",
            "shortened",
            id="pandas",
        ),
        pytest.param(
            "┌───┬───┐\n│ x ┆ y │\n╞═══╪═══╡\n│ 1 ┆ 2 │\n│ … ┆ … │\n└───┴───┘",
            "shortened",
            id="polars",
        ),
        pytest.param({"names": ["x"], "values": ["y"]}, "two columns", id="names-and-values"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_for_sure_says_so(output: Any, words: str) -> None:
    result = result_of(query(texts(("1", "2"))), output)
    assert result["steps_score"] == 0
    assert words in result["failure_detail"]


@pytest.mark.parametrize(
    ("output", "row"),
    [
        pytest.param([{"value": 3, "label": "x"}], ("3", "x"), id="value-and-label"),
        pytest.param({"value": "a\nb", "label": "x"}, ("a\nb", "x"), id="lines-in-value"),
        pytest.param({"text": "true", "lang": "en"}, ("true", "en"), id="text-and-lang"),
        pytest.param({"ask": "1", "bid": "2"}, ("1", "2"), id="ask-and-bid"),
        pytest.param({"ask": True, "bid": 2}, ("true", "2"), id="ask-that-is-true"),
        pytest.param({"data": {"ask": "1", "bid": "2"}}, ("1", "2"), id="ask-in-an-envelope"),
        pytest.param(
            {"x": {"type": "uri", "value": "urn:a"}, "y": {"type": "literal", "value": "b"}},
            ("urn:a", "b"),
            id="terms",
        ),
        pytest.param(
            {"value": {"type": "uri", "value": "urn:a"}, "text": {"type": "uri", "value": "b"}},
            ("urn:a", "b"),
            id="terms-under-keys-of-envelopes",
        ),
    ],
)
def test_a_row_with_keys_of_envelopes(output: Any, row: tuple[str, ...]) -> None:
    reference = query(encode([[literal(text) for text in row]], "xy"))
    assert score_of(reference, output) == 1
    assert score_of(query({"head": {}, "boolean": True}), output) == 0


def test_columns_whose_names_are_names_and_values() -> None:
    rows = texts(("a", "x"), ("b", "y"))
    assert score_of(query(rows), {"names": ["a", "b"], "values": ["x", "y"]}) == 1
    assert score_of(query(texts(("x", "y"))), {"names": ["a", "b"], "values": [["x", "y"]]}) == 1


@pytest.mark.parametrize("name", ["result", "__ask_retval", "ASK", "ask_result", "answer"])
def test_names_of_the_column_with_the_answer_to_ask(name: str) -> None:
    yes = query({"head": {}, "boolean": True})
    for output in (f"{name}\ntrue\n", f'"{name}"\n1\n', [{name: True}], {name: True}):
        assert score_of(yes, output) == 1, output
        assert score_of(query({"head": {}, "boolean": False}), output) == 0


NODE = encode([[{"type": "bnode", "value": "b"}, literal("1")]], "xy")


@pytest.mark.parametrize(
    "output",
    [
        pytest.param('"x"\t"y"\n"nodeID://b10"\t"1"\n', id="tsv-quoted"),
        pytest.param("?x\t?y\n<nodeID://b10>\t1\n", id="tsv-iri"),
        pytest.param('x,y\n"nodeID://b10",1\n', id="csv"),
        pytest.param("x,y\n<nodeID://b10>,1\n", id="csv-iri"),
        pytest.param(
            encode([[{"type": "uri", "value": "nodeID://b1"}, literal("1")]], "xy"), id="json"
        ),
        pytest.param([{"x": {"@id": "_:b0"}, "y": {"@value": "1"}}], id="json-ld"),
        pytest.param("[{'x': rdflib.term.BNode('N1'), 'y': '1'}]", id="rdflib"),
    ],
)  # fmt: skip
def test_blank_nodes_as_stores_write_them(output: Any) -> None:
    assert score_of(query(NODE), output) == 1
    iri = encode([[{"type": "uri", "value": "urn:b"}, literal("1")]], "xy")
    assert score_of(query(iri), output) == 0


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(" title \n-------\n Metropolis\n M, a city\n(2 rows)\n", id="psql"),
        pytest.param("title\n----------\nMetropolis\nM, a city", id="tabulate"),
        pytest.param("        title\n0  Metropolis\n1   M, a city", id="pandas"),
        pytest.param('title\nMetropolis\n"M, a city"\n2 rows\n', id="csv"),
    ],
)
def test_one_column(output: str) -> None:
    assert score_of(query(texts(("Metropolis",), ("M, a city",))), output) == 1
    assert score_of(query(texts(("Metropolis",), ("M, a city",), ("x",))), output) == 0


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_long_cell_of_csv(separator: str) -> None:
    text = "very " * 40_000 + "long"
    assert score_of(query(texts((text, "1"))), f"x{separator}y\n{text}{separator}1\n") == 1


@pytest.mark.parametrize(
    ("value", "datatype", "output"),
    [
        ("INF", "double", '[{"x": Infinity}]'),
        ("-INF", "double", '[{"x": -Infinity}]'),
        ("INF", "float", "x,y\ninf,1\n"),
        ("INF", "double", "x,y\nINF,1\n"),
        ("-INF", "double", "x,y\n-inf,1\n"),
        ("NaN", "double", '[{"x": NaN}]'),
        ("NaN", "double", "x,y\nnan,1\n"),
        ("NaN", "double", "[{'x': nan}]"),
    ],
)
def test_numbers_that_json_lacks(value: str, datatype: str, output: str) -> None:
    assert score_of(query(encode([[literal(value, datatype)]], "x")), output) == 1
    assert score_of(query(encode([[literal("1", datatype)]], "x")), output.replace(",1", ",2")) == 0


def test_words_for_infinity_that_the_reference_has_are_text() -> None:
    for word in ("Infinity", "inf"):
        assert score_of(query(texts((word,))), f"x,y\n{word},1\n") == 1


def test_a_number_of_rows_may_be_a_cell() -> None:
    assert score_of(query(texts(("a",), ("3 rows",))), "x\na\n3 rows\n", output_media_type=CSV) == 1
    assert score_of(query(texts(("a",))), "x\na\n(1 row)\n") == 1
