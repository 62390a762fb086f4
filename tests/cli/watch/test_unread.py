"""``watch --until-idle``: input that was there and never read is an error, named at the end."""

from __future__ import annotations

import gzip
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.beside import run_beside
from tests.cli.support import DEADLINE_SECONDS, Folder, response, run, to_jsonl
from tests.support.watching import IDLE, samples, watch
from tests.support.watching import facts as facts_of

if TYPE_CHECKING:
    from tests.cli.beside import Beside

FILES = 300

BOUND_BY_PERMISSIONS = (
    ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
)
"""Begins a command to which the permissions of files apply, even if root runs it."""
FAILING = Path("/sys/class/net/lo/speed")
"""A file of a size, of which each read fails where the network is Linux's own."""


def run_bound(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process to which the permissions of files apply."""
    return subprocess.run(
        [*BOUND_BY_PERMISSIONS, sys.executable, "-m", "graphrag_eval_async", *command],
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def ended(text: str) -> str:
    """What a command says last."""
    return text.splitlines()[-1]


def test_a_missing_path_of_two(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(response("q1"))
    missing = folder.file("mistyped.jsonl")
    gate = ["--gate", "steps_score >= 0"]
    assert run(*watch(folder, missing, *IDLE, *gate)) == 4
    out, err = capfd.readouterr()
    assert samples(facts_of(out)[-1]) == 1
    assert ended(err) == f"Error: {missing}: never existed"
    assert "gate failed: steps_score >= 0: not decided" in err
    assert "gate held" not in err


def test_a_directory_without_logs(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    (folder.path / "logs").mkdir()
    assert run(*watch(folder, *IDLE, log="logs")) == 4
    logs = folder.file("logs")
    message = f"Error: nothing to watch: {logs} has no *.jsonl file; check the path"
    assert ended(capfd.readouterr().err) == message


def test_a_path_that_appears_is_read(folder: Folder) -> None:
    folder.lines(response("q1"))

    def drive(beside: Beside) -> None:
        beside.facts(lambda facts: samples(facts) == 1)
        folder.lines(response("q2"), name="later.jsonl")
        beside.facts(lambda facts: samples(facts) == 2)

    command = watch(folder, folder.file("later.jsonl"), "--every", "20ms", "--until-idle", "2s")
    code, out, _ = run_beside(folder.path, drive, *command)
    assert (code, samples(facts_of(out)[-1])) == (0, 2)


@pytest.mark.parametrize(
    "text", [b"no gzip at all", gzip.compress(os.urandom(5000))[:3000]], ids=["other", "cut"]
)
def test_a_rotated_file_that_cannot_be_decompressed(
    folder: Folder, capfd: pytest.CaptureFixture[str], text: bytes
) -> None:
    folder.lines(response("q1"))
    damaged = folder.write("responses.jsonl.1.gz", text)
    assert run(*watch(folder, *IDLE, "-o", folder.file("r"), "--resume")) == 4
    assert ended(capfd.readouterr().err).startswith(f"Error: {damaged}: cannot be decompressed: ")


@pytest.mark.parametrize("log", ["logs", "logs/*"], ids=["directory", "glob"])
def test_compressed_files_of_a_directory_are_read(folder: Folder, log: str) -> None:
    """As ``evaluate`` does."""
    logs = folder.path / "logs"
    logs.mkdir()
    (logs / "a.jsonl.gz").write_bytes(gzip.compress(to_jsonl([response("q1"), response("q2")])))
    (logs / "b.jsonl").write_bytes(to_jsonl([response("q1")]))
    process = run_bound(watch(folder, *IDLE, log=log))
    assert (process.returncode, process.stderr.count(b"Error")) == (0, 0), process.stderr
    assert samples(facts_of(process.stdout.decode())[-1]) == 3


def test_a_directory_with_nothing_but_compressed_files(folder: Folder) -> None:
    logs = folder.path / "logs"
    logs.mkdir()
    (logs / "a.jsonl.gz").write_bytes(gzip.compress(to_jsonl([response("q1")])))
    process = run_bound(watch(folder, *IDLE, log="logs"))
    assert process.returncode == 0, process.stderr
    assert samples(facts_of(process.stdout.decode())[-1]) == 1


@pytest.mark.parametrize(
    "text", [b"no gzip at all", gzip.compress(os.urandom(5000))[:3000]], ids=["other", "cut"]
)
def test_a_damaged_file_of_a_directory(folder: Folder, text: bytes) -> None:
    logs = folder.path / "logs"
    logs.mkdir()
    (logs / "a.jsonl.gz").write_bytes(text)
    (logs / "b.jsonl").write_bytes(to_jsonl([response("q1")]))
    process = run_bound(watch(folder, *IDLE, log="logs"))
    assert process.returncode == 4, process.stderr
    message = f"Error: {logs / 'a.jsonl.gz'}: cannot be decompressed: "
    assert ended(process.stderr.decode()).startswith(message)
    assert samples(facts_of(process.stdout.decode())[-1]) == 1


@pytest.mark.skipif(not FAILING.exists(), reason="no file of which reads fail")
def test_a_file_of_which_reads_fail(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(response("q1"), name="logs.a.jsonl")
    failing = folder.path / "logs.b.jsonl"
    failing.symlink_to(FAILING)
    assert run(*watch(folder, *IDLE, log="logs.*.jsonl")) == 4
    assert f"{failing}: cannot be read: Invalid argument" in ended(capfd.readouterr().err)


@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may read everything"
)
def test_files_without_permission(folder: Folder) -> None:
    logs = folder.path / "logs"
    logs.mkdir()
    for number in range(10):
        (logs / f"{number}.jsonl").write_bytes(to_jsonl([response("q1")]))
    for number in (3, 7):
        (logs / f"{number}.jsonl").chmod(0)
    process = run_bound(watch(folder, *IDLE, log="logs"))
    err = process.stderr.decode()
    assert process.returncode == 4, err
    assert samples(facts_of(process.stdout.decode())[-1]) == 8
    reasons = [
        f"{logs / name}: cannot be read: Permission denied" for name in ("3.jsonl", "7.jsonl")
    ]
    assert ended(err) == f"Error: {'; '.join(reasons)}"


@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may read everything"
)
@pytest.mark.parametrize(
    "log", ["logs", "logs/*.jsonl", "logs/*/a.jsonl", "logs/**/*.jsonl", "logs/a.jsonl"]
)
def test_a_directory_without_permission(folder: Folder, log: str) -> None:
    """It is not said that nothing existed: nobody can know."""
    logs = folder.path / "logs"
    logs.mkdir()
    (logs / "a.jsonl").write_bytes(to_jsonl([response("q1")]))
    logs.chmod(0)
    try:
        process = run_bound(watch(folder, *IDLE, log=log))
    finally:
        logs.chmod(0o700)
    err = process.stderr.decode()
    assert process.returncode == 4, err
    assert ended(err).startswith("Error: ")
    assert f"{logs}: cannot be read: Permission denied" in ended(err)
    assert "never existed" not in err


def test_a_signal_is_no_error(folder: Folder) -> None:
    """What is missing is named, but it might have come later."""
    folder.lines(response("q1"))

    def drive(beside: Beside) -> None:
        beside.facts(lambda facts: samples(facts) == 1)
        beside.signal(signal.SIGTERM)

    missing = folder.file("missing.jsonl")
    code, _, err = run_beside(folder.path, drive, *watch(folder, missing, "--every", "20ms"))
    assert code == 143
    assert f"{missing}: never existed" in err
    assert "Error" not in err


@pytest.mark.parametrize("descriptors", [20, 24, 28, 32])
@pytest.mark.parametrize("resumes", [False, True], ids=["", "journal"])
def test_many_files_with_few_descriptors(folder: Folder, descriptors: int, resumes: bool) -> None:
    logs = folder.path / "logs"
    logs.mkdir()
    for number in range(FILES):
        (logs / f"{number:03}.jsonl").write_bytes(to_jsonl([response("q1")]))
    journal = ["-o", folder.file("r"), "--resume"] if resumes else []
    process = subprocess.run(
        [sys.executable, "-m", "graphrag_eval_async", *watch(folder, *IDLE, *journal, log="logs")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)),
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert process.returncode == 0, process.stderr.decode()
    assert samples(facts_of(process.stdout.decode())[-1]) == FILES
