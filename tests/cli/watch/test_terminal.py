"""The command behind a terminal: what can be seen there, and that it stays as it was."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.cli.support import until
from tests.cli.watch.session import Session
from tests.cli.watch.support import append

if TYPE_CHECKING:
    from tests.cli.support import Folder

COUNT = 30
NOTE = "lowest of 30 templates"
ALERT = ["--alert", "error_rate > 0.5 over 1", "--on-alert", "exit 1"]


@pytest.fixture
def watched(folder: Folder) -> list[str]:
    """A command that watches a log with responses of as many templates."""
    reference = [
        {"template_id": f"t{i:02}", "questions": [{"id": f"q{i}", "question_text": "?"}]}
        for i in range(COUNT)
    ]
    log = folder.lines(*[{"question_id": f"q{i}", "elapsed_sec": 1.0} for i in range(COUNT)] * 2)
    return ["watch", folder.write("many.json", orjson.dumps(reference)), log]


def says(screen: list[str], text: str) -> bool:
    """Whether a line has the text."""
    return any(text in line for line in screen)


def templates(screen: list[str]) -> list[str]:
    return [line.split()[0] for line in screen if line[:1] == "t" and line[1:3].isdigit()]


def notes(screen: list[str]) -> list[str]:
    return [line for line in screen if line.startswith(NOTE)]


def is_one_view(session: Session) -> bool:
    """Whether there is a view, whole, and nothing else."""
    screen = session.screen
    titles = [line for line in screen if line.startswith("watching ")]
    return (
        screen[0].startswith("Too early to say")
        and len(titles) == 1
        and max(map(len, screen)) < session.emulator.columns
    )


def test_the_view_follows_the_log_and_the_terminal(folder: Folder, watched: list[str]) -> None:
    with Session(*watched, *ALERT) as session:
        screen = session.until(lambda screen: says(screen, "all 60") and notes(screen))
        assert len(notes(screen)) == 1
        assert 3 <= len(templates(screen)) < COUNT
        assert session.modes == session.modes_before
        for columns, height in [(60, 20), (120, 40), (40, 8), (80, 24)]:
            session.resize(columns, height)
            assert len(session.until(lambda _screen: is_one_view(session))) < height
        append(folder, {"question_id": "q0", "error": "down"})
        session.until(lambda screen: any(line.startswith("ALERT error_rate") for line in screen))
        session.until(
            lambda _: any("--on-alert ended with exit code 1" in line for line in session.rows)
        )
        append(folder, {"question_id": "q0"})
        session.until(lambda _: any(" alert ended: " in line for line in session.rows))
        session.process.send_signal(signal.SIGINT)
        assert session.finish() == 130
        assert session.modes == session.modes_before
        everything = session.rows
    assert session.emulator.coloured
    assert "\x1b[?" not in session.written  # Such as what hides the cursor.
    assert any(line.startswith("results: 62, rejected lines: 0") for line in everything)


def test_a_stopped_terminal_delays_nothing(folder: Folder, watched: list[str]) -> None:
    """Not even the third signal, which ends the process at once."""
    results = folder.path / "results.jsonl"
    with Session(*watched, "-o", str(results)) as session:
        session.until(notes)
        session.stop_output(True)
        for count in (560, 1060):
            append(folder, *[{"question_id": "q2"}] * 500)
            until(
                session.process,
                lambda count=count: results.read_bytes().count(b"\n") == count,  # type: ignore[misc]
                "more results",
            )
        for _ in range(50):
            session.process.send_signal(signal.SIGTERM)
            try:
                session.process.wait(0.6)
            except subprocess.TimeoutExpired:
                continue
            break
        session.stop_output(False)
        assert session.finish() == 143
        assert session.modes == session.modes_before


def test_the_last_view_stays_and_the_report_comes_below(
    folder: Folder, watched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    append(folder, b"{")
    options = ["--until-idle", "200ms", "--gate", "elapsed_sec >= 2"]
    with Session(*watched, *options, rows=60) as session:
        assert session.finish() == 3
        assert session.modes == session.modes_before
        screen = session.rows
    assert sum(line.startswith("watching ") for line in screen) == 1
    assert says(screen, "all 60")
    assert not session.emulator.coloured
    assert screen[-1] == "gate failed: elapsed_sec >= 2: the mean is 1"
