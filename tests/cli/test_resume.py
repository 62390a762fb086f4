from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from tests.cli.support import REFERENCE, Folder, response, run

if TYPE_CHECKING:
    from collections.abc import Sequence


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
        assert (
            orjson.loads((folder.path / "a.json").read_bytes())["micro"][
                "number_of_success_samples"
            ]
            == 3
        )
    assert "3 results and 1 reject from before, 4 lines skipped as done" in told[1]
    tables = [text.partition("\njournal ")[0] for text in told]
    assert tables[0] == tables[1]


def test_damage_is_told(
    folder: Folder, command: Sequence[str], capfd: pytest.CaptureFixture[str]
) -> None:
    run(*command)
    lines = (folder.path / "journal").read_bytes().splitlines(keepends=True)
    folder.write("journal", b"".join([lines[0], b"nonsense\n", *lines[2:]]))
    capfd.readouterr()
    run(*command)
    assert (
        f"1 damaged lines set aside in {folder.file('journal')}.damaged" in capfd.readouterr().out
    )
    assert (folder.path / "journal.damaged").read_bytes() == b"nonsense\n"
    assert sorted(result["question_id"] for result in folder.read("journal")) == ["q1", "q2", "q3"]


def test_a_journal_is_neither_overwritten_nor_mixed(
    folder: Folder, command: Sequence[str], capfd: pytest.CaptureFixture[str]
) -> None:
    run(*command)
    before = (folder.path / "journal").read_bytes()
    assert run(*command[:-1]) == 2
    assert "is a journal, which would be overwritten" in capfd.readouterr().err
    assert (folder.path / "journal").read_bytes() == before
    folder.write("reference.json", orjson.dumps(REFERENCE).replace(b"What of q1", b"What else"))
    assert run(*command) == 2
    assert "was started with another reference (" in capfd.readouterr().err
    assert run(*command[:-1], "--resume=force") == 3
    assert len(folder.read("journal")) == 3


def test_own_output_is_not_read(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.path)
    (folder.path / "logs").mkdir()
    folder.lines(response("q1"), name="logs/a.jsonl")
    for command in (
        "evaluate reference.json logs -o logs/o.jsonl",
        "watch reference.json logs/* --rejects logs/b.jsonl",
    ):
        assert run(*command.split()) == 2
        assert "which are read" in capfd.readouterr().err
    assert run("watch", "reference.json", "logs", "-o", "o.csv") == 2
    assert (
        "'o.csv': this command writes JSON lines; use another name, such as o.jsonl"
        in capfd.readouterr().err
    )
    assert [path.name for path in (folder.path / "logs").iterdir()] == ["a.jsonl"]
