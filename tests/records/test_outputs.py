from __future__ import annotations

from typing import Any

from graphrag_eval_async.records.outputs import is_empty
from tests.cases import each
from tests.cpu import affordable


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
        (r'{"results":{"b\u0069ndings":[]}}', True),
        ('{"results":{"bindings":[1]},"bindings":[]}', False),
        ('{"results":[],"x":{"bindings":[]}}', False),
        ('{"head":{},"boolean":false}', False),
        (r'"\\' + "[" * 100_000 + "]" * 100_000, False),
        ("[" * 100_000 + " ]" * 100_000, False),
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


def test_bindings_repeated_before_the_first_row_take_linear_time() -> None:
    text = '"bindings"' * 400_000 + "{"
    with affordable(len(text)):
        assert is_empty(text) is False
