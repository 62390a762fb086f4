"""Shows facts on a terminal, or prints them as lines of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections import deque
from contextlib import nullcontext, redirect_stderr, suppress
from io import StringIO
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import anyio.to_thread
from rich.cells import chop_cells
from rich.console import Console

from graphrag_eval_async.cli.commands.watch.screen import render
from graphrag_eval_async.cli.files import open_lines
from graphrag_eval_async.monitor.facts import COURSES, complete
from graphrag_eval_async.text import one_line, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from rich.text import Text

    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.monitor.facts import Facts
    from graphrag_eval_async.sinks import LineFile

DRAW_SECONDS = 0.25
# Share of the time that drawing may take: with thousands of templates, it happens less often
DRAW_SHARE = 0.1
MAX_MESSAGES = 1000  # how many messages wait while nobody reads; older ones are lost
PRINTED_RESULTS = 10  # in each line of JSON


class View:
    """Shows a run, whose `loops` run meanwhile; they raise `OSError` if something cannot be
    written.

    Attributes:
        address: of the page in the browser, if there is one.
    """

    address: str | None = None

    def __init__(self, source: Facts, *loops: Callable[[], Coroutine[Any, Any, NoReturn]]) -> None:
        self.loops = loops
        self._source = source
        self._messages: deque[str] = deque(maxlen=MAX_MESSAGES)
        self._said = asyncio.Event()

    def say(self, message: str) -> None:
        """Show a message, which stays."""
        self._messages.append(one_line(message))
        self._said.set()

    def finish(self, *, shown: bool) -> None:
        """Show the final state, if it is to be `shown`; messages stay."""
        raise NotImplementedError

    def _take_messages(self) -> list[str]:
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
    """

    def __init__(self, stream: TextIO) -> None:
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
        self._drawn: object = None
        self.is_dumb = self._console.is_dumb_terminal

    def size(self) -> tuple[int, int]:
        """Its columns and rows, as they are now."""
        columns, rows = os.get_terminal_size(self._stream.fileno())
        return columns or 80, rows or 24

    def draw(self, render: Callable[[int, int], Sequence[Text]], above: Sequence[str] = ()) -> None:
        """Replace the lines by those that fit into columns and rows, in one write; those `above`
        stay.
        """
        columns, rows = self.size()
        # The last column and row stay free: terminals differ on what comes after them.
        lines = render(columns - 1, rows - 1)
        # If the terminal has become narrower, old lines may fill more rows.
        up = sum(max(1, len(chop_cells(line.plain, columns))) for line in self._lines)
        with self._console.capture() as capture:
            for line in lines:
                self._console.print(line, soft_wrap=True)
        text = "\r" + f"\x1b[{up}A" * bool(up)
        text += "".join(f"\x1b[J{line}\n" for line in above)  # They may fill several rows.
        text += capture.get().replace("\n", "\x1b[K\n") + "\x1b[J"
        if above or self._drawn != (columns, rows, text):
            encoding = self._stream.encoding or "utf-8"
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()
        self._lines, self._drawn = lines, (columns, rows, text)


class Screen(View):
    """A view on a terminal; messages stand above it."""

    def __init__(self, source: Facts, terminal: Terminal) -> None:
        super().__init__(source, self._run)
        self._terminal = terminal
        # A task that is cancelled while a thread draws does not wait for the thread.
        self._drawing, self._ended = threading.Lock(), False

    def finish(self, *, shown: bool) -> None:
        self._draw(self._facts() if shown else None, last=True)

    async def _run(self) -> NoReturn:
        # On a terminal, warnings of whichever package would go through the view.
        is_redirected = sys.stderr is not None and sys.stderr.isatty()
        with redirect_stderr(_Said(self.say)) if is_redirected else nullcontext():
            while True:
                start = monotonic()
                await self._source.prepare()
                # Not on the event loop: somebody may have stopped the terminal.
                await anyio.to_thread.run_sync(self._draw, self._facts())
                took = monotonic() - start
                await asyncio.sleep(max(DRAW_SECONDS, took / DRAW_SHARE))

    def _facts(self) -> dict[str, Any]:
        """Return the state of the run; templates need no details, which take a while."""
        return self._source.collect(detailed=0)

    def _draw(self, facts: dict[str, Any] | None, *, last: bool = False) -> None:
        """Draw the state of the run, or with None only the messages.

        After the `last` time, nothing is drawn any more.
        """

        def lines(width: int, height: int) -> list[Text]:
            if facts is None:
                return []
            return render(facts, courses, width, height, self.address)

        if facts is not None:
            courses = facts[COURSES]
            complete(facts)
        with self._drawing:
            if not self._ended:
                self._ended = last
                self._terminal.draw(lines, self._take_messages())


class _Said(StringIO):
    """Says each line that is written to it."""

    def __init__(self, say: Callable[[str], object]) -> None:
        super().__init__()
        self._say, self._rest = say, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._say(line)
        return len(text)


class Lines(View):
    """Prints facts as JSON on stdout at an interval, and messages on stderr."""

    def __init__(self, source: Facts, interval: float, stdout: LineFile) -> None:
        super().__init__(source, self._print_facts, self._print_messages)
        self._interval, self._stdout = interval, stdout

    def finish(self, *, shown: bool) -> None:
        self._tell()
        with suppress(BrokenPipeError, InterruptedError):
            if shown:
                self._stdout.write(self._bytes_of(self._source.collect(inf)))

    def _bytes_of(self, facts: dict[str, Any]) -> bytes:
        complete(facts)
        facts["results"] = facts["results"][:PRINTED_RESULTS]
        # Not by orjson: names may hold lone surrogates.
        return json.dumps(facts).encode() + b"\n"

    async def _print_facts(self) -> NoReturn:
        took = 0.0
        while True:
            await asyncio.sleep(max(self._interval, took / DRAW_SHARE))
            start = monotonic()
            await self._source.prepare()
            # Not on the event loop: with many templates, it takes a second.
            line = await anyio.to_thread.run_sync(self._bytes_of, self._source.collect(inf))
            took = monotonic() - start
            await self._stdout.send(line)

    async def _print_messages(self) -> NoReturn:
        while True:
            await self._said.wait()
            self._said.clear()
            # Taken in the thread: if this is cancelled before one starts, `finish` still has them.
            await anyio.to_thread.run_sync(self._tell)

    def _tell(self) -> None:
        for message in self._take_messages():
            tell(sys.stderr, message)
