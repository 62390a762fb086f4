"""Journals that a process left at any moment, or that were damaged: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async import EvaluationStream, JournalError
from graphrag_eval_async.sinks import append_file
from graphrag_eval_async.sinks.append_file import AppendFile
from graphrag_eval_async.sinks.journal import lines as journal_lines
from graphrag_eval_async.sinks.journal.lines import read_lines, seal
from tests.deadlines import in_time
from tests.journals import CONFIG, Judge, bits, complete, lines_of, names, names_of, responses
from tests.sinks.faults import Crash, CrashAt, Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LINES = responses(24)


class Quiet(NamedTuple):
    """A run that nothing happened to."""

    journal: Path
    lines: list[bytes]
    aggregates: bytes


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Quiet:
    path = tmp_path_factory.mktemp("quiet") / "results.jsonl"
    _, stream = judged(path)
    return Quiet(path, lines_of(path), bits(stream.aggregates))


def judged(path: Path) -> tuple[list[dict[str, Any]], EvaluationStream]:
    return complete(LINES, path, config=CONFIG, judge=Judge())


def copy_of(quiet: Quiet, folder: Path) -> Path:
    path = folder / "results.jsonl"
    for suffix in ("", ".run", ".rejects"):
        shutil.copy(f"{quiet.journal}{suffix}", f"{path}{suffix}")
    return path


def assert_whole(path: Path, quiet: Quiet) -> EvaluationStream:
    """Started again, and again, it is as if nothing had happened."""
    streams = []
    for _ in range(2):
        _, stream = judged(path)
        streams.append(stream)
        assert sorted(lines_of(path)) == sorted(quiet.lines)
        assert bits(stream.aggregates) == quiet.aggregates
        assert stream.rejects.total == 3
        assert names_of(path) == names(LINES)
    assert stream.journal is not None
    assert (stream.journal.damaged, stream.journal.restored) == (0, len(quiet.lines))
    return streams[0]


# Cut off


@pytest.mark.parametrize("step", [79, pytest.param(1, marks=pytest.mark.soak)])
def test_a_journal_that_was_cut_off_anywhere(tmp_path: Path, quiet: Quiet, step: int) -> None:
    data = quiet.journal.read_bytes()
    ends = [len(data) - back for back in range(0, min(2001, len(data) + 1), step)]
    first_of_last = len(data) - len(quiet.lines[-1])
    for size in sorted({*ends, *range(first_of_last - 2, first_of_last + 2), len(data) - 1, 1, 0}):
        path = copy_of(quiet, tmp_path)
        path.write_bytes(data[:size])
        stream = assert_whole(path, quiet)
        assert stream.journal is not None
        assert (stream.journal.restored, stream.journal.damaged) == (data[:size].count(b"\n"), 0)
    assert not path.with_name("results.jsonl.damaged").exists()


def test_rejects_that_were_cut_off_anywhere(tmp_path: Path, quiet: Quiet) -> None:
    data = quiet.journal.with_name("results.jsonl.rejects").read_bytes()
    for size in range(0, len(data), 31):
        path = copy_of(quiet, tmp_path)
        path.with_name("results.jsonl.rejects").write_bytes(data[:size])
        assert_whole(path, quiet)
        assert path.with_name("results.jsonl.rejects").read_bytes() == data


# Damaged


def sealed(record: dict[str, Any]) -> bytes:
    """The line of a record, with its checksum: only what it says is wrong."""
    record.pop("crc32", None)
    return seal(orjson.dumps(record) + b"\n")


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("suffix", ["", ".rejects"])
@pytest.mark.parametrize("step", [3001, pytest.param(61, marks=pytest.mark.soak)])
def test_a_bit_that_is_another(tmp_path: Path, quiet: Quiet, suffix: str, step: int) -> None:
    """Its line is set aside and evaluated again, whatever JSON it still is."""
    whole = quiet.journal.with_name(f"results.jsonl{suffix}").read_bytes()
    for bit in range(0, 8 * (len(whole) - 1), step):
        path = copy_of(quiet, tmp_path)
        data = flipped(whole, bit)
        path.with_name(f"results.jsonl{suffix}").write_bytes(data)
        stream = assert_whole(path, quiet)
        assert stream.journal is not None
        assert stream.journal.damaged == 1 + data.count(b"\n") - whole.count(b"\n") or (
            stream.journal.damaged == 1 and data.count(b"\n") < whole.count(b"\n")
        )


def test_what_is_set_aside_is_as_private_as_the_journal(tmp_path: Path, quiet: Quiet) -> None:
    path = copy_of(quiet, tmp_path)
    path.write_bytes(flipped(quiet.journal.read_bytes(), 800))
    path.chmod(0o600)
    assert_whole(path, quiet)
    assert stat.S_IMODE(path.with_name("results.jsonl.damaged").stat().st_mode) == 0o600


def result_without(*keys: str) -> Callable[[bytes], bytes]:
    def leave_out(line: bytes) -> bytes:
        result = orjson.loads(line)
        for key in keys:
            del result[key]
        return sealed(result)

    return leave_out


def result_with(**more: Any) -> Callable[[bytes], bytes]:
    return lambda line: sealed(orjson.loads(line) | more)


def source_with(**more: Any) -> Callable[[bytes], bytes]:
    return lambda line: result_with(source=orjson.loads(line)["source"] | more)(line)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda line: b"\xff\xfe" + line,
    "nuls": lambda line: b"\0" * (len(line) - 1) + b"\n",
    "half of it": lambda line: line[: len(line) // 2] + b"\n",
    "no newline": lambda line: line[:-1],
    "a bit of it": lambda line: line.replace(b'"sample"', b'"sample'),
    "blank": lambda _: b"\n",
    "space": lambda _: b"  \r\n",
    "null": lambda _: b"null\n",
    "a number": lambda _: b"1\n",
    "a list": lambda _: b"[1]\n",
    "too deep": lambda _: b"[" * 5000 + b"]" * 5000 + b"\n",
    "another object": lambda _: b'{"a": 1}\n',
    "no source": result_without("source"),
    "no question": result_without("question_id"),
    "no template": result_without("template_id"),
    "no sample": result_without("sample"),
    "a pending one": result_with(pending=["answer_correctness"]),
    "a status of its own": result_with(status="fine"),
    "a metric of text": result_with(steps_score="1"),
    "a cost of text": result_with(answer_correctness_cost="1"),
    "a sample of text": result_with(sample="1"),
    "steps of text": result_with(actual_steps="none"),
    "a source of text": result_with(source="here"),
    "no digest": source_with(sha256="00"),
    "no occurrence": source_with(occurrence=0),
    "no place": source_with(file="key"),
    "an endless place": source_with(file="key", path="p", offset=2**63, length=2**63),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_line(
    tmp_path: Path, quiet: Quiet, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    path = copy_of(quiet, tmp_path)
    lines = quiet.lines.copy()
    lines[3] = damage(lines[3])
    broken = lines[3] if lines[3].endswith(b"\n") else lines[3] + lines[4]
    path.write_bytes(b"".join(lines))
    path.chmod(0o640)
    with caplog.at_level(logging.WARNING, "graphrag_eval_async"):
        stream = assert_whole(path, quiet)
    assert path.with_name("results.jsonl.damaged").read_bytes() == broken
    (record,) = caplog.records
    start = sum(map(len, lines[:3]))
    assert record.getMessage().startswith(
        f"{path}: byte {start}: not a result or reject; the line is set aside: "
    )
    assert stream.journal is not None
    assert stream.journal.damaged == 1
    assert stream.journal.restored == len(quiet.lines) - (1 if lines[3].endswith(b"\n") else 2)
    assert path.stat().st_mode & 0o777 == 0o640
    assert not path.with_name("results.jsonl.tmp").exists()


def test_a_result_that_stands_there_twice(
    tmp_path: Path, quiet: Quiet, caplog: pytest.LogCaptureFixture
) -> None:
    path = copy_of(quiet, tmp_path)
    rejects = path.with_name("results.jsonl.rejects")
    again = [quiet.lines[2], lines_of(rejects)[0]]
    path.write_bytes(b"".join([*quiet.lines, again[0]]))
    rejects.write_bytes(b"".join([*lines_of(rejects), again[1]]))
    stream = assert_whole(path, quiet)
    assert path.with_name("results.jsonl.damaged").read_bytes() == b"".join(again)
    assert ["there already" in record.getMessage() for record in caplog.records] == [True, True]
    assert stream.journal is not None
    assert stream.journal.damaged == 2


def test_steps_that_are_none_are_no_damage(tmp_path: Path, quiet: Quiet) -> None:
    path = copy_of(quiet, tmp_path)
    path.write_bytes(result_with(actual_steps=[1, None])(quiet.lines[0]))
    _, stream = judged(path)
    assert stream.journal is not None
    assert (stream.journal.restored, stream.journal.damaged) == (1, 0)


def test_damaged_rejects(tmp_path: Path, quiet: Quiet) -> None:
    path = copy_of(quiet, tmp_path)
    rejects = path.with_name("results.jsonl.rejects")
    lines = lines_of(rejects)
    damages = [result_with(reason="whim"), result_with(reason=["x"]), result_without("source")]
    broken = [damage(line) for damage, line in zip(damages, lines, strict=True)]
    rejects.write_bytes(b"".join(broken))
    assert_whole(path, quiet)
    assert path.with_name("results.jsonl.damaged").read_bytes() == b"".join(broken)


def test_a_symbolic_link_stays_one(tmp_path: Path, quiet: Quiet) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    path = copy_of(quiet, tmp_path / "here")
    target = tmp_path / "there" / "target.jsonl"
    target.write_bytes(b"".join([b"damaged\n", *quiet.lines]))
    path.unlink()
    path.symlink_to(target)
    assert_whole(path, quiet)
    assert path.is_symlink()
    assert sorted(lines_of(target)) == sorted(quiet.lines)


# The reading itself


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def read(path: Path, threads: ThreadPoolExecutor) -> tuple[list[Any], tuple[int, int]]:
    """The values of a file, all objects, and the counts; other values are refused."""
    values: list[Any] = []

    def add(value: Any) -> None:
        values.append(value | {})

    async def run() -> tuple[int, int]:
        with closing(AppendFile(path)) as file:
            counts = await read_lines(file, add, aside=f"{path}.damaged", threads=threads)
            assert file.size == path.stat().st_size
            return counts

    return values, asyncio.run(in_time(run)())


def unsealed(line: bytes) -> Any:
    return {key: value for key, value in orjson.loads(line).items() if key != "crc32"}


GOOD = [seal(line)[:-1] for line in (b'{"a": 1}\n', b'{"b": "' + b"x" * 30 + b'"}\n')]
LINE = st.sampled_from([*GOOD, seal(b"[5]\n")[:-1], b'{"a": 1}', b"5", b"", b"{"])


@given(st.lists(LINE, max_size=12), st.sampled_from([b"", b"{", b'{"a": 1}']), st.integers(1, 40))
def test_lines_in_pieces_of_any_size(
    tmp_path: Path,
    threads: ThreadPoolExecutor,
    lines: list[bytes],
    torn: bytes,
    piece: int,
) -> None:
    path, aside = tmp_path / "lines", tmp_path / "lines.damaged"
    aside.unlink(missing_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines) + torn)
    good = [line for line in lines if line in GOOD]
    bad = [line for line in lines if line not in good]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_lines, "PIECE_BYTES", piece)
        values, counts = read(path, threads)
    assert values == [unsealed(line) for line in good]
    assert counts == (len(good), len(bad))
    assert path.read_bytes() == b"".join(line + b"\n" for line in good)
    assert aside.exists() == bool(bad)
    assert not bad or aside.read_bytes() == b"".join(line + b"\n" for line in bad)


WHOLE = [seal(line) for line in (b'{"a": 1}\n', b'{"b": 2}\n', b'{"c": 3}\n')]
DAMAGED = WHOLE[0] + b"no\n" + WHOLE[1] + b"\n" + WHOLE[2] + b'no, neither\n{"d"'
ENDS = [b"".join(WHOLE), {b"no\n", b"\n", b"no, neither\n"}]


def assert_mended(path: Path, threads: ThreadPoolExecutor) -> None:
    """The next start has all lines, and nothing of the damaged ones is gone."""
    values, _ = read(path, threads)
    assert values == [unsealed(line) for line in WHOLE]
    assert [path.read_bytes(), set(lines_of(f"{path}.damaged"))] == ENDS
    assert not path.with_name(f"{path.name}.tmp").exists()


def test_a_crash_at_any_step_of_setting_aside(
    tmp_path: Path, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, aside = tmp_path / "lines", tmp_path / "lines.damaged"
    step, crashed = 0, True
    while crashed:
        aside.unlink(missing_ok=True)
        path.write_bytes(DAMAGED)
        with monkeypatch.context() as context, CrashAt(step) as layer:
            context.setattr(append_file, "os", layer)
            crashed = False
            try:
                read(path, threads)
            except Crash:
                crashed = True
        assert_mended(path, threads)
        step += 1
    assert step > 20


def test_an_error_at_any_step_of_setting_aside(
    tmp_path: Path, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, aside = tmp_path / "lines", tmp_path / "lines.damaged"
    failed = 0
    for step in range(40):
        aside.unlink(missing_ok=True)
        path.write_bytes(DAMAGED)
        with monkeypatch.context() as context:
            context.setattr(append_file, "os", ErrorAt(step))
            try:
                read(path, threads)
            except JournalError:
                failed += 1
        assert_mended(path, threads)
    assert failed > 15


class ErrorAt(Faults):
    """Whose n-th call fails, from 0, and no other."""

    def __init__(self, call: int) -> None:
        super().__init__()
        self.before = self._fail
        self._left = call

    def _fail(self, name: str) -> None:
        if name == "close":
            return
        self._left -= 1
        if self._left == -1:
            raise OSError(errno.EIO, "Input/output error")


def test_mending_that_is_cancelled_leaves_all_in_place(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(DAMAGED)
    with closing(AppendFile(path)) as file:
        stop = threading.Event()
        stop.set()
        with pytest.raises(OSError, match="Input/output error"):
            journal_lines._mend(file, len(DAMAGED) - 4, [(9, 12)], f"{path}.damaged", stop)
    assert path.read_bytes() == DAMAGED[:-4]
    assert (tmp_path / "lines.damaged").read_bytes() == b""
