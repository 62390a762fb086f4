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
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TextIO

import anyio.to_thread
from rich.cells import chop_cells
from rich.console import Console

from graphrag_eval_async.cli.commands.watch.screen import render
from graphrag_eval_async.cli.files import open_lines
from graphrag_eval_async.helpers.text import one_line, tell
from graphrag_eval_async.monitor.facts import COURSES, complete

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from contextlib import AbstractContextManager

    from rich.text import Text

    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.monitor.facts import Facts
    from graphrag_eval_async.sinks import LineFile

DRAW_SECONDS = 0.25
"""Least time between two drawings of the screen."""

MAX_SHARE_OF_TIME = 0.1
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
        """Prepare to show what `source` collects, by means of `loops` while the run lasts."""
        self.loops = loops
        self._source = source
        self._messages: deque[str] = deque(maxlen=MAX_MESSAGES)
        self._has_messages = asyncio.Event()

    def say(self, message: str) -> None:
        """Show a message, which stays."""
        self._messages.append(one_line(message))
        self._has_messages.set()

    def finish(self, *, shown: bool) -> None:
        """Show the messages that wait and, if `shown`, the final state of the run."""
        raise NotImplementedError

    def _take_messages(self) -> list[str]:
        """Remove the messages that wait, and return them."""
        # Another thread may add messages meanwhile, so that the deque cannot be copied and cleared.
        return [self._messages.popleft() for _ in range(len(self._messages))]


def open_view(source: Facts, interval: float, interrupts: Interrupts) -> View:
    """Return the view of a run: a `Screen` if standard output is a terminal.

    If it is not, or if the terminal cannot move its cursor, the view prints lines of JSON.

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
        # NO_COLOR switches colours off in any program; rich alone would still print bold text.
        color_system: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
        self._console = Console(
            file=stream,
            color_system=color_system,
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
        """Replace the lines that the last call drew, in one write.

        Args:
            render: returns the new lines, given the columns and rows into which they must fit.
            above: lines to print above the new lines; later calls do not replace them.
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
            # Move the cursor up to the first of the old lines.
            text += f"\x1b[{old_rows}A"
        for line_above in above:
            # Erase all old lines, since this line may fill several rows.
            text += f"\x1b[J{line_above}\n"
        # Erase the rest of the row after each new line, and all old lines below the last new one.
        text += capture.get().replace("\n", "\x1b[K\n") + "\x1b[J"

        # The terminal already shows this text if nothing has changed.
        if above or self._drawn != (columns, rows, text):
            # Characters that the terminal cannot show are replaced; writing them would raise.
            encoding = self._stream.encoding or "utf-8"
            printable_text = text.encode(encoding, "replace").decode(encoding)
            self._stream.write(printable_text)
            self._stream.flush()
        self._lines = lines
        self._drawn = (columns, rows, text)


class Screen(View):
    """A view on a terminal; messages stand above it."""

    def __init__(self, source: Facts, terminal: Terminal) -> None:
        """Prepare to draw what `source` collects on a terminal."""
        super().__init__(source, self._draw_often)
        self._terminal = terminal
        # A task that is cancelled does not wait for its thread, so that the thread may still draw
        # while `finish` draws, or after it. The lock and the flag keep the two apart.
        self._drawing = threading.Lock()
        self._has_ended = False

    def finish(self, *, shown: bool) -> None:
        """Draw for the last time: the waiting messages and, if `shown`, the final state."""
        self._draw(self._collect() if shown else None, is_last=True)

    async def _draw_often(self) -> NoReturn:
        """Draw the state of the run again and again; lines on stderr become messages."""
        stderr: AbstractContextManager[object] = nullcontext()
        if sys.stderr is not None and sys.stderr.isatty():
            # A warning of any package would be written into the middle of the view.
            stderr = redirect_stderr(_LinesAsMessages(self.say))
        with stderr:
            while True:
                start = monotonic()
                await self._source.prepare()
                # A thread draws: if the user stops the terminal, a write blocks until it goes on.
                await anyio.to_thread.run_sync(self._draw, self._collect())
                seconds = monotonic() - start
                # Drawing takes at most `MAX_SHARE_OF_TIME` of the time.
                await asyncio.sleep(max(DRAW_SECONDS, seconds / MAX_SHARE_OF_TIME))

    def _collect(self) -> dict[str, Any]:
        """Return the state of the run. Templates have no details: the screen shows none."""
        return self._source.collect(0)

    def _draw(self, facts: dict[str, Any] | None, *, is_last: bool = False) -> None:
        """Draw the state of the run, below the messages that wait.

        Args:
            facts: the state, which is completed in place; None to remove it from the terminal.
            is_last: whether later calls draw nothing.
        """
        if facts is None:
            render_lines = _no_lines
        else:
            # `complete` removes the courses.
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
        lines = (self._unfinished_line + text).split("\n")
        # What follows the last line break is not a whole line yet; it may be empty.
        self._unfinished_line = lines.pop()
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
        """Print the messages that wait and, if `shown`, the final state of the run."""
        self._tell_messages()
        if shown:
            # It is no error if the reader of the pipe went away, or if a signal ends the write.
            with suppress(BrokenPipeError, InterruptedError):
                self._stdout.write(_json_line(self._source.collect(inf)))

    async def _print_facts(self) -> NoReturn:
        """Print the state of the run every `interval` seconds, or less often if that takes long."""
        seconds = 0.0
        while True:
            # Printing takes at most `MAX_SHARE_OF_TIME` of the time.
            await asyncio.sleep(max(self._interval, seconds / MAX_SHARE_OF_TIME))
            start = monotonic()
            await self._source.prepare()
            # A thread does this, since it takes a second with many templates.
            line = await anyio.to_thread.run_sync(_json_line, self._source.collect(inf))
            seconds = monotonic() - start
            await self._stdout.send(line)

    async def _print_messages(self) -> NoReturn:
        """Print messages as they come."""
        while True:
            await self._has_messages.wait()
            self._has_messages.clear()
            # The thread removes the messages from the queue, not this coroutine: if it is cancelled
            # before the thread starts, `finish` still prints them.
            await anyio.to_thread.run_sync(self._tell_messages)

    def _tell_messages(self) -> None:
        """Print the messages that wait."""
        for message in self._take_messages():
            tell(sys.stderr, message)


def _json_line(facts: dict[str, Any]) -> bytes:
    """Complete the state of a run in place, and return it as a line of JSON."""
    complete(facts)
    facts["results"] = facts["results"][:PRINTED_RESULTS]
    # orjson would refuse names with lone surrogates.
    return json.dumps(facts).encode() + b"\n"
