"""Which outputs of queries hold no row."""

from __future__ import annotations

from typing import Any

import pytest

from graphrag_eval_async.records.outputs import is_empty, returned_nothing
from tests.support.cpu import affordable

SPARQL_XML = '<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/>'
EMPTY: dict[str, Any] = {
    "text of a list": "\n[ \t]\r\n",
    "list": [],
    "results": {"results": {"bindings": []}},
    "SPARQL JSON": '{"head":{"vars":[]},"results":{"bindings":[]}}',
    "query API": '{"data":{"fields":["a"],"values":[]}}',
    "query API with bookmarks": (
        '{ "data": {"fields" : ["count(*)", "b"], "values": [ ] }, "bookmarks": []}'
    ),
    "query API as an object": {"data": {"fields": ["a"], "values": []}},
    "SPARQL XML": f"\ufeff\n{SPARQL_XML}<results ordered='true'>\n</results></sparql>",
    "SPARQL XML with a prefix": (
        SPARQL_XML.replace("<", "<s:").replace("xmlns", "xmlns:s") + "<s:results/>"
    ),
    "TSV header": "?a\n",
    "TSV header of two columns": "?a\t$b\r\n",
    "TSV header without a line end": "?a\t?b",
}
NOT_EMPTY: dict[str, Any] = {
    "list of a space": "[\u00a0]",
    "list of a list": "[[]]",
    "open list": "[",
    "empty text": "",
    "surrogate": "\ud800[]",
    "text that looks like bindings": r'"\"bindings\":[]"',
    "deep list": "[" * 100_000 + " ]" * 100_000,
    "SPARQL JSON with a row": '{"head":{"link":[]},"results":{"bindings":[{"a":{"value":"[]"}}]}}',
    "query API with a row": '{"data":{"fields":["a"],"values":[[[]]]}}',
    "query API without fields": '{"data":{"values":[]}}',
    "object without fields": {"data": {"values": []}},
    "SPARQL XML with a row": f"{SPARQL_XML}<results><result/></results></sparql>",
    "SPARQL XML of ASK": f"{SPARQL_XML}<boolean>false</boolean></sparql>",
    "XML alone": "<results/>",
    "TSV with a blank row": "?a\n\n",
    "TSV with a row": "?a\t?b\n1\t\n",
    "question mark and space": "? a",
    "CSV header": "a,b\n",
    "bindings of an object": {"results": {"bindings": {}}},
    "results of null": {"results": None},
    "object": {},
    "number": 0,
    "null": None,
}


@pytest.mark.parametrize("output", EMPTY.values(), ids=EMPTY)
def test_empty_outputs(output: Any) -> None:
    assert is_empty(output) is True


@pytest.mark.parametrize("output", NOT_EMPTY.values(), ids=NOT_EMPTY)
def test_outputs_that_are_not_empty(output: Any) -> None:
    assert is_empty(output) is False


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("a\n", id="header"),
        pytest.param('"a","b"\r\n\r\n', id="quoted header"),
        pytest.param("[]", id="JSON list"),
        pytest.param("a\n1\n", id="header and row"),
        pytest.param("true\n", id="boolean"),
        pytest.param("", id="nothing"),
        pytest.param("?a\n\n", id="header of TSV"),
        pytest.param('{"head": {}}', id="JSON object"),
        pytest.param(["a"], id="list"),
    ],
)
def test_a_header_alone_is_empty_if_it_is_said_to_be_csv(output: Any) -> None:
    expected = output in ("a\n", '"a","b"\r\n\r\n', "[]")
    assert returned_nothing({"output": output, "output_media_type": "text/csv"}) is expected


def test_the_recorded_output_counts_before_that_of_the_query() -> None:
    empty, full = '{"results": {"bindings": []}}', '{"results": {"bindings": [{}]}}'
    assert returned_nothing({"output": None, "executed_output": empty})
    assert not returned_nothing({"output": full, "executed_output": empty})
    assert not returned_nothing({})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SPARQL_XML + "<a:" * 400000 + "<results " * 100000, id="SPARQL XML"),
        pytest.param('"bindings"' * 400000 + "{", id="SPARQL JSON"),
        pytest.param('{"data":{"fields":[' + " " * 400000, id="table of a frame"),
    ],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    with affordable(len(text)):
        assert is_empty(text) is False
