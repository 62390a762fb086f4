"""What tests of journals share: a judge in memory, responses, and what a journal should hold in
the end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async import (
    EvaluationStream,
    RunningAggregates,
    TokenUsage,
    evaluate_stream,
    load_reference,
)
from tests.support.data import answer, templates
from tests.support.deadlines import in_time
from tests.support.streams import collect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

QUESTIONS = 5
TEMPLATES = [
    {
        **template,
        "questions": [
            question | {"reference_answer": f"It is {i}."}
            for i, question in enumerate(template["questions"])
        ],
    }
    for template in templates(QUESTIONS)
]
REFERENCE = load_reference(TEMPLATES)
PRICES = {"input_usd_per_million": 1.0, "output_usd_per_million": 10.0}
CONFIG: dict[str, Any] = {"llm": {"pricing": PRICES}, "answer_correctness": {}}
COST = 0.0003
"""Of one result, with these."""


class Judge:
    """Finds as many claims in an answer as its last word says; a test may have it wait."""

    model = "counting"

    def __init__(self, wait: Callable[[str], Awaitable[None]] | None = None) -> None:
        self.calls = 0
        self._wait = wait

    async def complete(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage]:
        assert "actual_claims" in schema["properties"]
        self.calls += 1
        text = messages[-1]["content"]
        number = text.rpartition("answer-")[2].split()[0]
        if self._wait is not None:
            await self._wait(f"answer-{number}")
        actual = [f"claim {i}" for i in range(1 + int(number) % 7)]
        reply = {
            "reference_claims": ["claim 0", "claim 1", "another"],
            "actual_claims": actual,
            "reason": "counted",
            "matches": [{"reference": i, "actual": i} for i in range(min(2, len(actual)))],
        }
        return reply, TokenUsage(100, 20)

    async def embed(self, _: Any) -> Any:
        raise NotImplementedError


class Gates:
    """What a judge waits for: each answer for a word of its own."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}

    def open(self, *names: str) -> None:
        for name in names:
            self._gates.setdefault(name, asyncio.Event()).set()

    async def __call__(self, name: str) -> None:
        self.asked.append(name)
        await self._gates.setdefault(name, asyncio.Event()).wait()


def response(number: int, **more: Any) -> dict[str, Any]:
    """Return a response with an answer and an id of its own; `more` overrides its keys."""
    fields = {"actual_answer": f"answer-{number} it is", "id": f"r{number}"} | more
    return answer(number % QUESTIONS, **fields)


def responses(count: int) -> list[bytes]:
    """Lines, of which some are true duplicates, without an answer to be judged, and some are
    rejected.

    Equal answers would share a call, or not, by their timing.
    """
    lines = [orjson.dumps(response(number) if number % 4 else answer(0)) for number in range(count)]
    for number in range(3, count, 7):
        lines[number] = b'{"question_id": "unknown-%d"}' % (number % 2)
    return lines


def stream_of(source: Any, journal: Any = None, **options: Any) -> EvaluationStream:
    return evaluate_stream(REFERENCE, source, journal=journal, **options)


def complete(
    source: Any, journal: Any, **options: Any
) -> tuple[list[dict[str, Any]], EvaluationStream]:
    """The results of a run to the end, and its stream."""

    async def run() -> tuple[list[dict[str, Any]], EvaluationStream]:
        async with stream_of(source, journal, **options) as stream:
            return await collect(stream), stream

    return asyncio.run(in_time(run)())


def bits(aggregates: RunningAggregates) -> bytes:
    """All that is shown of them, to the last bit."""
    return orjson.dumps(aggregates.snapshot(), option=orjson.OPT_SORT_KEYS)


def lines_of(path: Path | str) -> list[bytes]:
    """The lines of a file, all of which are to end in a newline."""
    data = Path(path).read_bytes()
    assert not data or data.endswith(b"\n")
    return data.splitlines(keepends=True)


def results_of(path: Path | str) -> list[dict[str, Any]]:
    """The records of a file, without their checksums."""
    records = [orjson.loads(line) for line in lines_of(path)]
    return [{key: value for key, value in record.items() if key != "crc32"} for record in records]


def names_of(path: Path | str) -> Counter[tuple[str, int]]:
    """Which lines the results in a file come from, and the rejects beside it."""
    records = results_of(path)
    if Path(f"{path}.rejects").exists():
        records += results_of(f"{path}.rejects")
    return Counter((each["source"]["sha256"], each["source"]["occurrence"]) for each in records)


def names(lines: Sequence[bytes]) -> Counter[tuple[str, int]]:
    """Which lines these are: each once, under its content and the occurrence of that."""
    met: Counter[bytes] = Counter()
    result: Counter[tuple[str, int]] = Counter()
    for line in lines:
        met[line] += 1
        result[sha256(line).hexdigest(), met[line]] += 1
    return result
