"""Results in JSON, XML, CSV and TSV on either side."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphrag_eval_async import (
    Evaluator,
    GraphragEvalWarning,
    ReferenceDataError,
    load_reference,
    run_evaluation_sync,
)
from graphrag_eval_async.records.shapes import CSV, MEDIA_TYPES, SPARQL_RESULTS, TSV, XML
from tests.cases import each
from tests.cpu import affordable
from tests.steps.test_failure import templates
from tests.steps.test_sparql_oracle import XSD, encode
from tests.steps.test_sparql_tables import to_csv, to_tsv, to_xml

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from tests.steps.test_sparql_oracle import Table

NAMES = ["station", "kv", "since"]
TABLE: Table = [
    [
        {"type": "uri", "value": "urn:grid:bergheim"},
        {"type": "literal", "value": "380.0", "datatype": f"{XSD}decimal"},
        {"type": "literal", "value": 'in, "full"\tservice'},
    ],
    [
        {"type": "uri", "value": "urn:grid:lindau"},
        {"type": "literal", "value": "110", "datatype": f"{XSD}integer"},
        None,
    ],
    [
        {"type": "bnode", "value": "b0"},
        {"type": "literal", "value": "true", "datatype": f"{XSD}boolean"},
        {"type": "literal", "value": "Straße & <Weg>", "xml:lang": "de"},
    ],
]


FORMATS: dict[str, Callable[[Table, Sequence[str]], str]] = {
    SPARQL_RESULTS: encode,
    XML: to_xml,
    CSV: to_csv,
    TSV: to_tsv,
}


def step_of(media_type: str | None, output: Any, **keys: Any) -> dict[str, Any]:
    return {"name": "sparql_query", "output_media_type": media_type, "output": output, **keys}


async def score(reference: dict[str, Any], output: Any, *, config: Any = None, **keys: Any) -> dict[str, Any]:
    step = {"name": "sparql_query", "status": "success", "output": output, **keys}
    evaluator = Evaluator(templates([reference]), config=config)
    return await evaluator.evaluate({"question_id": "q", "actual_steps": [step]})


@pytest.mark.parametrize(("ours", "theirs"), [*product(FORMATS, FORMATS)])
async def test_every_format_against_every_other(ours: str, theirs: str) -> None:
    reference = step_of(ours, FORMATS[ours](TABLE, NAMES))
    turned = [row[::-1] for row in TABLE[::-1]]
    text = FORMATS[theirs](turned, "cba")
    for output in (text, {"result": text}, json.dumps({"result": text}), json.dumps(text)):
        for media_type in (ours, f"{ours.upper()} ; charset=utf-8"):
            step = reference | {"output_media_type": media_type}
            assert (await score(step, output))["steps_score"] == 1, output
    wrong = [[*row] for row in TABLE]
    wrong[1][1] = {"type": "literal", "value": "220", "datatype": f"{XSD}integer"}
    assert (await score(reference, FORMATS[theirs](wrong, NAMES)))["steps_score"] == 0
    result = await score(reference | {"score": "f1"}, FORMATS[theirs](wrong, NAMES))
    assert result["steps_score"] == 8 / 9
    assert result["reference_steps"][0][0]["diff"] == [
        {"kind": "wrong_value", "row": 1, "column": "kv", "expected": "110", "actual": "220"}
    ]
    assert result["failure"] == "wrong_values"


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.randoms(use_true_random=True))
async def test_formats_agree_on_random_tables(rng: random.Random) -> None:
    """Whichever typed formats are used, the scores are those of JSON against JSON."""
    palette = [None, *(term for row in TABLE for term in row)]
    table = [[rng.choice(palette) for _ in NAMES] for _ in range(rng.randrange(5))]
    other = [[rng.choice([term, term, term, rng.choice(palette)]) for term in row] for row in table]
    how: dict[str, Any] = {"ignore_duplicates": rng.random() < 0.5, "score": rng.choice(["exact", "f1"])}
    wanted = await score(step_of(SPARQL_RESULTS, encode(table, NAMES), **how), encode(other, NAMES))
    for ours, theirs in product((XML, TSV), (SPARQL_RESULTS, XML, TSV)):
        found = await score(step_of(ours, FORMATS[ours](table, NAMES), **how), FORMATS[theirs](other, NAMES))
        assert found["steps_score"] == wanted["steps_score"], (ours, theirs)
    keys = {**how, "output": encode(table, NAMES)}
    for media_type, as_dict in product((None, "application/json"), (False, True)):
        step = keys | {"output": json.loads(keys["output"])} if as_dict else keys
        found = await score(step_of(media_type, **step), encode(other, "cba"))
        assert found["steps_score"] == wanted["steps_score"], (media_type, as_dict)
        assert found["reference_steps"][0][0]["output"] == step["output"]


@each(
    ("output", "actual", "media_type", "expected"),
    [
        ({"head": {}, "boolean": True}, "true", None, 1),
        ('{"head": {}, "boolean": true}', '{"boolean": true, "head": {"link": []}}', "application/json", 1),
        (encode(TABLE, NAMES), encode(TABLE, "abc"), "text/plain", 0),
        (encode(TABLE, NAMES), encode(TABLE, NAMES), "text/plain", 1),
        ('{"results": {"bindings": []}}', '{"results": {"bindings": []}, "head": {}}', "application/json", 0),
        ({"head": [], "boolean": True}, {"head": [], "boolean": True}, None, 1),
        ({"head": [], "boolean": True}, "true", None, 0),
        ('{"head": {}, "boolean": 1}', '{"head": {}, "boolean": 1.0}', "application/json", 1),
    ],
)
def test_which_json_is_results(output: Any, actual: Any, media_type: str | None, expected: int) -> None:
    reference = load_reference(templates([step_of(media_type, output)]), strict=True)
    step = {"name": "sparql_query", "output": actual}
    [result] = run_evaluation_sync(reference, [{"question_id": "q", "actual_steps": [step]}])
    assert result["steps_score"] == expected


def test_results_with_a_flaw_are_refused_whatever_json_they_are() -> None:
    flawed = {"head": {"vars": ["a"]}, "results": {"bindings": ["no row"]}}
    for media_type in (None, "application/json"):
        with pytest.raises(ReferenceDataError, match=r"output: not SPARQL JSON: results.bindings\[0\]"):
            load_reference(templates([step_of(media_type, flawed)]))


# CSV has no types.

BY_VALUE: list[tuple[str, dict[str, str], bool]] = [
    ("5.0", {"value": "5", "datatype": f"{XSD}integer"}, True),
    ("5e0", {"value": "5", "datatype": f"{XSD}integer"}, True),
    ("1.000000001", {"value": "1.0", "datatype": f"{XSD}double"}, True),
    ("5", {"value": "05"}, False),
    ("5", {"value": "5"}, True),
    ("true", {"value": "1", "datatype": f"{XSD}boolean"}, True),
    ("true", {"value": "true", "datatype": f"{XSD}boolean"}, True),
    ("false", {"value": "1", "datatype": f"{XSD}boolean"}, False),
    ("true", {"value": "true"}, True),
    ("2024-01-01", {"value": "2024-01-01", "datatype": f"{XSD}date"}, True),
    ("urn:x", {"type": "uri", "value": "urn:x"}, True),
]


@pytest.mark.parametrize(("text", "term", "same"), BY_VALUE)
async def test_csv_is_compared_by_value_where_the_other_side_is_typed(
    text: str, term: dict[str, str], same: bool
) -> None:
    typed = encode([[{"type": "literal"} | term]], "a")
    assert (await score(step_of(CSV, f"a\r\n{text}\r\n"), typed))["steps_score"] == same
    assert (await score(step_of(SPARQL_RESULTS, typed), f"a\r\n{text}\r\n"))["steps_score"] == same


async def test_csv_against_csv_compares_numbers_by_value() -> None:
    for ours, theirs, same in (("5", "5.0", True), ("5", "6", False), ("x", "x", True), ("x", "y", False)):
        found = await score(step_of(CSV, f"a\n{ours}\n"), f"b\n{theirs}\n")
        assert found["steps_score"] == same, (ours, theirs)


async def test_strict_types_refuse_csv_only_where_the_reference_is_typed() -> None:
    strict = {"steps": {"strict_types": True}}
    text = to_csv(TABLE, NAMES)
    for media_type, output in ((SPARQL_RESULTS, encode(TABLE, NAMES)), (XML, to_xml(TABLE, NAMES))):
        assert (await score(step_of(media_type, output), text, config=strict))["steps_score"] == 0
        assert (await score(step_of(CSV, text), output, config=strict))["steps_score"] == 1
    assert (await score(step_of(CSV, text), text, config=strict))["steps_score"] == 1


async def test_a_header_alone_is_csv_if_the_step_says_so() -> None:
    empty = step_of(SPARQL_RESULTS, encode([], "a"))
    assert (await score(empty, "a"))["steps_score"] == 0
    assert (await score(empty, "a", output_media_type=CSV))["steps_score"] == 1
    assert (await score(step_of(CSV, "a\n"), encode([], "a")))["steps_score"] == 1
    # What is said to be CSV and is not is read as what it is.
    assert (await score(empty, to_xml([], "a"), output_media_type=CSV))["steps_score"] == 1


async def test_ask_results_in_xml() -> None:
    def ask(value: str) -> str:
        return (
            '<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/>'
            f"<boolean>{value}</boolean></sparql>"
        )

    reference = step_of(XML, ask("true"))
    assert (await score(reference, '{"head": {}, "boolean": true}'))["steps_score"] == 1
    assert (await score(reference, ask("false")))["steps_score"] == 0


# References that are wrong

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE s [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{n + 1} "{f"&a{n or str()};" * 10}">' for n in range(12))
    + "]><sparql><head/><boolean>&a12;</boolean></sparql>"
)


@pytest.mark.parametrize(
    ("media_type", "output", "wanted"),
    [
        (XML, "<sparql>", "output: not SPARQL XML"),
        (XML, "a\n1\n", "output: not SPARQL XML"),
        (XML, BOMB, "output: not SPARQL XML: declares a document type"),
        (XML, encode(TABLE, NAMES), "output: not SPARQL XML"),
        (TSV, "a\tb\n", "output: not SPARQL TSV"),
        (TSV, to_csv(TABLE, NAMES), "output: not SPARQL TSV"),
        (CSV, "Two stations, Bergheim and Lindau.", "output: .*as CSV"),
        (CSV, "a,b\n1\n", "output: .*expected 2 cells, got 1"),
        (CSV, "", "output: .*as CSV: empty, a header is missing"),
        (CSV, "\r\n", "output: .*as CSV: empty, a header is missing"),
        (CSV, [], "output: expected the text of SPARQL CSV, got list"),
        (TSV, None, "output: missing"),
        (CSV, "a,a\n", "output: a column is repeated"),
    ],
)
def test_invalid_references(media_type: str, output: Any, wanted: str) -> None:
    with affordable(2**20), pytest.raises(ReferenceDataError, match=wanted):
        load_reference(templates([step_of(media_type, output)]))


async def test_entity_bombs_in_actual_outputs_score_0() -> None:
    with affordable(2**20):
        assert (await score(step_of(SPARQL_RESULTS, encode(TABLE, NAMES)), BOMB))["steps_score"] == 0


def test_required_columns_of_other_formats() -> None:
    for media_type, write in FORMATS.items():
        load_reference(templates([step_of(media_type, write(TABLE, NAMES), required_columns=["kv"])]))
        with pytest.raises(ReferenceDataError, match="required_columns: not among the variables"):
            load_reference(templates([step_of(media_type, write(TABLE, NAMES), required_columns=["x"])]))


def test_the_media_types_are_known(recwarn: pytest.WarningsRecorder) -> None:
    assert {*FORMATS} < {*MEDIA_TYPES}
    load_reference(templates([step_of(kind, write(TABLE, NAMES)) for kind, write in FORMATS.items()]))
    assert not [each for each in recwarn if issubclass(each.category, GraphragEvalWarning)]


EMPTY: Table = [
    [{"type": "literal", "value": "Bergheim"}, {"type": "literal", "value": ""}],
    [{"type": "literal", "value": "Lindau"}, None],
    [{"type": "literal", "value": "Selb"}, {"type": "literal", "value": "old"}],
]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("ours", "theirs"), [*product(FORMATS, FORMATS)])
async def test_empty_cells_of_csv_are_unbound_or_empty_texts(ours: str, theirs: str, exact: bool) -> None:
    reference = step_of(ours, FORMATS[ours](EMPTY, "ab")) | ({} if exact else {"score": "f1"})
    assert (await score(reference, FORMATS[theirs](EMPTY, "ab")))["steps_score"] == 1
    swapped = [[row[0], other[1]] for row, other in zip(EMPTY, [EMPTY[1], EMPTY[0], EMPTY[2]], strict=True)]
    result = await score(reference, FORMATS[theirs](swapped, "ab"))
    if CSV in (ours, theirs):
        assert result["steps_score"] == 1
    else:
        assert result["steps_score"] == (0 if exact else 2 / 3)


async def test_differences_from_csv_are_those_that_count() -> None:
    output = to_csv([EMPTY[1], [EMPTY[2][0], EMPTY[1][1]]], "ab")
    result = await score(step_of(SPARQL_RESULTS, encode(EMPTY, "ab"), score="f1"), output)
    assert result["steps_score"] == pytest.approx(3 / 5)
    assert result["reference_steps"][0][0]["diff"] == [
        {"kind": "missing_row", "row": {"a": "Bergheim", "b": None}},
        {"kind": "wrong_value", "row": 1, "column": "b", "expected": "old", "actual": None},
    ]


@pytest.mark.parametrize("keys", [{}, {"required_columns": ["b"]}, {"ordered": True}])
async def test_a_column_of_empty_texts_equals_an_empty_one_of_csv(keys: dict[str, Any]) -> None:
    table: Table = [[row[0], EMPTY[0][1]] for row in EMPTY]
    for ours, theirs in ((SPARQL_RESULTS, CSV), (CSV, TSV), (CSV, CSV)):
        for more in ({}, {"score": "f1"}):
            reference = step_of(ours, FORMATS[ours](table, "ab"), **keys, **more)
            assert (await score(reference, FORMATS[theirs](table, "xy")))["steps_score"] == 1
            if "required_columns" not in keys:
                narrow = [row[:1] for row in table]
                found = (await score(reference, FORMATS[theirs](narrow, "x")))["steps_score"]
                assert found == (0.5 if more else 0)


ROWS: Table = [[{"type": "literal", "value": "x"}, {"type": "literal", "value": "1\r\n2"}]]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('?a,?b\r\nx,"1\r\n2"\r\n', {}),
        ('\ufeff?a,$b\nx,"1\r\n2"\n\n', {"output_media_type": CSV}),
        ('```csv\n"a","b"\n"x","1\r\n2"\n```', {}),
    ],
)
async def test_spellings_of_csv(text: str, keys: dict[str, Any]) -> None:
    assert (await score(step_of(SPARQL_RESULTS, encode(ROWS, "ab")), text, **keys))["steps_score"] == 1
    if "```" not in text:
        assert (await score(step_of(CSV, text), encode(ROWS, "ab")))["steps_score"] == 1


async def test_one_column_with_a_question_mark_is_csv_if_the_step_says_so() -> None:
    reference = step_of(SPARQL_RESULTS, encode([[ROWS[0][0]]], "a"))
    assert (await score(reference, "?a\nx\n", output_media_type=CSV))["steps_score"] == 1
    assert (await score(reference, '?a\n"x"\n', output_media_type=CSV))["steps_score"] == 1
    assert (await score(reference, "?a\nx\n"))["steps_score"] == 0


async def test_blank_nodes_of_csv_have_the_labels_of_typed_results() -> None:
    table: Table = [[{"type": "bnode", "value": "b0"}]]
    for ours, theirs in product((SPARQL_RESULTS, XML, TSV), repeat=2):
        text = "a\r\n_:b0\r\n"
        assert (await score(step_of(ours, FORMATS[ours](table, "a")), text))["steps_score"] == 1
        assert (await score(step_of(CSV, text), FORMATS[theirs](table, "a")))["steps_score"] == 1


ASK = '{"head": {}, "boolean": true}'


@pytest.mark.parametrize("true", ["true", "TRUE\r\n", "_askResult\r\ntrue\r\n", "```\ntrue\n```", True])
async def test_ask_in_csv(true: Any) -> None:
    for keys in ({}, {"output_media_type": CSV}):
        result = await score(step_of(SPARQL_RESULTS, ASK), true, **keys)
        assert result["steps_score"] == 1
        assert (await score(step_of(SPARQL_RESULTS, ASK.replace("true", "false")), true))["steps_score"] == 0
    if isinstance(true, str) and "```" not in true:
        assert (await score(step_of(CSV, true), ASK))["steps_score"] == 1
        assert (await score(step_of(CSV, true), "false"))["steps_score"] == 0
