"""What a run gets from servers that want requests in their own way, or do not work: metrics and requests.

    python -m bench.judge_servers

Each run has 100 records with answer correctness and a custom evaluation, 200 calls. Needs no model.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from time import monotonic
from typing import TYPE_CHECKING, Any

from bench.report import Row, show
from graphrag_eval_async import JudgeUnavailable, evaluate_stream
from tests.judged.support import REPLIES, config, response, sensible, templates, title_of
from tests.support.judge_server import FAULTS, JudgeServer, error
from tests.support.judge_server.dialects import REFUSALS, WRAPPINGS, knowing, without

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RECORDS = 100
CUSTOM = {
    "name": "custom",
    "inputs": ["question", "actual_answer"],
    "instructions": "Judge the answer.",
    "outputs": {"custom_score": "fraction 0-1: how good it is", "custom_reason": "why"},
}


def servers() -> Mapping[str, Any]:
    """Scripts of servers by name."""
    found: dict[str, Any] = {"a server that accepts all": sensible}
    found["max_tokens and temperature refused by name"] = without(["max_tokens", "temperature"], sensible)
    for name, refusal in REFUSALS.items():
        found[f"every format but text refused: {name}"] = knowing(["text"], refusal, sensible)
    for name, wrap in WRAPPINGS.items():
        found[f"wrapped: {name}"] = lambda request, wrap=wrap: wrap(json.dumps(REPLIES[title_of(request)]))
    found["always 500"] = FAULTS["500"]
    found["always 400"] = lambda _: error(400, "Bad request")
    found["unknown model"] = FAULTS["404"]
    return found


async def measured(script: Any, *, is_closed: bool = False) -> str:
    """The outcome of a run in words."""
    server = JudgeServer(script, keep_requests=False)
    async with server:
        settings = config(server, answer_correctness={}, custom_evaluations=[CUSTOM])
        if not is_closed:
            return await _run(settings)
    return await _run(settings)


async def _run(settings: dict[str, Any]) -> str:
    settings["llm"]["limits"] = {}
    start, end = monotonic(), ""
    stream = evaluate_stream(templates(RECORDS), map(response, range(RECORDS)), config=settings)
    try:
        async for _ in stream:
            pass
    except JudgeUnavailable as problem:
        end = f"; ended: {str(problem)[:60]}..."
    usage = stream.usage
    took = f"{usage.outcomes['ok']} of {2 * RECORDS} metrics, {usage.attempts} requests"
    return f"{took}, {monotonic() - start:.1f} s{end}"


def rows() -> Iterator[Row]:
    """A row for each server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, script in servers().items():
            yield Row(name, asyncio.run(measured(script)), "")
        yield Row("a closed port", asyncio.run(measured(sensible, is_closed=True)), "")


if __name__ == "__main__":
    show(list(rows()))
