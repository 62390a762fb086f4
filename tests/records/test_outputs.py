from __future__ import annotations

from typing import Any

from graphrag_eval_async.records.outputs import is_empty, returned_nothing
from tests.cases import each
from tests.cpu import affordable

SPARQL_XML = '<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/>'


@each(
    ("output", "expected"),
    [
        ("[]", True),
        ("\n[ \t]\r\n", True),
        ("[\u00a0]", False),
        ("[[]]", False),
        ("[", False),
        ("", False),
        ("\ud800[]", False),
        (r'"\"bindings\":[]"', False),
        ('{"head":{"vars":[]},"results":{"bindings":[]}}', True),
        ('{"head":{"link":[]},"results":{"bindings":[{"a":{"value":"[]"}}]}}', False),
        ('{"results":{"bindings":[1]},"bindings":[]}', False),
        ('{"head":{},"boolean":false}', False),
        ("[" * 100_000 + " ]" * 100_000, False),
        (f"{SPARQL_XML}<results/></sparql>", True),
        (f"\ufeff\n{SPARQL_XML}<results ordered='true'>\n</results></sparql>", True),
        (f"{SPARQL_XML}<results><result/></results></sparql>", False),
        (f"{SPARQL_XML}<boolean>false</boolean></sparql>", False),
        (SPARQL_XML.replace("<", "<s:").replace("xmlns", "xmlns:s") + "<s:results></s:results>", True),
        ("<results/>", False),
        ("?a\n", True),
        ("?a\t$b\r\n", True),
        ("?a\t?b", True),
        ("?a\n\n", False),
        ("?a\t?b\n1\t\n", False),
        ("? a", False),
        ("a,b\n", False),
        ([], True),
        ({"results": {"bindings": []}}, True),
        ({"results": {"bindings": {}}}, False),
        ({"results": None}, False),
        ({}, False),
        (0, False),
        (None, False),
    ],
)
def test_empty_outputs(output: Any, expected: bool) -> None:
    assert is_empty(output) is expected


@each(
    ("output", "expected"),
    [
        ("a\n", True),
        ('"a","b"\r\n\r\n', True),
        ("a\n1\n", False),
        ("true\n", False),
        ("", False),
        ("?a\n\n", False),
        ('{"head": {}}', False),
        ("[]", True),
        (["a"], False),
    ],
)
def test_a_header_alone_is_empty_if_it_is_said_to_be_csv(output: Any, expected: bool) -> None:
    assert returned_nothing({"output": output, "output_media_type": "text/csv"}) is expected


def test_the_recorded_output_counts_before_that_of_the_query() -> None:
    empty, full = '{"results": {"bindings": []}}', '{"results": {"bindings": [{}]}}'
    assert returned_nothing({"executed_output": empty})
    assert returned_nothing({"output": None, "executed_output": empty})
    assert not returned_nothing({"output": full, "executed_output": empty})
    assert not returned_nothing({"executed_output": full})
    assert not returned_nothing({})


def test_xml_without_results_takes_linear_time() -> None:
    text = SPARQL_XML + "<a:" * 400_000 + "<results " * 100_000
    with affordable(len(text)):
        assert is_empty(text) is False


def test_bindings_repeated_before_the_first_row_take_linear_time() -> None:
    text = '"bindings"' * 400_000 + "{"
    with affordable(len(text)):
        assert is_empty(text) is False
