from __future__ import annotations

import asyncio
import json
import math
import sys
import threading
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.cli.watch.views import Lines, Screen
from graphrag_eval_async.monitor.windows import Trends
from tests.cli.watch.support import facts
from tests.cli.watch.test_terminal import Screen as Terminal
from tests.cli.watch.test_terminal import Stream
from tests.conftest import leaving_nothing
from tests.deadlines import wait

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest
    from rich.text import Text


class Drawn(Terminal):
    """A terminal that lets a test wait until something was drawn."""

    def __init__(self) -> None:
        super().__init__(80, 24)
        self.times: asyncio.Queue[None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def draw(self, render: Callable[[int, int], Sequence[Text]], *, above: Sequence[str] = ()) -> None:
        super().draw(render, above=above)
        self._loop.call_soon_threadsafe(self.times.put_nowait, None)


class Shown:
    """Facts to be shown, and for how many templates and on which thread they were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, int]] = []
        self.prepared = 0

    async def prepare(self) -> None:
        self.prepared += 1

    def collect(self, detailed: float) -> dict[str, Any]:
        self.asked.append((detailed, threading.get_ident()))
        return facts()


def _shown() -> Any:
    return Shown()


async def test_foreign_output_appears_above_the_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("graphrag_eval_async.cli.watch.views.DRAW_SECONDS", 0.01)
    stderr = Stream()
    monkeypatch.setattr(sys, "stderr", stderr)
    terminal = Drawn()
    view = Screen(terminal, _shown(), Trends(Last(200)))
    async with leaving_nothing():
        task = asyncio.create_task(view.loops[0]())
        await terminal.times.get()
        print("one\ntw", end="", file=sys.stderr)  # noqa: T201
        print("o", file=sys.stderr)  # noqa: T201
        print("old\x1b[2J ways", file=sys.stderr)  # noqa: T201
        view.say("said")
        await terminal.times.get()
        await terminal.times.get()
        task.cancel()
        await asyncio.wait([task])
    view.finish(shown=True)
    terminal.show_written()
    shown = [*terminal.emulator.gone, *terminal.emulator.screen]
    assert shown[:4] == ["one", "two", "old\\x1b[2J ways", "said"]
    assert sum(line.startswith("watching") for line in shown) == 1
    assert not stderr.getvalue()
    assert sys.stderr is stderr


class Slow(Drawn):
    """A terminal that takes its time for the first view."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def draw(self, render: Callable[[int, int], Sequence[Text]], *, above: Sequence[str] = ()) -> None:
        if not self.begun.is_set():
            self.begun.set()
            assert self.go_on.wait(30)
        super().draw(render, above=above)


async def test_no_view_is_drawn_after_the_end() -> None:
    """One that is being drawn when its task is cancelled is in a thread, which goes on."""
    terminal = Slow()
    view = Screen(terminal, _shown(), Trends(Last(200)))
    async with leaving_nothing():
        task = asyncio.create_task(view.loops[0]())
        await asyncio.to_thread(wait, terminal.begun)
        task.cancel()
        await asyncio.wait([task])
        ending = asyncio.create_task(asyncio.to_thread(view.finish, shown=False))
        await asyncio.wait([ending], timeout=0.05)  # Which it would not need to end too early.
        terminal.go_on.set()
        await ending
        await terminal.times.get()
        await terminal.times.get()
    terminal.show_written()
    assert not any(terminal.emulator.screen)


class Printed:
    """Standard output, in memory."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, line: bytes) -> None:
        self.lines.put_nowait(line)

    def write(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            self.lines.put_nowait(line)


async def test_intervals_of_lines_are_not_made_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def complete(_facts: object) -> None:
        threads.append(threading.get_ident())

    monkeypatch.setattr("graphrag_eval_async.cli.watch.views.complete", complete)
    stdout: Any = Printed()
    shown: Any = Shown()
    view = Lines(stdout, shown, 0.001)
    async with leaving_nothing():
        task = asyncio.create_task(view.loops[0]())
        line = json.loads(await stdout.lines.get())
        task.cancel()
        await asyncio.wait([task])
    assert len(line.pop("results")) == 10
    assert line.items() <= facts().items()
    assert shown.asked[0] == (math.inf, threading.get_ident())
    assert shown.prepared in {len(shown.asked), len(shown.asked) + 1}
    assert threads
    assert threading.get_ident() not in threads


def test_a_screen_asks_for_details_of_as_many_templates_as_it_may_show() -> None:
    shown: Any = Shown()
    Screen(Terminal(80, 60), shown, Trends(Last(200))).finish(shown=True)
    assert [detailed for detailed, _ in shown.asked] == [10]


async def test_messages_are_told_once_whenever_it_ends(capfd: pytest.CaptureFixture[str]) -> None:
    for turns in range(8):
        stdout: Any = Printed()
        view = Lines(stdout, _shown(), 1000)
        async with leaving_nothing():
            task = asyncio.create_task(view.loops[1]())
            await asyncio.sleep(0)
            view.say("said")
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            view.finish(shown=True)
        assert capfd.readouterr().err == "said\n", turns
