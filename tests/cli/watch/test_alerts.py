"""`watch --alert`: a command at each change, and what is kept of alerts."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import orjson

from graphrag_eval_async.cli.commands.watch.changes import MAX_WAITING, AlertCommand
from tests.cli.beside import Beside, run_beside
from tests.cli.support import COLOURS, response, run
from tests.cli.watch.support import append
from tests.support.loop import leaving_nothing
from tests.support.watching import IDLE, RESPONSES, watch

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from graphrag_eval_async.monitor.alerts import Change
    from tests.cli.support import Folder

ALERT = f"{COLOURS}: steps_score < 0.5 over 2"


async def test_commands_that_hang_are_killed_with_all_that_they_started(tmp_path: Path) -> None:
    """After their time, and at the end; meanwhile, only so many changes wait."""
    os.mkfifo(tmp_path / "pipe")
    change: Change = {"alert": "x < 1", "state": "started", "value": 0.5}
    said: list[str] = []
    async with leaving_nothing():
        slow = AlertCommand("sleep 1000 & wait", said.append, kill_after=0.1)
        slow.add(change)
        await slow.finish()
        assert said == ["--on-alert took more than 0.1 s, and was killed: x < 1, started"]
        said.clear()

        command = f"sleep 1000 > {tmp_path}/pipe & wait"
        commands = AlertCommand(command, said.append, kill_after=1000, wait_at_end=0.3)
        commands.add(change)
        with await asyncio.to_thread(open, tmp_path / "pipe", "rb") as pipe:
            for _ in range(MAX_WAITING + 2):
                commands.add(change)
            assert (
                said
                == [f"--on-alert is skipped, since {MAX_WAITING} are waiting: x < 1, started"] * 2
            )
            await commands.finish()
            await commands.aclose()
            assert await asyncio.to_thread(pipe.read) == b""
    assert said[-1] == "--on-alert: not all were finished at the end"


def test_alerts_run_a_command_and_outlive_the_run(folder: Folder) -> None:
    """One that is still on is not told a second time; the file is written while they are on."""
    folder.lines(*[response("q1", False)] * 4)
    told, kept = folder.path / "told", folder.path / "results.jsonl.watch"
    command = watch(
        folder,
        *(
            "-o",
            folder.file("results.jsonl"),
            "--resume",
            "--on-alert",
            f"cat >> {told}",
            "--every",
            "20ms",
        ),
        *("--alert", ALERT, "--alert", "error_rate < 0.5 over 2"),
    )

    def begin(beside: Beside) -> None:
        [first, _] = beside.facts(lambda facts: len(facts["alerts"]) == 2)["alerts"]
        assert (first["template"], first["value"], first["samples"]) == (COLOURS, 0.0, 2)
        beside.until(lambda: told.exists() and told.read_bytes().count(b"\n") == 2, "the commands")
        is_kept = lambda: kept.exists() and len(orjson.loads(kept.read_bytes())["alerts"]) == 2  # noqa: E731
        beside.until(is_kept, "both alerts")
        beside.signal()

    def go_on(beside: Beside) -> None:
        assert len(beside.facts(lambda facts: facts["journal"] and facts["alerts"])["alerts"]) == 2
        append(folder, *[response("q1")] * 4)
        beside.until(lambda: told.read_bytes().count(b"\n") == 3, "the end of the alert")
        beside.signal()

    assert run_beside(folder.path, begin, *command)[0] == 130
    code, _, err = run_beside(folder.path, go_on, *command)
    assert code == 130
    states = [(change["alert"], change["state"], change["value"]) for change in folder.read("told")]
    assert min(states[:2]) == (ALERT, "started", 0.0)
    assert states[2:] == [(ALERT, "ended", 1.0)]
    assert f"alert ended: {ALERT}: 1" in err
    assert "alert started" not in err


def test_a_file_that_watch_did_not_keep(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    folder.lines(*RESPONSES)
    path = folder.write("results.jsonl.watch", b"[1]")
    options = ["-o", folder.file("results.jsonl"), "--resume", "--alert", "steps_score < 1"]
    assert run(*watch(folder, *IDLE, *options)) == 2
    assert f"Error: {path!r} was not written by watch" in capfd.readouterr().err


def test_a_command_that_fails_is_reported(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.lines(*[response("q1", False)] * 3)
    assert run(*watch(folder, *IDLE, "--alert", ALERT, "--on-alert", "exit 3")) == 0
    said = f"--on-alert ended with exit code 3: {ALERT}, started"
    assert said in capfd.readouterr().err.splitlines()
