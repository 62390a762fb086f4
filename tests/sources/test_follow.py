from __future__ import annotations

import asyncio
import json
import os
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import uvloop

from graphrag_eval_async import Follower, Position, evaluate_stream, follow_jsonl
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.sources import logs
from tests.sources.followed import append, open_files, text
from tests.support.cases import each
from tests.support.data import answer, templates
from tests.support.deadlines import in_time, join, until, wait
from tests.support.loop import settle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable
    from pathlib import Path

POLL = 0.001
REFERENCE = templates()


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
    return follow_jsonl(path, **{"poll_interval": POLL, **options})


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


async def test_idle_timeout(log: Path) -> None:
    append(log, "a\n")
    assert [text(line) async for line in follow(log, idle_timeout=0)] == ["a"]


async def test_aclose_of_the_follower_ends_the_iteration(log: Path) -> None:
    append(log, "a\n")
    before = open_files()
    follower = follow(log)
    lines = aiter(follower)
    await anext(lines)
    waiting = asyncio.ensure_future(anext(lines, None))
    await asyncio.sleep(0)
    await follower.aclose()
    assert await waiting is None
    assert open_files() == before
    await follower.aclose()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_cancelled_during_a_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    log = tmp_path / "log.jsonl"
    append(log, "a\n")
    looking, go_on = threading.Event(), threading.Event()
    look = logs.Logs.look

    def slow(*args: Any, **options: Any) -> None:
        look(*args, **options)
        looking.set()
        wait(go_on)

    async def main() -> None:
        await asyncio.to_thread(lambda: None)
        before = open_files()
        lines = aiter(follow(log))
        await anext(lines)
        monkeypatch.setattr(logs.Logs, "look", slow)
        waiting = asyncio.ensure_future(anext(lines))
        await asyncio.to_thread(wait, looking)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert open_files() == before

    with asyncio.Runner(debug=True, loop_factory=new_loop) as runner:
        runner.run(in_time(main)())


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


async def test_lag(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphrag_eval_async.sources.logs.PASS_BYTES", 30)
    append(log, "line\n" * 10)
    follower = follow(log)
    assert follower.lag == (0, 0.0)
    lines = aiter(follower)
    await take(lines, 1)
    assert follower.lag.bytes == 50
    assert follower.lag.seconds > 0
    await take(lines, 6)
    assert follower.lag.bytes == 20
    await take(lines, 3)
    waiting = asyncio.ensure_future(anext(lines))
    await until(lambda: follower.lag == (0, 0.0))
    append(log, "line\n")
    await waiting
    await lines.aclose()


@each(
    ("options", "problem"),
    [
        ({"poll_interval": 0}, "poll_interval: expected seconds, more than 0, got 0"),
        ({"poll_interval": float("nan")}, "poll_interval: "),
        ({"rotate_wait": -0.1}, "rotate_wait: expected seconds, 0 or more, got -0.1"),
        ({"idle_timeout": "1"}, "idle_timeout: "),
        ({"ignore_older": True}, "ignore_older: expected seconds, 0 or more, got True"),
        ({"exclude": "*.debug.jsonl"}, 'exclude: expected a list of globs, such as ["*.debug.jsonl"]'),
        ({"start": "middle"}, 'start: expected "beginning", "end" or a Position, got \'middle\''),
        ({"stop": True}, "stop: expected an event, got True"),
        ({"max_line_bytes": 0}, "max_line_bytes: "),
        ({"path": []}, "path: expected a path, or a list of paths, got []"),
        ({"path": "a/*.gz"}, "compressed files cannot be followed; read_jsonl (on the command"),
        ({"path": ["log.jsonl", "-"]}, "reads standard input; ./- is a file of that name"),
        ({"path": "https://a:b@host/log?key"}, "https://host/log: addresses cannot be followed; read_jsonl"),
    ],
)
def test_arguments(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        follow_jsonl(**{"path": "log.jsonl", **options})
    assert problem in str(caught.value)


async def test_a_stream_evaluates_what_is_followed(log: Path) -> None:
    append(log, responses(0), "not JSON\n")
    stop = threading.Event()
    async with evaluate_stream(REFERENCE, follow(log, stop=stop)) as stream:
        assert (await anext(stream))["question_id"] == "q0"
        append(log, responses(1, 2).removesuffix("\n"))
        assert (await anext(stream))["question_id"] == "q1"
        stop.set()
        assert [result["question_id"] async for result in stream] == ["q2"]
        assert stream.rejects.counts == {"invalid_json": 1}
