from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.steps.sparql.results import SparqlResults, read_document, results_of
from tests.cases import each

XSD = "http://www.w3.org/2001/XMLSchema#"


def read_results(output: Any) -> SparqlResults:
    return results_of(read_document(output))


def select(*bindings: Any, names: Any = ("x",)) -> dict[str, Any]:
    return {"head": {"vars": list(names)}, "results": {"bindings": list(bindings)}}


def values(document: Any) -> list[list[Any]]:
    return [list(column.values) for column in read_results(document).columns]


def cell(value: Any, **more: Any) -> dict[str, Any]:
    return {"type": "literal", "value": value, **more}


def test_text_bytes_and_decoded_read_the_same() -> None:
    document = select({"x": cell("a")}, {})
    text = json.dumps(document)
    assert values(document) == values(text) == values(text.encode()) == [["a", None]]


def test_columns_follow_the_head_and_repeated_variables_count_once() -> None:
    results = read_results(select({"x": cell("1"), "y": cell("2")}, names=["y", "x", "y"]))
    assert [(column.name, column.texts) for column in results.columns] == [("y", ["2"]), ("x", ["1"])]
    assert (results.row_count, results.boolean) == (1, None)


@pytest.mark.parametrize("answer", [True, False])
def test_ask(answer: bool) -> None:
    results = read_results({"head": {}, "boolean": answer})
    assert (results.boolean, results.columns, results.row_count) == (answer, (), 0)


def test_variables_that_are_not_listed_are_ignored_but_checked() -> None:
    assert values(select({"x": cell("a"), "y": cell("b")})) == [["a"]]
    with pytest.raises(MalformedStep, match=r"results\.bindings\[0\]\.y\.value: missing"):
        read_results(select({"x": cell("a"), "y": {}}))
    assert read_results(select({"x": cell("a")}, {}, names=[])).row_count == 2


def test_only_bound_variables_have_columns() -> None:
    names = [f"v{index}" for index in range(10_000)]
    results = read_results(select(*[{}] * 7999, {"v7": cell("a")}, names=names))
    assert [column.name for column in results.columns] == ["v7"]
    assert results.columns[0].texts == [None] * 7999 + ["a"]
    assert (list(results.variables), results.row_count) == (names, 8000)
    results = read_results(select(*[{}] * 8000, names=names))
    assert (results.columns, len(results.variables), results.row_count) == ([], 10_000, 8000)
    results = read_results(select({"x": cell("a")}, {"x": cell("b")}, names=["y", "x"]))
    assert ([column.name for column in results.columns], list(results.variables)) == (["x"], ["y", "x"])


def test_sparse_tables_are_refused() -> None:
    rows = [{f"v{index % 4000}": cell("a")} for index in range(8000)]
    with pytest.raises(ComparisonBudgetExceeded, match=r"4000 columns of 8000 rows: too sparse"):
        read_results(select(*rows, names=[f"v{index}" for index in range(4000)]))
    some = [f"v{index}" for index in range(50)]
    assert len(read_results(select(*rows, names=some)).columns) == 50


def test_triple_terms_read_as_canonical_json() -> None:
    triple = {"subject": {"type": "uri", "value": "s"}, "object": cell("o"), "predicate": {"value": "p"}}
    document = select({"x": {"type": "triple", "value": triple}})
    shuffled = select({"x": {"type": "triple", "value": dict(reversed(triple.items()))}})
    assert values(document) == values(shuffled)
    assert json.loads(values(document)[0][0]) == triple


@each(
    ("text", "datatype", "value"),
    [
        ("5", "integer", 5),
        (" +05\n", "unsignedByte", 5),
        ("300", "byte", 300),
        ("9" * 299, "integer", int("9" * 299)),
        ("1e400", "double", float("inf")),
        ("-1" + "0" * 5000, "float", float("-inf")),
        ("5.", "decimal", 5.0),
        ("-.5", "decimal", -0.5),
        ("5e-1", "double", 0.5),
        ("1E2", "float", 100.0),
        ("INF", "double", float("inf")),
        ("+INF", "float", float("inf")),
        ("-INF", "double", float("-inf")),
        ("1e-400", "double", 0.0),
        ("1", "boolean", (True,)),
        (" false ", "boolean", (False,)),
    ],
)
def test_typed_values(text: str, datatype: str, value: object) -> None:
    [[alone]] = values(select({"x": cell(text, datatype=XSD + datatype)}))
    [[mixed, _]] = values(select({"x": cell(text, datatype=XSD + datatype)}, {"x": cell("a")}))
    assert alone == mixed == value
    assert type(alone) is type(mixed) is type(value)


@each(
    ("text", "datatype"),
    [
        *(
            (text, "integer")
            for text in (
                "",
                "+",
                "1.0",
                "1_0",
                "0x1",
                "1 0",
                "٣",
                "1e2",
                "- 1",
                "+-5",
                "9" * 300,
            )
        ),
        *((text, "decimal") for text in ("", ".", "1e2", "INF", "NaN", "1_0.0", "9" * 400, "9.0.", "٣.٣")),
        *(
            (text, "double")
            for text in ("NaN", "nan", "inf", "Infinity", "infinity", "+-1", "1e", "0x1p3", "1\x0b")
        ),
        *((text, "boolean") for text in ("", "True", "TRUE", "yes", "2", "01")),
        *((text, "date") for text in ("2024-01-01", "5")),
        ("P1D", "duration"),
        ("5", "Integer"),
    ],
)
def test_other_values_are_text(text: str, datatype: str) -> None:
    terms = [cell(text, datatype=XSD + datatype), cell("7", datatype=XSD + datatype)]
    assert values(select({"x": terms[0]})) == [[text]]
    assert values(select(*({"x": term} for term in terms)))[0][0] == text


