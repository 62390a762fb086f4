"""The command behind a terminal, and what can be seen there."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.cli.support import failed, response, until
from tests.cli.watch.session import Session
from tests.cli.watch.support import append

if TYPE_CHECKING:
    import pytest

    from tests.cli.support import Folder

SUMMARY = "results: {}, rejected lines: {}, questions without a response: {} of 3"


def is_row(line: str, name: str, *cells: str) -> bool:
    """Whether a line has a name and, after it, these cells."""
    return line.split()[: 1 + len(cells)] == [name, *cells]


def has_row(screen: list[str], name: str, *cells: str) -> bool:
    return any(is_row(line, name, *cells) for line in screen)


def is_one_view(session: Session) -> bool:
    """Whether there is a view, whole, and nothing else."""
    screen = session.screen
    titles = [i for i, line in enumerate(screen) if line.startswith("watching ")]
    return (
        titles == [0]
        and sum(is_row(line, "overall") for line in screen) == 1
        and max(map(len, screen)) < session.emulator.columns
    )


def test_the_view_follows_the_log_and_the_terminal(folder: Folder) -> None:
    log = folder.lines(*[response("q1")] * 3, failed("q3"))
    with Session("watch", folder.reference, log, "--window", "4", "--poll-interval", "5ms") as session:
        session.until(lambda screen: has_row(screen, "overall", "4", "1", "1.000") and is_one_view(session))
        append(folder, *[response("q2", False)] * 4)
        rows = [
            *(("overall", "8", "1", "0.500"), ("last", "4", "4", "0", "0.000")),
            *(("colours", "7", "0", "0.500"), ("a:b=c", "1", "1"), ("q2", "#4", "0.000")),
        ]
        session.until(lambda screen: all(has_row(screen, *row) for row in rows))
        for columns, height in [(60, 20), (120, 40), (40, 8), (80, 24)]:
            session.resize(columns, height)
            assert len(session.until(lambda _screen: is_one_view(session))) < height
        session.process.send_signal(signal.SIGINT)
        assert session.finish() == 130
    assert session.emulator.coloured
    everything = [*session.emulator.gone, *session.screen]
    assert SUMMARY.format(8, 0, 0) in everything


def test_alerts_stand_above_the_view_and_stay(folder: Folder) -> None:
    log = folder.lines(response("q1", False))
    alert = ["--alert", "steps_score < 0.5 over 1", "--on-alert", "exit 1"]
    with Session("watch", folder.reference, log, "--poll-interval", "5ms", *alert) as session:
        session.until(lambda screen: any(line.startswith("ALERT steps_score") for line in screen))
        session.until(lambda screen: "--on-alert ended with exit code 1" in screen[1])
        append(folder, response("q1"))
        screen = session.until(lambda screen: any(" alert ended: " in line for line in screen))
        assert [line.split(" ", 1)[1] for line in screen if " alert " in line] == [
            "alert started: steps_score < 0.5 over 1: 0",
            "alert ended: steps_score < 0.5 over 1: 1",
        ]
        session.until(lambda screen: not any(line.startswith("ALERT") for line in screen))
        assert "\x1b[?" not in session.written  # Such as what hides the cursor.
        session.process.kill()
        session.finish()
        session.emulator.feed("\r$ ")
        assert session.screen[-1] == "$"
    assert [*session.emulator.gone, *session.screen][0] == screen[0]


def test_the_last_view_stays_and_the_report_comes_below(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    log = folder.lines(*[response("q1")] * 3, b"{")
    options = ["--until-idle", "50ms", "--poll-interval", "5ms", "--gate", "steps_score > 1"]
    with Session("watch", folder.reference, log, *options, rows=60) as session:
        assert session.finish() == 3
        screen = session.screen
    assert sum(line.startswith("watching ") for line in screen) == 1
    assert has_row(screen, "overall", "3", "0", "1.000")
    assert not session.emulator.coloured
    assert screen[-2:] == [SUMMARY.format(3, 1, 2), "gate failed: steps_score > 1: the mean is 1"]
    assert sum("invalid_json" in line for line in screen) == 3  # In the view, in the list and in the counts.


def test_a_stopped_terminal_delays_nothing(folder: Folder) -> None:
    log = folder.lines(response("q1"))
    results = folder.path / "results.jsonl"
    with Session("watch", folder.reference, log, "--poll-interval", "5ms", "-o", str(results)) as session:
        session.until(lambda screen: has_row(screen, "overall", "1"))
        session.stop_output(True)
        append(folder, *[response("q2")] * 500)
        until(session.process, lambda: results.read_bytes().count(b"\n") == 501, "501 results")
        append(folder, *[response("q2")] * 500)
        until(session.process, lambda: results.read_bytes().count(b"\n") == 1001, "1001 results")
        session.stop_output(False)
        session.until(lambda screen: has_row(screen, "overall", "1001") and is_one_view(session))
        session.process.send_signal(signal.SIGINT)
        assert session.finish() == 130
