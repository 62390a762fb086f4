"""Files that are written under names that others can foresee: no link leads elsewhere, and the mode stays."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async import Journal, JournalError
from graphrag_eval_async.sinks import write_report
from tests.journals import CONFIG, Judge, names_of, responses, stream_of

if TYPE_CHECKING:
    from pathlib import Path

LINES = responses(6)
VICTIM = b"of somebody else\n"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(VICTIM)
    return path


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


async def evaluate(journal: Path, lines: list[bytes] = LINES) -> None:
    async with stream_of(lines, journal) as stream:
        async for _ in stream:
            pass


@pytest.mark.parametrize("suffix", [".run.tmp", ".tmp", ".rejects.tmp", ".run"])
async def test_a_link_in_place_of_a_draft_is_replaced(journal: Path, victim: Path, suffix: str) -> None:
    await evaluate(journal, LINES[:3])
    damage = b'{"no": "result"}\n'
    for path in (journal, journal.with_name("results.jsonl.rejects")):
        path.write_bytes(path.read_bytes() + damage)
    if suffix == ".run":
        beside = journal.with_name("results.jsonl.run")
        victim.write_bytes(beside.read_bytes())
        beside.unlink()
    before = victim.read_bytes()
    journal.with_name(f"results.jsonl{suffix}").symlink_to(victim)
    async with stream_of(LINES, Journal(journal, force=True), judge=Judge(), config=CONFIG) as stream:
        async for _ in stream:
            pass
    assert victim.read_bytes() == before
    assert len(names_of(journal)) == len(LINES)
    assert not journal.with_name("results.jsonl.tmp").exists()


@pytest.mark.parametrize("suffix", [".damaged", ".rejects"])
async def test_a_link_in_place_of_a_file_that_grows_is_an_error(
    journal: Path, victim: Path, suffix: str
) -> None:
    if suffix == ".damaged":
        await evaluate(journal)
        journal.write_bytes(b"no result\n" + journal.read_bytes())
    beside = journal.with_name(f"results.jsonl{suffix}")
    beside.symlink_to(victim)
    with pytest.raises(JournalError) as caught:
        await evaluate(journal)
    assert str(caught.value) == (
        f"{beside}: cannot be opened for writing: it is a symbolic link; remove it, or use another journal"
    )
    assert victim.read_bytes() == VICTIM


async def test_a_file_of_rejects_that_was_named_may_be_a_link(journal: Path, victim: Path) -> None:
    link = journal.with_name("link")
    link.symlink_to(victim)
    victim.write_bytes(b"")
    async with stream_of([b"no JSON"], Journal(journal, rejects=link)) as stream:
        async for _ in stream:
            pass
    assert b"no JSON" in victim.read_bytes()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
async def test_a_rewritten_file_keeps_its_mode(journal: Path, mode: int) -> None:
    await evaluate(journal)
    report = journal.with_name("report.html")
    await write_report(report, "older")
    beside = journal.with_name("results.jsonl.run")
    paths = [journal, beside, report]
    for path in paths:
        path.chmod(mode)
    journal.write_bytes(b"no result\n" + journal.read_bytes())
    inodes = {path: path.stat().st_ino for path in paths}
    async with stream_of(LINES, Journal(journal, force=True), judge=Judge(), config=CONFIG) as stream:
        async for _ in stream:
            pass
    await write_report(report, "newer")
    for path in paths:
        assert path.stat().st_ino != inodes[path]
        assert stat.S_IMODE(path.stat().st_mode) == mode
