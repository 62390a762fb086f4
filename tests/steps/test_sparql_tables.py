"""Tables that are not SPARQL JSON, compared with references that are."""

from __future__ import annotations

import csv
import io
import json
import time
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps import Budget, failure_of, prepare_step, score_steps
from graphrag_eval_async.steps.actual import ActualStep
from tests.steps.test_sparql_oracle import encode, literal, number, oracle
from tests.support.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.steps.test_sparql_oracle import Table, Term

SPARQL = "application/sparql-results+json"
XML = "application/sparql-results+xml"
TSV = "text/tab-separated-values"
IRI = {"type": "uri", "value": "urn:grid:t1"}
ROWS: Table = [[IRI, literal("Lindau"), literal("40", "integer")], [IRI, None, literal("5.5", "decimal")]]
NAMES = ["t", "name", "age"]


def score(expected: str, output: Any, *, strict: bool = False, **options: Any) -> tuple[float, str]:
    step = {"name": "q", "output": expected, "output_media_type": SPARQL, **options}
    actual = {"name": "q", "status": "success", "output": output}
    scored = score_steps([[prepare_step(step)]], [actual], Budget(strict_types=strict), mode="last")
    assert all(" against actual_steps[0]: output: " in error for error in scored.errors)
    assert not (scored.score and scored.errors)
    return scored.score, failure_of(scored.facts)


def xml_term(term: dict[str, Any]) -> str:
    kind = term["type"]
    marks = "".join(
        f" {mark}={quoteattr(term[key])}"
        for key, mark in (("datatype", "datatype"), ("xml:lang", "xml:lang"))
        if key in term
    )
    return f"<{kind}{marks}>{escape(term['value'], {chr(13): '&#13;'})}</{kind}>"


def to_xml(table: Table, names: Sequence[str]) -> str:
    head = "".join(f"<variable name='{name}'/>" for name in names)
    rows = "".join(
        "<result>"
        + "".join(
            f"<binding name='{name}'>{xml_term(term)}</binding>\n"
            for name, term in zip(names, row, strict=True)
            if term is not None
        )
        + "</result>"
        for row in table
    )
    return (
        '<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">'
        f"<head>{head}</head><results>{rows}</results></sparql>\n"
    )


def tsv_term(term: Term) -> str:
    if term is None:
        return ""
    if term["type"] == "uri":
        return f"<{term['value']}>"
    if term["type"] == "bnode":
        return f"_:{term['value']}"
    text = term["value"].replace("\\", "\\\\").replace('"', '\\"')
    for character, name in (("\n", "n"), ("\r", "r"), ("\t", "t")):
        text = text.replace(character, f"\\{name}")
    suffix = f"^^<{term['datatype']}>" if "datatype" in term else ""
    return f'"{text}"' + (f"@{term['xml:lang']}" if "xml:lang" in term else suffix)


def to_tsv(table: Table, names: Sequence[str]) -> str:
    lines = ["\t".join(f"?{name}" for name in names), *("\t".join(map(tsv_term, row)) for row in table)]
    return "".join(f"{line}\n" for line in lines)


def texts(table: Table) -> list[list[str]]:
    return [["" if term is None else term["value"] for term in row] for row in table]


def to_csv(table: Table, names: Sequence[str]) -> str:
    written = io.StringIO()
    csv.writer(written).writerows([names, *texts(table)])
    return written.getvalue()


def to_objects(table: Table, names: Sequence[str]) -> str:
    rows = [[term and term["value"] for term in row] for row in table]
    return json.dumps([dict(zip(names, row, strict=True)) for row in rows])


