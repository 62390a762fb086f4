"""Judges and comparators that workers of Ray can import, and a driver that a test kills."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphrag_eval_async import JudgeUnavailable
from graphrag_eval_async.scale import evaluate_dataset
from tests.scale.responses import CONFIG, REFERENCE, number_in, reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async import TokenUsage


class Judge:
    """Appends a line to a file for each call; kills its process when it finds the file `kill`.

    After about `answers` calls, it answers no more.
    """

    model = "scripted"

    def __init__(
        self,
        folder: Path,
        delay: float = 0.0,
        *,
        poison: int = -1,
        refuses: bool = False,
        answers: float = math.inf,
    ) -> None:
        self.folder, self.delay, self.poison, self.refuses = str(folder), delay, poison, refuses
        self.answers = answers

    async def complete(
        self, messages: Sequence[Mapping[str, str]], _: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage]:
        if self.refuses:
            raise JudgeUnavailable("wrong key")
        number = number_in(messages)
        with open(os.path.join(self.folder, "calls"), "a") as calls:
            calls.write(f"{number}\n")
        kill = os.path.join(self.folder, "kill")
        if number == self.poison or (number % 50 == 40 and os.path.exists(kill)):
            if os.path.exists(kill):
                os.unlink(kill)
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(self.delay)
        if self.answers < math.inf and Path(self.folder, "calls").read_text().count("\n") > self.answers:
            await asyncio.Event().wait()
        return reply(number)

    async def embed(self, _: Any) -> Any:
        raise NotImplementedError


def start() -> None:
    """Start Ray on two cores, as far as it believes."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False


def drive(given: Mapping[str, str]) -> None:
    """Evaluate some responses slowly, until killed."""
    start()
    evaluate_dataset(
        REFERENCE,
        given["responses"],
        results=given["results"],
        concurrency=2,
        batch_size=20,
        config=CONFIG,
        judge=Judge(Path(given["folder"]), 0.2, answers=200),
    )
