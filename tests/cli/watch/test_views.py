from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.cli.watch.views import Screen, Terminal
from tests.cli.watch.emulator import Emulator
from tests.cli.watch.support import facts
from tests.support.deadlines import wait
from tests.support.loop import leaving_nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Stream(StringIO):
    """A standard stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Emulated(Terminal):
    """A terminal, and the emulator that shows what is written to it."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._now = columns, rows
        self.emulator, self._written = Emulator(columns, rows), Stream()
        super().__init__(self._written)

    def size(self) -> tuple[int, int]:
        return self._now

    def resize(self, columns: int, rows: int) -> None:
        self._now = columns, rows
        self.emulator.resize(columns, rows)

    def draw(self, render: Callable[[int, int], Sequence[Text]], above: Sequence[str] = ()) -> None:
        super().draw(render, above)
        self.emulator.feed(self._written.getvalue().replace("\n", "\r\n"))  # As terminals are set to do.
        self._written.seek(0)
        self._written.truncate()

    def show(self, *lines: str | Text, above: Sequence[str] = ()) -> list[str]:
        """What the terminal shows then."""
        self.draw(lambda _width, _height: [Text.assemble(line) for line in lines], above)
        return self.emulator.screen


SIZES = st.tuples(st.integers(2, 40), st.integers(3, 12))
LONG = st.builds(str.__mul__, st.sampled_from(["a", "ab ", "a\u754c"]), st.integers(0, 40))
STEPS = st.tuples(
    st.none() | SIZES,
    st.lists(LONG, max_size=11),
    st.lists(st.text("xy\u754c", min_size=1, max_size=50), max_size=2),
)


@given(SIZES, st.lists(STEPS, max_size=12))
def test_the_view_is_erased_completely(
    size: tuple[int, int], steps: list[tuple[tuple[int, int] | None, list[str], list[str]]]
) -> None:
    """Whatever is drawn, however the terminal's size changes: only what stays stands above the lines."""
    terminal = Emulated(*size)
    columns, rows = size
    for resized, texts, above in steps:
        if resized is not None:
            columns, rows = resized
            terminal.resize(columns, rows)
        lines = [Text(text) for text in texts[: rows - 1]]
        for line in lines:
            line.truncate(columns - 1)
        visible = terminal.show(*lines, above=above)
        shown = [line.plain.rstrip() for line in lines]
        while shown and not shown[-1]:
            shown.pop()
        assert visible[len(visible) - len(shown) :] == shown
        assert not set("ab") & set("".join(visible[: len(visible) - len(shown)]))


class Shown:
    """Facts that never change."""

    async def prepare(self) -> None:
        pass

    def collect(self, _detailed: float) -> dict[str, Any]:
        return facts()


class Slow(Emulated):
    """A terminal that takes its time for a view, and then sets `drawn`."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on, self.drawn = threading.Event(), threading.Event(), threading.Event()

    def draw(self, render: Callable[[int, int], Sequence[Text]], above: Sequence[str] = ()) -> None:
        self.begun.set()
        wait(self.go_on)
        super().draw(render, above)
        self.drawn.set()


async def test_foreign_output_appears_above_the_view() -> None:
    terminal, stderr = Slow(), Stream()
    view: Any = Screen(Shown(), terminal, Last(200))  # type: ignore[arg-type]
    async with leaving_nothing():
        with redirect_stderr(stderr):
            task = asyncio.create_task(view.loops[0]())
            await asyncio.to_thread(wait, terminal.begun)
            print("one\ntw", end="", file=sys.stderr)  # noqa: T201
            print("o\nold\x1b[2J ways", file=sys.stderr)  # noqa: T201
            view.say("said")
            terminal.go_on.set()
            await asyncio.to_thread(wait, terminal.drawn)
            task.cancel()
            await asyncio.wait([task])
            assert sys.stderr is stderr
    await asyncio.to_thread(view.finish, shown=True)
    everything = [*terminal.emulator.gone, *terminal.emulator.screen]
    assert everything[:4] == ["one", "two", "old\\x1b[2J ways", "said"]
    assert sum(line.startswith("watching") for line in everything) == 1
    assert not stderr.getvalue()


async def test_no_view_is_drawn_after_the_end() -> None:
    """One that is being drawn when its task is cancelled is in a thread, which goes on."""
    terminal = Slow()
    view: Any = Screen(Shown(), terminal, Last(200))  # type: ignore[arg-type]
    async with leaving_nothing():
        task = asyncio.create_task(view.loops[0]())
        await asyncio.to_thread(wait, terminal.begun)
        task.cancel()
        await asyncio.wait([task])
        ending = asyncio.create_task(asyncio.to_thread(view.finish, shown=False))
        await asyncio.wait([ending], timeout=0.05)  # Which it would not need to end too early.
        terminal.go_on.set()
        await ending
    assert not any(terminal.emulator.screen)
