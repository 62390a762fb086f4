"""Results in JSON, XML, CSV and TSV on either side."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphrag_eval_async import Evaluator, ReferenceDataError, load_reference, run_evaluation_sync
from graphrag_eval_async.errors import ComparisonBudgetExceeded
from graphrag_eval_async.records.shapes import CSV, SPARQL_RESULTS, TSV, XML
from tests.steps.results import XSD, cell, read_results, select
from tests.steps.test_failure import templates
from tests.steps.test_sparql_oracle import encode
from tests.steps.test_sparql_tables import to_csv, to_tsv, to_xml
from tests.support.cpu import affordable

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


def test_which_json_is_results() -> None:
    ask = '{"boolean": true, "head": {"link": []}}'
    assert scored({"head": {}, "boolean": True}, "true", None) == 1
    assert scored('{"head": {}, "boolean": true}', ask, "application/json") == 1
    assert scored({"head": [], "boolean": True}, "true", None) == 0
    for csv in ("true", "TRUE\r\n", "_askResult\r\ntrue\r\n", "```\ntrue\n```", True):
        assert scored({"head": {}, "boolean": True}, csv, None) == 1
    assert scored(encode(TABLE, NAMES), encode(TABLE, "abc"), "text/plain") == 0


def scored(output: Any, actual: Any, media_type: str | None) -> Any:
    reference = load_reference(templates([step_of(media_type, output)]), strict=True)
    step = {"name": "sparql_query", "output": actual}
    [result] = run_evaluation_sync(reference, [{"question_id": "q", "actual_steps": [step]}])
    return result["steps_score"]


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


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE s [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{n + 1} "{f"&a{n or str()};" * 10}">' for n in range(12))
    + "]><sparql><head/><boolean>&a12;</boolean></sparql>"
)


CELL = cell("a")


@pytest.mark.parametrize(
    ("media_type", "output", "wanted"),
    [
        (XML, "<sparql>", "output: not SPARQL XML"),
        (XML, BOMB, "output: not SPARQL XML: declares a document type"),
        (TSV, "a\tb\n", "output: not SPARQL TSV"),
        (CSV, "a,b\n1\n", "output: .*expected 2 cells, got 1"),
        (CSV, [], "output: expected the text of text/csv, got list"),
        (SPARQL_RESULTS, "Error: timeout", "output: not SPARQL JSON: it is no JSON object"),
        (SPARQL_RESULTS, '{"head": "', "output: not JSON: .*line 1"),
        (SPARQL_RESULTS, {"head": {}, "boolean": 1}, "JSON: boolean: expected bool, got int"),
        (SPARQL_RESULTS, {**select(), "boolean": True}, "not SPARQL JSON: both boolean and results"),
        (SPARQL_RESULTS, {"head": {"vars": []}}, "not SPARQL JSON: results is missing; write it as {"),
        (SPARQL_RESULTS, select(names=["x", "x"]), "not SPARQL JSON: head.vars: 'x' is listed twice"),
        (SPARQL_RESULTS, select({"y": CELL}), "not SPARQL JSON: .*'y' is bound but not among head.vars"),
        (SPARQL_RESULTS, select({}, {"x": None}), r"bindings\[1\].x: expected object, got null; write"),
    ],
)
def test_invalid_references(media_type: str, output: Any, wanted: str) -> None:
    with affordable(2**20), pytest.raises(ReferenceDataError, match=wanted):
        load_reference(templates([step_of(media_type, output)]))


async def test_entity_bombs_in_actual_outputs_score_0() -> None:
    with affordable(2**20):
        assert (await score(step_of(SPARQL_RESULTS, encode(TABLE, NAMES)), BOMB))["steps_score"] == 0


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


ASK = '{"head": {}, "boolean": true}'


def test_sparse_tables_are_refused() -> None:
    rows = [{f"v{index % 4000}": CELL} for index in range(8000)]
    with pytest.raises(ComparisonBudgetExceeded, match=r"4000 columns of 8000 rows: too sparse"):
        read_results(select(*rows, names=[f"v{index}" for index in range(4000)]))
    assert len(read_results(select(*rows, names=[f"v{index}" for index in range(50)])).columns) == 50


def test_triples_of_xml_are_those_of_json() -> None:
    names = ("subject", "predicate", "object")
    triple = {"type": "triple", "value": {name: {"type": "uri", "value": f"urn:{name}"} for name in names}}
    parts = "".join(f"<{name}><uri>urn:{name}</uri></{name}>" for name in names[::-1])
    row = f"<result><binding name='x'><triple>{parts}</triple></binding></result>"
    text = f"<sparql><head><variable name='x'/></head><results>{row}</results></sparql>"
    assert scored(encode([[triple]], "x"), text, SPARQL_RESULTS) == 1
    assert scored(encode([[triple]], "x"), text.replace("<uri>urn:object", "<uri>urn:o"), SPARQL_RESULTS) == 0
