"""Tables in every format on either side, and the spellings of their cells, through the public
surface.
"""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import ReferenceDataError, load_reference
from graphrag_eval_async.catalogue.media_types import CSV, SPARQL_RESULTS, TSV, XML
from graphrag_eval_async.errors import ComparisonBudgetExceeded
from tests.steps.support import (
    encode,
    literal,
    query,
    read_results,
    result_of,
    score_of,
    texts,
    to_csv,
    to_markdown,
    to_objects,
    to_tsv,
    to_xml,
)
from tests.steps.table_oracle import number, oracle
from tests.support.cpu import affordable
from tests.support.data import question, template

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.steps.support import Table, Term

NAMES = ["station", "kv", "since"]
TABLE: Table = [
    [
        {"type": "uri", "value": "urn:grid:bergheim"},
        literal("380.0", "decimal"),
        literal('in, "full"\tservice'),
    ],
    [{"type": "uri", "value": "urn:grid:lindau"}, literal("110", "integer"), None],
    [
        {"type": "bnode", "value": "b0"},
        literal("true", "boolean"),
        {"type": "literal", "value": "Straße & <Weg>", "xml:lang": "de"},
    ],
]
FORMATS: dict[str, Callable[[Table, Sequence[str]], str]] = {
    SPARQL_RESULTS: encode,
    XML: to_xml,
    TSV: to_tsv,
    CSV: to_csv,
}
FORMAT_NAMES = {SPARQL_RESULTS: "JSON", XML: "XML", TSV: "TSV", CSV: "CSV"}
PAIRS = [
    pytest.param(ours, theirs, id=f"{FORMAT_NAMES[ours]} against {FORMAT_NAMES[theirs]}")
    for ours, theirs in product(FORMATS, FORMATS)
]
TYPED, UNTYPED = [to_xml, to_tsv], [to_csv, to_objects, to_markdown]
STRICT = {"steps": {"strict_types": True}}


def written(media_type: str, table: Table = TABLE, **keys: Any) -> dict[str, Any]:
    """A reference step with a table in this format."""
    names = NAMES if table is TABLE else "abc"[: len(table[0]) if table else 1]
    return query(FORMATS[media_type](table, names), output_media_type=media_type, **keys)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_every_format_against_every_other(ours: str, theirs: str) -> None:
    text = FORMATS[theirs]([row[::-1] for row in TABLE[::-1]], "cba")
    for output in (
        text,
        {"result": text},
        json.dumps({"result": text}),
        json.dumps(text),
        f"```\n{text}```",
    ):
        for media_type in (ours, f"{ours.upper()} ; charset=utf-8"):
            assert score_of(written(ours) | {"output_media_type": media_type}, output) == 1, output
    wrong = [[*row] for row in TABLE]
    wrong[1][1] = literal("220", "integer")
    assert score_of(written(ours), FORMATS[theirs](wrong, NAMES)) == 0
    result = result_of(written(ours, score="f1"), FORMATS[theirs](wrong, NAMES))
    assert (result["steps_score"], result["failure"]) == (8 / 9, "wrong_values")
    assert result["reference_steps"][0][0]["diff"] == [
        {"kind": "wrong_value", "row": 1, "column": "kv", "expected": "110", "actual": "220"}
    ]


