"""The judge's own noise: judges some answers twice, and compares both verdicts."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from hashlib import sha256
from heapq import heappush, heappushpop
from math import sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import JudgeUnavailable
from graphrag_eval_async.records.conditions import RIGHT_ANSWER

if TYPE_CHECKING:
    from graphrag_eval_async.judge.session import JudgeSession
    from graphrag_eval_async.metrics.judging import Judging, Plan
    from graphrag_eval_async.records.evaluation import Evaluation


class Rejudge:
    """Judges `count` of the judged answers again at the end of a stream; changes no result.

    It takes the answers with the smallest hashes of question and sample, so their order does not matter.
    """

    def __init__(self, count: int, judging: Judging, session: JudgeSession) -> None:
        self._count, self._judging, self._session = count, judging, session
        self._kept: list[tuple[int, int, Plan, dict[Any, Any]]] = []
        self._seen = self._answers = self._failed = 0
        self._pairs: defaultdict[str, list[tuple[Any, Any]]] = defaultdict(list)

    def add(self, evaluation: Evaluation) -> None:
        """Take note of an answer that was judged, if it has a score."""
        first = self._judging.scores(evaluation.judged, evaluation.judged_steps)
        if evaluation.plan is None or not first:
            return
        self._seen += 1
        name = f"{evaluation.question_id}:{evaluation.sample}"
        place = -int(sha256(name.encode(errors="surrogatepass")).hexdigest(), 16)
        push = heappush if len(self._kept) < self._count else heappushpop
        push(self._kept, (place, self._seen, evaluation.plan, first))

    async def run(self, _: object) -> Any:
        """Judge the answers again, without the cache, within the limits and the budget of the stream."""
        self._session.forget_cache()
        await asyncio.gather(*(self._again(plan, first) for *_, plan, first in self._kept))

    async def _again(self, plan: Plan, first: dict[Any, Any]) -> None:
        try:
            judged = await self._judging.run(plan, self._session)
        except JudgeUnavailable:
            judged = {}, {}, {}
        if judged is None:  # The run is being interrupted.
            return
        self._answers += 1
        second = self._judging.scores(*judged[:2])
        self._failed += len(first.keys() - second)
        for key in first.keys() & second:
            self._pairs[key[1]].append((first[key], second[key]))

    def snapshot(self) -> dict[str, Any]:
        """Return how far first and second verdicts agree; see `EvaluationStream.judge_noise`."""
        metrics = {name: _noise(pairs) for name, pairs in sorted(self._pairs.items())}
        return {"answers": self._answers, "failed": self._failed, "metrics": metrics}


def _noise(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    if any(isinstance(value, str) for pair in pairs for value in pair):
        return {"pairs": len(pairs), "agreement": fmean(one == other for one, other in pairs)}
    alike = [(one >= RIGHT_ANSWER) == (other >= RIGHT_ANSWER) for one, other in pairs]
    squares = ((one - other) ** 2 for one, other in pairs)
    return {"pairs": len(pairs), "agreement": fmean(alike), "spread": sqrt(fmean(squares) / 2)}
