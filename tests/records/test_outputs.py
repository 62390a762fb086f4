"""Which outputs of queries hold no row."""

from __future__ import annotations

from typing import Any

from graphrag_eval_async.records.outputs import is_empty, returned_nothing
from tests.support.cases import each
from tests.support.cpu import affordable

SPARQL_XML = '<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/>'
EMPTY: list[Any] = [
    *("\n[ \t]\r\n", [], {"results": {"bindings": []}}),
    '{"head":{"vars":[]},"results":{"bindings":[]}}',
    '{"data":{"fields":["a"],"values":[]}}',
    '{ "data": {"fields" : ["count(*)", "b"], "values": [ ] }, "bookmarks": []}',
    {"data": {"fields": ["a"], "values": []}},
    f"\ufeff\n{SPARQL_XML}<results ordered='true'>\n</results></sparql>",
    SPARQL_XML.replace("<", "<s:").replace("xmlns", "xmlns:s") + "<s:results/>",
    *("?a\n", "?a\t$b\r\n", "?a\t?b"),
]
NOT_EMPTY: list[Any] = [
    *(
        "[\u00a0]",
        "[[]]",
        "[",
        "",
        "\ud800[]",
        r'"\"bindings\":[]"',
        "[" * 100_000 + " ]" * 100_000,
    ),
    '{"head":{"link":[]},"results":{"bindings":[{"a":{"value":"[]"}}]}}',
    '{"data":{"fields":["a"],"values":[[[]]]}}',
    '{"data":{"values":[]}}',
    {"data": {"values": []}},
    f"{SPARQL_XML}<results><result/></results></sparql>",
    f"{SPARQL_XML}<boolean>false</boolean></sparql>",
    *("<results/>", "?a\n\n", "?a\t?b\n1\t\n", "? a", "a,b\n"),
    *({"results": {"bindings": {}}}, {"results": None}, {}, 0, None),
]


@each(
    ("output", "expected"), [*((one, True) for one in EMPTY), *((one, False) for one in NOT_EMPTY)]
)
def test_empty_outputs(output: Any, expected: bool) -> None:
    assert is_empty(output) is expected


@each(
    "output",
    ["a\n", '"a","b"\r\n\r\n', "[]", "a\n1\n", "true\n", "", "?a\n\n", '{"head": {}}', ["a"]],
)
def test_a_header_alone_is_empty_if_it_is_said_to_be_csv(output: Any) -> None:
    expected = output in ("a\n", '"a","b"\r\n\r\n', "[]")
    assert returned_nothing({"output": output, "output_media_type": "text/csv"}) is expected


def test_the_recorded_output_counts_before_that_of_the_query() -> None:
    empty, full = '{"results": {"bindings": []}}', '{"results": {"bindings": [{}]}}'
    assert returned_nothing({"output": None, "executed_output": empty})
    assert not returned_nothing({"output": full, "executed_output": empty})
    assert not returned_nothing({})


@each(
    "text",
    [
        SPARQL_XML + "<a:" * 400000 + "<results " * 100000,
        '"bindings"' * 400000 + "{",
        '{"data":{"fields":[' + " " * 400000,
    ],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    with affordable(len(text)):
        assert is_empty(text) is False