@pytest.mark.parametrize(
    ("expected", "output", "agrees"),
    [
        pytest.param(TABLE[0][0], "x\r\n<urn:grid:bergheim>\r\n\r\n", True, id="IRI in CSV"),
        pytest.param(literal("5", "integer"), [{"x": 5.0}], True, id="float for an integer"),
        pytest.param(literal("5"), [{"x": 5.0}], False, id="float for text"),
        pytest.param(literal("1", "boolean"), [{"x": True}], True, id="boolean"),
        pytest.param(literal("a, b"), 'x\n"a, b"', True, id="quoted comma"),
        pytest.param(literal("a|b"), "|x|\n|:-:|\n| a\\|b |", True, id="escaped bar"),
        pytest.param(
            literal("a"), "|x|\n|---|\n|a|\n\nThat is all.", True, id="text after the table"
        ),
        pytest.param(literal("a"), "|?x|\n|---|\n|a|", True, id="question mark"),
        pytest.param(literal("\u00e9"), '?x\n"\\u00E9"', True, id="escape"),
        pytest.param(literal("a"), '?x\n"a" and more\n', False, id="text after a literal"),
        pytest.param(literal("true"), "?x\ntrue", True, id="boolean of TSV"),
        pytest.param(literal("-1.5e3", "double"), "?x\n-1500\n", True, id="double"),
        pytest.param(literal("b"), [{"x": "b", "y": None}], True, id="unbound column"),
    ],
)
def test_single_cells(expected: Term, output: Any, agrees: bool) -> None:
    assert score_of(query(encode([[expected]], "x")), output) == agrees


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        pytest.param('?a,?b\r\nx,"1\r\n2"\r\n', {}, id="question marks"),
        pytest.param(
            '\ufeff?a,$b\nx,"1\r\n2"\n\n', {"output_media_type": CSV}, id="byte order mark"
        ),
        pytest.param('```csv\n"a","b"\n"x","1\r\n2"\n```', {}, id="code fence"),
    ],
)
def test_spellings_of_csv(text: str, keys: dict[str, Any]) -> None:
    expected = texts(("x", "1\r\n2"))
    assert score_of(query(expected), text, **keys) == 1
    if "```" not in text:
        assert score_of(query(text, output_media_type=CSV), expected) == 1


def test_results_as_python_shows_them() -> None:
    for table in (TABLE, []):
        expected = encode(table, NAMES)
        for output in (str(json.loads(expected)), f"```json\n{expected}\n```"):
            assert score_of(query(expected), output, config=STRICT) == 1
    assert score_of(query(texts(names="ab")), "[]") == score_of(query(texts(names="ab")), []) == 1


TERMS: st.SearchStrategy[Term] = st.sampled_from(
    [
        None,
        TABLE[0][0],
        {"type": "literal", "value": "a", "xml:lang": "en"},
        {"type": "bnode", "value": "b0"},
        *(literal(text) for text in ("a", "5", "5.0", 'a "b", c', "x|y", "\\n", "true", "1e1000")),
        *(
            literal(text, kind)
            for text in ("5", "05", "6")
            for kind in ("integer", "double", "decimal")
        ),
        *(literal(text, "double") for text in ("5e0", "INF", "NaN", "5.00000001")),
        *(literal(text, "boolean") for text in ("true", "1")),
    ]
)


def untyped(term: Term) -> Term:
    """What is left of a term in a table without types."""
    if term is None:
        return None
    for kind in ("integer", "decimal", "double"):
        found = literal(term["value"], kind)
        if found and term["value"][-1:].isdigit() and number(found) is not None:
            return found
    return literal(term["value"])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Table, Table, int]:
    width = draw(st.integers(2, 3))
    rows = st.lists(st.lists(TERMS, min_size=width, max_size=width), min_size=1, max_size=3)
    table = draw(rows)
    return table, draw(st.one_of(st.permutations(table), rows)), width


@settings(max_examples=50)
@given(pairs(), st.booleans(), st.booleans())
def test_each_format_compares_as_the_original_does(
    tables: tuple[Table, Table, int], ordered: bool, ignore_duplicates: bool
) -> None:
    expected, actual, width = tables
    how = {"ordered": ordered, "ignore_duplicates": ignore_duplicates}
    reference, names = query(encode(expected, NAMES[:width]), **how), NAMES[:width]
    original = score_of(reference, encode(actual, names))
    for write in TYPED:
        assert score_of(reference, write(actual, names)) == original
    bare = [list(map(untyped, row)) for row in actual]
    by_text = oracle(expected, list(range(width)), bare, width, **how)
    for write in UNTYPED:
        assert score_of(reference, write(actual, names)) == by_text
    for keys in ({}, {"score": "f1"}):
        wanted = score_of(reference | keys, encode(actual, names))
        for media_type in (XML, TSV):
            step = query(
                FORMATS[media_type](expected, names), output_media_type=media_type, **how, **keys
            )
            assert score_of(step, encode(actual, names)) == wanted