def to_markdown(table: Table, names: Sequence[str]) -> str:
    lines = [
        names,
        ["---"] * len(names),
        *([text.replace("|", "\\|") for text in row] for row in texts(table)),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TYPED = {"xml": to_xml, "tsv": to_tsv}
UNTYPED = {"csv": to_csv, "objects": to_objects, "markdown": to_markdown}


@pytest.mark.parametrize("write", [*TYPED.values(), *UNTYPED.values()], ids=[*TYPED, *UNTYPED])
def test_the_same_table_agrees_and_another_does_not(write: Callable[..., str]) -> None:
    expected = encode(ROWS, NAMES)
    assert score(expected, write(ROWS, ["a", "b", "c"]))[0] == 1
    assert score(expected, write(ROWS[:1], NAMES)) == (0, "wrong_query_result")
    assert score(expected, write([row[:2] for row in ROWS], NAMES[:2])) == (0, "missing_columns")
    assert score(expected, write(ROWS[::-1], NAMES), ordered=True) == (0, "wrong_order")
    assert score(expected, write(ROWS, NAMES), strict=True)[0] == (write in TYPED.values())


@each(
    ("expected", "output", "agrees"),
    [
        (IRI, "x\r\n<urn:grid:t1>\r\n\r\n", True),
        (literal("5", "integer"), [{"x": 5.0}], True),
        (literal("5"), [{"x": 5.0}], False),
        (literal("1", "boolean"), [{"x": True}], True),
        (literal("a, b"), 'x\n"a, b"', True),
        (literal("a|b"), "|x|\n|:-:|\n| a\\|b |", True),
        (literal("a"), "|x|\n|---|\n|a|\n\nThat is all.", False),
        (literal("\u00e9"), '?x\n"\\u00E9"', True),
        (literal("a"), '?x\n"a" and more\n', False),
    ],
)
def test_single_cells(expected: Term, output: Any, agrees: bool) -> None:
    assert score(encode([[expected]], ["x"]), output)[0] == agrees


@each(
    "output",
    [
        "",
        'a,b\n"1,2',
        "?a\t?b\n<urn:x>",
        "|a|b|\n|--|\n|1|2|",
        "```\na,b\n1,2\n```\nThat is all.",
        "{'a':" * 5_000,
        '[{"a": [1]}]',
        [{"a": 10**5000}],
        "[" * 200,
        None,
        "<sparql><results><result><binding name='a'><uri>u</uri><uri>v</uri></binding>",
        '<!DOCTYPE a [<!ENTITY b "c">]><sparql><head/></sparql>',
        "<sparql>\ud800</sparql>",
    ],
)
def test_outputs_that_are_not_tables(output: Any) -> None:
    actual = ActualStep({"output": output})
    with pytest.raises(MalformedStep):
        actual.results()


TERMS: st.SearchStrategy[Term] = st.sampled_from(
    [
        None,
        IRI,
        {"type": "literal", "value": "a", "xml:lang": "en"},
        {"type": "bnode", "value": "b0"},
        *(literal(text) for text in ("a", "5", "5.0", 'a "b", c', "x|y", "\\n", "true", "1e1000")),
        *(literal(text, kind) for text in ("5", "05", "6") for kind in ("integer", "double", "decimal")),
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
        assert found is not None
        if term["value"][-1:].isdigit() and number(found) is not None:
            return found
    return literal(term["value"])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Table, Table, int]:
    width = draw(st.integers(2, 3))
    rows = st.lists(st.lists(TERMS, min_size=width, max_size=width), min_size=1, max_size=3)
    table = draw(rows)
    return table, draw(st.one_of(st.permutations(table), rows)), width


@settings(max_examples=150, deadline=None)
@given(pairs(), st.booleans(), st.booleans())
def test_compares_as_the_original_does(
    tables: tuple[Table, Table, int], ordered: bool, ignore_duplicates: bool
) -> None:
    expected, actual, width = tables
    how = {"ordered": ordered, "ignore_duplicates": ignore_duplicates}
    names, reference = NAMES[:width], encode(expected, NAMES[:width])
    original = score(reference, encode(actual, names), **how)[0]
    for write in TYPED.values():
        assert score(reference, write(actual, names), **how)[0] == original
    bare = [list(map(untyped, row)) for row in actual]
    by_text = oracle(expected, list(range(width)), bare, width, **how)
    for write in UNTYPED.values():
        assert score(reference, write(actual, names), **how)[0] == by_text


SAMPLES = [write(ROWS, NAMES) for write in (encode, *TYPED.values(), *UNTYPED.values())]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_truncated_and_altered_tables_raise_only_malformed_step(sample: str, data: st.DataObject) -> None:
    places = st.integers(0, len(sample))
    start, end = sorted((data.draw(places), data.draw(places)))
    output = sample[:start] + data.draw(st.text(max_size=5) | st.just(sample[start:end] * 2)) + sample[end:]
    assert score(encode(ROWS, NAMES), output)[0] in (0, 1)


@pytest.mark.parametrize(
    "output",
    [
        "?a\n" + '"\\\\' * 300_000,
        "a,b\n" + '"' * 1_000_000,
        "|a|\n|-|\n" + "|\\" * 500_000 + "|",
        "<sparql " + "a='" * 300_000,
        "?a\n'a'@" + "a-" * 500_000 + "!",
        "?a\n" + "+" * 1_000_000,
    ],
    ids=range(6),
)
def test_long_outputs_take_linear_time(output: str) -> None:
    start = time.process_time()
    score(encode(ROWS, NAMES), output)
    assert time.process_time() - start < 2


EMPTY_IN = [to_xml, to_tsv, to_csv, to_markdown]
EMPTY_RESULTS = encode([], NAMES)


@pytest.mark.parametrize("output", ["[]", [], *(write([], NAMES) for write in EMPTY_IN)])
def test_empty_results(output: Any) -> None:
    assert score(EMPTY_RESULTS, output) == (1, "none")
    assert score(encode(ROWS, NAMES), output) == (0, "empty_result")


@pytest.mark.parametrize("table", [ROWS, []])
def test_results_as_formatted_by_frameworks(table: Table) -> None:
    """Some pass on a dict or list as Python shows it, and models put results into code fences."""
    document = json.loads(encode(table, NAMES))
    outputs = [
        str(document),
        f"```json\n{json.dumps(document, indent=1)}\n```",
        f"```\n{to_xml(table, NAMES)}```",
    ]
    for output in outputs:
        assert score(encode(table, NAMES), output, strict=True) == (1, "none")
