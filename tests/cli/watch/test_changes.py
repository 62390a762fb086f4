from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.watch.changes import ShellCommand
from graphrag_eval_async.monitor.webhooks import MAX_WAITING, Deliveries
from tests.support.loop import leaving_nothing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from graphrag_eval_async.monitor.alerts import Change

LOW, HIGH = "x < 1", "a b: x > 2"
SECONDS = 1000.0  # more than a command takes, however slow the machine is


def change(alert: str = LOW, state: str = "started", value: float | None = 0.5) -> Change:
    return {"alert": alert, "state": state, "value": value}


@asynccontextmanager
async def running(
    command: str, *, seconds: float = SECONDS, waits: float = SECONDS
) -> AsyncIterator[tuple[Deliveries, list[str]]]:
    """Commands, each of which has `seconds`, while the end `waits` for them, and what they say."""
    said: list[str] = []
    async with leaving_nothing():
        run = ShellCommand(command, seconds=seconds)
        commands = Deliveries("--on-alert", run, said.append, seconds=waits)
        yield commands, said
        await commands.aclose()


async def test_it_gets_the_facts_of_each_change_in_their_order(tmp_path: Path) -> None:
    changes = [change(), change(state="ended", value=None), change("x" * 100_000 + ": y < 1")]
    # Those of another alert may come in between.
    command = (
        f"f=$(cat); case $f in *xxx*) g=long;; *) g=facts;; esac; printf '%s\\n' \"$f\" >> {tmp_path}/$g"
    )
    async with running(f"{command}; echo out; echo err >&2") as (commands, said):
        for each in changes:
            commands.add(each)
        await commands.finish()
    lines = [line for name in ("facts", "long") for line in (tmp_path / name).read_text().splitlines()]
    assert [json.loads(line) for line in lines] == changes
    assert not said


async def test_a_command_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with running(f"sleep 1000 > {tmp_path}/pipe & wait", seconds=0.5) as (commands, said):
        commands.add(change())
        with await asyncio.to_thread(open, tmp_path / "pipe", "rb") as pipe:
            assert await asyncio.to_thread(pipe.read) == b""
        await commands.finish()
    assert said == ["--on-alert took more than 0.5 s, and was killed: x < 1, started"]


async def test_those_of_several_alerts_run_beside_each_other(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    # Each end of the pipe waits until the other one is opened.
    command = f"case $(cat) in *'x < 1'*) echo > {tmp_path}/pipe;; *) cat {tmp_path}/pipe;; esac"
    async with running(command) as (commands, said):
        commands.add(change(LOW))
        commands.add(change(HIGH))
        await commands.finish()
    assert not said


async def test_admission_is_bounded_and_abandoned_commands_are_ended(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with running(f"exec sleep 1000 > {tmp_path}/pipe", waits=0.3) as (commands, said):
        commands.add(change())
        pipe = await asyncio.to_thread(open, tmp_path / "pipe", "rb")
        for _ in range(MAX_WAITING + 2):
            commands.add(change())
        assert said == [f"--on-alert is skipped, since {MAX_WAITING} are waiting: x < 1, started"] * 2
        await commands.finish()
    assert said[-1] == "--on-alert: not all were finished at the end"
    with pipe:
        assert await asyncio.to_thread(pipe.read) == b""