SAMPLES = [write(TABLE, NAMES) for write in (encode, *TYPED, *UNTYPED)]


@given(st.sampled_from(SAMPLES), st.data())
def test_truncated_and_altered_tables_are_scored(sample: str, data: st.DataObject) -> None:
    places = st.integers(0, len(sample))
    start, end = sorted((data.draw(places), data.draw(places)))
    output = (
        sample[:start]
        + data.draw(st.text(max_size=5) | st.just(sample[start:end] * 2))
        + sample[end:]
    )
    assert score_of(query(encode(TABLE, NAMES)), output) in (0, 1)


# Which formats are meant


def test_which_json_is_results() -> None:
    ask = '{"boolean": true, "head": {"link": []}}'
    plain = {"name": "q", "output": encode(TABLE, NAMES)}
    assert score_of(plain, encode(TABLE, "abc")) == 1
    assert score_of(plain | {"output": json.loads(plain["output"])}, encode(TABLE, "abc")) == 1
    assert score_of(plain | {"output_media_type": "application/json"}, encode(TABLE, "abc")) == 1
    assert score_of(plain | {"output_media_type": "text/plain"}, encode(TABLE, "abc")) == 0
    yes = {"name": "q", "output": {"head": {}, "boolean": True}}
    for csv in (ask, "true", "TRUE\r\n", "_askResult\r\ntrue\r\n", "```\ntrue\n```", True):
        assert score_of(yes, csv) == 1
    for other in ("false", "_askResult\nfalse", False, texts(names="a")):
        assert score_of(yes, other) == 0
    assert score_of({"name": "q", "output": {"head": [], "boolean": True}}, "true") == 0


def test_strict_types_refuse_csv_only_where_the_reference_is_typed() -> None:
    for media_type, typed in FORMATS.items():
        if media_type != CSV:
            assert score_of(written(media_type), to_csv(TABLE, NAMES), config=STRICT) == 0
        assert score_of(written(CSV), typed(TABLE, NAMES), config=STRICT) == 1
    for write in (to_objects, to_markdown):
        assert score_of(query(encode(TABLE, NAMES)), write(TABLE, NAMES), config=STRICT) == 0


def test_a_header_alone_is_csv_if_the_step_says_so() -> None:
    empty = query(encode([], "a"))
    assert score_of(empty, "a") == 1
    assert score_of(empty, "b") == 0
    assert score_of(empty, "a", output_media_type=CSV) == 1
    assert score_of(query("a\n", output_media_type=CSV), encode([], "a")) == 1
    # What is said to be CSV and is not is read as what it is.
    assert score_of(empty, to_xml([], "a"), output_media_type=CSV) == 1
    for write in (to_csv, to_tsv, to_xml, to_markdown):
        assert score_of(query(encode([], NAMES)), write([], NAMES)) == 1


