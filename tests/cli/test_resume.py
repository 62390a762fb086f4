from __future__ import annotations

import signal
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.cli.support import REFERENCE, Folder, finish, from_jsonl, response, run, start, until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def command(folder: Folder) -> list[str]:
    """An evaluation of three responses and a line that is none, with a journal."""
    responses = folder.lines(response("q1"), b"{", response("q2", False), response("q3"))
    return ["evaluate", folder.reference, responses, "-o", folder.file("journal"), "--resume"]


def test_a_second_start_evaluates_nothing(
    folder: Folder, command: Sequence[str], capfd: pytest.CaptureFixture[str]
) -> None:
    told = []
    for _ in range(2):
        code = run(*command, "--aggregates", folder.file("a.json"), "--gate", "missing_rate <= 0")
        assert code == 3
        told.append(capfd.readouterr().out)
        assert [result["question_id"] for result in folder.read("journal")] == ["q1", "q2", "q3"]
        assert [reject["source"]["line"] for reject in folder.read("journal.rejects")] == [2]
        assert orjson.loads((folder.path / "a.json").read_bytes())["micro"]["number_of_success_samples"] == 3
    assert "0 results and 0 rejects from before, 0 lines skipped as done" in told[0]
    assert "3 results and 1 rejects from before, 4 lines skipped as done" in told[1]
    tables = [text.partition("\njournal ")[0] for text in told]
    assert tables[0] == tables[1]


def test_missing_lines_are_evaluated(folder: Folder, command: Sequence[str]) -> None:
    run(*command)
    whole = (folder.path / "journal").read_bytes()
    folder.write("journal", whole[:-30])
    run(*command)
    assert (folder.path / "journal").read_bytes() == whole


def test_damage_is_told(folder: Folder, command: Sequence[str], capfd: pytest.CaptureFixture[str]) -> None:
    run(*command)
    lines = (folder.path / "journal").read_bytes().splitlines(keepends=True)
    folder.write("journal", b"".join([lines[0], b"nonsense\n", *lines[2:]]))
    capfd.readouterr()
    run(*command)
    assert f"1 damaged lines set aside in {folder.file('journal')}.damaged" in capfd.readouterr().out
    assert (folder.path / "journal.damaged").read_bytes() == b"nonsense\n"
    assert sorted(result["question_id"] for result in folder.read("journal")) == ["q1", "q2", "q3"]


def test_rejects_in_a_file_of_their_own(folder: Folder, command: Sequence[str]) -> None:
    for _ in range(2):
        assert run(*command, "--rejects", folder.file("bad")) == 3
        assert [reject["reason"] for reject in folder.read("bad")] == ["invalid_json"]
    assert not (folder.path / "journal.rejects").exists()


