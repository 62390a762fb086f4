from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from array import array
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import SourceError, WorkerError
from graphrag_eval_async.scale.processes import Workers
from graphrag_eval_async.scale.work import Part
from tests.scale.support import SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def part_of(text: bytes) -> Part:
    return Part(text, array("Q", [1]), array("I", [2]))


def work(item: Any, send: Callable[[Any], object]) -> Any:
    """What processes do in these tests."""
    what, *more = item
    if what == "parts":
        for text in more:
            send(part_of(text))
    elif what == "die":
        send(part_of(b"a part"))
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "exit":
        os._exit(7)
    elif what == "raise":
        raise SourceError("cannot be read") if more else RuntimeError("a bug")
    elif what == "hang":
        while True:
            signal.pause()
    return what, os.getpid()


async def test_each_item_has_its_parts_and_its_reply() -> None:
    workers = Workers(work, 2)
    try:
        async with asyncio.timeout(SECONDS):
            items = [("parts", b"%d" % index, bytes(100_000), b"") for index in range(8)]
            replies = await asyncio.gather(*map(workers.submit, items))
        assert [parts for parts, _ in replies] == [[*map(part_of, item[1:])] for item in items]
        assert 1 <= len({pid for _, (_, pid) in replies}) <= 2
    finally:
        await workers.aclose()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        (
            ("die",),
            WorkerError,
            r"\('die',\): the worker process was killed by SIGKILL, perhaps",
        ),
        (("exit",), WorkerError, r"\('exit',\): the worker process ended with exit code 7"),
        (("raise",), WorkerError, r"\('raise',\): RuntimeError: a bug"),
        (("raise", 1), SourceError, "^cannot be read$"),
    ],
)
async def test_errors_name_their_item(item: Any, error: type[Exception], message: str) -> None:
    workers = Workers(work, 1)
    try:
        async with asyncio.timeout(SECONDS):
            with pytest.raises(error, match=message):
                await workers.submit(item)
    finally:
        await workers.aclose()


async def test_others_live_on() -> None:
    workers = Workers(work, 2)
    try:
        async with asyncio.timeout(SECONDS):
            died, lived = workers.submit(("die",)), workers.submit(("parts", b"1"))
            assert (await lived)[0] == [part_of(b"1")]
            with pytest.raises(WorkerError):
                await died
    finally:
        await workers.aclose()


async def test_closing_ends_hanging_work() -> None:
    workers = Workers(work, 2)
    futures = [workers.submit(("hang",)) for _ in range(4)]
    async with asyncio.timeout(SECONDS):
        while len(multiprocessing.active_children()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for future in futures:
            future.cancel()
        await workers.aclose()
    assert not multiprocessing.active_children()


async def test_signals_to_all_processes_are_for_the_parent() -> None:
    workers = Workers(work, 1)
    try:
        async with asyncio.timeout(SECONDS):
            _, (_, process) = await workers.submit(("parts",))
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(process, number)
            assert (await workers.submit(("parts",)))[1] == ("parts", process)
    finally:
        await workers.aclose()


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(b'{"question_id": "q0"}\n' * 9)
    call = (
        "import asyncio\nfrom graphrag_eval_async import evaluate_file\n"
        "reference = [{'template_id': 't', 'questions': [{'id': 'q0', 'question_text': 'Q?'}]}]\n"
        "{}asyncio.run(evaluate_file(reference, 'in.jsonl', jobs=2))\n"
    )
    for guard, code in (("", 1), ('if __name__ == "__main__": ', 0)):
        (tmp_path / "script.py").write_text(call.replace("{}", guard))
        done = subprocess.run(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert ('put the call under `if __name__ == "__main__":`' in done.stderr) is bool(code)