EMPTY: Table = [
    [literal("Bergheim"), literal("")],
    [literal("Lindau"), None],
    [literal("Selb"), literal("old")],
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_empty_cells_of_csv_are_unbound_or_empty_texts(ours: str, theirs: str) -> None:
    swapped = [
        [row[0], other[1]] for row, other in zip(EMPTY, [EMPTY[1], EMPTY[0], EMPTY[2]], strict=True)
    ]
    for keys, apart in (({}, 0), ({"score": "f1"}, 2 / 3)):
        reference = written(ours, EMPTY, **keys)
        assert score_of(reference, FORMATS[theirs](EMPTY, "ab")) == 1
        wanted = 1 if CSV in (ours, theirs) else apart
        assert score_of(reference, FORMATS[theirs](swapped, "ab")) == wanted


# What is refused


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE s [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{n + 1} "{f"&a{n or str()};" * 10}">' for n in range(12))
    + "]><sparql><head/><boolean>&a12;</boolean></sparql>"
)


def select(*bindings: Any, names: Any = ("x",), **more: Any) -> dict[str, Any]:
    return {"head": {"vars": list(names)}, "results": {"bindings": list(bindings)}, **more}


@pytest.mark.parametrize(
    ("media_type", "output", "wanted"),
    [
        pytest.param(XML, "<sparql>", "output: not SPARQL XML", id="open XML"),
        pytest.param(
            XML, BOMB, "output: not SPARQL XML: declares a document type", id="document type"
        ),
        pytest.param(
            TSV, "a\ta\n", "output: not SPARQL TSV: a column is repeated", id="column twice in TSV"
        ),
        pytest.param(CSV, "a,b\n1\n", "output: .*expected 2 cells, got 1", id="cells of CSV"),
        pytest.param(CSV, [], "output: expected the text of text/csv, got list", id="list for CSV"),
        pytest.param(
            SPARQL_RESULTS,
            "Error: timeout",
            "output: not SPARQL JSON: it is no JSON object",
            id="prose",
        ),
        pytest.param(SPARQL_RESULTS, '{"head": "', "output: not JSON: .*line 1", id="not closed"),
        pytest.param(
            SPARQL_RESULTS,
            {"head": {}, "boolean": 1},
            "JSON: boolean: expected bool, got int",
            id="boolean of a number",
        ),
        pytest.param(
            SPARQL_RESULTS,
            select(boolean=True),
            "not SPARQL JSON: both boolean and results",
            id="boolean and results",
        ),
        pytest.param(
            SPARQL_RESULTS,
            {"head": {"vars": []}},
            "not SPARQL JSON: results is missing; write it as {",
            id="no results",
        ),
        pytest.param(
            SPARQL_RESULTS,
            select(names=["x", "x"]),
            "not SPARQL JSON: head.vars: 'x' is listed twice",
            id="column twice in JSON",
        ),
        pytest.param(
            SPARQL_RESULTS,
            select({"y": literal("a")}),
            "not SPARQL JSON: .*'y' is bound but not among head.vars",
            id="undeclared column",
        ),
        pytest.param(
            SPARQL_RESULTS,
            select({}, {"x": None}),
            r"bindings\[1\].x: expected object, got null; write",
            id="null cell",
        ),
    ],
)
def test_invalid_references(media_type: str, output: Any, wanted: str) -> None:
    with affordable(2**20), pytest.raises(ReferenceDataError, match=wanted):
        load_reference(template(question(query(output, output_media_type=media_type))))


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(BOMB, id="XML bomb"),
        pytest.param("?a\n" + '"\\\\' * 100_000, id="TSV backslashes"),
        pytest.param("a,b\n" + '"' * 300_000, id="CSV quotes"),
        pytest.param("|a|\n|-|\n" + "|\\" * 200_000 + "|", id="Markdown backslashes"),
        pytest.param("<sparql " + "a='" * 100_000, id="XML attributes"),
        pytest.param("?a\n'a'@" + "a-" * 200_000 + "!", id="language tag"),
        pytest.param("?a\n" + "+" * 300_000, id="sign"),
        pytest.param("{'a':" * 5_000, id="nested repr"),
        pytest.param("[" * 100_000, id="nested list"),
        pytest.param("```x\n" * 100_000, id="code fences"),
        pytest.param("x:\n" * 100_000, id="keys"),
        pytest.param('{"a": 1}' * 100_000 + "{", id="objects"),
        pytest.param('{"content": [' * 5_000, id="nested content"),
        pytest.param('["' + "\\'" * 200_000, id="repr quotes"),
        pytest.param("a\tb\n" + '"' * 300_000, id="TSV quotes"),
        pytest.param("[1]", id="list of a number"),
        pytest.param('[{"a": 1' + "0" * 5000 + "}]", id="digits"),
    ],
)
def test_hostile_outputs_score_0_in_linear_time(output: str) -> None:
    with affordable(2**20):
        assert score_of(query(encode(TABLE, NAMES)), output) == 0


