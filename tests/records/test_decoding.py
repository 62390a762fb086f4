from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.records.decoding import (
    MAX_DEPTH,
    InvalidRecord,
    _text_nests_deeper,
    decode,
    nests_deeper,
)
from tests.cases import each

INTEGERS = st.integers(min_value=-(2**63), max_value=2**64 - 1)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda children: st.lists(children) | st.dictionaries(st.text(), children), max_leaves=30
)


def nested(depth: int, opening: str = "[", core: str = "", closing: str = "]") -> bytes:
    return (opening * depth + core + closing * depth).encode()


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def reason_of(data: bytes) -> str:
    with pytest.raises(InvalidRecord) as caught:
        decode(data)
    return caught.value.reason


@given(VALUES)
def test_what_json_writes_is_read_back(value: Any) -> None:
    assert decode(json.dumps(value).encode()) == value


@given(VALUES, st.integers(min_value=1, max_value=8))
def test_depth_is_measured_as_by_recursion(value: Any, limit: int) -> None:
    assert nests_deeper(value, limit) is (depth_of(value) > limit)


@given(st.binary() | VALUES.map(lambda value: json.dumps(value).encode()), st.data())
def test_any_bytes_are_a_value_or_invalid(data: bytes, draw: st.DataObject) -> None:
    cut = data[: draw.draw(st.integers(0, len(data)))] + draw.draw(st.binary(max_size=3))
    try:
        value = decode(cut)
    except InvalidRecord as error:
        reason: str | None = error.reason
    else:
        reason = None
        assert value == json.loads(cut.decode())
    assert reason in {None, "invalid_utf8", "invalid_json", "too_deep", "invalid_field", "not_an_object"}


@each(
    ("data", "reason"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b'{"a": 1} {"b": 2}', "invalid_json"),
        (b"{'a': 1}", "invalid_json"),
        (b'{"a": NaN}', "invalid_json"),
        (b'{"a": -Infinity}', "invalid_json"),
        (b'{"a": NaN, "b": 1e400}', "invalid_json"),
        (b'{"a": 01}', "invalid_json"),
        (b'{"a": "line\nbreak"}', "invalid_json"),
        (b'{"a": "\\ud800"}', "invalid_json"),
        (b'{"a": "\xff"}', "invalid_utf8"),
        (b'{"a": "\xed\xa0\x80"}', "invalid_utf8"),
        (b"\x80" + b"[" * 1000, "invalid_utf8"),
        (b'{"a": 1e400}', "invalid_field"),
        (b'{"a": -1e400}', "invalid_field"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "invalid_field"),
        (b'{"a": -' + b"9" * 10_000 + b"}", "invalid_field"),
        (b'{"a": {"b": [[1], [[' + b"9" * 10_000 + b"]]]}}", "invalid_field"),
        (b'{"a": ' + b"9" * 10_000, "invalid_json"),
        (b'{"a": ' + b"9" * 300 + b"e9}", "invalid_field"),
        (b'{"a": ' + b"9" * 300 + b".5E+9}", "invalid_field"),
        (b'{"a": 1' + b"0" * 309 + b".0}", "invalid_field"),
        (b'{"a": 0.1e+310}', "invalid_field"),
        (b"9" * 10_000, "not_an_object"),
        (b"[[1e400]]", "not_an_object"),
    ],
)
def test_reasons(data: bytes, reason: str) -> None:
    assert reason_of(data) == reason


def test_a_huge_number_is_named_by_its_key() -> None:
    with pytest.raises(InvalidRecord, match=r"^b: "):
        decode(b'{"a": 1e300, "b": 1e400}')


@pytest.mark.parametrize("core", ["", "1", '"]}[{"'])
def test_two_hundred_levels_are_not_too_deep(core: str) -> None:
    assert depth_of(decode(nested(MAX_DEPTH, core=core))) == MAX_DEPTH
    assert depth_of(decode(nested(MAX_DEPTH, '{"a":', core or "1", "}"))) == MAX_DEPTH


@each("depth", [MAX_DEPTH + 1, 254, 255, 900, 1023, 1024, 1025, 1_000_000])
def test_more_than_two_hundred_levels_are_too_deep(depth: int) -> None:
    assert reason_of(nested(depth)) == "too_deep"
    assert reason_of(nested(depth, '{"a":', "1", "}")) == "too_deep"
    assert reason_of(nested(depth, '[{"a":', "1", "}]")) == "too_deep"
    assert reason_of(b'{"a": [1, ' + nested(depth) + b', "\\""]}') == "too_deep"


def test_unbalanced_depth_is_too_deep() -> None:
    assert reason_of(b"[" * 1_000_000) == "too_deep"
    assert reason_of(b'{"a":' * 1_000_000) == "too_deep"


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    text = "[{" * 5000 + '"\\'
    assert decode(json.dumps({"a": text}).encode()) == {"a": text}
    assert reason_of(json.dumps({"a": text}).encode()[:-1]) == "invalid_json"


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": "' + b'\\"' * 500_000,
        b'"\\' * 500_000,
        b'"' * 500_001,
        b'{"a": "' + b"\\" * 1_000_001,
        b'{"a": ' + b"[]," * 200_000,
        b"]" * 1_000_000,
        b'{"a": [' + (b"9" * 199 + b",") * 5000,
    ],
    ids=["escaped quotes", "open strings", "quotes", "backslashes", "truncated", "closing", "long numbers"],
)
def test_hostile_text_takes_linear_time(data: bytes) -> None:
    assert reason_of(data) == "invalid_json"


def test_no_line_ends_inside_a_string() -> None:
    text = "a\u2028b\u0085c\u2029d"
    assert decode(json.dumps({"a": text}, ensure_ascii=False).encode()) == {"a": text}


@given(st.lists(st.sampled_from(['"', "\\", "[", "]", "{", "}", "a", " ", '\\"', "\n", ","])).map("".join))
def test_depth_of_text_that_is_not_json(text: str) -> None:
    depth = deepest = 0
    inside = escaped = False
    for character in text:
        if inside:
            inside = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            inside, escaped = True, False
        else:
            depth += (character in "[{") - (character in "]}")
            deepest = max(deepest, depth)
    for limit in range(4):
        assert _text_nests_deeper(text.encode(), limit) is (deepest > limit)


def test_a_byte_order_mark_is_accepted() -> None:
    assert decode(b"\xef\xbb\xbf[1]") == [1]
    with pytest.raises(InvalidRecord):
        decode(b"\xef\xbb\xbf\xef\xbb\xbf[1]")
