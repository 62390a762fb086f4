"""Shows facts on a terminal, or prints them as lines of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections import deque
from contextlib import nullcontext, redirect_stderr, suppress
from functools import partial
from io import StringIO
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import anyio.to_thread
from rich.cells import chop_cells
from rich.console import Console

from graphrag_eval_async.cli.commands.watch.screen import render
from graphrag_eval_async.cli.files import open_lines
from graphrag_eval_async.helpers.text import one_line, tell
from graphrag_eval_async.monitor.facts import COURSES, complete

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from rich.text import Text

    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.monitor.facts import Facts
    from graphrag_eval_async.sinks import LineFile

DRAW_SECONDS = 0.25
"""Least time between two drawings of the screen."""

DRAW_SHARE = 0.1
"""The share of the time that drawing may take: with many templates, it happens less often."""

MAX_MESSAGES = 1000
"""How many messages wait while nobody reads; older ones are lost."""

PRINTED_RESULTS = 10
"""Maximum number of results in a line of JSON."""


class View:
    """Shows a run.

    Attributes:
        loops: functions whose coroutines run beside the evaluation. They raise `OSError` if the
            state of the run cannot be written.
        address: the address of the page in the browser, if there is one.
    """

    address: str | None = None

    def __init__(self, source: Facts, *loops: Callable[[], Coroutine[Any, Any, NoReturn]]) -> None:
        """Prepare to show what `source` collects."""
        self.loops = loops
        self._source = source
        self._messages: deque[str] = deque(maxlen=MAX_MESSAGES)
        self._has_messages = asyncio.Event()

    def say(self, message: str) -> None:
        """Show a message, which stays."""
        self._messages.append(one_line(message))
        self._has_messages.set()

    def finish(self, *, shown: bool) -> None:
        """Show the final state of the run, if it is to be `shown`, and the messages that wait."""
        raise NotImplementedError

    def _take_messages(self) -> list[str]:
        """Remove the messages that wait, and return them."""
        # Another thread may add messages meanwhile, so that the deque cannot be copied and cleared.
        return [self._messages.popleft() for _ in range(len(self._messages))]


def open_view(source: Facts, interval: float, interrupts: Interrupts) -> View:
    """Return the view on the terminal behind standard output.

    Without a terminal, or on one that cannot move its cursor, it prints lines of JSON.

    Args:
        source: collects the state of the run.
        interval: seconds between two lines of JSON.
        interrupts: end a write that waits for its reader.
    """
    if sys.stdout is not None and sys.stdout.isatty():
        terminal = Terminal(sys.stdout)
        if not terminal.is_dumb:
            return Screen(source, terminal)
    return Lines(source, interval, open_lines("-", interrupts))


class Terminal:
    """Keeps lines at the end of what a terminal shows, and changes them there.

    The cursor stays visible, on the row below the lines: a process that is killed leaves a terminal
    that works, with the lines still on it.

    Attributes:
        is_dumb: whether the terminal cannot move its cursor.
    """

    def __init__(self, stream: TextIO) -> None:
        """Prepare to draw on the terminal behind `stream`."""
        # Without a colour system, rich would omit the colours, but not bold.
        self._console = Console(
            file=stream,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            markup=False,
            emoji=False,
            highlight=False,
        )
        self._stream = stream
        self._lines: Sequence[Text] = ()
        # The size of the terminal and the text that were drawn last.
        self._drawn: tuple[int, int, str] | None = None
        self.is_dumb = self._console.is_dumb_terminal

    def size(self) -> tuple[int, int]:
        """Return the columns and rows of the terminal, as they are now."""
        columns, rows = os.get_terminal_size(self._stream.fileno())
        return columns or 80, rows or 24

    def draw(self, render: Callable[[int, int], Sequence[Text]], above: Sequence[str] = ()) -> None:
        """Replace the lines, in one write.

        Args:
            render: returns new lines, given the columns and rows into which they are to fit.
            above: lines to put above them, which stay.
        """
        columns, rows = self.size()
        # The last column and row stay free: terminals differ on what comes after them.
        lines = render(columns - 1, rows - 1)
        with self._console.capture() as capture:
            for line in lines:
                self._console.print(line, soft_wrap=True)

        # If the terminal has become narrower, old lines may fill more rows.
        old_rows = sum(max(1, len(chop_cells(line.plain, columns))) for line in self._lines)
        text = "\r"
        if old_rows:
            text += f"\x1b[{old_rows}A"  # Up to the first of the old lines.
        for line_above in above:
            # Erases all below the cursor, since the line may fill several rows.
            text += f"\x1b[J{line_above}\n"
        # Erases the rest of each old line, and in the end those below the last new one.
        text += capture.get().replace("\n", "\x1b[K\n") + "\x1b[J"

        if above or self._drawn != (columns, rows, text):
            encoding = self._stream.encoding or "utf-8"
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()
        self._lines = lines
        self._drawn = (columns, rows, text)


class Screen(View):
    """A view on a terminal; messages stand above it."""

    def __init__(self, source: Facts, terminal: Terminal) -> None:
        """Prepare to draw what `source` collects on a terminal."""
        super().__init__(source, self._draw_often)
        self._terminal = terminal
        # A task that is cancelled while a thread draws does not wait for the thread, which may so
        # draw at the same time as `finish`, or after it.
        self._drawing = threading.Lock()
        self._has_ended = False

    def finish(self, *, shown: bool) -> None:
        """Draw the last time: the final state, if it is to be `shown`, and messages."""
        self._draw(self._collect() if shown else None, is_last=True)

    async def _draw_often(self) -> NoReturn:
        """Draw the state of the run again and again."""
        # On a terminal, warnings of whichever package would go through the view.
        is_redirected = sys.stderr is not None and sys.stderr.isatty()
        with redirect_stderr(_LinesAsMessages(self.say)) if is_redirected else nullcontext():
            while True:
                start = monotonic()
                await self._source.prepare()
                # Not on the event loop: somebody may have stopped the terminal.
                await anyio.to_thread.run_sync(self._draw, self._collect())
                seconds = monotonic() - start
                await asyncio.sleep(max(DRAW_SECONDS, seconds / DRAW_SHARE))

    def _collect(self) -> dict[str, Any]:
        """Return the state of the run. Templates have no details: the screen shows none."""
        return self._source.collect(0)

    def _draw(self, facts: dict[str, Any] | None, *, is_last: bool = False) -> None:
        """Draw the state of the run and the messages that wait.

        Args:
            facts: the state, which is completed in place; None to remove it from the terminal.
            is_last: whether nothing is to be drawn after this.
        """

        if facts is None:
            render_lines = _no_lines
        else:
            courses = facts[COURSES]
            complete(facts)
            render_lines = partial(render, facts, courses, address=self.address)
        with self._drawing:
            if not self._has_ended:
                self._has_ended = is_last
                self._terminal.draw(render_lines, self._take_messages())


def _no_lines(_width: int, _height: int) -> list[Text]:
    """Return no lines, whatever the size of the terminal."""
    return []


class _LinesAsMessages(StringIO):
    """A stream that passes on each line that is written to it."""

    def __init__(self, say: Callable[[str], object]) -> None:
        """Call `say` with each line."""
        super().__init__()
        self._say = say
        self._unfinished_line = ""

    def write(self, text: str) -> int:
        """Pass on the lines that `text` completes, and return its length."""
        *lines, self._unfinished_line = (self._unfinished_line + text).split("\n")
        for line in lines:
            self._say(line)
        return len(text)


class Lines(View):
    """Prints the state of the run as lines of JSON on stdout, and messages on stderr."""

    def __init__(self, source: Facts, interval: float, stdout: LineFile) -> None:
        """Prepare to print what `source` collects, every `interval` seconds."""
        super().__init__(source, self._print_facts, self._print_messages)
        self._interval = interval
        self._stdout = stdout

    def finish(self, *, shown: bool) -> None:
        """Print the messages that wait and, if it is to be `shown`, the final state."""
        self._tell_messages()
        if shown:
            # A reader that went away has all that it wanted.
            with suppress(BrokenPipeError, InterruptedError):
                self._stdout.write(_json_line(self._source.collect(inf)))

    async def _print_facts(self) -> NoReturn:
        """Print the state at each interval; less often if that takes long."""
        seconds = 0.0
        while True:
            await asyncio.sleep(max(self._interval, seconds / DRAW_SHARE))
            start = monotonic()
            await self._source.prepare()
            # Not on the event loop: with many templates, it takes a second.
            line = await anyio.to_thread.run_sync(_json_line, self._source.collect(inf))
            seconds = monotonic() - start
            await self._stdout.send(line)

    async def _print_messages(self) -> NoReturn:
        """Print messages as they come."""
        while True:
            await self._has_messages.wait()
            self._has_messages.clear()
            # Taken in the thread: if this is cancelled before one starts, `finish` still has them.
            await anyio.to_thread.run_sync(self._tell_messages)

    def _tell_messages(self) -> None:
        """Print the messages that wait."""
        for message in self._take_messages():
            tell(sys.stderr, message)


def _json_line(facts: dict[str, Any]) -> bytes:
    """Return the state of a run as a line of JSON; completes `facts` in place."""
    complete(facts)
    facts["results"] = facts["results"][:PRINTED_RESULTS]
    # Not by orjson: names may hold lone surrogates.
    return json.dumps(facts).encode() + b"\n"
