from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from graphrag_eval_async.cli.watch.columns import ASCII_BARS, BARS
from graphrag_eval_async.cli.watch.terminal import Terminal
from tests.cli.watch.emulator import Emulator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Stream(StringIO):
    """A standard stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Screen(Terminal):
    """A terminal, and the emulator that shows what is written to it."""

    def __init__(self, columns: int = 20, rows: int = 6, *, stream: Stream | None = None) -> None:
        self._now = columns, rows
        self.emulator = Emulator(columns, rows)
        self._written = stream or Stream()
        super().__init__(self._written)

    def size(self) -> tuple[int, int]:
        return self._now

    def resize(self, columns: int, rows: int, *, reflow: bool) -> None:
        self._now = columns, rows
        self.emulator.resize(columns, rows, reflow=reflow)

    def show(self, *lines: str | Text, above: Sequence[str] = ()) -> str:
        """What was written."""
        texts = [Text(line) if isinstance(line, str) else line for line in lines]
        self.draw(lambda _width, _height: texts, above=above)
        return self.show_written()

    def show_written(self) -> str:
        """What was written since it was last shown."""
        written = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        self.emulator.feed(written.replace("\n", "\r\n"))  # As terminals are set to do.
        return written


@pytest.fixture(autouse=True, scope="module")
def _colours() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm-256color")
        patch.delenv("NO_COLOR", raising=False)
        yield


def test_the_same_lines_are_written_once() -> None:
    screen = Screen()
    screen.show("one", "two", "three")
    assert screen.emulator.screen == ["one", "two", "three"]
    screen.show("one", "2", "three")
    assert screen.emulator.screen == ["one", "2", "three"]
    assert screen.show("one", "2", "three") == ""


def test_lines_come_and_go() -> None:
    screen = Screen()
    screen.show("one", "two", "three")
    screen.show("one")
    assert screen.emulator.screen == ["one"]
    screen.show("1", "2", "3", "4", "5")
    assert screen.emulator.screen == ["1", "2", "3", "4", "5"]
    screen.show()
    assert screen.emulator.screen == []


def test_messages_stay_above_the_view() -> None:
    screen = Screen(20, 4)
    screen.show("view")
    for message in ("first", "second", "third " + "long " * 4):
        screen.show("view", "more", above=[message])
    assert [*screen.emulator.gone, *screen.emulator.screen] == [
        *("first", "second", "third long long long", " long", "view", "more"),
    ]


def test_the_cursor_waits_below_and_is_never_hidden() -> None:
    screen = Screen()
    written = screen.show("one", Text("two", "bold red"))
    assert written.removesuffix("\x1b[J").endswith("\n")
    assert "\x1b[?" not in written
    screen.emulator.feed("$ ")
    assert screen.emulator.screen == ["one", "two", "$"]
    screen.show("one", "three")
    assert screen.emulator.screen == ["one", "three"]


@pytest.mark.parametrize(
    ("variable", "value", "coloured"),
    [("TERM", "xterm", True), ("NO_COLOR", "1", False), ("NO_COLOR", "", True)],
)
def test_colours(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, coloured: bool) -> None:
    monkeypatch.setenv(variable, value)
    screen = Screen()
    written = screen.show(Text("one", "bold cyan"))
    assert screen.emulator.coloured is coloured
    assert ("m" in written) is coloured
    assert screen.emulator.screen == ["one"]


def test_terminal_without_cursor_movement(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Screen().is_usable
    monkeypatch.setenv("TERM", "dumb")
    assert not Screen().is_usable
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(Stream, "isatty", lambda _self: False)
    assert not Screen().is_usable


def test_an_encoding_without_bars() -> None:
    stream = Stream()
    stream.encoding = "ascii"
    screen = Screen(stream=stream)
    assert screen.bars == ASCII_BARS
    assert Screen().bars == BARS
    screen.show("caf\u00e9\u2026")
    assert screen.emulator.screen == ["caf??"]


def test_wide_characters_are_not_cut_in_two() -> None:
    screen = Screen(12, 20)
    screen.show("above", "\u754c" * 5)
    screen.resize(3, 20, reflow=True)
    assert screen.emulator.screen == ["abo", "ve", *["\u754c"] * 5]
    screen.show("a")
    assert screen.emulator.screen == ["a"]


SIZES = st.tuples(st.integers(2, 40), st.integers(3, 12))
LONG = st.builds(str.__mul__, st.sampled_from(["a", "ab ", "a\u754c"]), st.integers(0, 40))
LINES = st.lists(LONG, max_size=11)
STEPS = st.tuples(
    st.none() | SIZES, LINES, st.lists(st.text("xy\u754c", min_size=1, max_size=50), max_size=2)
)


@given(SIZES, st.lists(STEPS, max_size=12), st.booleans())
def test_view_is_erased_completely(
    size: tuple[int, int],
    steps: list[tuple[tuple[int, int] | None, list[str], list[str]]],
    reflow: bool,
) -> None:
    """Whatever is drawn, however the terminal's size changes: only what stays stands above the lines."""
    screen = Screen(*size)
    columns, rows = size
    for resized, texts, above in steps:
        if resized is not None:
            columns, rows = resized
            screen.resize(columns, rows, reflow=reflow)
        lines = []
        for text in texts[: rows - 1]:
            line = Text(text)
            line.truncate(columns - 1)
            lines.append(line)
        screen.show(*lines, above=above)
        shown = [line.plain.rstrip() for line in lines]
        while shown and not shown[-1]:
            shown.pop()
        visible = screen.emulator.screen
        assert visible[len(visible) - len(shown) :] == shown
        assert not set("ab") & set("".join(visible[: len(visible) - len(shown)]))
