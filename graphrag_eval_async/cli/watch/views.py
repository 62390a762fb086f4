"""Shows facts on a terminal, or prints them as lines of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import deque
from contextlib import nullcontext, redirect_stderr, suppress
from functools import partial
from io import StringIO
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

import anyio.to_thread
from rich.text import Text

from graphrag_eval_async.cli.files import open_lines
from graphrag_eval_async.cli.watch.browsing import Browsing
from graphrag_eval_async.cli.watch.keys import Keys
from graphrag_eval_async.cli.watch.screen import TRUSTED_LINES, render
from graphrag_eval_async.cli.watch.terminal import Terminal
from graphrag_eval_async.monitor.facts import complete
from graphrag_eval_async.monitor.windows import Trends
from graphrag_eval_async.text import one_line, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.aggregates import Last, Seconds
    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.monitor.facts import Facts
    from graphrag_eval_async.sinks import LineFile

DRAW_SECONDS = 0.25
DRAW_SHARE = 0.1
"""The share of the time that drawing may take: with thousands of templates, it happens less often."""

MAX_MESSAGES = 1000  # how many messages wait while nobody reads; older ones are lost
PRINTED_RESULTS = 10  # in each line of JSON


def open_view(
    source: Facts, window: Last | Seconds, interval: float, interrupts: Interrupts, *, reads_stdin: bool
) -> Screen | Lines:
    """The view on the terminal behind standard output or, without a terminal, as lines of JSON.

    A terminal whose cursor cannot be moved gets the same view as plain text, again and again. Keys are read
    from standard input if that is a terminal, and not what `reads_stdin`.
    """
    write: Callable[[dict[str, Any]], bytes] = _line
    if sys.stdout is not None and sys.stdout.isatty():
        terminal = Terminal(sys.stdout)
        if terminal.is_usable:
            has_keys = not reads_stdin and sys.stdin is not None and sys.stdin.isatty()
            keys = partial(Keys, sys.stdin.fileno(), interrupts) if has_keys else None
            return Screen(terminal, source, Trends(window), keys)
        write = partial(_text, terminal, Trends(window))
    return Lines(open_lines("-", interrupts), source, interval, write)


class Screen:
    """A view on a terminal; messages stand above it, and stay.

    Attributes:
        loops: coroutines to run meanwhile; they raise `OSError` if something cannot be written.
    """

    def __init__(
        self,
        terminal: Terminal,
        source: Facts,
        trends: Trends,
        keys: Callable[[Callable[[str], None]], Keys] | None = None,
    ) -> None:
        """`keys` reads keys, and calls the function that it is given with them."""
        self._keys = keys
        self._browsing = Browsing()
        self._pressed = asyncio.Event()
        self._terminal = terminal
        self._source = source
        self._trends = trends
        self._messages: deque[str] = deque(maxlen=MAX_MESSAGES)
        # A task that is cancelled while a thread draws does not wait for the thread.
        self._drawing = threading.Lock()
        self._ended = False
        self.loops = (self._run,)

    def say(self, message: str) -> None:
        self._messages.append(one_line(message))

    def finish(self, *, shown: bool) -> None:
        """Show the final state or, if it is not to be `shown`, remove the view; messages stay."""
        self._browsing.has_keys = False
        self._draw(self._facts() if shown else None, last=True)

    async def _run(self) -> NoReturn:
        # Warnings, of whichever package, would go through the view.
        shared = sys.stderr is not None and sys.stderr.isatty()
        reading = nullcontext() if self._keys is None else self._keys(self._press)
        with redirect_stderr(_Said(self.say)) if shared else nullcontext(), reading as keys:
            while True:
                start = monotonic()
                if keys is not None:
                    keys.look()
                    self._browsing.has_keys = keys.is_reading
                await self._source.prepare()
                # Not on the event loop: somebody may have stopped the terminal.
                await anyio.to_thread.run_sync(self._draw, self._facts())
                await self._pause(monotonic() - start)

    def _press(self, text: str) -> None:
        self._browsing.press(text)
        self._pressed.set()

    async def _pause(self, took: float) -> None:
        """Wait until the next view is due: soon after a key, but at least as long as the last one `took`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(DRAW_SECONDS, took / DRAW_SHARE)):
                await self._pressed.wait()
                await asyncio.sleep(took)
        self._pressed.clear()

    def _facts(self) -> dict[str, Any]:
        _, rows = self._terminal.size()
        facts = self._source.collect(rows // TRUSTED_LINES)
        self._trends.add_to(facts)
        return facts

    def _draw(self, facts: dict[str, Any] | None, *, last: bool = False) -> None:
        def lines(width: int, height: int) -> list[Text]:
            bars, browsing = self._terminal.bars, self._browsing
            return [] if facts is None else render(facts, width, height, bars, browsing)

        if facts is not None:
            complete(facts)
        with self._drawing:
            if not self._ended:
                self._ended = last
                self._terminal.draw(lines, above=_take_all(self._messages))


class _Said(StringIO):
    """Prints each line that is written to it."""

    def __init__(self, say: Callable[[str], object]) -> None:
        super().__init__()
        self._say = say
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._say(line)
        return len(text)


class Lines:
    """Prints facts on stdout at an interval, and messages on stderr, without a terminal.

    `write` makes bytes of facts.
    """

    def __init__(
        self,
        stdout: LineFile,
        source: Facts,
        interval: float,
        write: Callable[[dict[str, Any]], bytes] | None = None,
    ) -> None:
        self._bytes_of = write or _line
        self._stdout = stdout
        self._source = source
        self._interval = interval
        self._messages: deque[str] = deque(maxlen=MAX_MESSAGES)
        self._said = asyncio.Event()
        self.loops = (self._print_facts, self._print_messages)

    def say(self, message: str) -> None:
        self._messages.append(one_line(message))
        self._said.set()

    def finish(self, *, shown: bool) -> None:
        self._tell()
        if not shown:
            return
        with suppress(BrokenPipeError, InterruptedError):
            self._stdout.write(self._bytes_of(self._source.collect(inf)))

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
        for message in _take_all(self._messages):
            tell(sys.stderr, message)


def _line(facts: dict[str, Any]) -> bytes:
    complete(facts)
    facts["results"] = facts["results"][:PRINTED_RESULTS]
    # Not by orjson: names may hold lone surrogates.
    return json.dumps(facts).encode() + b"\n"


def _text(terminal: Terminal, trends: Trends, facts: dict[str, Any]) -> bytes:
    complete(facts)
    trends.add_to(facts)
    columns, rows = terminal.size()
    lines = render(facts, columns - 1, rows - 1, terminal.bars)
    return "".join(f"{line.plain}\n" for line in [*lines, Text()]).encode(terminal.encoding, "replace")


def _take_all(messages: deque[str]) -> list[str]:
    return [messages.popleft() for _ in range(len(messages))]
