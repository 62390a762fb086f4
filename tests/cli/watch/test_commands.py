from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

from graphrag_eval_async.cli.watch import commands as commands_module
from graphrag_eval_async.cli.watch.commands import ShellCommand
from graphrag_eval_async.monitor.deliveries import MAX_WAITING, Deliveries
from tests.conftest import leaving_nothing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from graphrag_eval_async.monitor.alerts import Change

LOW, HIGH = "x < 1", "a b: x > 2"
SECONDS = 1000.0
"""More than a command takes, however slow the machine is."""


def change(alert: str = LOW, state: str = "started", value: float | None = 0.5) -> Change:
    return {"alert": alert, "state": state, "value": value}


@asynccontextmanager
async def running(
    command: str, *, seconds: float = SECONDS, waits: float = SECONDS
) -> AsyncIterator[tuple[Deliveries, list[str]]]:
    """Commands, each of which has `seconds`, while the end `waits` for them, and what they say."""
    said: list[str] = []
    async with leaving_nothing():
        commands = Deliveries(
            "--on-alert", ShellCommand(command, seconds=seconds), said.append, seconds=waits
        )
        yield commands, said
        await commands.aclose()


async def test_it_gets_the_facts_of_each_change_in_their_order(tmp_path: Path) -> None:
    changes = [change(), change(state="ended", value=None), change()]
    async with running(f"cat >> {tmp_path}/facts; echo out; echo err >&2") as (commands, said):
        for each in changes:
            commands.add(each)
        await commands.finish()
    lines = (tmp_path / "facts").read_text().splitlines()
    assert [json.loads(line) for line in lines] == changes
    assert not said


async def test_a_command_that_fails_is_told() -> None:
    async with running("exit 3") as (commands, said):
        commands.add(change(HIGH, "ended"))
        await commands.finish()
    assert said == ["--on-alert ended with exit code 3: a b: x > 2, ended"]


async def test_a_command_need_not_read() -> None:
    async with running("true") as (commands, said):
        commands.add(change("x" * 100_000 + ": y < 1"))
        await commands.finish()
    assert not said


async def test_a_command_that_hangs_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    timeouts: list[asyncio.Timeout] = []

    def timeout(seconds: float) -> asyncio.Timeout:
        """One that ends when the test says so."""
        assert seconds == 1
        timeouts.append(asyncio.Timeout(None))
        return timeouts[-1]

    monkeypatch.setattr(commands_module, "asyncio", SimpleNamespace(**vars(asyncio) | {"timeout": timeout}))
    async with running(f"sleep 1000 > {tmp_path}/pipe & wait", seconds=1) as (commands, said):
        commands.add(change())
        with await asyncio.to_thread(open, tmp_path / "pipe", "rb") as pipe:
            [its] = timeouts
            its.reschedule(asyncio.get_running_loop().time())
            assert await asyncio.to_thread(pipe.read) == b""
        await commands.finish()
    assert said == ["--on-alert took more than 1 s, and was killed: x < 1, started"]


async def test_those_of_several_alerts_run_beside_each_other(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    # Each end of the pipe waits until the other one is opened.
    command = f"case $(cat) in *'x < 1'*) echo > {tmp_path}/pipe;; *) cat {tmp_path}/pipe;; esac"
    async with running(command) as (commands, said):
        commands.add(change(LOW))
        commands.add(change(HIGH))
        await commands.finish()
    assert not said


async def test_one_that_cannot_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_args: Any, **_more: Any) -> NoReturn:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_shell", refuse)
    async with running("true") as (commands, said):
        commands.add(change())
        await commands.finish()
    assert said == ["--on-alert cannot run: Resource temporarily unavailable: x < 1, started"]


async def test_admission_is_bounded() -> None:
    async with running("exec sleep 1000", waits=0.3) as (commands, said):
        commands.add(change())
        await asyncio.sleep(0)
        for _ in range(MAX_WAITING + 2):
            commands.add(change())
        assert said == [f"--on-alert is skipped, since {MAX_WAITING} are waiting: x < 1, started"] * 2
        await commands.finish()
    assert said[-1] == "--on-alert: not all were finished at the end"


async def test_abandoned_tasks_are_cleaned_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with running(f"exec sleep 1000 > {tmp_path}/pipe") as (commands, said):
        commands.add(change())
        pipe = await asyncio.to_thread(open, tmp_path / "pipe", "rb")
    with pipe:
        assert await asyncio.to_thread(pipe.read) == b""
    assert not said
