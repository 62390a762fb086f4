"""Followers: the thread that looks at logs, and the loop that takes lines from it."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from graphrag_eval_async import Follower, Position, evaluate_stream, follow_jsonl
from graphrag_eval_async.errors import UsageError
from tests.sources.followed import append, open_files, text
from tests.support.data import answer, templates
from tests.support.deadlines import join, until, wait
from tests.support.loop import settle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from pathlib import Path


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[Path]:
    """Whatever a test does, no file may be left open, and no thread may go on."""
    await asyncio.to_thread(lambda: None)
    before = open_files()
    yield tmp_path / "log.jsonl"
    await settle()
    for thread in threading.enumerate():
        if thread.name.startswith("graphrag-eval-async-follow"):
            join(thread)
    assert open_files() == before


def follow(path: Any, **options: Any) -> Follower:
    return follow_jsonl(path, **{"poll_interval": 0.001, **options})


def responses(*questions: int) -> str:
    return "".join(json.dumps(answer(question)) + "\n" for question in questions)


async def take(lines: AsyncGenerator[Any], count: int) -> list[str]:
    return [text(await anext(lines)) for _ in range(count)]


async def test_lines_come_as_they_are_completed(log: Path) -> None:
    lines = aiter(follow(log))
    next_line = asyncio.ensure_future(anext(lines))
    for piece in ("a", "b", "\n"):
        append(log, piece)
    line = await next_line
    assert (line.data, line.number, line.offset, line.whole) == (b"ab", 1, 0, True)
    assert isinstance(line.position, Position)
    append(log, "c\nd\n")
    assert await take(lines, 2) == ["c", "d"]
    os.rename(log, f"{log}.1")
    append(log, "e\n")
    assert await take(lines, 1) == ["e"]
    await lines.aclose()
    assert [text(line) async for line in follow(log, idle_timeout=0)] == ["e"]


@pytest.mark.parametrize("new_event", [asyncio.Event, anyio.Event, threading.Event])
async def test_stop_delivers_complete_lines(log: Path, new_event: Callable[[], Any]) -> None:
    append(log, "a\n")
    stop = new_event()
    lines = aiter(follow(log, stop=stop))
    assert await take(lines, 1) == ["a"]
    append(log, "b\nc\nhalf")
    log.with_name("log.jsonl.1").write_text("rotated\n")
    stop.set()
    assert sorted([text(line) async for line in lines]) == ["b", "c", "half...", "rotated"]


async def test_aclose_of_the_follower_ends_the_iteration(log: Path) -> None:
    append(log, "a\n")
    follower = follow(log)
    lines = aiter(follower)
    await anext(lines)
    waiting = asyncio.ensure_future(anext(lines, None))
    await asyncio.sleep(0)
    await follower.aclose()
    assert await waiting is None
    await follower.aclose()


class Slow:
    """What a follower asks in its thread whether to stop; it does not answer once it is blocked."""

    def __init__(self) -> None:
        self.is_blocked, self.asked, self.go_on = False, threading.Event(), threading.Event()

    def is_set(self) -> bool:
        if self.is_blocked:
            self.asked.set()
            wait(self.go_on)
        return False


class SlowOnce:
    """What a follower asks in its thread whether to stop; the second answer takes a second."""

    def __init__(self) -> None:
        self._answers = 0
        self.is_slow = threading.Event()

    def is_set(self) -> bool:
        self._answers += 1
        if self._answers == 2:
            self.is_slow.set()
            time.sleep(SLOW_SECONDS)
        return False


SLOW_SECONDS = 1.5


async def test_a_slow_look_delays_no_other(log: Path) -> None:
    """The machine was busy, a disk slow, or the process stopped: it was no work."""
    slow = SlowOnce()
    lines = aiter(follow(log, stop=slow))
    next_line = asyncio.ensure_future(anext(lines))
    await asyncio.to_thread(wait, slow.is_slow)
    await asyncio.sleep(SLOW_SECONDS)
    append(log, "a\n")
    written = time.monotonic()
    assert text(await next_line) == "a"
    assert time.monotonic() - written < SLOW_SECONDS
    await lines.aclose()


async def test_cancelled_during_a_look(log: Path) -> None:
    append(log, "a\n")
    slow = Slow()
    lines = aiter(follow(log, stop=slow))
    await anext(lines)
    slow.is_blocked = True
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.to_thread(wait, slow.asked)
    waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    slow.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_follower_is_used_once(log: Path) -> None:
    append(log, "a\n")
    follower = follow(log, idle_timeout=0)
    await follower.begin({})
    with pytest.raises(UsageError, match="begin only once"):
        await follower.begin({})
    assert [text(line) async for line in follower] == ["a"]
    with pytest.raises(UsageError, match="iterated over only once"):
        await anext(aiter(follower))
    closed = follow(log)
    await closed.aclose()
    with pytest.raises(UsageError, match="closed"):
        await closed.begin({})


async def test_lag(log: Path) -> None:
    """It counts what the consumer has not taken, also of a chunk that was read, of 256 KiB here."""
    numbers = [f"{number:01023}" for number in range(640)]
    append(log, *(f"{number}\n" for number in numbers))
    follower = follow(log)
    assert follower.lag == (0, 0.0)
    lines = aiter(follower)
    assert await take(lines, 1) == numbers[:1]
    assert follower.lag.bytes == 640 << 10
    assert follower.lag.seconds > 0
    assert await take(lines, 256) == numbers[1:257]
    assert follower.lag.bytes == 384 << 10
    assert await take(lines, 383) == numbers[257:]
    waiting = asyncio.ensure_future(anext(lines))
    await until(lambda: follower.lag == (0, 0.0))
    append(log, "line\n")
    await waiting
    await lines.aclose()


NO_PATHS: dict[str, Any] = {
    "null": None,
    "a number": 5,
    "an empty list": [],
    "empty text": "",
    "bytes": b"a",
    "a list of bytes": [b"a"],
    "a list with null": ["a", None],
    "a list of empty text": [""],
    "an object": {},
}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(
            {"poll_interval": 0},
            "poll_interval: expected seconds, more than 0, got 0",
            id="no poll interval",
        ),
        pytest.param({"poll_interval": float("nan")}, "poll_interval: ", id="poll interval of NaN"),
        pytest.param(
            {"rotate_wait": -0.1},
            "rotate_wait: expected seconds, 0 or more, got -0.1",
            id="negative rotate wait",
        ),
        pytest.param({"idle_timeout": "1"}, "idle_timeout: ", id="idle timeout of text"),
        pytest.param(
            {"ignore_older": True},
            "ignore_older: expected seconds, 0 or more, got True",
            id="age of a boolean",
        ),
        pytest.param(
            {"exclude": "*.debug.jsonl"},
            'exclude: expected a list of globs, such as ["*.debug.jsonl"]',
            id="exclude of text",
        ),
        pytest.param(
            {"start": "middle"},
            'start: expected "beginning", "end" or a Position, got \'middle\'',
            id="unknown start",
        ),
        pytest.param({"stop": True}, "stop: expected an event, got True", id="stop of a boolean"),
        *(
            pytest.param(
                {"path": path},
                "path: expected a path, or a list of paths, got ",
                id=f"path of {name}",
            )
            for name, path in NO_PATHS.items()
        ),
        pytest.param(
            {"path": "a/*.gz"},
            "compressed files cannot be followed; read_jsonl (on the command",
            id="compressed",
        ),
        pytest.param(
            {"path": ["log.jsonl", "-"]},
            "reads standard input; ./- is a file of that name",
            id="standard input",
        ),
        pytest.param(
            {"path": "https://a:b@host/log?key"},
            "https://host/log: addresses cannot be followed; read_jsonl",
            id="address",
        ),
    ],
)
def test_arguments(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        follow_jsonl(**{"path": "log.jsonl", **options})
    assert problem in str(caught.value)


async def test_a_stream_evaluates_what_is_followed(log: Path) -> None:
    append(log, responses(0), "not JSON\n")
    stop = threading.Event()
    async with evaluate_stream(templates(), follow(log, stop=stop)) as stream:
        assert (await anext(stream))["question_id"] == "q0"
        append(log, responses(1, 2).removesuffix("\n"))
        assert (await anext(stream))["question_id"] == "q1"
        stop.set()
        assert [result["question_id"] async for result in stream] == ["q2"]
        assert stream.rejects.counts == {"invalid_json": 1}