@each(
    ("output", "problem"),
    [
        ("", "line 1"),
        ("Error: timeout", "line 1"),
        ('@prefix : <urn:x> . :a :b "c" .', "line 1"),
        (b'{"head": "\xff"}', "line 1"),
        ('{"head": "\ud800"}', "line 1"),
        ("[" * 100_000, "line 1"),
        ("5", "expected an object, got int"),
        ([], "expected an object, got list"),
        (None, "expected an object, got NoneType"),
        ({}, "head: missing"),
        ({"boolean": True}, "head: missing"),
        ({"head": [], "boolean": True}, "head: expected an object, got list"),
        ({"head": {}, "boolean": None}, "boolean: expected a boolean, got NoneType"),
        ({"head": {}, "boolean": 1}, "boolean: expected a boolean, got int"),
        ({**select(), "boolean": True}, "both boolean and results"),
        ({"head": {}, "results": {"bindings": []}}, "head.vars: missing"),
        ({"head": {"vars": "x"}, "results": {"bindings": []}}, "head.vars: expected an array, got str"),
        (select(names=["x", 5]), "head.vars[1]: expected a string, got int"),
        (select(names=[[]]), "head.vars[0]: expected a string, got list"),
        ({"head": {"vars": []}}, "results: missing"),
        ({"head": {"vars": []}, "results": []}, "results: expected an object, got list"),
        ({"head": {"vars": []}, "results": {}}, "results.bindings: missing"),
        (
            {"head": {"vars": []}, "results": {"bindings": {}}},
            "results.bindings: expected an array, got dict",
        ),
        (select({}, []), "results.bindings[1]: expected an object, got list"),
        (select("", names=[]), "results.bindings[0]: expected an object, got str"),
        (select({"x": None}), "results.bindings[0].x: expected an object, got NoneType"),
        (select({"x": "a"}), "results.bindings[0].x: expected an object, got str"),
        (select({"x": [cell("a")]}), "results.bindings[0].x: expected an object, got list"),
        (select({"x": {}}), "results.bindings[0].x.value: missing"),
        (select({"x": cell("a")}, {"x": cell(5)}), "results.bindings[1].x.value: expected a string, got int"),
        (select({"x": cell(None)}, {}), "results.bindings[0].x.value: expected a string, got NoneType"),
        (select({"x": cell({"value": "a"})}), "results.bindings[0].x.value: expected a string, got dict"),
        (select({"x": cell("a", datatype=5)}), "results.bindings[0].x.datatype: expected a string, got int"),
        (
            select({"x": cell("a", datatype=[])}),
            "results.bindings[0].x.datatype: expected a string, got list",
        ),
        (select({"x": {"type": "triple", "value": {"s": "\ud800"}}}), "results.bindings[0].x.value: "),
        (select({"x": {"type": "triple", "value": {1: "s"}}}), "results.bindings[0].x.value: "),
    ],
)
def test_malformed(output: Any, problem: str) -> None:
    with pytest.raises(MalformedStep) as error:
        read_results(output)
    assert str(error.value).startswith("not SPARQL JSON: ")
    assert problem in str(error.value)


def test_deep_triple_is_malformed() -> None:
    triple: dict[str, Any] = {}
    for _ in range(900):
        triple = {"subject": triple}
    with pytest.raises(MalformedStep, match=r"results\.bindings\[0\]\.x\.value"):
        read_results(json.dumps(select({"x": {"type": "triple", "value": triple}})))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["head", "vars", "results", "bindings", "x", "value", "type"]), inner
        )
    ),
    max_leaves=8,
)
TERMS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["uri", "literal", "triple"]),
        "value": st.sampled_from(["5", "INF", "\ud800"]) | JSON,
    },
    optional={"datatype": st.sampled_from([f"{XSD}integer", f"{XSD}double", None]) | JSON},
)
ROWS = st.lists(
    st.dictionaries(st.sampled_from(["x", "y", "z"]), TERMS | JSON, max_size=2) | JSON, max_size=3
)
OUTPUTS = JSON | st.builds(lambda rows: select(*rows, names=["x", "y"]), ROWS)


@settings(deadline=None)
@given(OUTPUTS)
def test_only_malformed_step_is_raised(output: Any) -> None:
    with suppress(MalformedStep):
        read_results(output)


GOOD_TERMS = st.builds(
    cell,
    st.sampled_from(["5", "5.0", "x", "true", " 1 ", "INF", "\ud800"]),
    datatype=st.sampled_from([None, f"{XSD}integer", f"{XSD}double", f"{XSD}boolean", "urn:other"]),
)


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(["x", "y"]), GOOD_TERMS), max_size=5))
def test_fast_and_careful_reading_agree(rows: list[dict[str, Any]]) -> None:
    """A variable that is not listed makes it read the others with care."""
    other = {"other": cell("a")}
    bulk = read_results(select(*rows, {}, names=["x", "y"]))
    careful = read_results(select(*rows, other, names=["x", "y"]))
    for one, two in zip(bulk.columns, careful.columns, strict=True):
        assert list(one.cells()) == list(two.cells())
