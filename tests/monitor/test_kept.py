"""Results of a question in a file that grows."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.monitor import kept
from graphrag_eval_async.monitor.board import Board
from graphrag_eval_async.monitor.counting import Counting
from graphrag_eval_async.monitor.dashboard_server import DashboardServer
from graphrag_eval_async.monitor.facts import Facts
from graphrag_eval_async.monitor.kept import ResultsOfQuestions
from tests.deadlines import WAIT_SECONDS
from tests.monitor.test_dashboard import fetch
from tests.monitor.test_history import idle_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("jinja2")
pytest.importorskip("uvicorn")


def parts_of_lines(rng: Random, count: int) -> Iterator[tuple[bytes, bool]]:
    """The lines of results in two parts each, and whether a line is whole then."""
    for number in range(count):
        line = orjson.dumps({"template_id": "t", "question_id": f"q{rng.randrange(4)}", "sample": number})
        place = rng.randrange(len(line))
        yield line[:place], False
        yield line[place:] + b"\n", True


def test_a_second_look_reads_what_came_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of lines that were not complete, and of another file under this name."""
    rng, path, read = Random(3), tmp_path / "results.jsonl", [0]

    class Counted(FileIO):
        def readline(self, size: int | None = -1) -> bytes:
            line = super().readline(size)
            read[0] += len(line)
            return line

    monkeypatch.setattr(kept, "open", Counted, raising=False)
    monkeypatch.setattr(kept, "MAX_FOUND", 5)
    looking, question, seen = ResultsOfQuestions(), "q1", 0
    for part, is_whole in parts_of_lines(rng, 300):
        with path.open("ab") as file:
            file.write(part)
        fresh = ResultsOfQuestions().of_question(str(path), question)
        read[0] = 0
        assert looking.of_question(str(path), question) == fresh
        assert read[0] == path.stat().st_size - seen
        seen = path.stat().st_size if is_whole else seen
        if is_whole and rng.random() < 0.05:
            path.write_bytes(b"")
            assert looking.of_question(str(path), question) == []
            seen = 0


async def test_one_scan_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait without a thread, so that other pages need not."""
    path, active, most, gate = tmp_path / "results.jsonl", [0], [0], threading.Event()
    path.write_bytes(orjson.dumps({"template_id": "t", "question_id": "q1"}) + b"\n")
    scan = ResultsOfQuestions.of_question

    def counted(*arguments: Any) -> Any:
        active[0] += 1
        most[0] = max(most[0], active[0])
        assert gate.wait(WAIT_SECONDS)
        try:
            return scan(*arguments)
        finally:
            active[0] -= 1

    monkeypatch.setattr(ResultsOfQuestions, "of_question", counted)
    counting = Counting(Last(3), "last", [], include_errors=False)
    server = DashboardServer("127.0.0.1", 0)
    server.start(Board(Facts(idle_run(), counting), counting, "Nightly", str(path)))
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(41) as clients:
        asked = [loop.run_in_executor(clients, fetch, f"{server.url}question?id=q{i % 2}") for i in range(40)]
        try:
            assert (await loop.run_in_executor(clients, fetch, f"{server.url}latest"))[0] == 200
        finally:
            gate.set()
        found = await asyncio.gather(*asked)
    await server.aclose()
    assert sorted(status for status, _, _ in found) == [200] * 20 + [404] * 20
    assert most == [1]
