from __future__ import annotations

import asyncio
import sys
from contextlib import redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from graphrag_eval_async.cli.commands.watch.views import Screen, Terminal
from graphrag_eval_async.monitor.facts import COURSES
from graphrag_eval_async.reports.history import History
from tests.cli.watch.emulator import Emulator
from tests.cli.watch.support import facts
from tests.support.deadlines import until
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
        # As terminals are set to do.
        self.emulator.feed(self._written.getvalue().replace("\n", "\r\n"))
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
        return facts() | {COURSES: History().courses()}


async def test_foreign_output_appears_above_the_view() -> None:
    terminal, stderr = Emulated(), Stream()
    view: Any = Screen(Shown(), terminal)  # type: ignore[arg-type]
    async with leaving_nothing():
        with redirect_stderr(stderr):
            task = asyncio.create_task(view.loops[0]())
            await until(lambda: sys.stderr is not stderr, "the view")
            print("one\ntw", end="", file=sys.stderr)  # noqa: T201
            print("o\nold\x1b[2J ways", file=sys.stderr)  # noqa: T201
            view.say("said")
            task.cancel()
            await asyncio.wait([task])
            assert sys.stderr is stderr
    await asyncio.to_thread(view.finish, shown=True)
    everything = [*terminal.emulator.gone, *terminal.emulator.screen]
    assert everything[:4] == ["one", "two", "old\\x1b[2J ways", "said"]
    assert sum(line.startswith("watching ") for line in everything) == 1
    assert not stderr.getvalue()
