"""Arrays are read as the objects in them; an object over several lines is one reject."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.records.decoding import InvalidRecord, decode
from graphrag_eval_async.sources.documents import one_object_per_line
from tests.cpu import affordable
from tests.fuzz.seeds import repeat, sizes

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncGenerator

OBJECTS: list[Any] = [{"a": 'x\\"[,]{\n'}, {"b": [1, {"c": "]"}]}, {}, {"d": "\\"}, {"é": "\u2028"}]


async def rewrite(text: bytes, size: int = 1 << 16) -> bytes:
    async def chunks() -> AsyncGenerator[bytes]:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    return b"".join([chunk async for chunk in one_object_per_line(chunks())])


@pytest.mark.parametrize("indent", [None, 0, 1, 4])
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize(("before", "after"), [("", ""), ("\ufeff", "\n"), ("\r\n \n", '\n{"last": 1}\n')])
async def test_arrays(indent: int | None, size: int, before: str, after: str) -> None:
    text = (before + json.dumps(OBJECTS, indent=indent) + after).encode()
    rewritten = await rewrite(text, size)
    assert len(rewritten) == len(text)
    lines = rewritten.decode("utf-8-sig").split("\n")
    expected = [*OBJECTS, *([json.loads(after)] if "last" in after else [])]
    assert [json.loads(line) for line in lines if line.strip()] == expected


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_objects_over_several_lines(size: int) -> None:
    objects = [each for each in OBJECTS if each]
    text = "\n".join(json.dumps(each, indent=1) for each in objects).encode()
    lines = (await rewrite(text, size)).split(b"\n")
    assert [json.loads(line.replace(b"\v", b"\n")) for line in lines] == objects
    with pytest.raises(InvalidRecord, match="this object spans 3 lines; write one object per line"):
        decode(lines[0])


@pytest.mark.parametrize(
    "text",
    [b'{"a": 1}\n[{"b": 2}]\n', b"[1, 2]\n{\n", b'{"a":\n1}', b"[", b"{", b"", b"\n \n", b"\xef\xbb", b'"\n'],
)
@pytest.mark.parametrize("size", [1, 1000])
async def test_other_text_is_unchanged(text: bytes, size: int) -> None:
    assert await rewrite(text, size) == text


@sizes
async def test_any_text_keeps_its_length_and_ends(count: int) -> None:
    texts: list[tuple[bytes, int]] = []

    def draw(rng: random.Random) -> None:
        tokens = [b"[", b"]", b"{", b"}", b",", b'"', b"\\", b"\n", b" ", b"a", b'{"a":1}', b"\xef\xbb\xbf"]
        texts.append((b"".join(rng.choices(tokens, k=rng.randrange(30))), rng.choice([1, 2, 5, 100])))

    repeat(draw, 10 * count)
    for text, size in texts:
        rewritten = await rewrite(text, size)
        assert rewritten == await rewrite(text)
        assert len(rewritten) == len(text)
        kept = (a == b or a in b"[]{},\n" for a, b in zip(text, rewritten, strict=True))
        assert all(kept), text


@pytest.mark.parametrize("unit", [b"{\n}\n", b"[{}]", b"[{\n\\", b"\n", b"[", b'[{"', b"[{}\n,"])
async def test_hostile_text_takes_little_time(unit: bytes) -> None:
    text = unit * (1_000_000 // len(unit))
    with affordable(len(text)):
        assert len(await rewrite(text, 1 << 20)) == len(text)


@pytest.mark.parametrize("torn", [b"{", b"[", b'{\n"a": 1,', b'{\n "a": [', b'[\n{"a": 1}'])
async def test_lines_after_a_truncated_object_are_read(torn: bytes) -> None:
    lines = [b'{"b": [1, {}]}', b'{"c": 2}']
    rewritten = await rewrite(b"\n".join([torn, *lines, b""]))
    assert rewritten.splitlines()[-2:] == lines
