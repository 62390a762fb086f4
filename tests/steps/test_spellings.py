"""Numbers and texts that are written in several ways, through the public surface."""

from __future__ import annotations

import json
from typing import Any

from graphrag_eval_async import run_evaluation_sync
from tests.support.cases import each

XSD = "http://www.w3.org/2001/XMLSchema#"
SPARQL = "application/sparql-results+json"


def results(*values: str | tuple[str, str]) -> str:
    """SPARQL results with one variable: plain literals, or literals of a type."""
    terms: list[dict[str, str]] = [
        {"type": "literal", "value": value}
        if isinstance(value, str)
        else {"type": "literal", "value": value[0], "datatype": XSD + value[1]}
        for value in values
    ]
    return json.dumps({"head": {"vars": ["x"]}, "results": {"bindings": [{"x": term} for term in terms]}})


def score(expected: str, output: Any, media_type: str = SPARQL, **how: Any) -> float:
    step = {"name": "query", "output": expected, "output_media_type": media_type} | how
    question = {"id": "q", "question_text": "?", "reference_steps": [[step]]}
    actual = {"name": "query", "id": "1", "status": "success", "output": output}
    [result] = run_evaluation_sync(
        [{"template_id": "t", "questions": [question]}], [{"question_id": "q", "actual_steps": [actual]}]
    )
    return float(result["steps_score"])


@each(
    ("expected", "output", "how", "wanted"),
    [
        (results("0123", "2"), "id,code\n123,0123\n2,b\n", {}, 0),
        (results("0123", "2"), "id,code\n1,0123\n2,2\n", {}, 1),
        (results("0123", "2"), '[{"id": "123"}, {"id": "0123"}]', {}, 0),
        (results("1.0", "1"), '[{"x": "1"}, {"x": "1.0"}]', {"ordered": True}, 0),
        (results("1.0", "1"), '[{"x": "1"}, {"x": "1.0"}]', {"ordered": True, "score": "f1"}, 0.5),
        (results("1.0", "1.0"), '[{"x": "1.0"}, {"x": "1"}]', {"ignore_duplicates": False}, 0),
        (results(("123", "integer"), "0123"), "id\n123\n0123\n", {}, 1),
        (results(("5", "integer")), "x\n5.0\n", {}, 1),
        (results(("18446744073709551616", "integer")), '[{"x": 18446744073709551616}]', {}, 1),
    ],
)
def test_untyped_numbers_agree_by_value_with_numbers_alone(
    expected: str, output: str, how: dict[str, Any], wanted: float
) -> None:
    assert score(expected, output, **how) == wanted


@each("how", [{}, {"ignore_duplicates": False}])
def test_each_cell_has_one_reading_from_both_sides(how: dict[str, Any]) -> None:
    """Otherwise the boolean 1, written as 1, would make the text true equal to 1."""
    typed, untyped = results(("1", "boolean"), "1.00", "true"), "|x|\n|---|\n|1|\n|true|"
    assert score(typed, untyped, score="f1", **how) == 0.8
    assert score("x\n1\ntrue\n", typed, "text/csv", score="f1", **how) == 0.8
    two, other = results(("5", "integer"), "5"), '[{"x": "5.0"}, {"x": "5"}]'
    assert score(two, other, **how) == score("x\n5.0\n5\n", two, "text/csv", **how) == 1
    mixed, reading = results(("1", "boolean"), ("1", "integer")), "|x|\n|---|\n|true|\n|1|"
    assert score(mixed, reading, **how) == score("x\n1\ntrue\n", mixed, "text/csv", **how) == 1


def test_long_integers_of_graphs_agree_by_value() -> None:
    def triple(text: str, kind: str = "integer") -> str:
        return f'<urn:s> <urn:p> "{text}"^^<{XSD}{kind}> .'

    long = "1234567890123456789012"
    for other in (triple(long, "long"), triple(f"+{long}"), triple(f"00{long}")):
        assert score(triple(long), other, "text/turtle") == 1
    assert score(triple("0" * 30 + "5"), triple("5"), "text/turtle") == 1
    assert score(triple(long), triple(f"{long[:-1]}3"), "text/turtle") == 0


def test_long_integers_of_json_keep_their_digits() -> None:
    assert score("head\n123456789012345678901\n", '[{"head": 123456789012345678901}]', "text/csv") == 1
    long = results(("12345678901234567890", "integer"))
    assert score(long, '[{"head": "a", "x": 12345678901234567890}]') == 1
    assert score(long, '[{"head": "a", "x": 12345678901234567891}]') == 0


def test_a_byte_order_mark_before_a_reference() -> None:
    assert score(f"\ufeff{results('x')}", results("x")) == 1


def test_xml_with_more_than_one_value_for_a_variable_or_the_text_of_a_document_type() -> None:
    def xml(row: str, namespace: str = "http://www.w3.org/2005/sparql-results#") -> str:
        head = '<head><variable name="a"/></head>'
        return f'<sparql xmlns="{namespace}">{head}<results><result>{row}</result></results></sparql>'

    def binding(text: str) -> str:
        return f'<binding name="a"><literal>{text}</literal></binding>'

    assert score(results("x"), xml(binding("x"))) == 1
    assert score(results("x"), xml(binding("wrong") + binding("x"))) == 0
    assert score(results("x"), xml(binding("x"), "urn:other")) == 0
    assert score(results("<!DOCTYPE x>"), xml(binding("<![CDATA[<!DOCTYPE x>]]>"))) == 1
    declared = '<!DOCTYPE sparql [<!ENTITY e "x">]>'
    for before in ("", " \n", "<!-- <a> -->", "<?p <a ?>", '<?xml version="1.0"?>\n<!----> <?p?>'):
        assert score(results("x"), f"{before}{xml(binding('x'))}") == 1
        assert score(results("x"), f"{before}{declared}{xml(binding('&e;'))}") == 0
