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
from tests.cli.watch.test_watch import IDLE, samples, watch
from tests.cli.watch.test_watch import facts as facts_of

if TYPE_CHECKING:
    from tests.cli.beside import Beside

FILES = 300

BOUND_BY_PERMISSIONS = (
    ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
)
"""Begins a command to which the permissions of files apply, even if root runs it."""
FAILING = Path("/sys/class/net/lo/speed")
"""A file of a size, of which each read fails where the network is Linux's own."""


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
    process = subprocess.run(
        [
            *BOUND_BY_PERMISSIONS,
            sys.executable,
            "-m",
            "graphrag_eval_async",
            *watch(folder, *IDLE, log="logs"),
        ],
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    err = process.stderr.decode()
    assert process.returncode == 4, err
    assert samples(facts_of(process.stdout.decode())[-1]) == 8
    reasons = [
        f"{logs / name}: cannot be read: Permission denied" for name in ("3.jsonl", "7.jsonl")
    ]
    assert ended(err) == f"Error: {'; '.join(reasons)}"


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
