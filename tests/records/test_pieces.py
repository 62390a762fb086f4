"""Text that is decoded in pieces has the same value as text that is decoded at once."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import orjson
import pytest

from graphrag_eval_async.records import pieces
from tests.cpu import affordable
from tests.fuzz.seeds import repeat, sizes

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SCALARS = [
    "1",
    "-0.5",
    "null",
    "true",
    '""',
    r'"a\"b"',
    '"[,]"',
    r'"\\"',
    "1e5",
    '"é{"',
    r'"\u00e9"',
    "1e999",
]


@pytest.fixture(params=[2, 5, 17])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are large, and pieces are of a few bytes."""
    monkeypatch.setattr(pieces, "LARGE_BYTES", 0)
    monkeypatch.setattr(pieces, "PIECE_BYTES", request.param)
    monkeypatch.setattr(pieces, "MIN_BYTES_PER_VALUE", 0)


def text_of_some_value(rng: random.Random, depth: int) -> str:
    if not depth or rng.random() < 0.3:
        return rng.choice(SCALARS)
    members = [text_of_some_value(rng, depth - 1) for _ in range(rng.choice([0, 1, 2, 3, 8]))]
    if rng.random() < 0.5:
        members = [f'"{rng.choice("abc")}"{rng.choice(["", " "])}:{member}' for member in members]
        opening, closing = "{}"
    else:
        opening, closing = "[]"
    blank = rng.choice(["", " ", "\n"])
    return opening + blank + f"{blank},{blank}".join(members) + blank + closing


def spoilt(text: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice([0, 0, 1, 2])):
        place = rng.randrange(len(text) + 1)
        junk = rng.choice([b"", *(bytes([each]) for each in b'[]{},":\\ 1\xff')])
        text = text[:place] + junk + text[place + rng.randrange(2) :]
    return text if rng.random() < 0.9 else text[: rng.randrange(len(text) + 1)]


def value_or_error(decode: Callable[[bytes], Any], text: bytes) -> str:
    """The value as text, which tells 1 from 1.0 and has the order of keys; or that there is none."""
    try:
        return repr(decode(text))
    except ValueError:
        return "not JSON"


def repeats_a_key(text: bytes) -> bool:
    """Whether the text may be invalid in a value that is replaced."""
    found = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        found.append(len(dict(pairs)) < len(pairs))

    json.loads(text.decode(errors="replace"), object_pairs_hook=look, strict=False)
    return any(found)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("decode", [orjson.loads, msgspec.json.decode])
@sizes
def test_the_value_is_the_same(decode: Callable[[bytes | str], Any], count: int) -> None:
    def check(rng: random.Random) -> None:
        text = spoilt(text_of_some_value(rng, rng.choice([2, 4, 6])).encode(), rng)
        found = value_or_error(lambda text: pieces.loads(text, decode), text)
        wanted = value_or_error(decode, text)
        assert found == wanted or (wanted == "not JSON" and repeats_a_key(text))

    repeat(check, 10 * count)


@pytest.mark.usefixtures("small")
def test_an_error_has_its_place() -> None:
    with pytest.raises(orjson.JSONDecodeError) as caught:
        pieces.loads(b'[[1, 2, 3, 4, 5], {"a": [1, 2, 3, nul]}]')
    assert 33 <= caught.value.pos <= 37


def members(text: bytes) -> bytes:
    return text * (5_000_000 // len(text))


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 5_000_000,
        b"[" + members(b"[],") + b"1]",
        b"[" + members(b"[],"),
        b"{" + members(b'"a":{},') + b'"a":1}',
        b"[" + members(b"[[[[[[[[1]]]]]]]],") + b"1]",
        b'["' + members(rb"\"") + b'"]',
        b'["' + members(rb"\"") + b"\\",
        b'["' + members(b"x"),
        b"[" + members(b'"",') + b"1]",
        b"[" + members(b"1,") + b"1]",
        b"[" * 900 + members(b"[],") + b"1" + b"]" * 900,
        b'{"a":' * 500 + b"[" + members(b"1,") + b"1]" + b"}" * 500,
        b"1" * 5_000_000,
        b" " * 5_000_000,
    ],
    ids=lambda text: repr(text[:10]),
)
def test_hostile_text_takes_little_time(text: bytes) -> None:
    with affordable(len(text)):
        assert value_or_error(pieces.loads, text) == value_or_error(orjson.loads, text)


def test_nothing_recurses() -> None:
    deep = b"[" * 900 + members(b"[1],") + b"1" + b"]" * 900
    value = pieces.loads(deep)
    for _ in range(899):
        (value,) = value
    assert len(value) == 1_250_001
    assert sys.getrecursionlimit() <= 1000


@pytest.mark.parametrize("depth", [1, 60])
def test_no_piece_is_large(depth: int) -> None:
    """But for what nests deeper still."""
    sizes = []

    def decode(text: bytes | str) -> Any:
        sizes.append(len(text))
        return orjson.loads(text)

    text = b'[1,{"a":' * (depth // 2) + b"[" + members(b'{"a": [1, "text"]},') + b"1]" + b"}]" * (depth // 2)
    assert pieces.loads(text, decode) == orjson.loads(text)
    assert max(sizes) < 2 * pieces.PIECE_BYTES


def test_text_and_bytes_are_alike() -> None:
    text = json.dumps(["é" * 10] * 100_000, ensure_ascii=False)
    assert pieces.loads(text) == pieces.loads(text.encode()) == json.loads(text)
