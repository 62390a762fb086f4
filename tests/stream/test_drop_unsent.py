"""What is not paid for yet when somebody stops a run: it is left to the next one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.journals import (
    CONFIG,
    Judge,
    bits,
    collect,
    complete,
    names,
    names_of,
    responses,
    stream_of,
)
from tests.support.loop import leaving_nothing

if TYPE_CHECKING:
    from pathlib import Path

LINES = responses(30)
CONCURRENCY = 3


def limited(**more: Any) -> dict[str, Any]:
    return CONFIG | {"llm": CONFIG["llm"] | {"limits": {"max_concurrency": CONCURRENCY}} | more}


class Gate(Judge):
    """Answers once the gate is open."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.full = asyncio.Event()
        super().__init__(self._pass)

    async def _pass(self, _: str) -> None:
        if self.calls == CONCURRENCY:
            self.full.set()
        await self.open.wait()


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 50])
async def test_unsent_calls_are_left_to_the_next_run(tmp_path: Path, ordered: bool, turns: int) -> None:
    path = tmp_path / "results.jsonl"
    judge = Gate()
    async with (
        leaving_nothing(),
        stream_of(LINES, path, config=limited(), judge=judge, ordered=ordered) as stream,
    ):
        results = asyncio.create_task(collect(stream))
        if turns == 50:
            await judge.full.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        stream.stop()
        stream.drop_unsent()
        sent = judge.calls
        judge.open.set()
        found = await results
    assert judge.calls <= min(CONCURRENCY, sent + 1)  # One may be on its way.
    assert turns < 50 or (judge.calls == CONCURRENCY and 0 < len(found) < len(LINES) / 2)
    assert not any("answer_eval_error" in result for result in found)
    answered = {result["question_id"] for result in found}
    assert stream.missing == [name for name in stream.reference.questions if name not in answered]
    again = Gate()
    again.open.set()
    async with stream_of(LINES, path, config=limited(), judge=again) as second:
        assert len(await collect(second)) + len(found) + second.rejects.total == len(LINES)
    assert names_of(path) == names(LINES)
    quiet = tmp_path / "quiet.jsonl"
    _, undisturbed = await asyncio.to_thread(complete, LINES, quiet, config=limited(), judge=Judge())
    assert bits(second.aggregates) == bits(undisturbed.aggregates)
