from __future__ import annotations

import os
import pty
import sys
from typing import TYPE_CHECKING

from graphrag_eval_async import RunningAggregates
from graphrag_eval_async.cli.reading import progress
from graphrag_eval_async.sources import read_jsonl

if TYPE_CHECKING:
    import pytest

    from tests.cli.support import Folder

PIECE_BYTES = 65536


async def test_the_bar_moves_without_results(monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
    monkeypatch.setenv("TERM", "xterm")
    source = read_jsonl(folder.write("responses", (b" " * (PIECE_BYTES - 2) + b"x\n") * 4))
    lines = aiter(source)
    master, slave = pty.openpty()
    shown = b""
    with open(slave, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        aggregates = RunningAggregates()
        for score in (0.0, 0.5):
            aggregates.add({"template_id": "t", "status": "success", "steps_score": score})
        with progress(source, aggregates=aggregates) as advance:
            await anext(lines)
            advance()
            for _ in range(30):
                shown += os.read(master, PIECE_BYTES)
                if b" 25%" in shown:
                    break
        monkeypatch.undo()
    await lines.aclose()
    os.close(master)
    assert b" 25%" in shown
    assert b" 1 results" in shown
    assert b"steps_score 0.250" in shown
    assert b"\x1b[?25l" not in shown  # Which hides the cursor, for ever if the process is killed.
