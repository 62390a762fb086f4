from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.records.decoding import InvalidRecord, decode, nests_deeper

INTEGERS = st.integers(min_value=-(2**63), max_value=2**64 - 1)
SCALARS = (
    st.none()
    | st.booleans()
    | INTEGERS
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=30,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def reason_of(data: bytes) -> str:
    with pytest.raises(InvalidRecord) as caught:
        decode(data)
    return caught.value.reason


@given(VALUES, st.integers(min_value=1, max_value=8))
def test_what_json_writes_is_read_back(value: Any, limit: int) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    assert decode(text) == decode(b"\xef\xbb\xbf" + text) == value
    assert nests_deeper(value, limit) is (depth_of(value) > limit)


INVALID = {
    "empty": b"",
    "two objects": b'{"a": 1} {"b": 2}',
    "NaN": b'{"a": NaN}',
    "infinity": b'{"a": 1e400}',
    "long number": b'{"a": ' + b"9" * 10_000 + b"}",
    "line break in text": b'{"a": "line\nbreak"}',
    "surrogate": b'{"a": "\\ud800"}',
    "two byte order marks": b"\xef\xbb\xbf\xef\xbb\xbf[1]",
}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        *(pytest.param(data, "invalid_json", id=name) for name, data in INVALID.items()),
        pytest.param(b'{"a": "\xff"}', "invalid_utf8", id="not UTF-8"),
        pytest.param(b'{"a": "\xed\xa0\x80"}', "invalid_utf8", id="surrogate in UTF-8"),
        pytest.param(b"[" * 200_000, "too_deep", id="deep lists"),
        pytest.param(b'{"a":' * 200_000, "too_deep", id="deep objects"),
    ],
)
def test_reasons(data: bytes, reason: str) -> None:
    assert reason_of(data) == reason
