"""Files at addresses, read by `read_jsonl`."""

from __future__ import annotations

import asyncio
import gzip
import io
import threading
from typing import TYPE_CHECKING, Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from graphrag_eval_async import SourceError, UsageError, evaluate_stream, read_jsonl
from tests.cli.support import ROOT, run
from tests.sources.served import serving
from tests.support.data import templates
from tests.support.deadlines import WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = (
    b"\n".join(b'{"question_id": "q%d"%s}' % (i, b" " * (i * 37 % 90)) for i in range(400))
    + b"\n\n[]"
)
LONG = TEXT.replace(b'"q', b'"' + b"q" * 25_000)
"""More than fsspec reads in one request."""


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/", recursive=True)


async def read(path: Any) -> list[tuple[int, bytes]]:
    return [(line.offset, line.data) async for line in read_jsonl(path)]


@pytest.mark.parametrize("ranges", [True, False])
async def test_an_address_is_read_like_a_file(tmp_path: Path, ranges: bool) -> None:
    local = tmp_path / "log.jsonl"
    local.write_bytes(LONG)
    with serving(LONG) as served:
        served.ranges = ranges
        files = read_jsonl(served.address)
        assert [(line.offset, line.data) async for line in files] == await read(local)
        assert (files.size, files.consumed) == (None, len(LONG))
    with serving(gzip.compress(LONG), "log.jsonl.gz") as served:
        assert await read(f"{served.address}?version=1") == await read(local)


async def test_globs_are_those_of_fsspec(memory: Any) -> None:
    for name, text in {
        "b.jsonl": b"{}\n[]",
        "a.jsonl.gz": gzip.compress(TEXT),
        "c.txt": b"no",
    }.items():
        memory.pipe_file(f"/logs/{name}", text)
    assert len(await read("memory://logs/*.jsonl*")) == 403
    assert len(await read(["memory://logs/b.jsonl", "memory://logs/c*"])) == 3
    with pytest.raises(
        SourceError, match=r"^memory://logs: is a directory; .* such as memory://logs/\*\.jsonl$"
    ):
        await read("memory://logs")
    with pytest.raises(SourceError, match=r"^memory://logs/x\*: no file matches this pattern$"):
        await read("memory://logs/x*")
    with pytest.raises(
        SourceError, match=r"^memory://none/x\.jsonl: cannot be read: there is no such file$"
    ):
        await read("memory://none/x.jsonl")


async def test_parquet_among_the_files_of_a_glob_is_refused(memory: Any) -> None:
    memory.pipe("/logs/a.jsonl", b'{"question_id": "q0"}\n')
    memory.pipe("/logs/b.parquet", b"PAR1")
    with pytest.raises(UsageError, match=r"b\.parquet: \.parquet is gone"):
        await read("memory://logs/*")


@pytest.mark.parametrize(
    "address",
    [
        "zip://a.jsonl::http://user:secret@127.0.0.1:1/x.zip?key=secret",
        "simplecache::http://user:secret@127.0.0.1:1/a.jsonl?key=secret",
        "http://user:secret@127.0.0.1:1/a.jsonl?key=secret",
        "http://user:secret@127.0.0.1:1/*.jsonl?key=secret",
    ],
)
async def test_an_unreachable_server_is_said_without_secrets(address: str) -> None:
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:1/.*: cannot be read \(\w+\)") as caught:
        await read(address)
    assert "secret" not in str(caught.value)


async def test_another_version_is_another_file(memory: Any) -> None:
    memory.pipe_file("/logs/b.jsonl", b"{}\n[]")
    first, second = [line.position async for line in read_jsonl("memory://logs/b.jsonl")]
    assert (first.path, first.file) == ("memory://logs/b.jsonl", second.file)
    memory.pipe_file("/logs/b.jsonl", b"{}")
    assert first.file not in [
        line.position.file async for line in read_jsonl("memory://logs/b.jsonl")
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param(
            {"status": 403},
            "access was refused; check the credentials in the environment",
            id="refused",
        ),
        pytest.param({"status": 404}, "there is no such file", id="missing"),
        pytest.param(
            {"status": 503},
            r"cannot be read \(status 503\); try again, or download the file",
            id="unavailable",
        ),
    ],
)
async def test_errors_name_the_address_without_secrets(wrong: dict[str, Any], message: str) -> None:
    with serving(LONG) as served:
        vars(served).update(wrong)
        address = served.address.replace("://", "://user:secret@") + "?signature=secret"
        with pytest.raises(SourceError, match=message) as caught:
            await read(address)
        assert served.address in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_results_and_journals_name_the_address_without_secrets(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    lines = b'{"question_id": "q1", "actual_steps": []}\n{"question_id": "none"}\n'
    with serving(lines) as served:
        address = served.address.replace("://", "://user:secret@") + "?signature=secret"
        async with evaluate_stream(templates(3), address, journal=journal) as stream:
            results = [result async for result in stream]
        assert len(results) == 1
        assert [reject.path for reject in stream.rejects] == [served.address]
        async with evaluate_stream(templates(3), address, journal=journal) as stream:
            assert [result async for result in stream] == []
    written = [path.read_text() for path in tmp_path.iterdir()]
    assert len(written) == 3  # The journal, the settings of the run, and rejects.
    assert "secret" not in "".join([*written, str(results)])


async def test_an_error_amid_a_file_comes_after_the_lines_before(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            if not data:
                raise OSError("https://user:secret@host")
            return data

    memory.pipe_file("/log.jsonl", b"1\n2\n")
    monkeypatch.setattr(MemoryFileSystem, "_open", lambda *_, **__: Breaking(b"1\n2\n"))
    lines = aiter(read_jsonl("memory://log.jsonl"))
    assert [(await anext(lines)).data for _ in range(2)] == [b"1", b"2"]
    with pytest.raises(SourceError, match=r"^memory://log\.jsonl: cannot be read \(OSError\)"):
        await anext(lines)


async def test_a_cancelled_reader_leaves_the_event_loop_free(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, replied = threading.Event(), threading.Event()

    class Waiting(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            asked.set()
            replied.wait(WAIT_SECONDS)
            return super().read(size)

    memory.pipe_file("/log.jsonl", b"1\n")
    monkeypatch.setattr(MemoryFileSystem, "_open", lambda *_, **__: Waiting(b"1\n"))
    reading = asyncio.ensure_future(read("memory://log.jsonl"))
    async with asyncio.timeout(WAIT_SECONDS):
        await asyncio.to_thread(asked.wait, WAIT_SECONDS)
        reading.cancel()
        replied.set()
        with pytest.raises(asyncio.CancelledError):
            await reading


async def test_addresses_that_cannot_be_read() -> None:
    with pytest.raises(UsageError, match="x: fsspec has no file system of this kind"):
        await read("nothing://x")
    with pytest.raises(SourceError, match="cannot be shuffled"):
        [line async for line in read_jsonl("http://127.0.0.1:9/x.jsonl", shuffle=1)]


def test_shards_of_an_address_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    address = "https://user:secret@host/x.jsonl"
    with pytest.raises(
        UsageError, match=r"^https://host/x\.jsonl: remote files cannot be read in shards"
    ):
        read_jsonl(address, shard="0/2")
    assert run("evaluate", str(ROOT / "examples/reference.yaml"), address, "--shard", "0/2") == 2
    message = " ".join(capfd.readouterr().err.split())
    assert "download them, or give each process files of its own" in message
    assert "secret" not in message
