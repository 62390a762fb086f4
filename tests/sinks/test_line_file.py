from __future__ import annotations

import errno
import os
import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async.sinks import LineFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 1000


@contextmanager
def full_at_limit() -> Iterator[None]:
    """No file may grow beyond `LIMIT` bytes; not even a log of this test run, so keep it short."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_each_line_is_there_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"older and longer")
    with LineFile(path) as lines:
        assert path.read_bytes() == b""
        lines.write([b"one\n"])
        assert path.read_bytes() == b"one\n"
        lines.write([b"t", b"wo", b"", b"\n"])
        assert path.read_bytes() == b"one\ntwo\n"


def test_a_dash_is_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with LineFile("-") as lines:
            lines.write([b"one\n"])
    assert capfd.readouterr().out == "one\none\n"


def test_a_pipe_and_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with LineFile(path) as lines:
        lines.write([b"one\n"])
        assert os.read(reader, 100) == b"one\n"
        os.close(reader)
        with pytest.raises(BrokenPipeError, match="pipe"):
            lines.write([b"two\n"])


def test_a_line_that_does_not_fit_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with LineFile(path) as lines:
        lines.write([b"a" * 600 + b"\n"])
        for _ in range(2):
            with pytest.raises(OSError, match="lines") as error, full_at_limit():
                lines.write([b"b" * 300, b"b" * 300 + b"\n"])
            assert error.value.errno == errno.EFBIG
            assert path.read_bytes() == b"a" * 600 + b"\n"
        lines.write([b"c\n"])
    assert path.read_bytes() == b"a" * 600 + b"\nc\n"


def test_a_line_whose_pieces_fail_is_taken_back(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise ValueError("no other half")

    with LineFile(tmp_path / "lines") as lines:
        lines.write([b"one\n"])
        with pytest.raises(ValueError, match="no other half"):
            lines.write(pieces())
    assert (tmp_path / "lines").read_bytes() == b"one\n"


def test_a_full_device_is_named() -> None:
    with LineFile("/dev/full") as lines, pytest.raises(OSError, match="/dev/full") as error:
        lines.write([b"one\n"])
    assert error.value.errno == errno.ENOSPC


def test_closing_twice(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "lines")
    lines.close()
    descriptor = os.open(tmp_path / "lines", os.O_RDONLY)
    lines.close()
    assert os.fstat(descriptor)
    os.close(descriptor)