@pytest.mark.parametrize("more", [[], ["--rejects"]])
def test_a_long_list_of_rejects_names_the_file_that_has_all(
    folder: Folder, more: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    name = folder.file("bad" if more else "out.rejects")
    lines = folder.lines(*[b"{"] * 12, name="rejected.jsonl")
    options = ["-o", folder.file("out"), "--resume", *(more and [*more, name])]
    assert run("evaluate", folder.reference, lines, *options) == 3
    assert f"... and 2 more; {name} has all of them\n" in capfd.readouterr().err
    assert len(folder.read("bad" if more else "out.rejects")) == 12


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["-o", "-"], "--resume needs -o FILE"),
        (["--rejects", "-"], "no --rejects on standard output"),
        (["--stages"], "--stages cannot be combined with --resume"),
        (["--resume=nonsense"], "'nonsense': expected --resume or --resume=force"),
        (["--aggregates", "a.json", "--rejects", "a.json"], "given twice"),
    ],
)
def test_incompatible_options(
    folder: Folder, command: Sequence[str], more: Sequence[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(*command, *more) == 2
    assert told in capfd.readouterr().err
    assert not (folder.path / "journal").exists()


@pytest.mark.parametrize("fsync", ["interval", "always"])
def test_a_sync_needs_a_journal(folder: Folder, fsync: str, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", folder.reference, folder.lines(response("q1")), "-o", folder.file("out")]
    assert run(*arguments, "--fsync", fsync) == 2
    assert "--fsync needs --resume" in capfd.readouterr().err
    assert not (folder.path / "out").exists()


def test_a_journal_is_not_overwritten(
    folder: Folder, command: Sequence[str], capfd: pytest.CaptureFixture[str]
) -> None:
    run(*command)
    before = (folder.path / "journal").read_bytes()
    assert run(*command[:-1]) == 2
    assert "is a journal, which would be overwritten" in capfd.readouterr().err
    assert (folder.path / "journal").read_bytes() == before


def test_another_reference_set_needs_force(
    folder: Folder, command: Sequence[str], capfd: pytest.CaptureFixture[str]
) -> None:
    run(*command)
    changed: list[Any] = orjson.loads(orjson.dumps(REFERENCE))
    changed[0]["questions"][0]["question_text"] = "What else?"
    folder.write("reference.json", orjson.dumps(changed))
    assert run(*command) == 2
    assert "was started with another reference (" in capfd.readouterr().err
    assert run(*command[:-1], "--resume=force") == 3
    assert run(*command) == 3
    assert len(folder.read("journal")) == 3


def test_the_second_of_two_is_refused(folder: Folder) -> None:
    first = start("evaluate", folder.reference, "-", "-o", folder.file("journal"), "--resume", stdin=PIPE)
    assert first.stdin is not None
    first.stdin.write(orjson.dumps(response("q1")) + b"\n")
    first.stdin.flush()
    until(first, lambda: is_begun(folder), "the first result")
    for command in ("evaluate", "watch"):
        refused(folder, command, "journal", 2, "another process, or another stream of this one, writes to it")
    assert finish(first)[0] == 0


def refused(folder: Folder, command: str, journal: str, expected: int, told: str) -> None:
    """See that a run which cannot begin says so, and does nothing else."""
    responses = folder.lines(response("q1"))
    aggregates = folder.write("a.json", b"those of an earlier run")
    before = contents(folder)
    outputs = ["-o", journal, "--resume", "--aggregates", aggregates, "--gate", "steps_score >= 0.5"]
    code, out, err = finish(start(command, folder.reference, responses, *outputs, cwd=folder.path))
    assert code == expected
    assert not out
    [line] = err.splitlines()
    assert line.startswith("Error: ")
    assert told in line
    assert contents(folder) == before


def is_begun(folder: Folder) -> bool:
    """Whether the journal has its first result."""
    journal = folder.path / "journal"
    return journal.exists() and journal.read_bytes().count(b"\n") == 1


def contents(folder: Folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.path.iterdir()}


@pytest.mark.parametrize("command", ["evaluate", "watch"])
@pytest.mark.parametrize(
    ("journal", "expected", "told"),
    [
        ("journal", 2, "was started with another reference"),
        ("nowhere/journal", 4, "nowhere/journal"),
        (".", 4, ".: cannot be opened"),
    ],
)
def test_failed_start_changes_nothing(
    folder: Folder, command: str, journal: str, expected: int, told: str
) -> None:
    other = folder.write("other.json", orjson.dumps(REFERENCE[:1]))
    arguments = ["evaluate", other, folder.lines(response("q1")), "-o", folder.file("journal"), "--resume"]
    assert run(*arguments) == 0
    refused(folder, command, journal, expected, told)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_writes_pending_output(folder: Folder, number: signal.Signals, code: int) -> None:
    outputs = ["-o", folder.file("journal"), "--resume", "--aggregates", folder.file("a.json")]
    process = start("evaluate", folder.reference, "-", *outputs, stdin=PIPE)
    assert process.stdin is not None
    process.stdin.write(orjson.dumps(response("q1")) + b"\n")
    process.stdin.flush()
    until(process, lambda: is_begun(folder), "the first result")
    process.send_signal(number)
    done, out, err = finish(process)
    assert done == code
    assert "Error" not in err
    assert "Traceback" not in err
    assert "results: 1, rejected lines: 0" in out
    assert orjson.loads((folder.path / "a.json").read_bytes())["micro"]["number_of_success_samples"] == 1
    assert len(from_jsonl((folder.path / "journal").read_bytes())) == 1


def test_not_a_file(folder: Folder) -> None:
    (folder.path / "journal").symlink_to("/dev/full")
    process = start(
        "evaluate", folder.reference, folder.lines(response("q1")), "-o", folder.file("journal"), "--resume"
    )
    code, _, err = finish(process, None)
    assert code == 4
    assert "journal: cannot be opened for writing: it is not a regular file" in err


@pytest.mark.parametrize("source", ["logs", "logs/*"])
@pytest.mark.parametrize("more", [["-o", "logs/out.jsonl"], ["--rejects", "logs/bad.jsonl", "-o", "r"]])
@pytest.mark.parametrize("command", ["evaluate", "watch"])
def test_own_output_is_not_read(
    folder: Folder,
    command: str,
    source: str,
    more: Sequence[str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder.path)
    (folder.path / "logs").mkdir()
    folder.lines(response("q1"), name="logs/a.jsonl")
    assert run(command, folder.reference, source, *more) == 2
    assert "which are read" in capfd.readouterr().err
    assert [path.name for path in (folder.path / "logs").iterdir()] == ["a.jsonl"]
