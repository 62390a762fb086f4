"""Keys at a real terminal, which is restored whatever ends the command."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.cli.watch.session import Session
from tests.cli.watch.test_on_a_terminal import has_row, is_row

if TYPE_CHECKING:
    from tests.cli.support import Folder

COUNT = 30
NOTE = " of 30 templates, "


@pytest.fixture
def watched(folder: Folder) -> list[str]:
    """A command that watches a log with responses of as many templates."""
    reference = [
        {"template_id": f"t{i:02}", "questions": [{"id": f"q{i}", "question_text": "?"}]}
        for i in range(COUNT)
    ]
    log = folder.lines(*[{"question_id": f"q{i}", "elapsed_sec": 1.0} for i in range(COUNT)] * 2)
    return ["watch", folder.write("many.json", orjson.dumps(reference)), log, "--poll-interval", "5ms"]


def templates(screen: list[str]) -> list[str]:
    return [line.split()[0] for line in screen if line[:1] == "t" and line[1:3].isdigit()]


def notes(screen: list[str]) -> list[str]:
    return [line for line in screen if NOTE in line and "scroll" in line]


def test_templates_are_sorted_and_scrolled(watched: list[str]) -> None:
    with Session(*watched, types=True) as session:
        screen = session.until(lambda screen: has_row(screen, "overall", "60") and notes(screen))
        [note] = notes(screen)
        page = len(templates(screen))
        assert note == f"1 to {page}{NOTE}worst first; s sorts, j k PgDn PgUp scroll"
        assert templates(screen)[0] == "t00"
        session.type("j")
        session.until(lambda screen: templates(screen)[:1] == ["t01"])
        session.type("\x1b[6~")
        session.until(lambda screen: templates(screen)[:1] == [f"t{page + 1:02}"])
        session.type("G")
        session.until(lambda screen: templates(screen)[-1:] == ["t29"])
        session.type("s")
        session.until(lambda screen: any(f"1 to {page}{NOTE}by name; " in line for line in screen))
        assert session.is_raw
        session.process.send_signal(signal.SIGINT)
        assert session.finish() == 130
        assert session.modes == session.modes_before
        everything = [*session.emulator.gone, *session.screen]
    assert not notes(everything)  # There are no keys any more.
    assert "jsG" not in "".join(everything)


def test_a_signal_that_ends_it_at_once_restores_the_terminal(watched: list[str]) -> None:
    """The third one, which comes while the terminal takes nothing."""
    with Session(*watched, types=True) as session:
        session.until(notes)
        session.stop_output(True)
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


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--until-idle", "1s"], 0),
        (["-o", "/dev/full"], 4),
        (["--until-idle", "1s", "--gate", "elapsed_sec >= 2"], 1),
        ([], 143),
    ],
)
def test_any_end_restores_the_terminal(watched: list[str], options: list[str], code: int) -> None:
    with Session(*watched, *options, types=True) as session:
        if code == 143:
            session.until(notes)
            session.process.send_signal(signal.SIGTERM)
        assert session.finish() == code
        assert session.modes == session.modes_before


def test_ctrl_z_and_ctrl_c_restore_the_terminal(watched: list[str]) -> None:
    """Behind a shell, since the terminal sends signals only to those whom it controls."""
    command = ["graphrag_eval_async", *watched]
    with Session(*command, types=True, module="tests.cli.watch.shell") as session:
        session.until(notes)
        session.type("\x1a")
        session.until(lambda _: "stopped, shows: True" in session.written)
        session.type("\r")
        session.until(lambda _: session.is_raw)
        session.type("G")
        session.until(lambda screen: templates(screen)[-1:] == ["t29"])
        session.type("\x03")
        session.until(lambda screen: "ended with 130, shows: True" in screen)


def test_no_keys_where_standard_input_is_watched(watched: list[str]) -> None:
    watched[2] = "-"
    with Session(*watched, types=True) as session:
        session.type('{"question_id": "q0"}\n')
        screen = session.until(lambda screen: any(is_row(line, "overall", "1") for line in screen))
        assert not notes(screen)
        assert session.modes == session.modes_before
        session.type("\x04")
        assert session.finish() == 0