def test_sparse_tables_are_refused() -> None:
    rows = [{f"v{index % 4000}": literal("a")} for index in range(8000)]
    with pytest.raises(ComparisonBudgetExceeded, match=r"4000 columns of 8000 rows: too sparse"):
        read_results(select(*rows, names=[f"v{index}" for index in range(4000)]))
    assert (
        len(read_results(select(*rows, names=[f"v{index}" for index in range(50)])).columns) == 50
    )


def test_xml_with_more_than_one_value_for_a_variable_or_the_text_of_a_document_type() -> None:
    def xml(row: str, namespace: str = "http://www.w3.org/2005/sparql-results#") -> str:
        head = '<head><variable name="a"/></head>'
        return (
            f'<sparql xmlns="{namespace}">{head}<results><result>{row}</result></results></sparql>'
        )

    def binding(text: str) -> str:
        return f'<binding name="a"><literal>{text}</literal></binding>'

    expected = query(texts("x"))
    assert score_of(expected, xml(binding("x"))) == 1
    assert score_of(expected, xml(binding("wrong") + binding("x"))) == 0
    assert score_of(expected, xml(binding(" x "))) == 0
    assert score_of(expected, xml(binding("x"), "urn:other")) == 0
    assert score_of(query(texts(("<!DOCTYPE x>",))), xml(binding("<![CDATA[<!DOCTYPE x>]]>"))) == 1
    declared = '<!DOCTYPE sparql [<!ENTITY e "x">]>'
    for before in ("", " \n", "<!-- <a> -->", "<?p <a ?>", '<?xml version="1.0"?>\n<!----> <?p?>'):
        assert score_of(expected, f"{before}{xml(binding('x'))}") == 1
        assert score_of(expected, f"{before}{declared}{xml(binding('&e;'))}") == 0


# Numbers and texts that are written in several ways


def column(*cells: str | tuple[str, str]) -> dict[str, Any]:
    """A reference step with one variable: plain literals, or literals of a type."""
    return query(
        encode(
            [[literal(cell) if isinstance(cell, str) else literal(*cell)] for cell in cells], "x"
        )
    )


@pytest.mark.parametrize(
    ("expected", "output", "how", "wanted"),
    [
        pytest.param(column("0123", "2"), "id,code\n123,0123\n2,b\n", {}, 0, id="zeros in codes"),
        pytest.param(column("0123", "2"), "id,code\n1,0123\n2,2\n", {}, 1, id="zeros differ"),
        pytest.param(
            column("1.0", "1"),
            '[{"x": "1"}, {"x": "1.0"}]',
            {"ordered": True, "score": "f1"},
            0.5,
            id="order",
        ),
        pytest.param(
            column("1.0", "1.0"),
            '[{"x": "1.0"}, {"x": "1"}]',
            {"ignore_duplicates": False},
            0,
            id="duplicates",
        ),
        pytest.param(column(("123", "integer")), "id\n123\n0123\n", {}, 1, id="integer"),
        pytest.param(
            column(("18446744073709551616", "integer")),
            '[{"x": 18446744073709551616}]',
            {},
            1,
            id="65 bits",
        ),
        pytest.param(
            column(("12345678901234567890", "integer")),
            '[{"head": "a", "x": 12345678901234567890}]',
            {},
            1,
            id="20 digits",
        ),
        pytest.param(
            column(("12345678901234567890", "integer")),
            '[{"head": "a", "x": 12345678901234567891}]',
            {},
            0,
            id="last digit",
        ),
    ],
)
def test_untyped_numbers_agree_by_value_with_numbers_alone(
    expected: dict[str, Any], output: str, how: dict[str, Any], wanted: float
) -> None:
    assert score_of(expected | how, output) == wanted
