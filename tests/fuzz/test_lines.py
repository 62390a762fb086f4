"""Each line comes out once, as a result or a reject, and the same whichever way it is read."""

from __future__ import annotations

import asyncio
import gzip
import shutil
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import evaluate_stream
from graphrag_eval_async.sources.lines import is_array
from tests.fuzz.seeds import repeat
from tests.support.cpu import affordable
from tests.support.data import REFERENCE, answer
from tests.support.deadlines import in_time

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from graphrag_eval_async import Reject

LONG = 3000
BOM = b"\xef\xbb\xbf"

sizes = pytest.mark.parametrize("count", [60, pytest.param(4000, marks=pytest.mark.soak)])

BLANK = [b"", b" ", b"\t \r", b"\x0b\x0c", b" " * 500]
HOSTILE = [
    *(b"null", b"[]", b"1", b'"q0"', b"{}", b"NaN", b"[" * 1200, b'{"question_id":' * 150),
    *(
        b'{"question_id": "q0", "actual_steps": 5}',
        b'{"question_id": ["q0"]}',
        b'{"question_id": "\\ud800"}',
    ),
    *(
        b'{"question_id": "q0", "input_tokens": 1e999}',
        b'{"question_id": "q0", "id": "\\u0000\\u202e"}',
    ),
    *(
        b'{"question_id": "q0", "question_id": "q1"}',
        b'{"question_id": "q0", "elapsed_sec": -1e308}',
    ),
    *(
        b'{"question_id": "q9"}',
        b"\0" * 40,
        b'{"question_id": "q0"}\0',
        b'{"question_id"\r: "q1"}',
        BOM,
    ),
]


def line(rng: random.Random, earlier: list[bytes]) -> bytes:
    number = rng.randrange(10**6)
    valid = orjson.dumps(
        answer(number % 3, id=f"r{number}", actual_answer="é\n" * rng.randrange(9))
    )
    match rng.randrange(8):
        case 0:
            return rng.choice(BLANK)
        case 1:
            return rng.choice(HOSTILE)
        case 2:
            return valid[: rng.randrange(len(valid))]
        case 3:
            return bytes(byte for byte in rng.randbytes(rng.randrange(60)) if byte != 10)
        case 4:
            return rng.choice([b" ", b"\0", b"x", valid]) * rng.randint(LONG, 2 * LONG)
        case 5 if earlier:
            return rng.choice(earlier)
    return valid


def text(rng: random.Random) -> bytes:
    lines: list[bytes] = []
    for _ in range(rng.choice([0, 1, 5, 30])):
        lines.append(line(rng, lines))
    newline = rng.choice([b"\n", b"\n", b"\r\n"])
    start = rng.choice([b"", b"", BOM, b"\0" * rng.choice([1, 70_000])])
    return start + newline.join(lines) + rng.choice([b"", newline])


Account = Counter[tuple[int, int, str]]
"""Lines by number, offset and digest."""


def account_of(data: bytes) -> Account:
    """All lines that are not blank; NULs at the start of a file belong to none."""
    offset = len(data) - len(data.lstrip(b"\0"))
    account = Account()
    for number, part in enumerate(data[offset:].split(b"\n"), 1):
        content = part.removeprefix(BOM) if number == 1 else part
        if content.strip():
            account[number, offset, sha256(part).hexdigest()] += 1
        offset += len(part) + 1
    return account


class Outcome:
    """What came of the lines of one input."""

    def __init__(self) -> None:
        self.results: Account = Account()
        self.rejects: Account = Account()
        self.reasons: Counter[tuple[int, str]] = Counter()

    def reject(self, reject: Reject) -> None:
        self.rejects[reject.line, reject.offset, reject.sha256] += 1
        self.reasons[reject.line, reject.reason] += 1
        assert 0 < len(reject.message) <= 600

    async def stream(self, source: Any, journal: Path) -> Outcome:
        """The journal says which lines results come from."""
        options: dict[str, Any] = {"journal": journal, "on_reject": self.reject}
        async with evaluate_stream(REFERENCE, source, **options) as results:
            async for result in results:
                source = result["source"]
                self.results[source["line"], source["offset"], source["sha256"]] += 1
        return self


@sizes
def test_each_line_comes_out_once_whichever_way_it_is_read(count: int, tmp_path: Path) -> None:
    folder = tmp_path / "files"

    async def check(rng: random.Random) -> None:
        data = text(rng)
        if is_array(data):  # By chance: such a text has other lines than these.
            return
        expected = account_of(data)
        packed = rng.random() < 0.3
        path = folder / ("responses.jsonl.gz" if packed else "responses.jsonl")
        path.write_bytes(gzip.compress(data) if packed else data)

        read = await Outcome().stream(path, folder / "read")
        assert read.results + read.rejects == expected

        resumed = await Outcome().stream(path, folder / "read")
        assert not resumed.results + resumed.rejects

        lines = data.lstrip(b"\0").split(b"\n")
        items = await Outcome().stream(lines, folder / "items")
        assert items.results.total() == read.results.total()
        assert items.reasons == read.reasons

    def run(rng: random.Random) -> None:
        folder.mkdir()
        with affordable(1):
            asyncio.run(in_time(check)(rng))
        shutil.rmtree(folder)

    repeat(run, count)
